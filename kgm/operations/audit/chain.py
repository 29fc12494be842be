"""The hash chain of the audit log: each line holds the SHA-256 of the previous line, as `previous`, and its own number,
as `record`.

If a line is changed, removed or inserted, the next one no longer matches. The chain cannot show that the last lines, or
all of them, were removed; the head can (`head`). Anyone who can write both files can recompute both, so they reveal
only accidents and careless edits. To prove more, compare with a copy on another machine. Lines from versions of kgm
that wrote no chain, no numbers or no head are accepted, but only before the first line that has them."""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kgm.operations.audit.head import Head

KEY: Final = "previous"
NUMBER: Final = "record"
_TAIL_BYTES: Final = 4096
_MOST_GAPS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainBreak:
    """A line that does not follow the one before it. line: the line number, from 1."""

    path: pathlib.Path
    line: int


def digest(line: bytes) -> str:
    """The hash of a line, without its newline."""
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
    """Follows the lines of a log, oldest first, and collects what is wrong.

    head: None if there is no head, or none that can be read. If lines have numbers, the log was written with a head.

    After the last line, `first` is the number of the first line, `count` the number of the last line, and `last` its
    hash. found_head: whether the line that the head names was found; newer: the number of records after it; gaps: which
    records are missing between lines, in words. foreign_end: the last line, if it is whole but no record; kgm never
    writes such a line, and one that was cut off because kgm was killed has no newline."""

    def __init__(self, head: Head | None = None) -> None:
        self.breaks: list[ChainBreak] = []
        self.gaps: list[str] = []
        self.first = 1 if head is None else head.first
        self.count = self.first - 1
        self.last: str | None = None
        self.has_numbers = False
        self.found_head = head is not None and head.last is None
        self.newer = 0
        self.foreign_end: ChainBreak | None = None
        self._head = head
        self._has_chain = False
        self._count_at_head = self.count
        self._is_first = True
        self._is_numbered = False

    def follow(self, path: pathlib.Path, number: int, line: bytes, record: Mapping[str, Any] | None) -> None:
        """Check the next line of the log. number: its line number in the file; record: None if it is not a record."""
        if not line.strip(b"\n"):
            return
        if record is not None and KEY in record:
            if self.last is not None and record[KEY] != self.last:
                self.breaks.append(ChainBreak(path=path, line=number))
            self._has_chain = True
        elif record is not None and self._has_chain:
            self.breaks.append(ChainBreak(path=path, line=number))
        is_foreign = record is None and line.endswith(b"\n") and (self._has_chain or self._head is not None)
        self.foreign_end = ChainBreak(path=path, line=number) if is_foreign else None
        self._number(None if record is None else record.get(NUMBER))
        self._is_first = False
        self.last = digest(line)
        if self._head is not None and self.last == self._head.last:
            self.found_head, self.newer, self._count_at_head = True, 0, self.count
        elif self.found_head and record is not None:
            self.newer += 1

    def _number(self, number: object) -> None:
        expected = self.count + 1
        self.count = expected
        was_numbered, self._is_numbered = self._is_numbered, type(number) is int
        if type(number) is not int or not 0 < number < 2**63:
            return
        self.has_numbers = True
        # Without a head the oldest record can have any number. With one, a lower number is left over from a rotation.
        if self._is_first and (self._head is None or number < expected):
            self.first = number
        elif number > expected and len(self.gaps) < _MOST_GAPS:
            # Among lines without numbers, there is no telling which one is missing.
            is_known = self._is_first or was_numbered
            some = _missing(expected, number - 1)
            self.gaps.append(some if is_known else _missing_before(number, number - expected))
        self.count = number

    def problems(self) -> list[str]:
        """What is wrong besides `breaks`, in words."""
        head, end = self._head, self.foreign_end
        found = [] if end is None else [f"line {end.line} of {end.path}, the last one, is not a record"]
        if head is None:
            return [*found, "the head of the audit log is missing"] if self.has_numbers else found
        found += self.gaps
        if not self.found_head:
            found.append(
                _missing(self.count + 1, head.records)
                if self.count < head.records
                else f"the last line is not record {head.records} as it was written"
            )
        elif self._count_at_head < head.records and not self.gaps:
            found.append(f"{head.records - self._count_at_head} of {head.records} records are missing")
        return [*found, *head.damage]


def _missing(first: int, last: int) -> str:
    return f"record {first} is missing" if first == last else f"records {first} to {last} are missing"


def _missing_before(number: int, count: int) -> str:
    some = "one record" if count == 1 else f"{count} records"
    return f"{some} before record {number} {'is' if count == 1 else 'are'} missing"
