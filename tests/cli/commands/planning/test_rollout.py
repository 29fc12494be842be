"""`kgm rollout` before its first step: which plan its words mean, what it refuses, and when it asks."""

from __future__ import annotations

import io
import json
from contextlib import closing

import pytest

from kgm.cli.main import run
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.simulation.plan.bounce_plan import Plan, Rolling
from tests.operations.rollout.units import JoinedUnits
from tests.server.wire_client import WireClient

NAMES = ("a", "b", "c")
FLAGS = ("--accept-unseen", "--settle", "0s", "--interval", "100ms", "--restart-time", "200ms", "--draws", "2")


class Person(io.StringIO):
    """A terminal at which somebody types."""

    def isatty(self):
        return True


@pytest.fixture
def units(server, group, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with JoinedUnits(server.bootstrap, tmp_path, {"group": group, "topic": "orders"}) as joined:
        joined.form(server, list(NAMES))
        yield joined


@pytest.fixture
def rollout(units, capsys):
    """Run it: (exit code, stdout, stderr)."""

    def rollout(*words, command="restart {instance_id}"):
        given = ["rollout", units.group, "-b", units.bootstrap, "--exec", f"{units.command} {command}", *FLAGS, *words]
        code = run(given)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return rollout


def test_a_hostile_member_is_refused_before_the_first_step(server, group, tmp_path, capsys):
    """It is the last of the plan; the members before it are left alone."""
    value = "app-2;touch$IFS$CANARY"
    with JoinedUnits(server.bootstrap, tmp_path, {"group": group, "topic": "orders"}) as units:
        units.form(server, ["app-1", value])
        words = ["-b", server.bootstrap, "--all", "--yes", "--draws", "2", "--accept-unseen", "--exec"]
        code = run(["rollout", group, *words, f"{units.command} restart {{instance_id}}"])
        error = capsys.readouterr().err
        assert (code, units.calls) == (6, [])
        assert f"{{instance_id}} of member '{value}' has the character ';'" in error
        assert "--allow-any-value" in error


def test_it_does_not_go_on_without_being_asked(units, rollout, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    code, _, error = rollout("--all")
    assert (code, units.calls) == (6, [])
    assert "stdin is not a terminal, so kgm cannot ask" in error
    assert "add --yes" in error
    assert rollout("--all", "--dry-run")[0] == 0
    code, _, error = rollout("--all", "--yes")
    assert (code, units.calls) == (0, [("restart", name) for name in NAMES])
    assert "[y/N]" not in error


@pytest.mark.few(2)
@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 6), ("\n", 6), ("", 6), ("yep\n", 6)])
def test_at_a_terminal_it_shows_the_steps_and_asks(units, rollout, monkeypatch, answer, code):
    monkeypatch.setattr("sys.stdin", Person(answer))
    ended, _, error = rollout("-i", "b,a")
    assert ended == code
    assert units.calls == ([("restart", "b"), ("restart", "a")] if code == 0 else [])
    lines = error.splitlines()
    assert lines[0].startswith(
        f"{units.group}: 2 members restart (rolling, 1 at a time, in the order named, clean stop"
    )
    assert f"  step 1: b: {units.command} restart b" in lines
    assert "Carry out 2 steps? [y/N]" in error
    assert ("declined: nothing was done" in error) == (code == 6)


def test_a_rollout_that_goes_on_asks_too(units, rollout, monkeypatch, tmp_path, capsys):
    units.faults["b"] = lambda _units, _name: 3
    journal = str(tmp_path / "j.ndjson")
    assert rollout("--all", "--yes", "--journal", journal)[0] == 7
    again = ["rollout", "--resume", journal, "-b", units.bootstrap]
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert run(again) == 6
    monkeypatch.setattr("sys.stdin", Person("n\n"))
    assert run(again) == 6
    error = capsys.readouterr().err
    assert f"--exec '{units.command} restart {{instance_id}}'" in error
    assert "Continue with 2 steps? [y/N]" in error
    assert [name for _, name in units.calls] == ["a", "b"]
    monkeypatch.setattr("sys.stdin", Person("y\n"))
    assert run(again) == 0
    assert [name for _, name in units.calls] == ["a", "b", "b", "c"]


#: Words, the batches that they mean, and how they are understood.
PLANS = (
    (("--all",), [["a"], ["b"], ["c"]], "rolling, 1 at a time"),
    (("--all", "--rolling"), [["a"], ["b"], ["c"]], "rolling, 1 at a time"),
    (("--all", "--max-unavailable", "2"), [["a", "b"], ["c"]], "rolling, 2 at a time"),
    (("-i", "c,a", "--pause", "1s"), [["c"], ["a"]], "rolling, 1 at a time, in the order named"),
    (("--match", "[bc]", "--order", "id"), [["b"], ["c"]], "rolling, 1 at a time, in the order of their ids"),
    (("--all", "--together"), [["a", "b", "c"]], "together"),
    (("-i", "b"), [["b"]], "(clean stop"),
)


@pytest.mark.few(2)
@pytest.mark.parametrize(("words", "batches", "understood"), PLANS)
def test_the_same_words_mean_the_same_plan_in_a_simulation_and_in_a_rollout(
    words, batches, understood, units, rollout, capsys
):
    code, out, error = rollout(*words, "--dry-run", "-o", "json")
    assert code == 0
    assert [step["members"] for step in json.loads(out)["data"]["steps"]] == batches
    assert understood in error.splitlines()[0]
    simulate = [
        "simulate-bounce",
        units.group,
        "-b",
        units.bootstrap,
        "--restart-time",
        "200ms",
        "--draws",
        "2",
        *words,
    ]
    assert run([*simulate, "-o", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)["data"]["plan"]
    rolling = None if plan["mode"] == "together" else Rolling(max_unavailable=plan["max_unavailable"])
    assert [list(batch) for batch in Plan(bounce=tuple(plan["bounce"]), rolling=rolling).batches()] == batches
    assert run(simulate) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.split("  ")[1] == error.splitlines()[0].partition(": ")[2].rpartition(": ")[0]


@pytest.mark.parametrize("more", [("--rolling",), ("--max-unavailable", "1"), ("--pause", "1s"), ("--order", "id")])
def test_together_excludes_what_is_about_batches(rollout, units, more):
    for command in ("rollout", "simulate-bounce"):
        words = [command, units.group, "-b", units.bootstrap, "--all", "--together", *more]
        assert run([*words, "--exec", "true"] if command == "rollout" else words) == 2


def test_a_range_is_not_called_certain(rollout):
    """A group that becomes empty has a generation more than rebalances."""
    _, _, error = rollout("--all", "--together", "--remove-first", "--exec-stop", "true", "--dry-run")
    (predicted,) = [line for line in error.splitlines() if line.startswith("predicted: ")]
    assert " to " in predicted
    assert "certain" not in predicted
    _, _, error = rollout("--all", "--dry-run")
    assert "predicted: 0 rebalances, 0 handovers (certain)" in error


class Screen(io.StringIO):
    """A stdout that does something when a text is written."""

    def __init__(self, text, action):
        super().__init__()
        self._text, self._action = text, action

    def write(self, text):
        if self._text in text:
            self._action()
        return super().write(text)


def test_it_waits_until_the_guard_knows(server, group, tmp_path, monkeypatch):
    """The session of a member that was stopped ends while the guard watches: then it may be started again."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("tests.client.joiners.SESSION_MS", 20_000)
    with JoinedUnits(server.bootstrap, tmp_path, {"group": group, "topic": "orders"}) as units:
        units.form(server, ["a"])
        (stopped,) = units.member_ids().values()
        members = [MemberIdentity(member_id=stopped, group_instance_id="a")]

        def end_session():
            with closing(WireClient(server.port)) as wire:
                wire.ask(LeaveGroupRequest(group_id=group, members=members), version=5)

        screen = Screen("kgm watches them, for up to 22s", end_session)
        monkeypatch.setattr("sys.stdout", screen)
        commands = [
            "--exec-stop",
            f"{units.command} stop {{instance_id}}",
            "--exec",
            f"{units.command} start {{instance_id}}",
        ]
        words = [
            "-b",
            server.bootstrap,
            "--all",
            "--remove-first",
            "--yes",
            *commands,
            *FLAGS,
        ]
        assert run(["rollout", group, *words]) == 0, screen.getvalue()
        assert units.calls == [("stop", "a"), ("start", "a")]
        assert stopped not in units.member_ids().values()
