"""`kgm plan` by its contract: its JSON, its limits and exit codes, and the lines that it prints."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kgm.cli.commands.planning import plan as plan_command
from kgm.cli.main import run
from kgm.operations.plan.search import find_plans
from kgm.simulation.plan.bounce_plan import Membership
from tests.client.conftest import form, group, server  # noqa: F401
from tests.simulation.groups import ids, made_up

pytestmark = pytest.mark.slow

STATIC = replace(made_up(3, 6, session_timeout_ms=45_000), group_id="static")
DYNAMIC = replace(made_up(3, 6, Membership.DYNAMIC), group_id="dynamic; $(id)")


#: Not one by one, and whatever moves: as many ways as there are.
_ANY = ("--max-unavailable", "3", "--minimise", "stopped")


@pytest.fixture
def snapshot(tmp_path):
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps({"groups": [STATIC.to_json(), DYNAMIC.to_json()]}))
    return str(path)


@pytest.fixture
def kgm(snapshot, capsys):
    """Runs kgm here on a snapshot of these groups: (exit code, stdout, stderr)."""

    def ask(*words: str):
        code = run(["plan", "--from-file", snapshot, "--draws", "3", "--pause", "0s", *_ANY, *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return ask


def data_of(out):
    return json.loads(out)["data"]


def test_plans_have_their_flags_their_scenario_and_the_line_that_carries_them_out(kgm, snapshot, capsys):
    code, out, err = kgm(DYNAMIC.group_id, "--restart-time", "90s", "-o", "json", "--exec", "restart {instance_id}")
    data = data_of(out)
    assert (code, err) == (0, "")
    assert data["search"] == {
        "tried": 3, "ways": 3, "complete": True, "draws": 3, "seed": 1, "budget_ms": 30_000, "not_predicted": []
    }  # fmt: skip
    assert data["plans"]
    for plan in data["plans"]:
        words = shlex.split(plan["rollout"])
        assert words[:3] == ["kgm", "rollout", DYNAMIC.group_id]
        assert words[3:] == ["--all", "--restart-time", "90s", *plan["flags"], "--exec", "restart {instance_id}"]
        again = ["simulate-bounce", *words[2:-2], "--from-file", snapshot, "--draws", "3", "-o", "json"]
        assert run(again) == 0
        (scenario,) = json.loads(capsys.readouterr().out)["data"]["scenarios"]
        assert scenario == plan["scenario"]


@pytest.mark.few(1)
@pytest.mark.parametrize("is_typed", [True, False])
def test_the_line_that_it_prints_is_one_that_rollout_takes(server, group, form, is_typed, capsys, monkeypatch):  # noqa: F811
    form("a", "b", "c")
    if not is_typed:
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", server.bootstrap)
    words = [
        "--restart-time",
        "90s",
        "--session-timeout",
        "60s",
        "--draws",
        "2",
        "--exec",
        "true",
        "--exec-stop",
        "true",
    ]
    cluster = ["-b", server.bootstrap] if is_typed else []
    assert run(["plan", group, *words, *cluster, "-o", "json"]) == 0
    for plan in data_of(capsys.readouterr().out)["plans"]:
        assert plan["rollout"].endswith(f"--exec true -b {server.bootstrap}")
        assert run([*shlex.split(plan["rollout"])[1:], "--dry-run", "--draws", "2"]) == 0
        assert "true" in capsys.readouterr().out


def test_the_line_names_the_members_that_restart(kgm):
    _, out, _ = kgm("static", "-i", "member-{1..2}", "--stop", "crash", "--session-timeout", "30s", "-o", "json")
    lines = {"--remove-first" in one["flags"]: one["rollout"] for one in data_of(out)["plans"]}
    which = "kgm rollout static --instance-ids member-1,member-2 --stop crash --session-timeout 30s"
    assert lines[False] == f"{which} --together --exec CMD"
    assert lines[True].startswith(f"{which} ")
    assert lines[True].endswith("--remove-first --exec-stop STOP-CMD --exec CMD")


def test_a_line_with_a_removal_has_both_commands_and_the_word_of_the_operator(kgm):
    words = ["--exec-stop", "stop {instance_id}", "--exec", "start {instance_id}", "--assume-stopped"]
    _, out, _ = kgm("static", "--restart-time", "5m", *words)
    lines = [line for line in out.splitlines() if line.startswith("  kgm rollout")]
    end = "--exec-stop 'stop {instance_id}' --exec 'start {instance_id}' --assume-stopped"
    assert [line.endswith(end) for line in lines] == ["--remove-first" in line for line in lines]
    assert any("--remove-first" in line for line in lines)
    assert "one LeaveGroup removes it" in out
    assert "session-timeout: if " in out


def test_the_table_shows_the_lines_and_what_another_configuration_would_give(kgm):
    code, out, _ = kgm(DYNAMIC.group_id)
    assert code == 0
    assert "  kgm rollout 'dynamic; $(id)' --all" in out
    assert "with another configuration" in out
    assert "a different group.instance.id for each member (KIP-345)" in out


def test_by_default_members_restart_one_by_one_and_nothing_moves(tmp_path, capsys):
    path = tmp_path / "twelve.json"
    path.write_text(json.dumps({"groups": [made_up(12, 24, session_timeout_ms=45_000).to_json()]}))
    words = ["plan", "--from-file", str(path), "--draws", "2", "--pause", "0s", "-o", "json"]
    assert run(words) == 0
    data = data_of(capsys.readouterr().out)
    assert (data["minimise"], data["limits"]["max_unavailable"]) == ("handovers", 1)
    first = data["plans"][0]
    assert (first["flags"], first["costs"]["handovers"]) == (["--rolling", "--max-unavailable", "1"], 0)
    assert first["costs"]["fewest_consumed_percent"] > 90
    assert run([*words, "--max-unavailable", "12", "--minimise", "stopped"]) == 0
    plans = data_of(capsys.readouterr().out)["plans"]
    assert [one["costs"]["handovers"] for one in plans if one["flags"] == first["flags"]] == [0]


@pytest.mark.few(2)
@pytest.mark.parametrize("word", ["stopped", "moves", "handovers", "rebalances", "duration"])
def test_each_objective_has_a_name(word, kgm):
    code, out, _ = kgm("static", "--minimise", word, "-o", "json")
    assert (code, data_of(out)["minimise"]) == (0, "handovers" if word == "moves" else word)


def test_limits_that_are_kept(kgm):
    code, out, _ = kgm(
        "static", "--keep-consuming", "60%", "--max-duration", "10m", "--max-unavailable", "1", "-o", "json"
    )
    data = data_of(out)
    assert (code, data["closest"]) == (0, None)
    assert data["limits"] == {"max_duration_ms": 600_000, "max_unavailable": 1, "keep_consuming_percent": 60}
    (plan,) = data["plans"]
    assert (plan["flags"], plan["costs"]["fewest_consumed_percent"]) == (["--rolling", "--max-unavailable", "1"], 66)


def test_limits_that_no_plan_keeps_exit_8_with_the_closest(kgm):
    code, out, err = kgm(DYNAMIC.group_id, "--keep-consuming", "60", "-o", "json")
    document = json.loads(out)
    assert code == 8
    assert "no plan meets the limits: --keep-consuming" in err
    assert document["data"]["plans"] == []
    assert document["data"]["closest"]["exceeds"] == ["--keep-consuming"]
    assert [error["code"] for error in document["errors"]] == ["CONDITION_NOT_MET"]
    assert not [one for one in document["data"]["what_ifs"] if one["name"] == "static" and one["exceeds"]]


@pytest.mark.parametrize(("timeout", "is_late"), [("9s", True), ("16s", True), ("17s", False)])
def test_its_timeout_ends_the_search(kgm, monkeypatch, timeout, is_late):
    """The first way takes 10 s; what was found is predicted in the rest of the time."""
    now_s = [0]

    def find(*task, on_shape, **how):
        def counted(done, of):
            now_s[0] = 10 if done else 0
            on_shape(done, of)

        return find_plans(*task, on_shape=counted, **how)

    monkeypatch.setattr(plan_command, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setattr("kgm.operations.plan.search.find_plans", find)
    code, out, _ = kgm(DYNAMIC.group_id, "--restart-time", "90s", "--timeout", timeout)
    assert code == 0
    assert ("1 of 3 ways were tried within --timeout" in out) is is_late
    assert ("were tried" in out) is is_late


@pytest.mark.long
def test_restarts_that_were_seen_advise_on_the_session_timeout(kgm, tmp_path):
    times = tmp_path / "restarts"
    times.write_text("20s\n25s\n90s\n")
    for value in ("20s,25s,90s", str(times)):
        code, out, _ = kgm("static", "--restart-times", value, "-o", "json")
        advice = data_of(out)["session_advice"]
        assert (code, advice["session_timeout_now_ms"], advice["restarts_seen"]) == (0, 45_000, 3)
        assert 93_000 <= advice["session_timeout_ms"] <= 100_000
        assert advice["quiet_percent_now"] < 60 < advice["quiet_percent"]
        died = advice["if_a_member_dies"]
        assert died["stopped_partition_now_ms"] < died["stopped_partition_ms"]
    code, _, err = kgm(DYNAMIC.group_id, "--restart-times", "20s")
    assert code == 0
    assert "warning: a session timeout makes no difference to these members" in err


@pytest.mark.parametrize(
    "words",
    [
        [], ["static", "--minimise", "cost"], ["static", "--stop", "gently"], ["static", "--keep-consuming", "101%"],
        ["static", "--keep-consuming", "most"], ["static", "--draws", "0"], ["static", "--max-unavailable", "0"],
        ["static", "--restart-times", "soon"], ["static", "--restart-times", "5s", "--history", "x"], ["static", "-g", "other"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_slip_is_a_usage_error(words, kgm):
    assert kgm(*words)[0] == 2


def test_what_does_not_exist_is_not_found(kgm):
    assert kgm("none")[0] == 3
    assert kgm("static", "-i", "nobody")[0] == 3


def test_a_member_by_its_id(kgm):
    (name, *_) = ids(DYNAMIC)
    code, out, _ = kgm(DYNAMIC.group_id, "-m", name, "-o", "json")
    assert (code, data_of(out)["plan"]["bounce"]) == (0, [name])
