"""Real processes: how they end, what is kept of their output, and that none of them can hold kgm up."""

from __future__ import annotations

import os
import shlex
import signal
import sys

import pytest

from kgm.operations.rollout.commands import running
from kgm.operations.rollout.commands.processes import process_mark
from kgm.operations.rollout.commands.running import OUTPUT_BYTES, CommandResult, RunningCommand
from kgm.operations.watch.timekeeper import SystemTimekeeper
from tests.waiting import until

pytestmark = pytest.mark.slow

CLOCK = SystemTimekeeper()
TIMEOUT_MS = 600_000


def start(script, *, timeout_ms=60_000, line=b""):
    argv = ["/bin/sh", "-c", script]
    return RunningCommand.start(argv, env=os.environ, line=line, now_ms=CLOCK.now_ms(), timeout_ms=timeout_ms)


def end(command, timeout_s=30, *, later_ms=0):
    """The result, by a clock that is ahead by `later_ms`."""
    return until(
        lambda: command.poll(CLOCK.now_ms() + later_ms), "the command does not end", timeout_s,
        accept=lambda it: it is not None,
    )  # fmt: skip


def exceed_time_limit(script):
    """The result of a command whose time is up once it has written its first line: until then it may not have got as
    far as what the test is about."""
    command = start(script, timeout_ms=TIMEOUT_MS)
    await_output(command)
    return end(command, later_ms=TIMEOUT_MS)


def await_output(command):
    until(lambda: os.fstat(command._output).st_size, "the command writes nothing", 30)


def test_exit_code_output_and_input():
    result = end(start("read line; echo got $line; echo problem >&2; exit 3", line=b"42\n"))
    assert (result.exit_code, result.has_timed_out, result.output) == (3, False, "got 42\nproblem\n")
    assert not result.is_success
    assert result.text == "ended with exit code 3"
    assert end(start("true")).is_success


def test_a_program_that_does_not_exist():
    result = RunningCommand.start(["/no/such/program"], env={}, line=b"", now_ms=0, timeout_ms=1)
    assert isinstance(result, CommandResult)
    assert (result.exit_code, result.output) == (None, "/no/such/program: No such file or directory")
    assert not result.is_success


LARGE = f"{shlex.quote(sys.executable)} -c " + shlex.quote(
    "import sys; sys.stdout.write('x' * (5 << 20)); sys.stdout.write('the end')"
)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives the room back")
def test_the_end_of_a_large_output_is_kept_and_the_rest_takes_no_room():
    command = start(f"{LARGE}; sleep 60")

    def room():
        assert command.poll(CLOCK.now_ms()) is None
        status = os.fstat(command._output)
        return status.st_size, status.st_blocks * 512

    until(room, "the room is given back", accept=lambda now: now[0] > 5 << 20 and now[1] <= 1 << 20)
    os.killpg(command.pid, signal.SIGTERM)
    result = end(command)
    assert len(result.output) <= OUTPUT_BYTES
    assert result.output.endswith("xthe end")


def test_a_daemon_that_keeps_the_output_open_does_not_hold_the_command_up():
    result = end(start("sleep 600 & echo $!"))
    os.kill(int(result.output), signal.SIGKILL)  # it still runs
    assert result.is_success


def test_a_command_that_takes_too_long_is_ended_with_its_children():
    result = exceed_time_limit("sleep 61 & echo $!; wait")
    assert result.has_timed_out
    assert not result.is_success
    child = int(result.output)
    until(lambda: process_mark(child) is None, "the child still runs", 10)


def test_a_process_is_told_from_a_later_one_with_its_id():
    assert process_mark(os.getpid()) == process_mark(os.getpid()) is not None
    command = start("read forever")
    mark = process_mark(command.pid)
    end(command)
    assert process_mark(command.pid) != mark or mark is None


@pytest.mark.parametrize(("code", "text"), [(-9, "was ended by SIGKILL"), (-250, "was ended by signal 250")])
def test_a_signal_has_its_name(code, text):
    assert CommandResult(exit_code=code).text == text


def is_running(pid):
    return process_mark(pid) is not None


def test_what_survives_its_leader_is_ended_before_the_command_counts_as_ended():
    """The leader dies of SIGTERM at once; a child that ignores it would go on to restart a member."""
    result = exceed_time_limit("sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.1; done' & wait")
    assert not is_running(int(result.output))
    assert (result.has_timed_out, result.exit_code, result.remaining) == (True, -signal.SIGTERM, {})
    assert result.text == "did not finish within its time limit, and was ended"


def test_a_process_group_of_its_own_in_the_session_is_ended_too():
    """As coreutils' timeout makes one."""
    own_group = "import os, time; os.setpgid(0, 0); print(os.getpid(), flush=True); time.sleep(600)"
    result = exceed_time_limit(f"{shlex.quote(sys.executable)} -c {shlex.quote(own_group)} & wait")
    assert not is_running(int(result.output))
    assert not result.remaining


def test_what_has_moved_to_another_session_is_told():
    moved = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(600)"
    result = exceed_time_limit(f"{shlex.quote(sys.executable)} -c {shlex.quote(moved)} & wait")
    pid = int(result.output)
    try:
        assert result.remaining == {pid: process_mark(pid)}
        assert result.text == f"did not finish within its time limit, and processes of it may still run: {pid}"
        assert result.to_json()["remaining_pids"] == [pid]
        assert not result.is_success
    finally:
        os.kill(pid, signal.SIGKILL)


def test_what_cannot_be_ended_does_not_hold_kgm_up(monkeypatch):
    """As a process of another user; here no signal arrives at all."""
    command = start("sleep 600", timeout_ms=0)
    with monkeypatch.context() as patched:
        patched.setattr(running, "_GRACE_MS", 50)
        patched.setattr(RunningCommand, "_signal", lambda *_: None)
        result = end(command)
    os.killpg(command.pid, signal.SIGKILL)
    command._process.wait(30)
    assert result.exit_code is None
    assert command.pid in result.remaining
    assert "may still run" in result.text


def test_one_that_is_overdue_gets_no_more_time_once_kgm_hastens():
    command = start("trap '' TERM; echo ready; while :; do sleep 0.1; done", timeout_ms=TIMEOUT_MS)
    await_output(command)
    now_ms = CLOCK.now_ms() + TIMEOUT_MS
    assert command.poll(now_ms) is None
    assert command.is_overdue
    command.hasten()
    result = until(lambda: command.poll(now_ms), "the command does not end", accept=lambda it: it is not None)
    assert result.exit_code == -signal.SIGKILL
