"""What kgm's own data sources for Spark have in common: partitions of the offsets topic whose records are read, and
decoded, by Spark's Python workers.

Each partition of the topic is one of Spark's, with its records in the order of their offsets, so what works group by
group needs no shuffle. Offsets of a stream are `{partition: next offset}`."""

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from kgm.history.decode.record_tables import decode_type
from kgm.history.schema import RAW, chosen_columns
from kgm.model import errors
from kgm.model.errors import KgmError, UsageError

#: The most records in one Arrow batch on its way through the JVM: group metadata may take 10 KB each.
_BATCH_RECORDS = 20_000
#: One partition's offsets from start to end (exclusive; null: to the end of what is there); path: where it is, empty
#: for the live topic.
SLICES = pa.schema([
    pa.field("partition", pa.int32(), nullable=False), pa.field("path", pa.string(), nullable=False),
    pa.field("start", pa.int64(), nullable=False), pa.field("end", pa.int64()),
])  # fmt: skip


class Part(InputPartition):
    """Offsets of one partition, from start to end (exclusive; None: to the end of what is there). number: of the
    partition; path: as in SLICES."""

    number: int
    path: str
    start: int
    end: int | None

    @abstractmethod
    def records(self) -> Iterator[pa.RecordBatch]:
        """Its records by `schema.RAW`, as a worker reads them. Raises KgmError."""

    def within(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records of a batch that are in the part."""
        offset = batch.column("offset")
        inside = pc.greater_equal(offset, self.start)
        if self.end is not None:
            inside = pc.and_(inside, pc.less(offset, self.end))
        return batch if pc.all(inside).as_py() else batch.filter(inside)


class Partitions:
    """What there is to read; data sources have one, which goes to the workers with their reader."""

    @abstractmethod
    def all(self) -> Sequence[Part]:
        """Everything that is there now, the largest first: the last task to start is a short one. Raises KgmError."""

    @abstractmethod
    def bounds(self) -> Mapping[int, tuple[int, int]]:
        """(first offset, next offset) of each partition. Raises KgmError."""

    @abstractmethod
    def between(self, start: Mapping[int, int], end: Mapping[int, int]) -> Sequence[Part]:
        """The offsets from start to end, by partition, where there is something, the largest first. Raises KgmError."""


@dataclass(frozen=True)
class Wanted:
    """What is read of a part. kind: the record type, None for raw records. slices: not the records, but what there is
    to read, by `SLICES`."""

    kind: int | None
    schema: pa.Schema
    slices: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str], name: str) -> "Wanted":
        """By the options of a data source with this name: record: a record type (`kgm.records.record_types.TYPES`),
        whose records are decoded where they are read, by `schema.record_schema`; raw ones would go to the JVM and back
        for that. columns: of those, with commas between them; all by default. slices: "true"."""
        if options.get("slices") == "true":
            return cls(None, SLICES, slices=True)
        if "record" not in options:
            return cls(None, RAW)
        kind, columns = options["record"], options.get("columns")
        if not kind.isdecimal():
            raise UsageError(f"{name}: {kind!r} is not a record type")
        return cls(int(kind), chosen_columns(int(kind), None if columns is None else columns.split(",")))

    def rows(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of a part. None: of nothing, which Spark has read, too, where there is no part."""
        if partition is None:
            return iter(())
        assert isinstance(partition, Part)
        return self.read(partition)

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows, in batches that are not too large for the JVM."""
        if self.slices:
            row = {"partition": part.number, "path": part.path, "start": part.start, "end": part.end}
            yield pa.RecordBatch.from_pylist([row], schema=SLICES)
            return
        for raw in part.records():
            for batch in [raw] if self.kind is None else decode_type([raw], self.kind, self.schema.names):
                for at in range(0, len(batch), _BATCH_RECORDS):
                    yield batch.slice(at, _BATCH_RECORDS)


class Reader(DataSourceReader):
    """Everything that is there now."""

    def __init__(self, partitions: Partitions, wanted: Wanted) -> None:
        self._partitions, self._wanted = partitions, wanted

    def partitions(self) -> Sequence[InputPartition]:
        return self._partitions.all()

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return self._wanted.rows(partition)


class StreamReader(DataSourceStreamReader):
    """What is there, and what comes. most: of one batch, how many offsets it spans, approximately; 0 for all."""

    def __init__(self, partitions: Partitions, wanted: Wanted, most: int) -> None:
        self._partitions, self._wanted, self._most = partitions, wanted, most

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  (Spark's name)
        return {}

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        """Spark 4.0 and 4.1 pass no arguments, and have no limit; from 4.2 on it must be obeyed."""
        bounds = self._partitions.bounds()
        latest = {str(number): end for number, (_, end) in bounds.items()}
        most = getattr(limit, "maxRows", None) or getattr(limit, "max_rows", None)
        if not most:
            return latest
        begun = {str(number): (start or {}).get(str(number), first) for number, (first, _) in bounds.items()}
        waiting = [number for number, end in latest.items() if end > begun[number]]
        share = max(1, most // max(1, len(waiting)))
        return {number: min(end, begun[number] + share) for number, end in latest.items()}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802  (Spark's name, from 4.2 on)
        from pyspark.sql.streaming.datasource import (  # type: ignore[import-not-found,unused-ignore]
            ReadAllAvailable,
            ReadMaxRows,
        )

        return ReadMaxRows(self._most) if self._most else ReadAllAvailable()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        begun, until = ({int(number): offset for number, offset in each.items()} for each in (start, end))
        return self._partitions.between(begun, until)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return self._wanted.rows(partition)


def raised_by_worker(error: BaseException) -> KgmError | None:
    """The KgmError of a worker or of a data source, which Spark has made into text; None if there is none."""
    found = re.search(r"kgm\.model\.errors\.(\w+): (.*)", str(error))
    kind = None if found is None else getattr(errors, found[1], None)
    if found is None or not (isinstance(kind, type) and issubclass(kind, KgmError)):
        return None
    return kind(found[2].strip())
