"""One running command: its time limit, its output, its end.

A command runs in a session of its own, so that Ctrl-C ends kgm but not a restart halfway through. It reads its line of
input from an unnamed file and writes to another: neither a command that reads nothing nor one that leaves a daemon
behind can block kgm, and a command continues if kgm is killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

#: How much of the end of the output is kept.
OUTPUT_BYTES: Final = 4096
#: If the output file takes more disk space than this, everything before its end is freed.
_MOST_BYTES: Final = 1 << 20
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
#: The time from SIGTERM to SIGKILL for a command that has exceeded its time limit.
_GRACE_MS: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended. exit_code: negative for a signal; None if the command could not be started.

    output: the end of what the command wrote to stdout and stderr."""

    exit_code: int | None
    has_timed_out: bool = False
    output: str = ""
    took_ms: int = 0

    @property
    def is_success(self) -> bool:
        return self.exit_code == 0 and not self.has_timed_out

    @property
    def text(self) -> str:
        """How the command ended, in words that follow its name: `ended with exit code 1`."""
        if self.exit_code is None:
            return "could not be started"
        if self.has_timed_out:
            return "did not finish within its time limit, and was ended"
        if self.exit_code < 0:
            return f"was ended by {_signal_name(-self.exit_code)}"
        return f"ended with exit code {self.exit_code}"

    def to_json(self) -> dict[str, Any]:
        return {
            "exit_code": self.exit_code,
            "timed_out": self.has_timed_out,
            "output": self.output,
            "took_ms": self.took_ms,
        }


class RunningCommand:
    """A process that was started. `poll` ends it once it exceeds its time limit."""

    def __init__(self, process: subprocess.Popen[bytes], output: int, *, started_ms: int, timeout_ms: int) -> None:
        self._process, self._output = process, output
        self._started_ms, self._timeout_ms = started_ms, timeout_ms
        self._ended_by_kgm_at_ms: int | None = None

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

    def poll(self, now_ms: int) -> CommandResult | None:
        """The result once the command has ended, None before."""
        if self._process.poll() is None:
            self._keep_output_small()
            self._end_if_late(now_ms)
            return None
        tail = _tail_of(self._output)
        os.close(self._output)
        return CommandResult(
            exit_code=self._process.returncode,
            has_timed_out=self._ended_by_kgm_at_ms is not None,
            output=tail.decode("utf-8", "replace"),
            took_ms=now_ms - self._started_ms,
        )

    def _end_if_late(self, now_ms: int) -> None:
        """Send SIGTERM to the command's session, and SIGKILL if that does not help."""
        if now_ms - self._started_ms < self._timeout_ms:
            return
        if self._ended_by_kgm_at_ms is None:
            self._ended_by_kgm_at_ms = now_ms
            self._signal(signal.SIGTERM)
        elif now_ms - self._ended_by_kgm_at_ms >= _GRACE_MS:
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

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


def process_mark(pid: int) -> str | None:
    """What distinguishes a process from a later one with the same id: its start time. None if `/proc` does not have it,
    for example because the process has ended."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if not fields or fields[0] == "Z" else fields[19]
