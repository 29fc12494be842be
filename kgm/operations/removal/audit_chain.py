"""The hash chain of the audit log: each line holds the SHA-256 of the line before, as `previous`.

A line that is changed, removed or inserted does not fit the next one any more. The chain does not show that the last
lines were removed, and whoever can write the file can compute it again: it shows accidents and careless edits. Compare
with a copy on another machine to prove more. Lines of versions of kgm that wrote no chain are accepted before the first
one with it."""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

KEY: Final = "previous"
_TAIL_BYTES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainBreak:
    """A line that does not follow the one before it. line: counts from 1."""

    path: pathlib.Path
    line: int


def digest(line: bytes) -> str:
    """The hash of a line, without its end."""
    return hashlib.sha256(line.rstrip(b"\n")).hexdigest()


def last_line(path: pathlib.Path) -> bytes | None:
    """The last line that is not empty, whole or torn; None if there is none. Raises OSError."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    with file:
        size, length = file.seek(0, 2), _TAIL_BYTES
        while True:
            file.seek(max(0, size - length))
            tail = file.read().rstrip(b"\n")
            if b"\n" in tail or length >= size:
                return tail.rpartition(b"\n")[2] or None
            length *= 4


class ChainCheck:
    """Follows the lines of a log from the oldest on, and collects the breaks."""

    def __init__(self) -> None:
        self.breaks: list[ChainBreak] = []
        self._last: bytes | None = None
        self._has_begun = False

    def follow(self, path: pathlib.Path, number: int, line: bytes, record: Mapping[str, Any] | None) -> None:
        """The next line; record: None if it is not a record."""
        if not line.strip(b"\n"):
            return
        if record is not None and KEY in record:
            if self._last is not None and record[KEY] != digest(self._last):
                self.breaks.append(ChainBreak(path=path, line=number))
            self._has_begun = True
        elif record is not None and self._has_begun:
            self.breaks.append(ChainBreak(path=path, line=number))
        self._last = line
