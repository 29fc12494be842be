"""One segment file: `00000000000000000042.log`, a sequence of batches, named after the lowest offset it can contain.

A file can end in three ways: with a batch (good); in the middle of what was being written when the process or the
machine failed (a torn tail: no complete batch follows); or with wrong bytes before its end (damage)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO

from kgm.model.errors import DecodeError, KgmError
from kgm.records.batch import (
    BEHIND_LENGTH,
    HEADER,
    LENGTH,
    LENGTH_AT,
    MAGIC,
    MAGIC_AT,
    MAX_OFFSET,
    Batch,
    ImpossibleBatchError,
    parse_batch,
)

LOG = ".log"
#: Written by a compaction that has not finished; worthless.
CLEANED = ".cleaned"
#: The file of a finished compaction that has not replaced the old ones yet. (Both are Kafka's names.)
SWAP = ".swap"
#: Files that Kafka keeps next to a segment, and creates again if they are missing.
INDEXES = (".index", ".timeindex", ".txnindex", ".snapshot")
_NAME_DIGITS = 20
_WINDOW = 1 << 20
_LONGEST_TAIL = 128 << 20
_PLAUSIBLE_OFFSETS = 1 << 40
#: How many bytes of a segment one entry of its index covers (Kafka: index.interval.bytes).
_BLOCK_BYTES = 4096


class CorruptLogError(KgmError):
    """There are wrong bytes in the middle of a log. Nothing was cut off."""

    code = "CORRUPT_LOG"


class BadBatch(DecodeError):  # noqa: N818  (it never leaves the package)
    """There is no valid batch at a position in a segment. whole: there is a complete one with a right checksum, but its
    offsets, or other fields of its header, are wrong."""

    def __init__(self, position: int, reason: str, *, whole: bool = False) -> None:
        super().__init__(reason)
        self.position = position
        self.whole = whole


@dataclass(slots=True)
class Block:
    """A few consecutive batches: offset and position of the first one, and the latest timestamp of a record in them."""

    base_offset: int
    position: int
    max_timestamp: int


@dataclass(slots=True)
class Segment:
    """One segment of an open log, for the offsets from base_offset to next_offset - 1. size: in bytes. blocks: its
    index."""

    base_offset: int
    path: Path
    size: int
    next_offset: int
    blocks: list[Block] = field(default_factory=list)

    def add(self, batch: Batch) -> None:
        """Add a batch that is in the file, after those already added."""
        blocks = self.blocks
        if blocks and self.size - blocks[-1].position < _BLOCK_BYTES:
            blocks[-1].max_timestamp = max(blocks[-1].max_timestamp, batch.max_timestamp)
        else:
            blocks.append(Block(batch.base_offset, self.size, batch.max_timestamp))
        self.size += len(batch.data)
        self.next_offset = batch.base_offset + batch.last_offset_delta + 1


def file_name(base_offset: int, suffix: str = LOG) -> str:
    return f"{base_offset:0{_NAME_DIGITS}d}{suffix}"


def base_offset_of(name: str, suffix: str = LOG) -> int | None:
    """The offset in a segment's file name; None if it is not a segment."""
    stem = name.removesuffix(suffix)
    whole = len(stem) == _NAME_DIGITS and stem.isascii() and stem.isdigit()
    return int(stem) if whole and name.endswith(suffix) and int(stem) <= MAX_OFFSET else None


def unreadable(segment: Segment, batch: Batch, error: DecodeError) -> CorruptLogError:
    """The error for a batch that has a valid checksum but cannot be decoded."""
    return CorruptLogError(f"{segment.path}: the batch at offset {batch.base_offset} is not readable: {error.message}")


class FileTail:
    """The rest of a file from a position on, as if it were a file."""

    def __init__(self, file: BinaryIO, position: int) -> None:
        self._file, self._position = file, position

    def seek(self, position: int) -> None:
        self._file.seek(self._position + position)

    def read(self, size: int) -> bytes:
        return self._file.read(size)


def batches(file: BinaryIO | FileTail, size: int, *, from_offset: int = 0) -> Iterator[tuple[int, Batch]]:
    """(position, batch) of each batch in the first `size` bytes of a file. Their offsets ascend, from at least
    `from_offset` on. Raises BadBatch.

    Memory: a window of 1 MiB, or the largest batch."""
    window, at, position = b"", 0, 0
    next_offset = from_offset
    file.seek(0)
    while position < size:
        have = len(window) - at
        needed = HEADER.size if have < HEADER.size else BEHIND_LENGTH + LENGTH.unpack_from(window, at + LENGTH_AT)[0]
        if have < needed <= size - position:
            more = max(needed, min(_WINDOW, size - position)) - have
            window, at = window[at:] + file.read(more), 0
            if needed == HEADER.size:
                continue
        try:
            batch = parse_batch(window, at)
        except DecodeError as error:
            raise BadBatch(position, error.message, whole=isinstance(error, ImpossibleBatchError)) from error
        base_offset = batch.base_offset
        if base_offset < next_offset:
            reason = f"a batch at offset {base_offset}, but the next offset is {next_offset}"
            raise BadBatch(position, reason, whole=True)
        next_offset = base_offset + batch.last_offset_delta + 1
        yield position, batch
        length = len(batch.data)
        at += length
        position += length


class Ending(Enum):
    """How a segment ends that does not end with a batch."""

    #: With what was being written when the writer failed or the copy was taken; only the last segment can.
    TORN = auto()
    #: With wrong bytes: records are lost.
    DAMAGED = auto()
    #: The file does not begin as a segment does; it may be some other file.
    NO_SEGMENT = auto()


def ending(file: BinaryIO, bad: BadBatch, size: int, *, base_offset: int, next_offset: int, is_last: bool) -> Ending:
    """How a segment of `size` bytes ends at its first bad batch. base_offset: the one in its name; next_offset: that of
    the next batch; is_last: whether no segment of the partition follows."""
    if not _is_torn_tail(file, bad, size, next_offset):
        return Ending.DAMAGED
    if bad.position == 0 and not _is_start_of_batch(file, base_offset):
        return Ending.NO_SEGMENT
    return Ending.TORN if is_last else Ending.DAMAGED


def _is_torn_tail(file: BinaryIO, bad: BadBatch, size: int, next_offset: int) -> bool:
    """Whether no complete batch follows a bad one: then it is what was being written when the writer failed.

    Looks for a batch at every byte: if the length of the bad one is wrong, it is unknown where the next one starts. A
    tail that is longer than any batch is not a torn one."""
    if bad.whole or size - bad.position > _LONGEST_TAIL:
        return False
    file.seek(bad.position)
    data = file.read(size - bad.position)
    at = data.find(MAGIC, MAGIC_AT + 1)
    while at != -1:
        start = at - MAGIC_AT
        offset = int.from_bytes(data[start : start + LENGTH_AT], "big")
        if abs(offset - next_offset) < _PLAUSIBLE_OFFSETS:  # avoids most checksums
            try:
                parse_batch(data, start)
                return False
            except ImpossibleBatchError:
                return False
            except DecodeError:
                pass
        at = data.find(MAGIC, at + 1)
    return True


def _is_start_of_batch(file: BinaryIO, base_offset: int) -> bool:
    """Whether a file without a complete batch is the beginning of one, as far as it goes: if so, a crash left it
    behind. Zeros, which some file systems leave after a power failure, count too. Anything else may be some other kind
    of file."""
    file.seek(0)
    start = file.read(MAGIC_AT + 1)
    offset = base_offset.to_bytes(LENGTH_AT, "big")
    if start[:LENGTH_AT] == offset[: len(start)] and start[MAGIC_AT:] in (b"", bytes([MAGIC])):
        return True
    file.seek(0)
    return all(not piece.strip(b"\0") for piece in iter(lambda: file.read(_WINDOW), b""))
