"""librdkafka members that start in milliseconds: their processes are forks of one that has imported everything
(`rd_member.py --fork`), which all workers of the run share."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from tests.kafka.process import Child
from tests.kafka.shared import shared


@dataclass
class Forker:
    """The process that forks. Its members write to its log."""

    path: Path
    log: Path
    child: Child | None
    folder: tempfile.TemporaryDirectory[str] | None

    def __getstate__(self) -> dict[str, Any]:
        """The state for the workers, which do not own the process."""
        return {**self.__dict__, "child": None, "folder": None}

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        if self.child is not None and self.folder is not None:
            self.child.kill()
            self.child.stdout.close()
            self.folder.cleanup()


def start_forker() -> Forker:
    folder = tempfile.TemporaryDirectory(prefix="kgm-members-")
    path, log = Path(folder.name) / "s", Path(folder.name) / "log"
    script = Path(__file__).with_name("rd_member.py")
    child = Child([sys.executable, "-P", str(script), "--fork", str(path)], log=log, pipe_stdout=True)
    if child.stdout.readline() != "ready\n":
        raise RuntimeError(f"no member can be forked:\n{child.log_tail()}")
    return Forker(path, log, child, folder)


@cache
def forker() -> Forker:
    """The forker of the run."""
    started: Forker = shared(start_forker)
    return started


class ForkedProcess:
    """A process that was forked; the connection is its standard input and output."""

    def __init__(self) -> None:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(forker().path))
        writer = connection.makefile("w", encoding="utf-8")
        writer.reconfigure(line_buffering=True)
        self.stdin: IO[str] = writer
        self.stdout: IO[str] = connection.makefile("r", encoding="utf-8")
        connection.close()  # the files keep it open
        word, _, pid = self.stdout.readline().partition(" ")
        assert word == "ready", self.log_tail()
        self.pid = int(pid)

    @property
    def running(self) -> bool:
        return Path(f"/proc/{self.pid}").exists()

    def wait(self, timeout_s: float) -> int:
        """Wait until the reader of its output sees its end."""
        with contextlib.suppress(OSError):
            self.stdin.close()
        return 0

    def kill(self) -> int:
        """SIGKILL: a crash."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self.stdin.close()
        return -signal.SIGKILL

    def log_tail(self) -> str:
        return forker().log_tail()
