"""A signal ends kgm in a step: what has happened in it counts when the rollout is resumed, as after a kill. Only a failure or
a deviation that kgm has reported is acknowledged by resuming, and what was acknowledged is reported as what it was."""

from __future__ import annotations

import signal
import subprocess
import threading

import pytest

from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from tests import KGM
from tests.operations.rollout.units import JoinedUnits, environment, kgm
from tests.waiting import until

pytestmark = pytest.mark.slow
FLAGS = ["--settle", "0s", "--interval", "100ms", "--restart-time", "200ms", "-o", "ndjson"]


@pytest.fixture
def units(server, group, tmp_path):
    with JoinedUnits(server.bootstrap, tmp_path, {"group": group, "topic": "orders"}) as joined:
        joined.form(server, ["a"])
        yield joined


@pytest.fixture
def start(units, tmp_path):
    """Start kgm, and do not wait for its end."""
    started = []

    def start(*words, bootstrap=units.bootstrap):
        running = subprocess.Popen(
            [*KGM, "rollout", "--yes", *words], env=environment(tmp_path, bootstrap), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(running)
        return running

    yield start
    for running in started:
        running.kill()
        running.communicate()


def restart_of_a(units, journal):
    command = f"{units.command} restart {{instance_id}}"
    return [units.options["group"], "-i", "a", "--exec", command, "--journal", str(journal), *FLAGS]


def resumed(units, folder, journal):
    return kgm(folder, units.bootstrap, "rollout", "--yes", "--resume", str(journal), "-o", "ndjson")


def remove(units, name):
    """Stop a process, and remove its member with one LeaveGroup."""
    member = units.members[name]
    leaving = LeaveGroupRequest(group_id=units.group, members=[MemberIdentity(member_id="", group_instance_id=name)])
    assert member.wire.ask(leaving, version=5).error_code == 0
    units.stop(name)


def remove_and_start(units, name):
    remove(units, name)
    units.members[name] = units.start(name)
    return 0


def end_in_the_command(units, running, begun, release, number):
    """Send a signal to kgm while the command of `a` runs, which removes `a` and starts it again when kgm has ended.
    Returns how many rebalances that was: the group counts them in its generation."""
    before = units.generation()
    assert begun.wait(60)
    running.send_signal(number)
    running.communicate(timeout=60)
    release.set()
    until(lambda: units.calls_ended, "the command does not end", 60)
    assert running.returncode == (-number if number == signal.SIGKILL else 128 + number)
    return units.generation() - before


@pytest.fixture
def held(units):
    """Hold the next restart of `a` until it is released."""
    begun, release = threading.Event(), threading.Event()
    units.calls_ended = []

    def restart(units, name):
        begun.set()
        assert release.wait(60)
        remove_and_start(units, name)
        units.calls_ended.append(name)
        return 0

    units.faults["a"] = restart
    yield begun, release
    release.set()


@pytest.mark.few(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_happened_in_a_step_that_a_signal_ended_counts(units, start, held, tmp_path, number):
    journal = tmp_path / "j.ndjson"
    rebalances = end_in_the_command(units, start(*restart_of_a(units, journal)), *held, number)
    assert rebalances == 2
    ended = resumed(units, tmp_path, journal)
    assert ended.code == 8, str(ended)
    assert "step 1: 2 rebalances, predicted: 0 rebalances" in ended.err
    done = resumed(units, tmp_path, journal)
    assert (done.code, units.calls) == (0, [("restart", "a")]), str(done)
    (last,) = done.of_kind("done")
    assert (last["observed"]["rebalances"], last["as_predicted"]) == (rebalances, False)
    assert last["text"] == "1 step done, not as predicted in step 1: 2 rebalances, 0 handovers"
    (observed,) = done.of_kind("observed")
    assert (observed["observed"]["rebalances"], observed["as_predicted"]) == (rebalances, False)
    assert "not as predicted" in observed["text"]


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_only_what_happened_until_then_is_acknowledged(units, start, tmp_path, held, number):
    """The command fails, which is acknowledged; the next run is ended by a signal, which is not."""
    journal = tmp_path / "j.ndjson"
    second = units.faults["a"]

    def fail(units, name):
        units.faults[name] = second
        return 3

    units.faults["a"] = fail
    assert kgm(tmp_path, units.bootstrap, "rollout", "--yes", *restart_of_a(units, journal)).code == 7
    rebalances = end_in_the_command(units, start("--resume", str(journal)), *held, number)
    ended = resumed(units, tmp_path, journal)
    assert (ended.code, f"step 1: {rebalances} rebalances, predicted: 0 rebalances" in ended.err) == (8, True), ended
    done = resumed(units, tmp_path, journal)
    assert done.code == 0, str(done)
    (last,) = done.of_kind("done")
    assert (last["observed"]["rebalances"], last["as_predicted"]) == (rebalances, False)


def test_a_failed_command_is_no_deviation(units, tmp_path):
    journal = tmp_path / "j.ndjson"
    units.faults["a"] = lambda _units, _name: 3
    assert kgm(tmp_path, units.bootstrap, "rollout", "--yes", *restart_of_a(units, journal)).code == 7
    done = resumed(units, tmp_path, journal)
    assert done.code == 0, str(done)
    (last,) = done.of_kind("done")
    assert (last["text"], last["as_predicted"]) == ("1 step as predicted: 0 rebalances, 0 handovers", True)


def test_a_member_that_was_removed_is_not_told_of_as_timed_out(units, tmp_path):
    """Its session would have lasted for half an hour."""
    units.faults["a"] = lambda units, name: remove(units, name) or 0
    ended = kgm(tmp_path, units.bootstrap, "rollout", "--yes", *restart_of_a(units, tmp_path / "j.ndjson"))
    assert ended.code == 8, str(ended)
    # The count may come from the log before the member is missing in a description (for that, see test_observation).
    assert "step 1: 1 rebalance, predicted: 0 rebalances" in ended.err
    assert "the session of a has timed out" not in ended.err
