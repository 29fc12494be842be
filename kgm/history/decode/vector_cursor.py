"""Reads Kafka's encoding from many records together: a cursor is a vector of positions, one for each record.

Every read moves the positions; a record whose bytes are too short or invalid is marked in `bad` and reads as zeros from
then on. Nothing is ever read outside the buffer, and every length is checked against the bytes that are left."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
#: (records, positions, letters of the type, values) for one read.
Read = tuple[Positions, Positions, str, Positions]

_LETTERS = {"int8": ">i1", "int16": ">i2", "uint16": ">u2", "int32": ">i4", "uint32": ">u4", "int64": ">i8"}
#: The widest read. Positions that have failed read at 0, so the buffer must have at least this many bytes.
_LEAST_BYTES = 16
_MAX_UVARINT = 0xFFFFFFFF
_UVARINT_BYTES = 5


class Buffer:
    """The bytes that cursors move over."""

    def __init__(self, data: "npt.NDArray[np.uint8] | bytes") -> None:
        content = np.frombuffer(data, dtype=np.uint8) if isinstance(data, bytes) else data
        short = len(content) < _LEAST_BYTES
        self.bytes = np.append(content, np.zeros(_LEAST_BYTES, dtype=np.uint8)) if short else content
        self._views: dict[str, Any] = {}

    @classmethod
    def of(cls, array: pa.Array) -> tuple["Buffer", Positions, Positions]:
        """The bytes of a binary array, and where each value starts and ends; nulls are empty."""
        count = len(array)
        if count == 0:
            return cls(b""), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        _, offsets, data = array.buffers()
        kind = np.int64 if pa.types.is_large_binary(array.type) else np.int32
        at = np.frombuffer(offsets, dtype=kind)[array.offset : array.offset + count + 1].astype(np.int64)
        first, last = int(at[0]), int(at[-1])
        content = np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)[first:last]
        at -= first
        return cls(content), at[:-1], at[1:]

    def view(self, letters: str) -> Any:
        """All values of a fixed width, one starting at each byte that has enough bytes after it."""
        values = self._views.get(letters)
        if values is None:
            width = np.dtype(letters).itemsize
            values = np.ndarray(
                shape=(len(self.bytes) - width + 1,), dtype=letters, buffer=self.bytes.data, strides=(1,)
            )
            self._views[letters] = values
        return values


class Cursor:
    """Positions in a buffer, each with the end that it must not pass.

    row: the record of the outermost cursor to which each position belongs; bad: which of those records have failed,
    shared by all cursors made from it; reads: a log of the integer reads, or None if they are not logged, shared like
    `bad`."""

    __slots__ = ("at", "bad", "buffer", "end", "reads", "row")

    def __init__(self, buffer: Buffer, at: Positions, end: Positions, row: Positions, bad: Mask) -> None:
        self.buffer, self.at, self.end, self.row, self.bad = buffer, at, end, row, bad
        self.reads: list[Read] | None = None

    @classmethod
    def over(cls, buffer: Buffer, start: Positions, end: Positions) -> Self:
        count = len(start)
        return cls(buffer, start.copy(), end, np.arange(count), np.zeros(count, dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.at)

    def select(self, chosen: Any) -> "Cursor":
        """A separate cursor on some of the positions."""
        cursor = Cursor(self.buffer, self.at[chosen], self.end[chosen], self.row[chosen], self.bad)
        cursor.reads = self.reads
        return cursor

    def fail(self, failed: Mask) -> None:
        """Mark the records at these positions as bad, so that nothing more is read at the positions."""
        if failed.any():
            self.bad[self.row[failed]] = True
            self.end = np.where(failed, -1, self.end)
            self.at = np.where(failed, 0, self.at)

    def catch_up(self) -> None:
        """Apply failures from other cursors with the same `bad`."""
        if self.bad.any():
            self.fail(self.bad[self.row])

    def lockstep(self, counts: Positions, step: Callable[[Positions, int, "Cursor"], None]) -> None:
        """Call step(active, j, sub) for j = 0, 1, ...: `active` are the positions with more than j elements, and `sub`
        is a cursor on them, which the step must move."""
        active = np.nonzero(counts > 0)[0]
        sub = self.select(active)
        left = counts[active]
        place = 0
        while len(active):
            step(active, place, sub)
            place += 1
            # Positions that have failed have nothing more to read.
            done = (left <= place) | (sub.end < 0)
            if done.any():
                self.at[active[done]] = sub.at[done]
                more = ~done
                active, left, sub = active[more], left[more], sub.select(more)
        self.catch_up()

    def fixed(self, kind: str) -> Any:
        """One fixed-width integer at each position."""
        letters = _LETTERS[kind]
        width = int(letters[-1])
        self.fail(self.at + width > self.end)
        values = self.buffer.view(letters)[self.at].astype(letters.replace(">", "="))
        if self.reads is not None:
            self.reads.append((self.row, self.at, letters, values))
        self.at = self.at + width
        return values

    def skip(self, count: "Positions | int") -> None:
        """Skip a number of bytes, which is never negative."""
        self.fail(self.at + count > self.end)
        self.at = np.where(self.end < 0, 0, self.at + count)

    def uvarint(self) -> Positions:
        """One unsigned varint at each position, of at most five bytes (KIP-482)."""
        self.fail(self.at >= self.end)
        values: Positions = self.buffer.bytes[self.at].astype(np.int64)
        self.at = self.at + 1
        if len(values) == 0 or int(values.max()) < 128:
            return values
        open_ = np.nonzero(values > 127)[0]
        values[open_] &= 127
        return self._long_uvarint(values, open_)

    def _long_uvarint(self, values: Positions, open_: Positions) -> Positions:
        failed = np.zeros(len(values), dtype=np.bool_)
        for place in range(1, _UVARINT_BYTES):
            inside = self.at[open_] < self.end[open_]
            failed[open_[~inside]] = True
            open_ = open_[inside]
            byte = self.buffer.bytes[self.at[open_]].astype(np.int64)
            self.at[open_] += 1
            values[open_] |= (byte & 127) << (7 * place)
            open_ = open_[byte > 127]
        failed[open_] = True
        failed |= values > _MAX_UVARINT
        self.fail(failed)
        return np.where(failed, 0, values) if failed.any() else values

    def length(self, *, flexible: bool, wide: str, nullable: bool) -> Positions:
        """The length that precedes a string (wide: int16), bytes or an array (int32); -1 for null."""
        lengths: Positions = self.uvarint() - 1 if flexible else self.fixed(wide).astype(np.int64)
        failed = (lengths < -1) if nullable else (lengths < 0)
        if failed.any():
            self.fail(failed)
            lengths = np.where(failed, 0, lengths)
        return np.where(self.end < 0, 0, lengths) if self.bad.any() else lengths

    def spans(self, *, flexible: bool, wide: str, nullable: bool) -> tuple[Positions, Positions]:
        """(start, length) of each string or byte sequence; length -1 for null."""
        lengths = self.length(flexible=flexible, wide=wide, nullable=nullable)
        start = self.at
        self.skip(np.maximum(lengths, 0) if nullable else lengths)
        return start, lengths

    def cut(self, start: Positions, lengths: Positions) -> pa.Array:
        """The bytes of spans, which are in ascending order and do not overlap, as a binary array. If any record is bad,
        the values are empty: the caller has to start over without that record."""
        count = len(start)
        if count == 0 or self.bad.any():
            return pa.array([b""] * count, type=pa.binary())
        offsets = np.empty(2 * count + 1, dtype=np.int32)
        offsets[0:-1:2] = start
        offsets[1::2] = start + np.maximum(lengths, 0)
        offsets[-1] = offsets[-2]
        # Values and the gaps between them alternate over the same bytes; taking every second one is a copy in C++.
        both = pa.Array.from_buffers(
            pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(self.buffer.bytes)]
        )
        null = lengths < 0
        chosen = np.arange(0, 2 * count, 2)
        return both.take(pa.array(chosen, mask=null if null.any() else None))

    def uuids(self) -> pa.Array:
        """Sixteen bytes at each position."""
        self.fail(self.at + 16 > self.end)
        count = len(self)
        data = self.buffer.view("V16")[self.at].tobytes()
        self.at = np.where(self.end < 0, 0, self.at + 16)
        offsets = np.arange(0, 16 * count + 1, 16, dtype=np.int32)
        return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
