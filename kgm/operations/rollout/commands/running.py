"""One running command: its time limit, its output, its end.

A command runs in a session of its own, so that Ctrl-C ends kgm but not a restart halfway through. It reads its line of
input from an unnamed file and writes to another: neither a command that reads nothing nor one that leaves a daemon
behind can block kgm, and a command continues if kgm is killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from kgm.operations.rollout.commands.processes import all_processes, descendants, of_session

#: How much of the end of the output is kept.
OUTPUT_BYTES: Final = 4096
#: If the output file takes more disk space than this, everything before its end is freed.
_MOST_BYTES: Final = 1 << 20
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
#: The time from SIGTERM to SIGKILL for a command that has exceeded its time limit, and from SIGKILL to giving up.
_GRACE_MS: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended. exit_code: negative for a signal; None if the command could not be started, or not be ended.

    output: the end of what the command wrote to stdout and stderr. remaining: the processes of a command that exceeded
    its time limit that may still run, by id, with their marks (`processes.Process`): they have moved to another
    session, or cannot be ended."""

    exit_code: int | None
    has_timed_out: bool = False
    output: str = ""
    took_ms: int = 0
    remaining: Mapping[int, str | None] = field(default_factory=dict)

    @property
    def is_success(self) -> bool:
        return self.exit_code == 0 and not self.has_timed_out

    @property
    def text(self) -> str:
        """How the command ended, in words that follow its name: `ended with exit code 1`."""
        if self.has_timed_out and self.remaining:
            pids = ", ".join(map(str, sorted(self.remaining)))
            return f"did not finish within its time limit, and processes of it may still run: {pids}"
        if self.has_timed_out:
            return "did not finish within its time limit, and was ended"
        if self.exit_code is None:
            return "could not be started"
        if self.exit_code < 0:
            return f"was ended by {_signal_name(-self.exit_code)}"
        return f"ended with exit code {self.exit_code}"

    def to_json(self) -> dict[str, Any]:
        return {
            "exit_code": self.exit_code,
            "timed_out": self.has_timed_out,
            "output": self.output,
            "took_ms": self.took_ms,
            "remaining_pids": sorted(self.remaining),
        }


class RunningCommand:
    """A process that was started. `poll` ends it once it exceeds its time limit."""

    def __init__(self, process: subprocess.Popen[bytes], output: int, *, started_ms: int, timeout_ms: int) -> None:
        self._process, self._output = process, output
        self._started_ms, self._timeout_ms = started_ms, timeout_ms
        self._overdue_since_ms: int | None = None
        #: By id, with their marks: what was seen of the command since, and what of that is in another session.
        self._seen: dict[int, str | None] = {}
        self._moved: dict[int, str | None] = {}

    @classmethod
    def start(
        cls, argv: Sequence[str], *, env: Mapping[str, str], line: bytes, now_ms: int, timeout_ms: int
    ) -> Self | CommandResult:
        """The running command, or a result if it cannot be started."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as written:
            given.write(line)
            given.seek(0)
            output = os.dup(written.fileno())
            fcntl.fcntl(output, fcntl.F_SETFL, fcntl.fcntl(output, fcntl.F_GETFL) | os.O_APPEND)
            try:
                process = subprocess.Popen(  # noqa: S603  (this is what the operator asks for)
                    argv, env=dict(env), stdin=given, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
                )
            except (OSError, ValueError) as error:
                os.close(output)
                why = error.strerror if isinstance(error, OSError) else None
                return CommandResult(exit_code=None, output=f"{argv[0]}: {why or error}")
        return cls(process, output, started_ms=now_ms, timeout_ms=timeout_ms)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_overdue(self) -> bool:
        """Whether the command has exceeded its time limit and is being ended."""
        return self._overdue_since_ms is not None

    def hasten(self) -> None:
        """Leave a command that is being ended no more time to end by itself."""
        if self._overdue_since_ms is not None:
            self._overdue_since_ms -= _GRACE_MS

    def poll(self, now_ms: int) -> CommandResult | None:
        """The result once the command has ended, None before. One that exceeds its time limit has ended when nothing of
        its session runs any more; what it leaves behind when it ends by itself is left alone."""
        has_ended = self._process.poll() is not None
        if self._overdue_since_ms is None and has_ended:
            return self._result(now_ms)
        self._keep_output_small()
        if self._overdue_since_ms is None:
            if now_ms - self._started_ms < self._timeout_ms:
                return None
            self._overdue_since_ms = now_ms
            self._signal(signal.SIGTERM, self._look())
            return None
        late_ms, alive = now_ms - self._overdue_since_ms, self._look()
        if (has_ended and not alive) or late_ms >= 2 * _GRACE_MS:
            return self._result(now_ms, remaining={**alive, **self._moved})
        if late_ms >= _GRACE_MS:
            self._signal(signal.SIGKILL, alive)
        return None

    def _result(self, now_ms: int, remaining: Mapping[int, str | None] | None = None) -> CommandResult:
        tail = _tail_of(self._output)
        os.close(self._output)
        return CommandResult(
            exit_code=self._process.returncode, has_timed_out=self.is_overdue,
            output=tail.decode("utf-8", "replace"), took_ms=now_ms - self._started_ms, remaining=remaining or {},
        )  # fmt: skip

    def _look(self) -> dict[int, str | None]:
        """The processes of the command's session. Also notes those that it has started, but that have moved to another
        session: they get no signal, as it may be what the command was to start."""
        processes = all_processes()
        leader = processes.get(self.pid)
        started = descendants({**self._seen, **({} if leader is None else {self.pid: leader.mark})}, processes)
        alive = of_session(self.pid, processes)
        self._seen = {**started, **alive}
        self._moved = {pid: mark for pid, mark in started.items() if pid not in alive}
        return alive

    def _signal(self, number: int, alive: Iterable[int]) -> None:
        """Send a signal to the command's process group and, as some programs make groups of their own, to everything
        else in its session. A process of another user gets none: see `CommandResult.remaining`."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getpgid(pid) != self.pid:
                    os.kill(pid, number)

    def _keep_output_small(self) -> None:
        status = os.fstat(self._output)
        if status.st_blocks * 512 > _MOST_BYTES:
            _give_back(self._output, status.st_size - OUTPUT_BYTES)


def _tail_of(file: int) -> bytes:
    size = os.fstat(file).st_size
    return os.pread(file, OUTPUT_BYTES, max(0, size - OUTPUT_BYTES))


def _give_back(file: int, size: int) -> None:
    """Free the disk space of the first `size` bytes of a file. Truncating it would lose what is written in the
    meantime. A file system that does not support holes keeps the bytes."""
    import ctypes

    fallocate = getattr(ctypes.CDLL(None), "fallocate", None)
    if fallocate is not None:
        fallocate(file, _KEEP_SIZE | _PUNCH_HOLE, ctypes.c_int64(0), ctypes.c_int64(size))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
