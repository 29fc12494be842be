"""Removals are recorded before they are sent, and after; `kgm audit` shows who, when, why, and what came of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from kgm.cli.commands.audit import parse_since
from kgm.cli.main import run
from kgm.client import connect
from kgm.model.errors import UsageError
from kgm.operations.audit.audit_log import AuditLog, intents, outcomes
from kgm.operations.change.operator import HumanOperator, current_operator, signed
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.leave_group_response import LeaveGroupResponse
from tests import KGM
from tests.cli.runner import kgm
from tests.client.conftest import form, group, newcomer, proxy, server  # noqa: F401  (fixtures)
from tests.client.faults import BlackHole, Edit, Pass
from tests.client.pace import short_budget_ms
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("nobody_returns")

QUICK = ("--guard-window", "100ms", "--timeout", "60s", "--assume-stopped")
KEYS = {
    "run", "action", "time", "operator", "uid", "host", "pid", "cluster_id", "bootstrap", "group_id", "topic", "offsets", "group_instance_id",
    "member_id", "client_id", "client_host", "reason", "verdict", "evidence", "result", "error", "note",
    "finished_at",
}  # fmt: skip


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("SUDO_USER", "LOGNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("USER", "alice")
    return tmp_path / "state" / "kgm" / "audit.jsonl"


@pytest.fixture
def remove(state, proxy, group, capsys):  # noqa: F811
    def remove(*arguments):
        code = run(["remove-members", group, "-b", proxy.bootstrap, "-o", "json", *QUICK, *arguments])
        captured = capsys.readouterr()
        return code, json.loads(captured.out), captured.err

    return remove


@pytest.fixture
def shown(state, capsys):
    """What `kgm audit` lists."""

    def shown(*arguments):
        assert run(["audit", "-o", "json", *arguments]) == 0
        return json.loads(capsys.readouterr().out)["data"]["removals"]

    return shown


def sent(proxy):  # noqa: F811
    return [
        (one.group_instance_id, one.reason) for request in proxy.requests(ApiKey.LEAVE_GROUP) for one in request.members
    ]


@pytest.mark.slow
def test_each_member_is_recorded_before_and_after(remove, shown, state, proxy, group, form):  # noqa: F811
    a, b, _ = form("a", "b", "c")
    seen = []

    def look(_):
        seen.extend(json.loads(line) for line in state.read_text().splitlines())

    proxy.script(ApiKey.LEAVE_GROUP, Edit(look))  # when the request has arrived, the intent is on disk
    assert remove("--instance-ids", "a,b,zz", "--reason", "scaled in", "--yes")[0] == 7
    assert [(one["event"], one["group_instance_id"]) for one in seen] == [("intent", "a"), ("intent", "b")]
    found = shown()
    assert [set(one) for one in found] == [KEYS, KEYS]
    assert [(one["group_instance_id"], one["member_id"], one["result"]) for one in found] == [
        ("a", a.member_id, "removed"), ("b", b.member_id, "removed"),
    ]  # fmt: skip
    host = os.uname().nodename
    one = found[0]
    assert (one["operator"], one["uid"], one["host"], one["pid"]) == ("alice", os.getuid(), host, os.getpid())
    assert (one["group_id"], one["bootstrap"], one["reason"]) == (
        group,
        proxy.bootstrap,
        f"scaled in (by alice@{host})",
    )
    with connect(proxy.bootstrap, timeout_ms=60_000) as cluster:
        cluster.start()
        assert one["cluster_id"] == cluster.cluster_id
    assert one["time"] <= one["finished_at"]
    assert sent(proxy) == [("a", one["reason"]), ("b", one["reason"])]
    assert len({one["run"] for one in found}) == 1
    assert oct(state.stat().st_mode & 0o777) == "0o600"


@pytest.mark.slow
def test_dry_runs_and_refusals_are_not_recorded(remove, state, form):  # noqa: F811
    form("a", "b")
    assert remove("--instance-ids", "a", "--dry-run")[0] == 0
    assert remove("--instance-ids", "zz", "--yes")[0] == 3
    assert remove("--instance-ids", "a")[0] == 6
    assert not state.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "code", "result", "error"),
    [
        (Edit(lambda _: LeaveGroupResponse(error_code=30), forward=False), 4, "failed", "GROUP_AUTHORIZATION_FAILED"),
        (BlackHole(), 7, "unknown", None),
        (Pass(), 0, "removed", None),
    ],
    ids=["refused by the broker", "never answered", "done"],
)
def test_what_came_of_it(remove, shown, proxy, group, form, fault, code, result, error):  # noqa: F811
    form("a", "b")
    budget = f"{short_budget_ms(proxy.bootstrap, group)}ms"
    proxy.always(ApiKey.LEAVE_GROUP, fault)
    assert remove("--instance-ids", "a", "--yes", "--timeout", budget)[0] == code
    (one,) = shown()
    assert (one["result"], one["error"]) == (result, error)
    assert one["finished_at"] is not None
    assert (one["note"] is None) == (result == "removed")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["disk full", "read-only folder", "not a folder"])
def test_without_a_record_nothing_is_sent(remove, state, proxy, group, form, monkeypatch, tmp_path, how):  # noqa: F811
    form("a", "b")
    if how == "disk full":

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("kgm.operations.audit.audit_log.os.write", full)
    elif how == "read-only folder":  # for root too
        monkeypatch.setenv("XDG_STATE_HOME", "/proc/sys")
    else:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    code, document, err = remove("--instance-ids", "a", "--yes")
    assert code == 6
    assert document["errors"][0]["code"] == "REFUSED"
    assert "the audit log cannot be written" in err
    assert "audit.jsonl: " in err
    assert "--no-audit" in err
    assert sent(proxy) == []
    code, document, err = remove("--instance-ids", "a", "--yes", "--no-audit")
    assert (code, err.count("audit log")) == (0, 0)
    assert document["data"]["results"][0]["result"] == "removed"


@pytest.mark.slow
def test_a_record_of_the_outcome_that_fails_is_said_and_changes_no_result(remove, shown, form, monkeypatch):  # noqa: F811
    form("a", "b")
    real, calls = AuditLog._append, []

    def append(self, data):
        calls.append(data)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        real(self, data)

    monkeypatch.setattr(AuditLog, "_append", append)
    code, document, err = remove("--instance-ids", "a", "--yes")
    assert (code, document["data"]["results"][0]["result"]) == (0, "removed")
    assert "warning: the outcome is not in the audit log: " in err
    assert "No space left on device" in err
    assert [one["result"] for one in shown()] == ["unknown"]


@pytest.fixture
def waiting(state, proxy, group, form):  # noqa: F811
    """kgm in a process, while its LeaveGroup is not answered."""
    form("a", "b")
    proxy.always(ApiKey.LEAVE_GROUP, BlackHole())
    command = [*KGM, "remove-members", group, "-b", proxy.bootstrap, "-i", "a", "--yes",
               *QUICK]  # fmt: skip
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: proxy.requests(ApiKey.LEAVE_GROUP), "no LeaveGroup is sent", 30)
    yield child
    child.kill()
    child.wait(30)


@pytest.mark.slow
def test_kill_9_leaves_an_intent_whose_outcome_is_unknown(waiting, shown):
    (one,) = shown()
    assert (one["result"], one["note"]) == ("unknown", f"process {waiting.pid} may still be running")
    waiting.kill()
    waiting.wait(30)
    (one,) = shown()
    assert (one["group_instance_id"], one["result"], one["finished_at"]) == ("a", "unknown", None)
    assert one["note"] == "kgm ended before the outcome was known: run kgm describe"


@pytest.mark.slow
def test_ctrl_c_is_recorded_as_unknown(waiting, shown):
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(30) == 130
    (one,) = shown()
    assert (one["result"], one["verdict"]) == ("unknown", "unknown")
    assert one["note"].startswith("it is still in the group, but the request may still take effect")
    assert one["finished_at"] is not None


# -- who ---------------------------------------------------------------------------------------------------------------


def test_the_operator_is_the_person_behind_sudo(monkeypatch):
    assert current_operator({"SUDO_USER": "bob", "USER": "root"}).name == "bob"
    assert current_operator({"USER": "root", "LOGNAME": "x"}).name == "root"
    assert current_operator({"LOGNAME": "x", "USER": " "}).name == "x"
    assert current_operator({}).name
    monkeypatch.setattr("os.getuid", lambda: 4_000_000)
    assert current_operator({}).name == "uid-4000000"


def test_a_reason_is_short_printable_and_signed():
    by = HumanOperator(name="al\x1b[31mice\u202e" + "x" * 300, uid=0, host="h" * 300)
    for reason in ("r", "r" * 255, "r" * 240):
        text = signed(reason, by)
        assert len(text) <= 255
        assert text.isprintable()
        assert text.endswith(f" (by {by})")
        assert text.startswith("r")
    assert signed("scaled in", HumanOperator(name="al", uid=0, host="h")) == "scaled in (by al@h)"
    assert signed("r" * 300, by).count("...") == 1


# -- kgm audit ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def written(state):
    """Three removals: two long ago."""
    for run_id, when, operator, group_id in (
        ("1", 1_700_000_000, "alice", "g"), ("2", 1_700_100_000, "bob", "g"), ("3", time.time(), "bob", "h\x1b[31m"),
    ):  # fmt: skip
        log = AuditLog(state, clock=lambda when=when: when)
        common = {"operator": operator, "host": "box", "group_id": group_id, "reason": "=cmd()", "cluster_id": "c"}
        log.append(intents(run_id, [{"group_instance_id": f"i{run_id}"}], common))
        log.append(outcomes(run_id, [{"result": "removed", "error": None, "note": None}], common))
    return state


def test_filters(written, shown):
    def runs(*arguments):
        return [one["run"] for one in shown(*arguments)]

    assert runs() == ["1", "2", "3"]
    assert runs("--group", "g") == ["1", "2"]
    assert runs("-g", "g", "-g", "h\x1b[31m") == ["1", "2", "3"]
    assert runs("--operator", "bob") == ["2", "3"]
    assert runs("--operator", "bob", "--group", "g") == ["2"]
    assert runs("--since", "1h") == ["3"]
    assert runs("--since", "2023-11-15T12:00:00Z") == ["2", "3"]
    assert runs("--since", "99999d") == ["1", "2", "3"]


def test_since():
    assert parse_since("1h", 7200) == "1970-01-01T01:00:00.000Z"
    assert parse_since("2d", 200_000) == "1970-01-01T07:33:20.000Z"
    assert parse_since("2026-11-21T03:00:00+01:00", 0) == "2026-11-21T02:00:00.000Z"
    for text in ("", "yesterday", "2026-13-01", "-1h", "2026-"):
        with pytest.raises(UsageError, match="--since"):
            parse_since(text, 0)
    assert run(["audit", "--since", "soon"]) == 2


def test_an_edited_line_is_said(written, capsys):
    lines = written.read_text().splitlines(keepends=True)
    written.write_text("".join([lines[0].replace("alice", "mallo"), *lines[1:]]))
    assert run(["audit", "-o", "json"]) == 8
    captured = capsys.readouterr()
    said = f"line 2 of {written} does not follow the line before it"
    assert captured.err.splitlines()[:2] == [
        "error: the audit log is not complete: records were removed or changed", f"  {said}",
    ]  # fmt: skip
    document = json.loads(captured.out)
    assert (document["data"]["problems"], len(document["data"]["removals"])) == ([said], 3)
    assert [one["code"] for one in document["errors"]] == ["CONDITION_NOT_MET"]


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        (lambda path: path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1])), "record 6 is missing"),
        (lambda path: path.write_text(""), "records 1 to 6 are missing"),
        (lambda path: path.unlink(), "records 1 to 6 are missing"),
        (lambda path: path.with_name("audit.jsonl.head").unlink(), "the head of the audit log is missing"),
    ],
    ids=["last line", "emptied", "deleted", "head"],
)
def test_a_cut_log_is_said(written, capsys, cut, said):
    assert run(["audit"]) == 0
    assert capsys.readouterr().err == ""
    cut(written)
    assert run(["audit"]) == 8
    assert f"  {said}\n" in capsys.readouterr().err


def test_a_log_without_a_head_is_told(written, capsys):
    records = [json.loads(line) for line in written.read_text().splitlines()]
    written.write_text("".join(json.dumps({k: v for k, v in one.items() if k not in ("record", "previous")}) + "\n"
                               for one in records))  # fmt: skip
    written.with_name("audit.jsonl.head").unlink()
    assert run(["audit"]) == 0
    assert capsys.readouterr().err.startswith("warning: the audit log has no head yet")


def test_a_line_of_somebody_else_at_the_end_is_damage(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    log = AuditLog(tmp_path / "kgm" / "audit.jsonl")
    log.append([{"event": "intent", "run": "r", "seq": 0, "group_id": "g"}])
    with log.path.open("a") as file:
        file.write("garbage\n")
    assert run(["audit"]) == 8
    err = capsys.readouterr().err
    assert "killed" not in err
    assert f"line 2 of {log.path}, the last one, is not a record" in err


def test_tables_are_clean_and_say_what_is_torn(written, capsys):
    with written.open("a") as file:
        file.write('{"torn')
    assert run(["audit"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].split() == ["TIME", "OPERATOR", "GROUP", "INSTANCE-ID", "RESULT", "REASON", "CLUSTER", "NOTE"]
    assert lines[1].split() == ["2023-11-14T22:13:20.000Z", "alice@box", "g", "i1", "removed", "=cmd()", "c", "-"]
    assert "\x1b" not in captured.out
    assert captured.err == "warning: 1 line of the audit log cannot be read: kgm was killed while it wrote\n"
    assert run(["audit", "-o", "csv"]) == 0
    assert ",'=cmd()," in capsys.readouterr().out
    assert run(["audit", "-o", "name"]) == 0
    assert capsys.readouterr().out == "i1\ni2\ni3\n"
    for form_of in ("wide", "tsv", "yaml", "ndjson", "markdown"):
        assert run(["audit", "-o", form_of]) == 0
        assert "i1" in capsys.readouterr().out


@pytest.mark.slow
def test_nothing_was_removed_yet(tmp_path):
    done = kgm("audit", "-o", "json", env={"XDG_STATE_HOME": str(tmp_path)})
    document = json.loads(done.out)
    assert (done.code, document["schema"], document["cluster"]) == (0, "kgm.audit/v1", None)
    assert document["data"] == {"file": f"{tmp_path}/kgm/audit.jsonl", "removals": [], "torn_lines": 0, "problems": []}
    assert done.err == ""
