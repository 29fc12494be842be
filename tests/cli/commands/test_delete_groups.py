"""`kgm delete-groups` as a script and a person see it: exit codes, JSON by the contract, guards, hints and the question."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import uuid

import pytest

from kgm.cli.main import run
from kgm.client import connect
from kgm.operations.audit.audit_log import AuditLog
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from tests import KGM
from tests.cli.environment import bare
from tests.client.conftest import form, group, proxy, server  # noqa: F401  (fixtures)
from tests.client.faults import BlackHole, Delay, Edit, Pass
from tests.client.joiners import leave_dead_group
from tests.waiting import until

TOPIC = "orders"
NOW = ("--idle-for", "0s")
RESULT_KEYS = {"group_id", "topic", "result", "idleness", "offsets", "error", "note"}


@pytest.fixture
def dead(server):  # noqa: F811
    """Make a group that nobody uses any more: `dead("a")` returns its id, which begins with these letters."""

    def dead(name="dead"):
        group_id = f"{name}-{uuid.uuid4().hex[:10]}"
        leave_dead_group(server.port, group_id, TOPIC)
        return group_id

    return dead


@pytest.fixture
def delete(proxy, capsys):  # noqa: F811
    """Run delete-groups in this process, without a terminal: (exit code, JSON document, stderr)."""

    def delete(*arguments):
        code = run(["delete-groups", "-b", proxy.bootstrap, "-o", "json", "--timeout", "60s", *arguments])
        captured = capsys.readouterr()
        return code, json.loads(captured.out) if captured.out else None, captured.err

    return delete


def shown(document):
    return [(row["group_id"], row["topic"], row["result"]) for row in document["data"]["results"]]


def exists(proxy, group_id):  # noqa: F811
    with connect(proxy.bootstrap, timeout_ms=60_000) as cluster:
        return group_id in {row.group_id for row in cluster.list_groups().groups}


def test_the_json_is_the_contract(delete, proxy, dead):  # noqa: F811
    one = dead()
    code, document, err = delete(one, "none", *NOW, "--reason", "moved", "--yes")
    assert code == 7
    assert document["schema"] == "kgm.delete-groups/v1"
    assert document["data"].keys() == {"dry_run", "reason", "idle_for_ms", "results", "warnings"}
    assert (document["data"]["reason"], document["data"]["idle_for_ms"]) == ("moved", 0)
    removed, absent = document["data"]["results"]
    assert removed.keys() == RESULT_KEYS
    assert removed["idleness"].keys() == {"verdict", "evidence", "last_use_at"}
    assert removed["offsets"] == [{"topic": TOPIC, "partition": 0, "committed": 0}]
    assert (removed["idleness"]["verdict"], removed["idleness"]["last_use_at"][-1]) == ("idle", "Z")
    assert (absent["error"], absent["offsets"], absent["idleness"]["last_use_at"]) == ("GROUP_ID_NOT_FOUND", [], None)
    assert shown(document) == [(one, None, "removed"), ("none", None, "absent")]
    assert [error["code"] for error in document["errors"]] == ["PARTIAL"]
    assert "1 of 2 were deleted" in err
    assert not exists(proxy, one)


def test_groups_from_everywhere_in_the_order_asked(delete, proxy, dead, tmp_path):  # noqa: F811
    a, b, c, d = dead("a"), dead("b"), dead("c"), dead("zz-d")
    file = tmp_path / "groups"
    file.write_text(f"# retired\n{c}\n{a}\n")
    code, document, _ = delete(b, "--from-file", str(file), "--match", "zz-*", *NOW, "--yes")
    assert (code, [row[0] for row in shown(document)]) == (0, [b, c, a, d])
    assert len(proxy.requests(ApiKey.DELETE_GROUPS)) == 4


def test_groups_from_standard_input(delete, dead, monkeypatch):
    one = dead()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{one}\n".encode())))
    code, document, _ = delete("--from-file", "-", *NOW, "--yes")
    assert (code, shown(document)) == (0, [(one, None, "removed")])


def test_a_dry_run_changes_nothing_and_needs_no_yes(delete, proxy, dead):  # noqa: F811
    one = dead()
    code, document, _ = delete(one, *NOW, "--dry-run")
    assert (code, shown(document), document["data"]["dry_run"]) == (0, [(one, None, "planned")], True)
    code, document, err = delete(one, "none", *NOW, "--dry-run")
    assert (code, [row[2] for row in shown(document)]) == (7, ["planned", "absent"])
    assert proxy.requests(ApiKey.DELETE_GROUPS) == []
    assert err


def test_one_in_use_stops_the_batch_and_the_hint_names_the_others(delete, proxy, dead, form, group):  # noqa: F811
    form("a")
    one = dead()
    code, document, err = delete(one, group, *NOW, "--yes")
    assert (code, [row[2] for row in shown(document)]) == (6, ["planned", "refused"])
    assert f"{group}: it has 1 member: a" in err
    (hint,) = [line for line in err.splitlines() if line.startswith("hint: the others: kgm delete-groups ")]
    assert proxy.requests(ApiKey.DELETE_GROUPS) == []
    # It is for the same cluster, and rests on the same options.
    assert run([*shlex.split(hint.removeprefix("hint: the others: kgm ")), "--yes"]) == 0
    assert not exists(proxy, one)
    assert exists(proxy, group)


def test_the_day_is_the_default(delete, dead):
    one = dead()
    code, document, err = delete(one, "--yes", "--assume-idle")
    assert (code, document["data"]["results"][0]["idleness"]["verdict"]) == (6, "active")
    assert "state a shorter --idle-for" in err


def test_what_is_not_known_takes_a_flag_that_the_hint_names(delete, proxy, dead):  # noqa: F811
    one = dead()
    proxy.hide_offsets_topic()
    code, document, err = delete(one, "--yes")
    assert (code, document["data"]["results"][0]["idleness"]["verdict"]) == (6, "unknown")
    assert f"kgm delete-groups -b {proxy.bootstrap} -o json --timeout 60s {one} --yes --assume-idle" in err
    assert delete(one, "--yes", "--assume-idle", "--guard-window", "0s")[0] == 0


def test_offsets_of_a_topic_alone(delete, proxy, dead):  # noqa: F811
    one = dead()
    code, document, err = delete(one, "--topic", f"{TOPIC},payments", *NOW, "--yes", "--ignore-missing")
    assert (code, shown(document)) == (0, [(one, TOPIC, "removed"), (one, "payments", "absent")])
    assert "deleting 1 offset of cluster" in err
    assert proxy.requests(ApiKey.DELETE_GROUPS) == []


def test_a_broker_that_refuses(delete, proxy, dead):  # noqa: F811
    one = dead()
    rows = [DeletableGroupResult(group_id=one, error_code=68)]
    proxy.script(ApiKey.DELETE_GROUPS, Edit(lambda _: DeleteGroupsResponse(results=rows), forward=False))
    code, document, err = delete(one, *NOW, "--yes")
    assert (code, document["data"]["results"][0]["error"]) == (6, "NON_EMPTY_GROUP")
    assert "a member joined before the request arrived" in err


def test_a_commit_directly_before_the_request_refuses_it(delete, server, proxy, dead):  # noqa: F811
    """It comes between the verdict and the second look: with the second OffsetFetch."""
    one, other = dead(), dead("other")
    again = Delay(0, before=lambda: leave_dead_group(server.port, one, TOPIC))
    proxy.script(ApiKey.OFFSET_FETCH, Pass(), again)
    code, document, err = delete(one, other, *NOW, "--yes")
    assert (code, shown(document)) == (6, [(one, None, "refused"), (other, None, "planned")])
    assert "its last commit was" in document["data"]["results"][0]["note"]
    assert f"group {one!r} is no longer as it was" in err
    assert proxy.requests(ApiKey.DELETE_GROUPS) == []


def test_without_a_terminal_it_refuses(delete, proxy, dead, monkeypatch):  # noqa: F811
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    code, _, err = delete(dead(), *NOW)
    assert (code, "nothing was deleted: stdin is not a terminal" in err) == (6, True)
    assert proxy.connections == 0


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 6), ("", 6)])
def test_at_a_terminal_it_asks(delete, proxy, dead, monkeypatch, answer, code):  # noqa: F811
    one = dead()
    typed = io.StringIO(answer)
    typed.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", typed)
    ended, _, err = delete(one, *NOW)
    assert ended == code
    assert f"  {one}  committed orders[0]\n    idle: its last commit was" in err
    assert "Delete 1 group? [y/N]" in err
    assert exists(proxy, one) == (code != 0)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        [""],
        ["g", "--match", ""],
        ["g", "--topic", ""],
        ["g", "--topic", "t", "--stale-topics"],
        ["g", "--idle-for", "soon"],
        ["g", "--guard-window", "1"],
        ["g", "--reason", "two\nlines"],
        ["--from-file", os.devnull],
    ],
)
def test_usage_errors_come_before_anything_else(proxy, arguments):  # noqa: F811
    assert run(["delete-groups", "-b", proxy.bootstrap, "--yes", *arguments]) == 2
    assert proxy.connections == 0


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_after_the_request(number, code, proxy, dead, tmp_path):  # noqa: F811
    group_id = dead()
    proxy.always(ApiKey.DELETE_GROUPS, BlackHole())
    words = ["delete-groups", group_id, "-b", proxy.bootstrap, "--yes", *NOW, "-o", "json"]
    env = {**bare(), "XDG_STATE_HOME": str(tmp_path)}
    child = subprocess.Popen([*KGM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    until(lambda: proxy.requests(ApiKey.DELETE_GROUPS), "no DeleteGroups is sent")
    child.send_signal(number)
    out, err = child.communicate(timeout=60)
    assert child.returncode == code, err
    assert "interrupted after the request was sent" in err
    assert shown(json.loads(out)) == [(group_id, None, "unknown")]
    (entry,) = AuditLog(tmp_path / "kgm" / "audit.jsonl").read().removals
    assert (entry.group_id, entry.result, entry.note is None) == (group_id, "unknown", False)
