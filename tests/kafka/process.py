"""Child processes that never outlive the tests.

Each child gets a process group of its own and a pipe as its standard input. It is ended by its
own id: by `kill`, at the latest when Python exits. If Python itself is killed, the pipe closes, and every child
(`Leash.java`, `rd_member.py` and the drivers) then stops.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

_alive: dict[int, Child] = {}


class Child:
    """A process in its own group, text pipes at stdin and (unless logged) stdout."""

    def __init__(self, command: Sequence[str], *, log: Path, pipe_stdout: bool = False) -> None:
        self.log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if pipe_stdout else file,
                stderr=file,
                start_new_session=True,
                text=True,
                encoding="utf-8",
                bufsize=1,
            )
        _alive[self.pid] = self

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdin(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self, timeout_s: float) -> int:
        """Wait for the process to end on its own; returns its exit code, negative for a signal."""
        code = self._process.wait(timeout_s)
        self._forget()
        return code

    def terminate(self, timeout_s: float = 60) -> int:
        """SIGTERM: a clean stop. Falls back on SIGKILL after the timeout."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        try:
            return self.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """SIGKILL to the whole process group: a crash."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        code = self._process.wait()
        self._forget()
        return code

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _forget(self) -> None:
        """Drop the ended child. A reader thread owns stdout and closes it at its end."""
        _alive.pop(self.pid, None)
        with contextlib.suppress(OSError):
            self.stdin.close()


@atexit.register
def kill_all() -> None:
    """Kill what is still running (registered with atexit)."""
    for child in list(_alive.values()):
        child.kill()
