"""Commands that exceed their time limit: what they started must not restart a member behind the rollout's back."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from kgm.operations.rollout.commands.processes import process_mark
from kgm.operations.rollout.journal import JournalKind, read_journal
from tests import KGM
from tests.operations.rollout.units import JoinedUnits, environment, kgm
from tests.waiting import until

pytestmark = pytest.mark.slow
FLAGS = ["--settle", "0s", "--interval", "100ms", "--restart-time", "200ms", "--step-timeout", "5s", "--accept-unseen"]


@pytest.fixture
def units(server, group, tmp_path):
    with JoinedUnits(server.bootstrap, tmp_path, {"group": group, "topic": "orders"}) as joined:
        joined.form(server, ["a"])
        yield joined


def words_of(units, command, *more):
    return [
        "rollout", "--yes", units.group, "-i", "a", "--shell", "--exec", command, *FLAGS, "-o", "ndjson", *more,
        "--journal", str(units.folder / "j.ndjson"),
    ]  # fmt: skip


def ends(units):
    return [one.data for one in read_journal(units.folder / "j.ndjson") if one.kind is JournalKind.COMMAND_END]


def elsewhere(folder, script):
    """A command that runs a script in a session of its own (setsid(1) is not everywhere), and waits for it."""
    (folder / "script.sh").write_text(script)
    (folder / "elsewhere.py").write_text(f"import os\nos.setsid()\nos.execvp('sh', ['sh', '{folder / 'script.sh'}'])\n")
    return f"{sys.executable} {folder / 'elsewhere.py'} & wait"


def test_a_child_that_ignores_sigterm_does_not_restart_the_member_later(units, tmp_path):
    late = f"(trap '' TERM; sleep 8; {units.command} restart $KGM_INSTANCE_ID) & wait"
    began_s = time.monotonic()
    ended = kgm(tmp_path, units.bootstrap, *words_of(units, late, "--command-timeout", "1s"))
    assert ended.code == 7
    assert "did not finish within its time limit, and was ended" in ended.err
    assert [one["remaining"] for one in ends(units)] == [{}]
    time.sleep(max(0.0, began_s + 10 - time.monotonic()))  # nothing can be waited for that is not to happen
    assert units.calls == []


def test_what_moved_to_another_session_is_waited_for_when_the_rollout_is_resumed(units, tmp_path):
    goes_on = tmp_path / "goes-on"
    late = elsewhere(
        tmp_path, f"while [ ! -e {goes_on} ]; do sleep 0.1; done; {units.command} restart $KGM_INSTANCE_ID"
    )
    ended = kgm(tmp_path, units.bootstrap, *words_of(units, late, "--command-timeout", "2s"))
    assert ended.code == 7
    assert "did not finish within its time limit, and processes of it may still run" in ended.err
    (end,) = ends(units)
    assert end["remaining"]
    assert units.calls == []
    again = ["rollout", "--yes", "--resume", str(tmp_path / "j.ndjson"), "-o", "ndjson"]
    resumed = subprocess.Popen(
        [*KGM, *again], env=environment(tmp_path, units.bootstrap), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in resumed.stdout:
        if "is still running: waiting for its end" in line:
            break
    goes_on.touch()
    out, err = resumed.communicate(timeout=60)
    assert (resumed.returncode, units.calls) == (0, [("restart", "a")]), out + err


def test_no_second_command_runs_while_the_first_still_runs(units, tmp_path):
    late = elsewhere(tmp_path, f"while [ -d {tmp_path} ]; do sleep 0.1; done")
    ended = kgm(tmp_path, units.bootstrap, *words_of(units, late, "--command-timeout", "1s"))
    assert ended.code == 7
    (end,) = ends(units)
    resumed = kgm(tmp_path, units.bootstrap, "rollout", "--yes", "--resume", str(tmp_path / "j.ndjson"), "-o", "ndjson")
    for pid in end["remaining"]:
        with contextlib.suppress(ProcessLookupError):  # one of its `sleep`
            os.kill(int(pid), signal.SIGKILL)
    assert (resumed.code, units.calls, ends(units)) == (7, [], [end]), str(resumed)
    assert "the command of a that an earlier run started is still running" in resumed.err


@pytest.mark.long
@pytest.mark.parametrize("is_on_failure", [False, True], ids=["the command", "the command of --on-failure"])
def test_one_that_is_being_ended_is_ended_before_an_interrupted_kgm(units, tmp_path, is_on_failure):
    told = tmp_path / "told"
    script = tmp_path / "deaf.sh"
    script.write_text(f"trap 'echo $$ > {told}' TERM\nwhile :; do sleep 0.1; done\n")
    deaf = f"sh {script}"
    words = words_of(units, "false", "--on-failure", f"run {deaf}") if is_on_failure else words_of(units, deaf)
    process = subprocess.Popen(
        [*KGM, *words, "--command-timeout", "1s"], env=environment(tmp_path, units.bootstrap), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    pid = int(until(lambda: told.exists() and told.read_text(), "it gets no SIGTERM", 60))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert process_mark(pid) is None
    assert (ends(units)[-1]["timed_out"], ends(units)[-1]["remaining"]) == (True, {})
