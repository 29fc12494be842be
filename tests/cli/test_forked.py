"""The process that forks kgm for tests, when the run that started it is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.environment import bare

FOLDER = Path(__file__).parent


@pytest.mark.long
def test_forks_end_with_the_run_that_was_killed(tmp_path):
    """The system then closes what the run held open, the standard input of the forker among it."""
    path = str(tmp_path / "s")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, str(FOLDER / "fork_kgm.py"), path], **pipes) as forker:
        assert forker.stdout.readline() == "ready\n"
        serve = [sys.executable, "-SE", str(FOLDER / "be_kgm.py"), path, "serve", "--listen", "127.0.0.1:0"]
        with subprocess.Popen(serve, **pipes, stderr=subprocess.DEVNULL, env=bare()) as serving:
            assert "listening" in serving.stdout.readline()
            forker.stdin.close()
            assert forker.wait() == 0
            # Only the fork holds the other end of its output.
            assert serving.communicate(timeout=60) == ("", None)
