"""What consumers read from a log on disk: batches by offset, offsets by time. Kafka: LogSegment.

A segment's index leads to a block in it, whose batch headers are read one by one. All methods raise OSError, and
DecodeError if something else has changed the files."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from kgm.model.errors import DecodeError
from kgm.records.batch import BEHIND_LENGTH, HEADER, Batch, extent, parse_batch
from kgm.records.files import open_to_read
from kgm.records.segment import Block, Segment
from kgm.records.transactions import LogTransactions

_LAST_OFFSET_DELTA, _MAX_TIMESTAMP = 6, 8
#: (index of the segment, position in it)
_Place = tuple[int, int]


class LogReader:
    """An open log as consumers see it. segments, transactions: the log's own objects, which change as it does."""

    def __init__(self, segments: Sequence[Segment], transactions: LogTransactions) -> None:
        self._segments = segments
        self.transactions = transactions

    @property
    def start_offset(self) -> int:
        return self._segments[0].base_offset

    @property
    def end_offset(self) -> int:
        return self._segments[-1].next_offset

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def stable_offset(self) -> int:
        return self.transactions.stable_offset(self.end_offset)

    @property
    def first_epoch(self) -> int | None:
        """The leader epoch of the first batch; None if there is none."""
        first = ((segment, segment.blocks[0]) for segment in self._segments if segment.blocks)
        return next((self._at(*place).leader_epoch for place in first), None)

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool, below: int | None = None) -> bytes:
        """Whole batches of one segment, of at most `max_bytes`, starting with the first one that ends at `offset` or
        later, up to the first one that begins at `below` or later. at_least_one: the first batch is returned whatever
        its size."""
        index, position = self._place(offset)
        limit = self._end(below)
        if (index, position) >= limit:
            return b""
        segment = self._segments[index]
        end = limit[1] if limit[0] == index else segment.size
        with open_to_read(segment.path) as file:
            if at_least_one:
                max_bytes = max(max_bytes, _header_at(file, position)[1] + BEHIND_LENGTH)
            file.seek(position)
            data = file.read(min(max_bytes, end - position))
        return data[: extent(data)[0]]

    def readable(self, offset: int, max_bytes: int, *, below: int | None = None) -> int:
        """The number of bytes from `offset` on that are below the offset `below`, at most `max_bytes`."""
        start, end = self._place(offset), self._end(below)
        if start >= end:
            return 0
        size = sum(segment.size for segment in self._segments[start[0] : end[0]]) - start[1] + end[1]
        return min(size, max_bytes)

    def batch_at(self, timestamp: int) -> Batch | None:
        """The first batch with a record at or after a time in ms."""
        for segment in self._segments:
            for block in segment.blocks:
                if block.max_timestamp >= timestamp:
                    return self._at(segment, block, timestamp)
        return None

    def latest_batch(self) -> Batch | None:
        """The first batch with the latest record."""
        times = [block.max_timestamp for segment in self._segments for block in segment.blocks]
        return self.batch_at(max(times)) if times else None

    # -- inside

    def _at(self, segment: Segment, block: Block, timestamp: int | None = None) -> Batch:
        """The first batch of a block, or the first one from there on with a record at or after a time."""
        with open_to_read(segment.path) as file:
            for position, header in _headers(file, block.position, segment.size):
                if timestamp is None or header[_MAX_TIMESTAMP] >= timestamp:
                    file.seek(position)
                    return parse_batch(file.read(header[1] + BEHIND_LENGTH))
        raise DecodeError(f"{segment.path} has changed since the log was opened")

    def _end(self, below: int | None) -> _Place:
        return self._place(self.end_offset if below is None else below)

    def _place(self, offset: int) -> _Place:
        """Where the first batch that ends at an offset or later is; the end of the log if there is none."""
        segments = self._segments
        index = bisect_right(segments, offset, key=lambda segment: segment.next_offset)
        for at in range(index, len(segments)):
            segment = segments[at]
            block = bisect_right(segment.blocks, offset, key=lambda block: block.base_offset) - 1
            if not segment.blocks:
                continue
            with open_to_read(segment.path) as file:
                for position, header in _headers(file, segment.blocks[max(block, 0)].position, segment.size):
                    if header[0] + header[_LAST_OFFSET_DELTA] >= offset:
                        return at, position
        return len(segments) - 1, segments[-1].size


def _headers(file: BinaryIO, position: int, end: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(position, header) of each batch from a position on."""
    while position < end:
        header = _header_at(file, position)
        yield position, header
        position += header[1] + BEHIND_LENGTH


def _header_at(file: BinaryIO, position: int) -> tuple[int, ...]:
    file.seek(position)
    data = file.read(HEADER.size)
    if len(data) < HEADER.size:
        raise DecodeError(f"{len(data)} bytes are not a header of a batch")
    header: tuple[int, ...] = HEADER.unpack(data)
    if header[1] < HEADER.size - BEHIND_LENGTH:
        raise DecodeError(f"a batch has a length of {header[1]} bytes")
    return header
