"""Every exit code of every command, at least once; docs/exit-codes.md is generated from the cases below.

`KGM_WRITE_DOCS=1` writes the page again. Cases of `kgm history` run in tests/cli/commands/history/test_exit_codes.py."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from dataclasses import dataclass, field

import pytest

from kgm.cli.main import COMMANDS, run
from kgm.client import connect
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.metadata_response import MetadataResponseBroker
from kgm.server import serve_in_thread
from tests import KGM, ROOT
from tests.cli.commands.history.endings import ENDINGS
from tests.cli.ending import Ending
from tests.cli.forked import forked_command
from tests.cli.test_secrets import leaves
from tests.client.faults import BlackHole, Edit, FaultProxy, ResetBefore
from tests.client.joiners import form_group, leave_dead_group
from tests.waiting import process_state, until

PAGE = ROOT / "docs" / "exit-codes.md"
MEANINGS = {
    0: "done", 1: "internal or broker error; or the output cannot be written, and nothing was changed", 2: "usage, or a file that does not exist", 3: "a group or member that is not in the cluster", 4: "authentication or authorization",
    5: "unreachable, or timed out before anything changed", 6: "refused by a guard or declined, or another cluster answers than the expected or the first one; nothing changed",
    7: "partial, the outcome is unknown (no later description shows it), or something was changed and the output cannot be written", 8: "a condition was not met", 130: "Ctrl-C; commands that change something, `watch` and `top` end in the same way with 143 after SIGTERM and 129 after SIGHUP",
}  # fmt: skip
#: Codes that a command cannot end with, and why.
NEVER = {
    "it does not connect to a cluster": {"config view": {4, 5, 6}, "config list": {4, 5, 6}, "audit": {4, 5, 6}, "assign": {4, 5, 6}, "serve": {4, 5, 6}, "demo": {4, 5, 6},
                                        "completion": {4, 5}, "version": {4, 5, 6}, "help": {4, 5, 6}},
    "it names no group or member that has to exist": {
        "demo": {3}, "audit": {3}, "serve": {3}, "completion": {3}, "version": {3}, "help": {3}, "assign": {3}, "config view": {3}, "config list": {3}, "config test": {3},
    },
    "everything or nothing": {"scale-in": {7}, "config view": {7}, "config list": {7}, "config test": {7}, "serve": {7}, "assign": {7}, "demo": {7}, "audit": {7},
                             "completion": {7}, "version": {7}, "help": {7}},
    "it has no condition": {"scale-in": {8}, "list": {8}, "top": {8}, "describe": {8}, "export": {8}, "remove-members": {8}, "delete-groups": {8}, "config view": {8}, "config list": {8}, "config test": {8},
                            "assign": {8}, "serve": {8}, "demo": {8}, "completion": {8}, "version": {8}, "help": {8}},
    "an error of a broker is a finding (8)": {"doctor": {1}},
    "only through a bug": {"assign": {1}, "demo": {1}, "completion": {1}, "version": {1}, "help": {1}},
    "it ends at once": {"config view": {1, 130}, "config list": {1, 130}, "audit": {130}, "completion": {130}, "version": {130}, "help": {130}},
}  # fmt: skip
_OF_HISTORY = (
    "`kgm history` exits with the same codes; on a live cluster (`-b`, or `--source kafka`) with 1, 4 and 5 as the "
    "commands above. Tested by `tests/cli/commands/history/test_exit_codes.py`:"
)
_OF_OUTPUT = (
    "When stdout cannot be written (a full disk, a closed descriptor), the code says whether something was changed: 7 if",
    "something was removed or may have been, 1 if not. A closed pipe is not an error, and does not change the code. After a",
    "removal the result is then printed on stderr. It is in the audit log as well, unless a warning says that it is not, or",
    "with `--no-audit`. When stderr cannot be written the code stays, and the errors are printed on stdout; a question that",
    "cannot be shown is not asked (6). An error that ends a command before it has a result keeps its code. Tested by",
    "`tests/cli/test_unwritable_output.py` and `tests/cli/commands/test_remove_members_output.py`, in which every write fails.",
)
#: Replaced by a group of two static members, a and b, for this case only.
GROUP, TOPIC, FREE = "{group}", "orders", "127.0.0.1:1"
#: Replaced by a group that nobody uses any more.
DEAD = "{dead}"


@dataclass(frozen=True)
class Case(Ending):
    """A case with a cluster. faults: what happens to requests, by API; env: exported variables."""

    faults: dict = field(default_factory=dict)
    env: dict = field(default_factory=dict)
    bootstrap: str | None = None
    stdin: str | None = None


def _error(code):
    """An answer with this error in every field for one."""

    def change(message):
        for row in getattr(message, "coordinators", None) or [message]:
            row.error_code = code

    return Edit(change)


def _with_a_dead_broker(message):
    message.brokers.append(MetadataResponseBroker(node_id=99, host="127.0.0.1", port=1, rack=None))


def _unauthorized(message):
    """TOPIC_AUTHORIZATION_FAILED for __consumer_offsets."""
    for topic in message.topics:
        if topic.name == "__consumer_offsets":
            for partition in topic.partitions:
                partition.error_code = 29


def _without_topics(answer):
    for topic in answer.topics:
        topic.error_code, topic.partitions = 29, []


_ASK = {
    "describe": f"describe {GROUP}",
    "remove-members": f"remove-members {GROUP} -i a --yes --assume-stopped --guard-window 50ms --no-audit",
    "delete-groups": f"delete-groups {DEAD} --idle-for 0s --yes --no-audit",
    "simulate-bounce": f"simulate-bounce {GROUP} --all --draws 2",
    "drain": f"drain {GROUP} --client-id * --draws 2",
    "plan": f"plan {GROUP} --draws 2",
    "rollout": f"rollout {GROUP} --all --exec true --dry-run --draws 2",
    "scale-in": "scale-in {pods} --to 1 --draws 2",
    "watch": f"watch {GROUP} --count 1",
    "wait": f"wait {GROUP} --for stable",
    "doctor": f"doctor {GROUP} --window 0s --fail-on never",
    "diff": f"diff live:{GROUP} live:{GROUP}",
    "export": f"export {GROUP} --findings-every 0s",
    "config test": f"config test -g {GROUP}",
}
_CLUSTER = {"list": "list", "top": "top --once", **_ASK}
#: Those that are about all groups, and name none.
_OF_ALL = ("list", "top")


def _cases():
    for name, words in _CLUSTER.items():
        reads = ApiKey.LIST_GROUPS if name in _OF_ALL else ApiKey.FIND_COORDINATOR
        denied = 31 if name in _OF_ALL else 30
        if name != "remove-members":
            yield Case(name, 0, "success", words)
        if name != "doctor":
            limit = " --timeout 1500ms" if name == "wait" else ""
            yield Case(name, 1, "the broker answers UNKNOWN_SERVER_ERROR", f"{words}{limit}", {reads: _error(-1)})
        yield Case(name, 2, "an option that does not exist", f"{words} --no-such-option")
        if name not in (*_OF_ALL, "wait", "config test"):
            missing = f"{words} -g none" if name == "diff" else words.replace(words.split()[1], "none", 1)
            yield Case(name, 3, "the group does not exist", missing)
        yield Case(name, 4, "a right is missing", words, {reads: _error(denied)})
        yield Case(name, 5, "no broker listens", f"{words} --timeout 1s", bootstrap=FREE)
        yield Case(name, 6, "another cluster than the expected one", words, env={"KGM_EXPECT_CLUSTER_ID": "another"})
    yield Case(
        "remove-members", 0, "every member is removed",
        "remove-members {group} -i a --yes --assume-stopped --guard-window 50ms",
    )  # fmt: skip
    yield Case("delete-groups", 7, "one of two groups does not exist", f"delete-groups {DEAD} none --idle-for 0s --yes")
    for name in _OF_ALL:
        silent = {ApiKey.METADATA: Edit(_with_a_dead_broker)}
        yield Case(name, 7, "one of two brokers does not answer", f"{_CLUSTER[name]} --timeout 2s", silent)
        yield Case(name, 3, "no group matches --match", f"{_CLUSTER[name]} --match zz*")
    unseen = {ApiKey.LIST_OFFSETS: Edit(_unauthorized)}
    yield Case(
        "watch", 7, "what was expected cannot be seen: __consumer_offsets cannot be read",
        f"watch {GROUP} --count 2 --interval 100ms --max-rebalances 0", unseen,
    )  # fmt: skip
    yield Case("describe", 7, "one of two groups does not exist", f"describe {GROUP} none")
    yield Case(
        "remove-members",
        7,
        "one of two members does not exist",
        "remove-members {group} -i a,zz --yes --assume-stopped --guard-window 50ms",
    )
    yield Case("doctor", 7, "one of two groups does not exist", f"doctor {GROUP} none --window 0s --fail-on never")
    yield Case("export", 7, "one of two groups does not exist", f"export {GROUP} none --findings-every 0s")
    yield Case("diff", 7, "one of two groups does not exist", f"diff {{dir}}/two.json live -g {GROUP} -g none")
    yield Case(
        "simulate-bounce",
        8,
        "there may be more handovers than --fail-if-moves allows",
        f"simulate-bounce {GROUP} --scale-in a --fail-if-moves 0 --draws 2",
    )
    yield Case(
        "drain", 7, "one of two groups does not exist, and the other keeps the limit",
        f"drain {GROUP} none --client-id * --draws 2 --fail-if-moves 1000",
    )  # fmt: skip
    yield Case(
        "drain",
        8,
        "there may be more handovers in a group than --fail-if-moves allows",
        f"drain {GROUP} --match a --draws 2 --fail-if-moves 0",
    )
    uncounted = {ApiKey.METADATA: Edit(_without_topics)}
    yield Case(
        "simulate-bounce",
        7,
        "--fail-if-moves holds, but partition counts could not be read",
        f"simulate-bounce {GROUP} --all --restart-time 5s --fail-if-moves 1000 --draws 2",
        uncounted,
    )
    yield Case(
        "plan",
        7,
        "a plan meets the limits, but partition counts could not be read",
        f"plan {GROUP} --draws 2 --max-duration 10h",
        uncounted,
    )
    yield Case("plan", 8, "no plan meets the limits", f"plan {GROUP} --draws 2 --max-duration 1s")
    yield Case(
        "watch",
        8,
        "not stable within --timeout",
        f"watch {GROUP} --until bounced --timeout 1500ms --interval 100ms",
    )
    yield Case(
        "wait", 8, "the conditions are not met within --timeout", f"wait {GROUP} --for members=9 --timeout 1500ms"
    )
    yield Case(
        "wait", 7, "the end offsets cannot be read", f"wait {DEAD} --for lag<=0 --timeout 1500ms",
        {ApiKey.LIST_OFFSETS: ResetBefore()},
    )  # fmt: skip
    yield Case("wait", 3, "the group does not exist, with --must-exist", "wait none --for stable --must-exist")
    yield Case("doctor", 8, "there are findings", "doctor {dynamic} --window 0s --fail-on info")
    yield Case(
        "diff", 8, "there are differences, with --exit-code", f"diff {{dir}}/other.json live:{GROUP} --exit-code"
    )
    yield Case("assign", 0, "every line has its assignment", "assign --from-file {dir}/cases.jsonl")
    yield Case("assign", 2, "a line is not JSON", "assign --from-file {dir}/empty.toml")
    yield Case("audit", 0, "the removals are listed", "audit")
    yield Case("audit", 1, "the log cannot be read", "audit", env={"XDG_STATE_HOME": "{dir}/broken"})
    yield Case("audit", 2, "an invalid time", "audit --since soon")
    yield Case("audit", 8, "records were removed or changed", "audit", env={"XDG_STATE_HOME": "{dir}/cut"})
    yield Case("config view", 0, "the settings are shown", "config view")
    yield Case("config view", 2, "-X without a value", "config view -X nonsense")
    yield Case("config list", 0, "the profiles are listed", "config list")
    yield Case("config list", 2, "an unknown format", "config list -o nonsense")
    yield Case("serve", 2, "an invalid topic", "serve --topic nonsense")
    yield Case("completion", 0, "the script is printed", "completion fish")
    yield Case("completion", 2, "a shell that has no script", "completion tcsh")
    yield Case(
        "completion", 6, "the file to be replaced is not a script of kgm", "completion bash --install",
        env={"XDG_DATA_HOME": "{dir}/other-data"},
    )  # fmt: skip
    yield Case("version", 0, "the versions are shown", "version")
    yield Case("version", 2, "an option that does not exist", "version --no-such-option")
    yield Case("help", 0, "the page is printed", "help --man list")
    yield Case("help", 2, "a command that does not exist", "help --man none")
    yield Case("demo", 2, "an invalid output format", "demo -o nonsense")


CASES = list(_cases())
#: Whole processes: see test_whole_processes.
PROCESSES = {
    **{(name, 130): "Ctrl-C while a broker does not answer" for name in _CLUSTER},
    ("assign", 130): "Ctrl-C while it reads", ("demo", 130): "Ctrl-C while it runs",
    ("serve", 0): "SIGTERM", ("serve", 130): "Ctrl-C", ("serve", 1): "the port is taken",
}  # fmt: skip
ELSEWHERE = {
    ("rollout", 7): (
        "a command has failed",
        "tests/operations/rollout/test_rollout.py",
        "test_a_failed_command_stops_the_rollout_and_is_run_again_when_it_is_resumed",
    ),
    ("rollout", 8): (
        "a member does not come back",
        "tests/operations/rollout/test_rollout.py",
        "test_a_member_that_does_not_come_back_stops_the_rollout",
    ),
    ("demo", 0): (
        "every prediction held",
        "tests/cli/commands/test_demo.py",
        "test_the_demo_predicts_what_then_happens",
    ),
}


@pytest.fixture(scope="module")
def server():
    with serve_in_thread(topics={TOPIC: 6}, settings=BrokerSettings(group_initial_rebalance_delay_ms=0)) as running:
        yield running


@pytest.fixture
def groups(server):
    """{name in a case: a group of its own}. The members send no heartbeats."""
    made = []

    def form(*instance_ids):
        group = f"app-{os.urandom(4).hex()}"
        made.extend(form_group(server, group, instance_ids, TOPIC))
        return group

    dead = f"dead-{os.urandom(4).hex()}"
    leave_dead_group(server.port, dead, TOPIC)
    yield {DEAD: dead, GROUP: form("a", "b"), "{dynamic}": form(None, None), "{pods}": form("app-0", "app-1")}
    for joiner in made:
        joiner.close()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "broken" / "kgm" / "audit.jsonl").mkdir(parents=True)
    (tmp_path / "cut" / "kgm").mkdir(parents=True)
    (tmp_path / "cut" / "kgm" / "audit.jsonl.head").write_text(json.dumps({"first": 1, "records": 1, "last": "0" * 64}))
    (tmp_path / "other-data" / "bash-completion" / "completions").mkdir(parents=True)
    (tmp_path / "other-data" / "bash-completion" / "completions" / "kgm").write_text("complete -W 'a b' kgm\n")
    (tmp_path / "kgm").mkdir()
    (tmp_path / "kgm" / "config.toml").write_text("")
    (tmp_path / "empty.toml").write_text("no json\n")
    one = {
        "assignor": "range",
        "topics": [{"name": "t", "partitions": 2}],
        "members": [{"member_id": "m", "topics": ["t"]}],
    }
    (tmp_path / "cases.jsonl").write_text(json.dumps(one) + "\n")
    return tmp_path


@pytest.fixture
def words(server, groups, folder, capsys):
    """Replaces names in a case; two.json is a snapshot of the group, other.json one with a member less."""

    def words(case):
        text = case.words
        for name, group in {"{dir}": str(folder), **groups}.items():
            text = text.replace(name, group)
        return text.split()

    assert run(["describe", groups[GROUP], "-b", server.bootstrap, "-o", "json"]) == 0
    snapshot = capsys.readouterr().out
    document = json.loads(snapshot)
    del document["data"]["groups"][0]["members"][0]
    (folder / "two.json").write_text(snapshot)
    (folder / "other.json").write_text(json.dumps(document))
    return words


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.slow
def test_exit_code(case, server, folder, words, monkeypatch, capsys):
    for name, value in case.env.items():
        monkeypatch.setenv(name, value.replace("{dir}", str(folder)))
    with FaultProxy((server.host, server.port)) as proxy:
        for api, fault in case.faults.items():
            proxy.always(api, fault)
        more = ["-b", case.bootstrap or proxy.bootstrap] if case.command in _CLUSTER else []
        if case.faults and "--timeout" not in case.words:
            more += ["--timeout", "5s"]
        code = run([*words(case), *more])
    captured = capsys.readouterr()
    assert code == case.code, captured.err
    assert captured.err != "" or code == 0


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "case", [one for one in CASES if one.code == 3 and one.command in _ASK], ids=lambda one: one.id
)
def test_an_error_names_the_cluster_that_answered(case, server, folder, words, capsys):
    """Also if it ends the command before there is a result."""
    with connect(server.bootstrap) as cluster:
        cluster_id = cluster.cluster_id
    assert run([*words(case), "-b", server.bootstrap, "-o", "json"]) == 3
    assert json.loads(capsys.readouterr().out)["cluster"] == {"id": cluster_id, "bootstrap": server.bootstrap}


# -- whole processes ---------------------------------------------------------------------------------------------------


def _start(*words, command=KGM, **more):
    return subprocess.Popen(
        [*command, *words], **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more}
    )


class _InTheMidst:
    """A process that has printed its beginning and cannot come to its end: the pipe has no room for that."""

    ROOM = 1536

    def __init__(self, *words):
        self._read, write = os.pipe()
        size = fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        self._filled = os.write(write, b"." * (size - self.ROOM))
        self.child = _start(*words, stdout=write)
        os.close(write)

    def has_begun(self):
        waiting = fcntl.ioctl(self._read, termios.FIONREAD, bytes(4))
        return int.from_bytes(waiting, sys.byteorder) > self._filled

    def interrupt(self):
        """It ends by itself, now that there is room for its last words; returns all that it has printed."""
        self.child.send_signal(signal.SIGINT)
        with os.fdopen(self._read, "rb") as pipe:
            return pipe.read()[self._filled :].decode()


@pytest.fixture(scope="module")
def ended(server, tmp_path_factory):
    """{(command, code): (exit code, stderr)}: all of them at once."""
    found, children = {}, {}
    with contextlib.ExitStack() as stack:
        proxies = {}
        for name, words in _CLUSTER.items():
            proxies[name] = stack.enter_context(FaultProxy((server.host, server.port)))
            proxies[name].always(ApiKey.METADATA, BlackHole())
            proxies[name].always(ApiKey.API_VERSIONS, BlackHole())
            # Longer than a busy machine takes to start all of them: nothing but the signal ends them.
            patience = ("--timeout", "600s")
            line = [*words.replace(GROUP, "app").replace(DEAD, "app").split(), "-b", proxies[name].bootstrap, *patience]
            children[name, 130] = _start(*line, command=KGM if name == "list" else forked_command())
        children["assign", 130] = _start("assign", "--from-file", "-", stdin=subprocess.PIPE)
        demo = _InTheMidst("demo")
        children["demo", 130] = demo.child
        for key in (("serve", 0), ("serve", 130)):
            children[key] = _start("serve", "--topic", "t:1", "--listen", "127.0.0.1:0")
        children["serve", 1] = _start("serve", "--topic", "t:1", "--listen", f"127.0.0.1:{server.port}")
        try:
            for name, proxy in proxies.items():
                until(lambda proxy=proxy: proxy.seen, "no request passes the proxy")
                children[name, 130].send_signal(signal.SIGINT)
            until(demo.has_begun, "the demo prints nothing")
            assert "Everything happened as predicted" not in demo.interrupt()
            for key in (("serve", 0), ("serve", 130)):
                assert children[key].stdout.readline()
            children["serve", 0].terminate()
            children["serve", 130].send_signal(signal.SIGINT)
            # It has read the first case and waits for the next.
            case = {"assignor": "range", "topics": [], "members": [{"member_id": "m", "topics": []}]}
            children["assign", 130].stdin.write(json.dumps(case) + "\n")
            children["assign", 130].stdin.flush()
            assert children["assign", 130].stdout.readline()
            # Python notices a signal that comes just before it begins to read when it has read something.
            until(lambda: process_state(children["assign", 130].pid) == "S", "it does not wait for the next case")
            children["assign", 130].send_signal(signal.SIGINT)
            for key, child in children.items():
                found[key] = (child.wait(60), child.stderr.read())
        finally:
            for child in children.values():
                child.kill()
                child.wait(30)
                for stream in (child.stdin, child.stdout, child.stderr):
                    if stream is not None:
                        with contextlib.suppress(OSError):
                            stream.close()
    return found


@pytest.mark.parametrize("key", PROCESSES, ids=lambda key: f"{key[0].replace(' ', '-')}-{key[1]}")
@pytest.mark.slow
def test_whole_processes(ended, key):
    code, err = ended[key]
    assert code == key[1], err
    assert "Traceback" not in err


# -- the page ----------------------------------------------------------------------------------------------------------


def page():
    rows = [(case.command, case.code, case.when, f"`test_exit_code[{case.id}]`") for case in CASES]
    rows += [
        (name, code, when, f"`test_whole_processes[{name.replace(' ', '-')}-{code}]`")
        for (name, code), when in PROCESSES.items()
    ]
    rows += [(name, code, when, f"`{file}::{test}`") for (name, code), (when, file, test) in ELSEWHERE.items()]
    order = [leaf for leaf in leaves() if not leaf.startswith("history")]
    rows.sort(key=lambda row: (order.index(row[0]), row[1]))
    lines = ["# Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += [f"| {code} | {meaning} |" for code, meaning in MEANINGS.items()]
    lines += ["", *_OF_OUTPUT]
    lines += [
        "",
        "Every exit code of every command, and the test in `tests/cli/test_exit_codes.py` that covers it:",
        "",
    ]
    lines += ["| command | code | example | test |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {code} | {when} | {test} |" for name, code, when, test in rows]
    lines += ["", "Other combinations do not occur:", ""]
    for why, commands in NEVER.items():
        told = ", ".join(f"`{name}` {' '.join(map(str, sorted(codes)))}" for name, codes in commands.items())
        lines.append(f"- {why}: {told}")
    lines += [
        "",
        _OF_HISTORY,
        "",
        "| command | code | example |",
        "|---|---|---|",
    ]
    endings = sorted(ENDINGS, key=lambda ending: (ending.command, ending.code))
    lines += [f"| `history {ending.command}` | {ending.code} | {ending.when} |" for ending in endings]
    return "\n".join(lines) + "\n"


def test_the_page_is_generated_from_the_cases():
    if os.environ.get("KGM_WRITE_DOCS") == "1":
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "KGM_WRITE_DOCS=1 writes it again"


def test_every_command_has_every_code_or_a_reason():
    seen = {(case.command, case.code) for case in CASES} | set(PROCESSES) | set(ELSEWHERE)
    never = {(name, code) for commands in NEVER.values() for name, codes in commands.items() for code in codes}
    commands = [leaf for leaf in leaves() if not leaf.startswith("history")]
    assert seen | never == {(name, code) for name in commands for code in MEANINGS}
    assert not seen & never
    assert COMMANDS


def test_tests_in_other_files_exist():
    for _, file, test in ELSEWHERE.values():
        assert f"def {test}(" in (ROOT / file).read_text()
