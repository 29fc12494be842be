"""Partitions of the offsets topic, and ranges of their offsets, wherever they are: the input of kgm's own readers."""

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
        """The part's records by `schema.RAW`, as a worker reads them. Raises KgmError."""

    def within(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records of a batch that are in the part."""
        offset = batch.column("offset")
        inside = pc.and_(pc.greater_equal(offset, self.start), pc.less(offset, self.end))
        return batch if pc.all(inside).as_py() else batch.filter(inside)


class Partitions:
    """The partitions that can be read."""

    @abstractmethod
    def bounds(self) -> Mapping[int, tuple[int, int]]:
        """(first offset, next offset) of each partition. Raises KgmError."""

    @abstractmethod
    def between(self, start: Mapping[int, int], end: Mapping[int, int]) -> Sequence[Part]:
        """The parts from start to end, by partition, without empty ones, the largest first: the last task to start is
        then a short one. Raises KgmError."""
