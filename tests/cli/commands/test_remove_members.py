"""`kgm remove-members` as a script and a person see it: exit codes, JSON by the contract, guards and the prompt."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import subprocess
import sys
import threading
import time

import pytest

from kgm.cli.main import run
from kgm.client import connect
from kgm.client.transport.deadline import Deadline
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.leave_group_response import LeaveGroupResponse
from tests import KGM
from tests.client.conftest import form, group, newcomer, proxy, server  # noqa: F401  (fixtures)
from tests.client.faults import BlackHole, Edit, Pass, ResetAfter
from tests.client.pace import short_budget_ms
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("nobody_returns")

#: Nothing shows whether members that do nothing unasked are alive.
QUICK = ("--guard-window", "300ms", "--timeout", "60s", "--assume-stopped")
RESULT_KEYS = {"group_instance_id", "member_id", "result", "liveness", "error", "partitions_freed", "note"}


@pytest.fixture
def remove(proxy, group, capsys):  # noqa: F811
    """Run remove-members in this process, without a terminal: (exit code, JSON document, stderr)."""

    def remove(*arguments: str, to: str | None = None, quick=QUICK):
        code = run(["remove-members", group, "-b", to or proxy.bootstrap, "-o", "json", *quick, *arguments])
        captured = capsys.readouterr()
        return code, json.loads(captured.out) if captured.out else None, captured.err

    return remove


def left(proxy, group):  # noqa: F811
    with connect(proxy.bootstrap, timeout_ms=60_000) as cluster:
        return [one.identity for one in cluster.describe_group(group).members]


def shown(document):
    return [(row["group_instance_id"], row["result"], row["error"]) for row in document["data"]["results"]]


@pytest.mark.slow
def test_the_json_is_the_contract(remove, proxy, group, form):  # noqa: F811
    a, *_ = form(*"abcdef")
    code, document, err = remove("--instance-ids", "a,zz", "--reason", "scaled in", "--yes")
    assert code == 7
    assert document["schema"] == "kgm.remove-members/v1"
    assert document["cluster"]["bootstrap"] == proxy.bootstrap
    data = document["data"]
    assert data.keys() == {"group_id", "dry_run", "reason", "results", "moves_expected", "warnings"}
    assert (data["group_id"], data["dry_run"], data["reason"]) == (group, False, "scaled in")
    removed, absent = data["results"]
    assert removed.keys() == RESULT_KEYS
    assert (removed["member_id"], removed["partitions_freed"]) == (a.member_id, {"orders": [0]})
    assert shown(document) == [("a", "removed", None), ("zz", "absent", "UNKNOWN_MEMBER_ID")]
    assert (absent["member_id"], absent["partitions_freed"]) == (None, {})
    # Range over six partitions: b takes 0 and 1, and each of the others one, as before.
    assert {(m["partition"], m["from"], m["to"]) for m in data["moves_expected"]} == {(0, "a", "b")}
    (error,) = document["errors"]
    assert (error["code"], error["group_id"]) == ("PARTIAL", group)
    assert "1 of 2 members" in err
    assert left(proxy, group) == [*"bcdef"]


@pytest.mark.slow
def test_a_process_that_does_not_exist_leaves_the_rest_partial(remove, proxy, group, form):  # noqa: F811
    """Exit code 3 is for runs in which everything that was named is absent; JSON, stderr and exit code agree."""
    form("a", "b", "c")
    for flag, result in (("--dry-run", "planned"), ("--yes", "removed")):
        code, document, err = remove("--instance-ids", "b", "--unit", "app-9", flag)
        assert (code, shown(document)) == (7, [("b", result, None)])
        assert [one["code"] for one in document["errors"]] == ["PARTIAL"]
        assert "'app-9'" in err
    assert left(proxy, group) == ["a", "c"]
    code, document, err = remove("--instance-ids", "b", "--unit", "app-9", "--yes")
    assert (code, [one["code"] for one in document["errors"]]) == (3, ["NOT_FOUND"])


@pytest.mark.slow
def test_an_unknown_outcome_is_told_beside_a_process_that_does_not_exist(remove, proxy, group, form):  # noqa: F811
    """The answer is lost, and after that every description."""
    form("a", "c")

    def no_more_answers():
        for api in (ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.LEAVE_GROUP):
            proxy.always(api, BlackHole())

    proxy.script(ApiKey.LEAVE_GROUP, ResetAfter(then=no_more_answers))
    quick = ("--guard-window", "0s", "--timeout", "3s", "--assume-stopped")
    code, document, err = remove("--instance-ids", "c", "--unit", "app-9", "--yes", quick=quick)
    assert (code, [one[1] for one in shown(document)]) == (7, ["unknown"])
    (error,) = document["errors"]
    assert (error["code"], "outcome is unknown" in error["message"]) == ("PARTIAL", True)
    assert "c: unknown" in err
    assert "'app-9'" in err


@pytest.mark.slow
def test_ids_from_everywhere_in_one_request(remove, proxy, group, form, tmp_path):  # noqa: F811
    *_, dynamic = form("s-1", "s-2", "x", "y", None)
    file = tmp_path / "ids"
    file.write_text("# the old ones\nx\n\ny\r\nx\n")
    code, document, err = remove(
        "--instance-ids", "s-{1..3}", "--member-ids", dynamic.member_id, "--from-file", str(file), "--match", "s-*",
        "--yes", "--ignore-missing",
    )  # fmt: skip
    assert code == 0, err
    assert [name or "dynamic" for name, _, _ in shown(document)] == ["s-1", "s-2", "s-3", "dynamic", "x", "y"]
    assert [result for _, result, _ in shown(document)] == [
        "removed",
        "removed",
        "absent",
        "removed",
        "removed",
        "removed",
    ]
    assert "x is given more than once" in err
    assert len(proxy.requests(ApiKey.LEAVE_GROUP)) == 1
    assert left(proxy, group) == []


@pytest.mark.slow
def test_a_dry_run_changes_nothing_and_needs_no_yes(remove, proxy, group, form):  # noqa: F811
    form(*"abcdef")
    code, document, _ = remove("--instance-ids", "a", "--dry-run")
    assert (code, shown(document)) == (0, [("a", "planned", None)])
    assert document["data"]["dry_run"] is True
    assert document["data"]["results"][0]["partitions_freed"] == {"orders": [0]}
    assert {m["to"] for m in document["data"]["moves_expected"]} == {"b"}
    code, document, _ = remove("--instance-ids", "a,zz", "--dry-run")
    assert (code, [row[1] for row in shown(document)]) == (7, ["planned", "absent"])
    assert proxy.requests(ApiKey.LEAVE_GROUP) == []
    assert left(proxy, group) == [*"abcdef"]


@pytest.mark.slow
def test_no_moves_are_told_where_partitions_have_no_owner_yet(remove, form):  # noqa: F811
    """As after more partitions were added: which of the six a leader knows already cannot be seen."""
    form("a", "b")
    _, document, err = remove("--instance-ids", "a", "--dry-run")
    assert document["data"]["moves_expected"] is None
    assert any("4 subscribed partitions have no owner" in text for text in document["data"]["warnings"])
    assert "which partitions will move is not known" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stated", "moves"),
    [
        ([], {"0 a>b"}),  # Java's range: two, and one for each of the others
        (["--library", "kafka-go"], {"0 a>b", "1 b>c", "2 c>d", "3 d>e", "4 e>f"}),  # from i * 6/5 on: the last two
        (["--assignor", "roundrobin"], {"0 a>b", "1 b>c", "2 c>d", "3 d>e", "4 e>f", "5 f>b"}),
    ],
)
def test_the_moves_are_those_of_the_library_and_the_assignor_that_are_stated(remove, form, stated, moves):  # noqa: F811
    """Six partitions for five, of which each owned one before."""
    form(*"abcdef")
    _, document, _ = remove("--instance-ids", "a", "--dry-run", *stated)
    shown = {(move["partition"], move["from"], move["to"]) for move in document["data"]["moves_expected"]}
    assert {f"{partition} {owner}>{to}" for partition, owner, to in shown} == moves


@pytest.mark.slow
@pytest.mark.parametrize(("option", "says"), [("--library", "client library 'nobody'"), ("--assignor", "'nobody'")])
def test_a_stated_name_that_kgm_does_not_know_is_a_usage_error(remove, form, option, says):  # noqa: F811
    form("a")
    code, _, err = remove("--instance-ids", "a", "--dry-run", option, "nobody")
    assert (code, f"{says} is not known" in err or f"kgm does not know {says}" in err) == (2, True)


@pytest.mark.slow
def test_absent_is_three_unless_ignored(remove, form):  # noqa: F811
    form("a")
    code, document, err = remove("--instance-ids", "x,y", "--yes")
    assert (code, {row[1] for row in shown(document)}) == (3, {"absent"})
    assert "nothing was removed" in err
    assert remove("--instance-ids", "x,y", "--yes", "--ignore-missing")[0] == 0
    assert remove("--match", "zzz*", "--yes")[0] == 3
    assert remove("--match", "zzz*", "--yes", "--ignore-missing")[0] == 0


def test_a_group_that_is_not_there(remove, group):  # noqa: F811
    code, document, err = remove("--instance-ids", "x", "--yes")
    assert (code, shown(document)) == (3, [("x", "absent", "UNKNOWN_MEMBER_ID")])
    assert [error["code"] for error in document["errors"]] == ["NOT_FOUND"]
    assert f"group {group!r} does not exist" in err
    assert remove("--instance-ids", "x", "--yes", "--ignore-missing")[0] == 3  # which is about members, not groups


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--instance-ids", ""],
        ["--instance-ids", "  "],
        ["--instance-ids", "a,,b"],
        ["--member-ids", ","],
        ["--match", ""],
        ["--instance-ids", "a", "--reason", "x" * 256],
        ["--instance-ids", "a", "--reason", "two\nlines"],
        ["--instance-ids", "a", "--reason", " "],
        ["--instance-ids", "a", "--group", "another"],
        ["--instance-ids", "a", "--guard-window", "soon"],
        ["--from-file", os.devnull],
        ["--instance-ids", "a", "--no-such-option"],
    ],
)
def test_usage_errors_come_before_anything_else(proxy, arguments):  # noqa: F811
    assert run(["remove-members", "g", "-b", proxy.bootstrap, "--yes", *arguments]) == 2
    assert proxy.connections == 0


def test_a_file_that_is_not_there_is_not_found(proxy, tmp_path):  # noqa: F811
    assert run(["remove-members", "g", "-b", proxy.bootstrap, "--yes", "--from-file", str(tmp_path / "no")]) == 2
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    assert run(["remove-members", "g", "-b", proxy.bootstrap, "--yes", "--from-file", str(binary)]) == 2
    binary.chmod(0o666)
    assert run(["remove-members", "g", "-b", proxy.bootstrap, "--yes", "--from-file", str(binary)]) == 6


def test_no_group_is_a_usage_error(proxy):  # noqa: F811
    assert run(["remove-members", "-b", proxy.bootstrap, "--yes", "--instance-ids", "a"]) == 2


@pytest.mark.slow
def test_ids_from_standard_input(remove, form, monkeypatch):  # noqa: F811
    form("a", "b")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n")))
    code, document, _ = remove("--from-file", "-", "--yes")
    assert (code, shown(document)) == (0, [("a", "removed", None)])


@pytest.mark.slow
def test_a_hint_names_the_ids_from_standard_input(remove, form, monkeypatch):  # noqa: F811
    """Standard input has ended: `--from-file -` would read nothing from it."""
    form("a", "b", "c")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    code, document, err = remove("--from-file", "-", "--yes", quick=["--guard-window", "100ms"])
    assert (code, {result for _, result, _ in shown(document)}) == (6, {"refused"})
    (hint,) = (line for line in err.splitlines() if line.startswith("hint: "))
    assert "--from-file" not in hint
    assert "--instance-ids a,b" in hint


@pytest.mark.slow
def test_without_a_terminal_it_refuses(remove, proxy, group, form):  # noqa: F811
    form("a", "b")
    code, document, err = remove("--instance-ids", "a")
    assert code == 6
    assert document["errors"][0]["code"] == "REFUSED"
    assert "--yes" in err
    assert left(proxy, group) == ["a", "b"]


def test_the_environment_of_reads_is_not_used_for_removal(monkeypatch, proxy, group):  # noqa: F811
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", proxy.bootstrap)
    assert run(["remove-members", group, "--instance-ids", "a", "--yes"]) == 2
    assert run(["remove-members", group, "--instance-ids", "a", "--dry-run"]) == 3


@contextlib.contextmanager
def committing(joiner, partition):
    """A member that goes on committing, as a live one does."""
    ended = threading.Event()

    def commit():
        offset = 100
        while not ended.wait(0.05):
            joiner.commit(partition, offset)
            offset += 1

    thread = threading.Thread(target=commit)
    joiner.commit(partition, 99)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.slow
def test_a_live_member_stops_the_whole_batch(remove, proxy, group, form):  # noqa: F811
    a, _, _ = form("a", "b", "c")
    with committing(a, 0):
        code, document, err = remove("--instance-ids", "b,a", "--yes", quick=("--timeout", "10s"))
        assert code == 6
        assert shown(document) == [("b", "refused", None), ("a", "refused", None)]
        assert [row["liveness"]["verdict"] for row in document["data"]["results"]] == ["unknown", "alive"]
        assert "orders-0 while kgm watched" in document["data"]["results"][1]["note"]
        assert "--allow-live" in err
        dry = remove("--instance-ids", "a", "--dry-run", quick=("--timeout", "10s"))
        assert (dry[0], shown(dry[1])) == (6, [("a", "refused", None)])
    assert proxy.requests(ApiKey.LEAVE_GROUP) == []
    assert left(proxy, group) == ["a", "b", "c"]


@pytest.mark.slow
def test_allow_live_removes_it_by_instance_id_alone(remove, proxy, group, form):  # noqa: F811
    a, _ = form("a", "b")
    with committing(a, 0):
        code, document, _ = remove("--instance-ids", "a", "--yes", "--allow-live")
    assert (code, shown(document)) == (0, [("a", "removed", None)])
    assert [one.member_id for one in proxy.requests(ApiKey.LEAVE_GROUP)[0].members] == [""]
    assert left(proxy, group) == ["b"]


@pytest.mark.slow
def test_what_cannot_be_known_is_said(remove, form):  # noqa: F811
    a, b = form("a", "b")
    assert a.commit(0, 0) == 0
    _, document, _ = remove("--instance-ids", "a,b", "--dry-run")
    seen = [row["liveness"] for row in document["data"]["results"]]
    assert [one["verdict"] for one in seen] == ["unknown", "unknown"]
    assert seen[0]["evidence"][0] == "caught up; no commit expected"
    assert seen[1]["evidence"][0] == "nothing was ever committed for its partitions"
    assert b.generation == a.generation


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("api", "fault", "code", "results"),
    [
        (ApiKey.LEAVE_GROUP, ResetAfter(), 0, ["removed"]),
        (ApiKey.LEAVE_GROUP, BlackHole(), 7, ["unknown"]),
        (ApiKey.LEAVE_GROUP, BlackHole(forward=True), 0, ["removed"]),
        (ApiKey.LEAVE_GROUP, Edit(lambda _: LeaveGroupResponse(error_code=30), forward=False), 4, ["failed"]),
        (ApiKey.LEAVE_GROUP, Edit(lambda _: LeaveGroupResponse(error_code=16), forward=False), 5, ["failed"]),
        (ApiKey.LEAVE_GROUP, Edit(lambda _: LeaveGroupResponse(error_code=24), forward=False), 1, ["failed"]),
        (ApiKey.DESCRIBE_GROUPS, BlackHole(), 5, None),
        (ApiKey.FIND_COORDINATOR, BlackHole(), 5, None),
        (ApiKey.METADATA, BlackHole(), 5, None),
        (ApiKey.API_VERSIONS, BlackHole(), 5, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_exit_codes_of_faults(remove, proxy, group, form, api, fault, code, results):  # noqa: F811
    form("a", "b")
    budget = f"{short_budget_ms(proxy.bootstrap, group)}ms"
    proxy.always(api, fault) if not isinstance(fault, ResetAfter) else proxy.script(api, fault)
    quick = ("--timeout", budget, "--guard-window", "0s", "--assume-stopped")
    got, document, _ = remove("--instance-ids", "a", "--yes", quick=quick)
    assert got == code
    if results is not None:
        assert [row[1] for row in shown(document)] == results
        assert document["cluster"]["bootstrap"] == proxy.bootstrap
    else:
        assert document["errors"][0]["message"]


def test_nobody_there(remove, monkeypatch):
    pauses_s = []
    monkeypatch.setattr(Deadline, "sleep", lambda _, seconds: pauses_s.append(seconds))
    code, document, err = remove("--instance-ids", "a", "--yes", to="127.0.0.1:1", quick=("--timeout", "60s"))
    assert code == 5
    assert document["errors"][0]["code"] == "UNREACHABLE"
    assert "127.0.0.1:1" in err
    assert sum(pauses_s) < 20  # long before its time is up


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "code", "stays"), [("y\n", 0, ["b"]), ("n\n", 6, ["a", "b"]), ("\n", 6, ["a", "b"])]
)
def test_at_a_terminal_it_asks(proxy, group, form, answer, code, stays):  # noqa: F811
    form("a", "b")
    controller, terminal = pty.openpty()
    command = [*KGM, "remove-members", group, "-b", proxy.bootstrap, "-i", "a", *QUICK]
    child = subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    os.close(terminal)
    os.write(controller, answer.encode())
    out, err = child.communicate(timeout=30)
    os.close(controller)
    assert child.returncode == code, err
    assert "Remove 1 member? [y/N]" in err
    assert "owns orders[0]" in err
    assert ("removed" in out) == (code == 0)
    if code:
        assert "declined: nothing was removed" in err
    assert left(proxy, group) == stays


class Person(io.StringIO):
    """A terminal at which somebody types."""

    def __init__(self, answers):
        super().__init__()
        self._answers = answers

    def isatty(self):
        return True

    def readline(self, _size=-1):
        return self._answers()


@pytest.mark.slow
def test_nobody_is_asked_when_the_removal_could_not_be_recorded(monkeypatch, remove, proxy, group, form, tmp_path):  # noqa: F811
    form("a", "b")
    (tmp_path / "kgm").write_text("not a folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    asked = []
    monkeypatch.setattr("sys.stdin", Person(lambda: asked.append(1) or "y\n"))
    code, _, err = remove("--instance-ids", "a")
    assert (code, asked) == (6, [])
    assert "the audit log cannot be written" in err
    assert left(proxy, group) == ["a", "b"]


@pytest.mark.slow
def test_the_time_to_think_is_not_the_clusters(monkeypatch, remove, proxy, group, form):  # noqa: F811
    """Whoever answers after the whole budget still has all of it for the removal."""
    form("a", "b")
    budget_ms = short_budget_ms(proxy.bootstrap, group)

    def answer():
        asked_at = time.monotonic()
        until(lambda: time.monotonic() > asked_at + budget_ms / 1000, "the clock stands still", budget_ms)
        return "y\n"

    monkeypatch.setattr("sys.stdin", Person(answer))
    quick = ("--guard-window", "300ms", "--timeout", f"{budget_ms}ms", "--assume-stopped")
    code, document, err = remove("--instance-ids", "a", quick=quick)
    assert (code, shown(document)) == (0, [("a", "removed", None)]), err
    assert document["data"]["results"][0]["note"] is None, "its answer was not waited for"
    assert left(proxy, group) == ["b"]


@pytest.mark.slow
def test_foreign_ids_cannot_write_on_the_terminal(proxy, group, form, capsys):  # noqa: F811
    nasty = "a\x1b]0;owned\x07\u202e"
    form(nasty, "b")
    assert run(["remove-members", group, "-b", proxy.bootstrap, "--match", "a*", "--yes", *QUICK]) == 0
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    assert "\u202e" not in captured.out + captured.err
    assert "\\x1b]0;owned" in captured.out


@pytest.mark.slow
def test_offsets_that_may_not_be_read_are_no_obstacle_but_said(remove, proxy, group, form):  # noqa: F811
    a, _ = form("a", "b")
    a.commit(0, 0)

    def forbid(message):
        for one in message.groups:
            one.error_code, one.topics = 30, []

    proxy.script(ApiKey.OFFSET_FETCH, Pass())
    proxy.always(ApiKey.OFFSET_FETCH, Edit(forbid))
    code, document, _ = remove("--instance-ids", "a", "--yes")
    assert (code, shown(document)) == (0, [("a", "removed", None)])
    (row,) = document["data"]["results"]
    assert any("offsets could not be read" in one for one in row["liveness"]["evidence"]), row


@pytest.mark.slow
def test_who_would_hold_the_rebalance_up_is_said(remove, proxy, group, form):  # noqa: F811
    a, b = form("a", "b")
    for partition, joiner in enumerate((a, b)):
        assert joiner.commit(partition, 0) == 0

    def records(message):
        for topic in message.topics:
            for row in topic.partitions:
                row.offset = 5

    proxy.always(ApiKey.LIST_OFFSETS, Edit(records))
    _, _, err = remove("--instance-ids", "a", "--dry-run")
    assert "warning: b is not known to be alive, and stays in the group: if it has stopped, every member waits" in err
    _, _, err = remove("--instance-ids", "a,b", "--dry-run")
    assert "waits" not in err


@pytest.mark.slow
def test_tables_for_people(proxy, group, form, capsys):  # noqa: F811
    form(*"abcdef")
    arguments = ["remove-members", group, "-b", proxy.bootstrap, "-i", "a", "--dry-run", *QUICK]
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == [
        "INSTANCE-ID",
        "MEMBER-ID",
        "RESULT",
        "LIVENESS",
        "ERROR",
        "FREED",
        "NOTE",
        "EVIDENCE",
    ]
    assert "planned" in out
    assert "1 partition may move: orders[0] a -> b" in out
    for form_of in ("wide", "csv", "tsv", "yaml", "ndjson", "markdown", "name"):
        assert run([*arguments, "-o", form_of]) == 0
        assert "a" in capsys.readouterr().out
