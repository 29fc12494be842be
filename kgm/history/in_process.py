"""A source that is small enough, read and derived in this process: no Spark, nothing written."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kgm.history.causes.session_timeouts import SessionLookup, no_session
from kgm.history.derive import derive
from kgm.history.folders import TOPIC, Reading, folders, raw_table
from kgm.history.places.parquet import dataset, failures_of
from kgm.history.places.remote_path import Place, RemotePath, check_is_directory
from kgm.history.schema import RAW
from kgm.history.store.commit_log import each_once
from kgm.history.store.sink_files import counted_files
from kgm.history.store.tables import HistoryOrigin, TablesInMemory
from kgm.model.errors import RefusedError, UsageError
from kgm.records.record_types import SHARE_GROUP_TYPES, STREAMS_GROUP_TYPES

_LEAST_COLUMNS = ("partition", "offset", "key", "value")


def derive_source(kind: str, path: Place, *, most_bytes: int, sessions: SessionLookup | None = None) -> TablesInMemory:
    """Every table, from segments, or from Parquet or Delta files of raw records. kind: "segments", "parquet" or
    "delta"; sessions: as for `derive`. Raises NotFoundError, UsageError; RefusedError if there are more bytes to
    read."""
    reading = Reading()
    raw = read_source(kind, path, most_bytes=most_bytes, reading=reading)
    origin = HistoryOrigin(
        source=f"{kind}:{path}", last_ms=pc.max(raw.column("timestamp")).as_py(), damages=tuple(reading.damages)
    )
    return TablesInMemory(tables=derive(raw, session_of_group=sessions or no_session).tables, origin=origin)


def derive_records(records: Iterable[tuple[int, bytes, bytes | None]]) -> TablesInMemory:
    """Every table of one partition with these records: (time in ms since 1970, key, value), in order."""
    rows = [
        {"partition": 0, "offset": offset, "timestamp": timestamp, "key": key, "value": value, "leader_epoch": 0}
        for offset, (timestamp, key, value) in enumerate(records)
    ]
    return TablesInMemory(tables=derive(pa.Table.from_pylist(rows, schema=RAW)).tables, origin=HistoryOrigin())


def read_partitions(kind: str, path: Place, *, reading: Reading) -> Iterator[pa.Table]:
    """The raw records of one partition after the other, however many there are in all."""
    with failures_of(path), _damage_as_usage_error(path):
        yield from _partitions(kind, path, reading)


def foreign_type_of(kind: str, path: Place, group_id: str) -> str | None:
    """`share` or `streams` if raw records are those of such a group, which no table has; None otherwise. Raises
    NotFoundError, UsageError."""
    for raw in read_partitions(kind, path, reading=Reading()):
        keys = raw.column("key")
        for name, types in (("share", SHARE_GROUP_TYPES), ("streams", STREAMS_GROUP_TYPES)):
            # Every key begins with its type and the group (GroupMetadataKey and its like: STRING, not compact).
            starts = [struct.pack(">hh", one, len(group_id.encode())) + group_id.encode() for one in types]
            if any(pc.any(pc.starts_with(keys, pattern=start)).as_py() for start in starts):
                return name
    return None


def _partitions(kind: str, path: Place, reading: Reading) -> Iterator[pa.Table]:
    if kind == "segments":
        for folder in folders(path):
            yield raw_table((folder,), reading)
        return
    files = _files_of(path)
    if "partition" not in dataset(files).schema.names:
        raw_of_files(files, path)  # says what is missing
    numbers = dataset(files).to_table(columns=["partition"]).column("partition")
    if numbers.null_count:
        raise _without(path, "partition")
    for number in sorted(pc.unique(numbers).to_pylist()):
        yield raw_of_files(files, path, partition=number)


def read_source(kind: str, path: Place, *, most_bytes: int, reading: Reading) -> pa.Table:
    """The raw records, by partition and offset."""
    with failures_of(path), _damage_as_usage_error(path):
        return _whole(kind, path, most_bytes, reading)


@contextmanager
def _damage_as_usage_error(path: Place) -> Iterator[None]:
    """For files that are not Parquet, are damaged, or have columns of other types."""
    try:
        yield
    except pa.ArrowException as error:
        raise UsageError(
            f"{path} does not hold raw records that can be read",
            facts=(str(error).splitlines()[0] if str(error) else type(error).__name__,),
            hint="a built store has them in bronze/raw; --store DIR asks the store itself",
        ) from error


def _whole(kind: str, path: Place, most_bytes: int, reading: Reading) -> pa.Table:
    if kind == "segments":
        source = folders(path)
        _refuse_much(sum(folder.size for folder in source), most_bytes, kind, path)
        return raw_table(source, reading, most_bytes=most_bytes)
    files = _files_of(path)
    _refuse_much(sum(file.stat().st_size for file in files), most_bytes, kind, path)
    return raw_of_files(files, path)


def _files_of(path: Place) -> Sequence[Place]:
    check_is_directory(path)
    files = counted_files(path)
    if not files:
        raise UsageError(f"directory {path} holds no Parquet files")
    return files


def _refuse_much(size: int, most_bytes: int, kind: str, path: Place) -> None:
    if size > most_bytes:
        raise RefusedError(
            f"{path} holds {size / (1 << 20):,.0f} MiB; one process reads at most {most_bytes >> 20:,} MiB",
            hint=f"build it once, on Spark: kgm history build --source {kind}:{path} --out DIR; then use --store DIR",
        )


def raw_of_files(files: Sequence[Place], directory: Place, *, partition: int | None = None) -> pa.Table:
    """What a dump has of `schema.RAW`, and null for the rest. `timestamp` may be a time or milliseconds. Records of
    other topics are left out if there is a column `topic`."""
    opened = dataset(files)
    names = set(opened.schema.names)
    missing = [name for name in _LEAST_COLUMNS if name not in names]
    if missing:
        raise UsageError(
            f"the files in {directory} have no column {', '.join(missing)}",
            facts=(f"columns: {', '.join(opened.schema.names)}",),
            hint="needed: partition, offset, timestamp, key, value, as Spark's Kafka source names them",
        )
    only = ds.field("topic") == TOPIC if "topic" in names else None
    if partition is not None:
        mine = ds.field("partition") == partition
        only = mine if only is None else only & mine
    table = opened.to_table(columns=[name for name in RAW.names if name in names], filter=only)
    columns = [_column(table, field) for field in RAW]
    without = [
        field.name for field, column in zip(RAW, columns, strict=True) if not field.nullable and column.null_count
    ]
    if without:
        raise _without(directory, *without)
    rows = pa.Table.from_arrays(columns, schema=RAW).sort_by([("partition", "ascending"), ("offset", "ascending")])
    return each_once(rows) if isinstance(directory, RemotePath) else rows


def _without(directory: Place, *names: str) -> UsageError:
    return UsageError(f"the files in {directory} have records without {' and '.join(names)}")


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name not in table.column_names:
        return pa.nulls(len(table), field.type)
    column = table.column(field.name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    return column.cast(field.type)
