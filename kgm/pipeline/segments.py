"""`kgm-segments`, a data source for Spark: copies of a broker's folders `__consumer_offsets-N`, read in place.

Each partition of the topic is one of Spark's, with its records in the order of their offsets, so what works group by
group needs no shuffle. Offsets of a stream are `{partition: next offset}`: they stay valid when the broker rolls or
compacts its segments between two reads. Only whole batches are read, so the tail of a file that is being written is
read when it is complete."""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kgm.history.decode.record_tables import decode_type
from kgm.history.folders import GZIPPED, Folder, Reading, folders, read_folder
from kgm.history.places.remote_path import Place, place
from kgm.history.schema import RAW, chosen_columns
from kgm.model.errors import UsageError
from kgm.records.segment import LOG, SWAP, BadBatch, FileTail, base_offset_of, batches

NAME = "kgm-segments"
#: The most records in one Arrow batch on its way through the JVM: group metadata may take 10 KB each.
_BATCH_RECORDS = 20_000
#: One partition's offsets from start to end (exclusive; null: to the end of what is there), in the folder `path`.
SLICES = pa.schema([
    pa.field("partition", pa.int32(), nullable=False), pa.field("path", pa.string(), nullable=False),
    pa.field("start", pa.int64(), nullable=False), pa.field("end", pa.int64()),
])  # fmt: skip


class SegmentsDataSource(DataSource):
    """Options: path: the directory. record: a record type (`kgm.records.record_types.TYPES`), whose records are decoded
    where they are read, by `schema.record_schema`; raw ones would go to the JVM and back for that. columns: of those,
    with commas between them; all by default. slices: "true" returns no records but, by `SLICES`, what there is to read,
    for `slices.write`. max_records: of a stream, how many offsets one batch spans, approximately."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(cast("dict[str, str]", options))
        path = options.get("path")
        if not path:
            raise UsageError(f"{NAME} needs a path")
        self._path = place(path)
        self._most = int(options.get("max_records") or 0)
        self._wanted = _Wanted.of(options)

    def schema(self) -> StructType:
        return from_arrow_schema(self._wanted.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        return _Reader(self._path, self._wanted)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's name)
        del schema
        return _StreamReader(self._path, self._wanted, self._most)


@dataclass
class _Slice(InputPartition):
    """Offsets of one partition, from start to end (exclusive; None: to the end of what is there)."""

    folder: Folder
    start: int = 0
    end: int | None = None


@dataclass(frozen=True)
class _Wanted:
    """What is read of a slice. kind: the record type, None for raw records."""

    kind: int | None
    schema: pa.Schema
    slices: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "_Wanted":
        if options.get("slices") == "true":
            return cls(None, SLICES, slices=True)
        if "record" not in options:
            return cls(None, RAW)
        kind, columns = options["record"], options.get("columns")
        if not kind.isdecimal():
            raise UsageError(f"{NAME}: {kind!r} is not a record type")
        return cls(int(kind), chosen_columns(int(kind), None if columns is None else columns.split(",")))

    def read(self, part: "_Slice") -> Iterator[pa.RecordBatch]:
        """The rows, in batches that are not too large for the JVM."""
        if self.slices:
            row = {
                "partition": part.folder.partition, "path": str(part.folder.path), "start": part.start, "end": part.end,
            }  # fmt: skip
            yield pa.RecordBatch.from_pylist([row], schema=SLICES)
            return
        for raw in _records(part):
            for batch in [raw] if self.kind is None else decode_type([raw], self.kind, self.schema.names):
                for at in range(0, len(batch), _BATCH_RECORDS):
                    yield batch.slice(at, _BATCH_RECORDS)


class _Reader(DataSourceReader):
    def __init__(self, path: Place, wanted: "_Wanted") -> None:
        self._path, self._wanted = path, wanted

    def partitions(self) -> Sequence[InputPartition]:
        return [_Slice(folder) for folder in by_size(folders(self._path))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Slice)
        return self._wanted.read(partition)


class _StreamReader(DataSourceStreamReader):
    def __init__(self, path: Place, wanted: "_Wanted", most: int) -> None:
        self._path, self._wanted = path, wanted
        self._most = most
        self._ends = Ends()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  (Spark's name)
        return {}

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        """Spark 4.0 and 4.1 pass no arguments, and have no limit; from 4.2 on it must be obeyed."""
        latest = {str(folder.partition): self._ends.of(folder) for folder in folders(self._path)}
        most = getattr(limit, "maxRows", None) or getattr(limit, "max_rows", None)
        if not most:
            return latest
        begun = start or {}
        waiting = [number for number, end in latest.items() if end > begun.get(number, 0)]
        share = max(1, most // max(1, len(waiting)))
        return {number: min(end, begun.get(number, 0) + share) for number, end in latest.items()}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802  (Spark's name, from 4.2 on)
        from pyspark.sql.streaming.datasource import (  # type: ignore[import-not-found,unused-ignore]
            ReadAllAvailable,
            ReadMaxRows,
        )

        return ReadMaxRows(self._most) if self._most else ReadAllAvailable()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [
            _Slice(folder, start.get(number, 0), end[number])
            for folder in by_size(folders(self._path))
            if (number := str(folder.partition)) in end and end[number] > start.get(number, 0)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Slice)
        return self._wanted.read(partition)


def by_size(partitions: Sequence[Folder]) -> list[Folder]:
    """Largest first: the last task to start is a short one."""
    return sorted(partitions, key=lambda folder: (-folder.size, folder.partition))


def slice_records(path: Place, start: int, end: int | None) -> Iterator[pa.RecordBatch]:
    """The records of a row of SLICES. Raises UsageError, NotFoundError."""
    (folder,) = folders(path)
    return _records(_Slice(folder, start, end))


def _records(part: _Slice) -> Iterator[pa.RecordBatch]:
    """The records of a slice. Raises UsageError for damage other than a torn tail."""
    reading = Reading()
    for batch in read_folder(_within(part), reading):
        offset = batch.column("offset")
        inside = pc.greater_equal(offset, part.start)
        if part.end is not None:
            inside = pc.and_(inside, pc.less(offset, part.end))
        yield batch if pc.all(inside).as_py() else batch.filter(inside)
    for damage in reading.damages:
        if not damage.torn:
            raise UsageError(f"{damage.path} is damaged at byte {damage.position}: {damage.reason}")


def _within(part: _Slice) -> Folder:
    """The folder with the segments that may hold something of the slice."""
    starts = [_base_offset(path) for path in part.folder.segments]
    ends = [*starts[1:], None]
    chosen = tuple(
        path
        for path, start, end in zip(part.folder.segments, starts, ends, strict=True)
        if (end is None or end > part.start) and (part.end is None or start < part.end)
    )
    return replace(part.folder, segments=chosen)


def _base_offset(path: Place) -> int:
    return base_offset_of(path.name.removesuffix(GZIPPED).removesuffix(SWAP), LOG) or 0


class Ends:
    """Where the whole batches of partitions end, to be asked again as their files grow."""

    def __init__(self) -> None:
        #: By the last segment: (its inode, position, next offset) as far as it was read.
        self._known: dict[Place, tuple[int, int, int]] = {}

    def of(self, folder: Folder) -> int:
        """The next offset of a partition."""
        path = folder.segments[-1]
        if path.name.endswith(GZIPPED):
            last = replace(folder, segments=(path,))
            ends = [batch.column("offset")[-1].as_py() + 1 for batch in read_folder(last, Reading())]
            return max(ends, default=_base_offset(path))
        stat = path.stat()
        inode, position, next_offset = self._known.get(path, (stat.st_ino, 0, _base_offset(path)))
        if inode != stat.st_ino or stat.st_size < position:
            position, next_offset = 0, _base_offset(path)
        with path.open("rb") as file:
            rest = FileTail(file, position)
            begun = position
            try:
                for at, batch in batches(rest, stat.st_size - begun, from_offset=next_offset):
                    position, next_offset = begun + at + len(batch.data), batch.last_offset + 1
            except BadBatch:
                pass  # not complete yet, or damaged, which reading it will report
        self._known = {**self._known, path: (stat.st_ino, position, next_offset)}
        return next_offset
