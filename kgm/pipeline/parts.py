"""Partitions of the offsets topic, and offsets of them, wherever they are: what kgm's own readers read."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc


class Part:
    """Offsets of one partition, from start to end (exclusive). number: of the partition; path: where it is, empty for
    the live topic."""

    number: int
    path: str
    start: int
    end: int

    @abstractmethod
    def records(self) -> Iterator[pa.RecordBatch]:
        """Its records by `schema.RAW`, as a worker reads them. Raises KgmError."""

    def within(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records of a batch that are in the part."""
        offset = batch.column("offset")
        inside = pc.and_(pc.greater_equal(offset, self.start), pc.less(offset, self.end))
        return batch if pc.all(inside).as_py() else batch.filter(inside)


class Partitions:
    """What there is to read."""

    @abstractmethod
    def bounds(self) -> Mapping[int, tuple[int, int]]:
        """(first offset, next offset) of each partition. Raises KgmError."""

    @abstractmethod
    def between(self, start: Mapping[int, int], end: Mapping[int, int]) -> Sequence[Part]:
        """The offsets from start to end, by partition, where there is something, the largest first: the last task to
        start is a short one. Raises KgmError."""
