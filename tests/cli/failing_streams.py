"""Output streams that fail where the operating system would: at a write, or at the close of the descriptor."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """The `at`-th write fails (counted from 0), or the close if `at` is CLOSE; if it lasts, everything after it fails
    too."""

    at: int
    error: int
    lasts: bool = True


CLOSE = -1


class FailingFile(io.RawIOBase):
    """The raw file below Python's streams, in place of a descriptor.

    failed_with: the errors that writes and the close raised; first_failed_with: the error of the first write."""

    def __init__(self, failure: Failure | None) -> None:
        super().__init__()
        self.data = b""
        self.failed_with: set[int] = set()
        self.first_failed_with: int | None = None
        self.close_failed = False
        self._failure, self._writes, self._is_over = failure, 0, False

    @property
    def text(self) -> str:
        return self.data.decode()

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        number, failure = self._writes, self._failure
        self._writes += 1
        if (
            failure is not None
            and failure.at != CLOSE
            and (number == failure.at or (failure.lasts and number > failure.at))
        ):
            if number == 0:
                self.first_failed_with = failure.error
            self._fail(failure)
        if not self._is_over:
            self.data += bytes(data)
        return len(data)

    def close(self) -> None:
        is_open = not self.closed
        super().close()
        failure = self._failure
        if is_open and failure is not None and failure.at == CLOSE:
            self.close_failed = True
            self._fail(failure)

    def _fail(self, failure: Failure) -> None:
        self.failed_with.add(failure.error)
        raise OSError(failure.error, os.strerror(failure.error))

    def end(self) -> None:
        """From now on accept and discard everything: Python still writes when it collects the stream."""
        self._failure, self._is_over = None, True


@contextlib.contextmanager
def failing_streams(monkeypatch, out: Failure | None, err: Failure | None) -> Iterator[tuple[FailingFile, FailingFile]]:
    """Make stdout and stderr fail, as the interpreter opens them."""
    files = FailingFile(out), FailingFile(err)
    streams = [
        io.TextIOWrapper(io.BufferedWriter(file), encoding="utf-8", errors="backslashreplace", line_buffering=is_stderr)
        for file, is_stderr in zip(files, (False, True), strict=True)
    ]
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", streams[0])
        patch.setattr("sys.stderr", streams[1])
        yield files
    for file, stream in zip(files, streams, strict=True):
        file.end()
        with contextlib.suppress(OSError, ValueError):
            stream.close()
