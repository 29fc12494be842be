"""librdkafka members that start in milliseconds: their processes are forks of one that has imported everything.

`ForkedMembers` is used as `RdMembers` is, where there are many groups at once."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from pathlib import Path
from typing import IO, Any

from tests.kafka.members import Options, RdMember, RdMembers
from tests.kafka.process import Child


class ForkedProcess:
    """A process that `rd_member.py --fork` has forked; the connection is its standard input and output."""

    def __init__(self, path: Path, parent: Child) -> None:
        self._parent = parent
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(path))
        writer = connection.makefile("w", encoding="utf-8")
        writer.reconfigure(line_buffering=True)
        self.stdin: IO[str] = writer
        self.stdout: IO[str] = connection.makefile("r", encoding="utf-8")
        connection.close()  # the files keep it open
        word, _, pid = self.stdout.readline().partition(" ")
        assert word == "ready", parent.log_tail()
        self.pid = int(pid)

    def wait(self, timeout_s: float) -> int:
        """The reader of its output sees its end."""
        return 0

    def kill(self) -> int:
        """SIGKILL: a crash."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self.stdin.close()
        return -signal.SIGKILL

    def log_tail(self) -> str:
        return self._parent.log_tail()


class ForkedMember(RdMember):
    """A librdkafka consumer that can be stopped for a while."""

    def suspend(self) -> None:
        """SIGSTOP: the process does nothing, and does not know it."""
        os.kill(self.pid, signal.SIGSTOP)

    def _read(self) -> None:
        # A process that is killed before it has read all commands resets the connection.
        with contextlib.suppress(ConnectionResetError):
            super()._read()

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


class ForkedMembers(RdMembers):
    """librdkafka members of one cluster."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        path = self.folder / "fork"
        script = Path(__file__).with_name("rd_member.py")
        command = [sys.executable, "-P", str(script), "--fork", str(path)]
        self._parent = Child(command, log=self.folder / "forked.log", pipe_stdout=True)
        assert self._parent.stdout.readline() == "ready\n", self._parent.log_tail()
        self._path = path

    def start(self, **options: Any) -> ForkedMember:
        """Start a member; the keywords are those of `Options`. Returns at once."""
        process = ForkedProcess(self._path, self._parent)
        name = f"rd-{next(self._serial)}"
        member = ForkedMember(name, Options(**options), self.bootstrap, self.folder, process=process)
        self.members.append(member)
        return member

    def stop(self) -> None:
        super().stop()
        self._parent.kill()
        self._parent.stdout.close()
