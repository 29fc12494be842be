"""kgm is killed at each line of its journal, and the rollout is resumed: nothing is forgotten, nothing needless is done."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kgm.operations.rollout.journal import JournalKind, read_journal
from tests import ROOT
from tests.operations.rollout.units import JoinedUnits, environment, kgm
from tests.selection import sized

pytestmark = pytest.mark.slow
NAMES = ["a", "b"]
_STEP = ["step-begin", "command-begin", "command-started", "command-end", "step-end"]
LINES = ["plan", *_STEP, *_STEP, "done"]
FLAGS = ["--settle", "0s", "--interval", "100ms", "--restart-time", "200ms", "--accept-unseen", "-o", "ndjson"]
#: The lines between which the command of a step may have run without kgm knowing how it ended.
_OPEN = {"command-begin", "command-started"}


def plan_of(units, journal):
    return [
        "rollout", "--yes", units.options["group"], "--all", "--rolling", "--exec", f"{units.command} restart {{instance_id}}",
        "--journal", str(journal), *FLAGS,
    ]  # fmt: skip


@pytest.fixture
def units(server, group, tmp_path):
    with JoinedUnits(server.bootstrap, tmp_path, {"group": group, "topic": "orders"}) as joined:
        joined.form(server, NAMES)
        yield joined


def killed(units, folder, number, how):
    """Run until it is killed there."""
    killed_at(units, folder, number, how, plan_of(units, folder / "j.ndjson"))


def killed_at(units, folder, number, how, words):
    script = Path(__file__).with_name("killed.py")
    done = subprocess.run(
        [sys.executable, str(script), str(number), how, *words], capture_output=True,
        text=True, env=environment(folder, units.bootstrap) | {"PYTHONPATH": str(ROOT)}, timeout=120, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_a_rollout_writes_these_lines(units, tmp_path):
    ended = kgm(tmp_path, units.bootstrap, *plan_of(units, tmp_path / "j.ndjson"))
    assert ended.code == 0, str(ended)
    assert [line.kind for line in read_journal(tmp_path / "j.ndjson")] == LINES
    assert units.calls == [("restart", "a"), ("restart", "b")]


ALL_KILLS = list(itertools.product(range(1, len(LINES) + 1), ["before", "torn", "after"]))


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "how"), sized(ALL_KILLS[::14], ALL_KILLS))
def test_a_killed_rollout_is_resumed(units, tmp_path, number, how):
    journal = tmp_path / "j.ndjson"
    before, generation = units.member_ids(), units.generation()
    killed(units, tmp_path, number, how)
    written = number if how == "after" else number - 1
    resumed = kgm(tmp_path, units.bootstrap, "rollout", "--yes", "--resume", str(journal), "-o", "ndjson")
    if written == 0:
        assert (resumed.code, units.calls) == (2, [])
        assert "ends before its plan: nothing was done" in resumed.err
        return
    if written == len(LINES):
        assert resumed.code == 6
        assert "is over" in resumed.err
    else:
        assert resumed.code == 0, str(resumed)
        assert resumed.events[-1]["event"] == "done"
    lines = [line.kind for line in read_journal(journal)]
    assert lines[:written] == LINES[:written]
    assert lines[-1] == JournalKind.DONE
    # Each was restarted, and a second time only if kgm was killed before it knew how the command had ended.
    after = units.member_ids()
    assert all(after[name] != before[name] for name in NAMES)
    calls = [name for _, name in units.calls]
    step = 1 + (written - 1) // len(_STEP)
    unknown = NAMES[step - 1] if LINES[written - 1] in _OPEN else None
    for name in NAMES:
        assert calls.count(name) in ((1, 2) if name == unknown else (1,)), calls
    assert units.generation() == generation


def test_a_command_that_was_done_when_kgm_was_killed_is_not_run_again(units, tmp_path):
    """Its member has come back: the end of the command is not in the journal, but in the group."""
    killed(units, tmp_path, 1 + _STEP.index("command-end") + 1, "before")
    assert units.calls == [("restart", "a")]
    resumed = kgm(tmp_path, units.bootstrap, "rollout", "--yes", "--resume", str(tmp_path / "j.ndjson"), "-o", "ndjson")
    assert (resumed.code, units.calls) == (0, [("restart", "a"), ("restart", "b")])
