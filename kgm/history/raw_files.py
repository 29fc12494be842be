"""Parquet files of raw records: dumps, captured records, Delta tables.

They are read in batches (`parquet_batches`), and the memory that they would take is compared with the size of the
files, as for segments (`expansion`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.expansion import RecordExpansion
from kgm.history.folders import MOST_PARTITION, TOPIC
from kgm.history.places.parquet import each_file, parquet_file
from kgm.history.places.parquet_batches import batches
from kgm.history.places.remote_path import Place
from kgm.history.schema import RAW
from kgm.history.store.commit_log import each_once
from kgm.model.errors import UsageError
from kgm.records.batch import MAX_OFFSET

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_LEAST_COLUMNS: Final = ("partition", "offset", "key", "value")
_BYTES: Final = ("key", "value")
_PARTITION: Final = "partition"
_TOPIC: Final = "topic"
#: The most records in a batch.
_BATCH_RECORDS: Final = 20_000


def raw_of_files(
    files: Sequence[Place], directory: Place, *, partition: int | None = None, most_bytes: int | None = None,
    once: bool = True,
) -> pa.Table:  # fmt: skip
    """A dump's records by `schema.RAW`, by partition and offset, with nulls for missing columns. `timestamp` can be a
    time or milliseconds. Records of other topics are left out if there is a column `topic`. once: whether to drop
    records that have the place of another one.

    Raises UsageError, and RefusedError for more than files of their size may hold, or for more than `most_bytes` of
    keys and values."""
    _require_columns(files[0], directory)
    expansion = _expansion(files, directory, most_bytes)
    found = []
    for batch in _batches(files, (*RAW.names, _TOPIC), expansion, partition):
        columns = [_column(batch, field) for field in RAW]
        without = [
            field.name for field, column in zip(RAW, columns, strict=True) if not field.nullable and column.null_count
        ]
        if without:
            raise without_values(directory, *without)
        _check_places(columns[0], columns[1], directory)
        raw = pa.RecordBatch.from_arrays(columns, schema=RAW)
        expansion.count(raw)
        found.append(raw)
    rows = pa.Table.from_batches(found, RAW).sort_by([("partition", "ascending"), ("offset", "ascending")])
    return each_once(rows) if once else rows


def partition_numbers(files: Sequence[Place], directory: Place) -> list[int]:
    """The partitions of a dump. Raises UsageError, RefusedError."""
    _require_columns(files[0], directory)
    expansion = _expansion(files, directory, None)
    found: set[int] = set()
    for batch in _batches(files, (_PARTITION,), expansion):
        column = batch.column(_PARTITION)
        if column.null_count:
            raise without_values(directory, _PARTITION)
        _check_places(column, None, directory)
        found.update(pc.unique(column).to_pylist())
    return sorted(found)


def _require_columns(file: Place, directory: Place) -> None:
    with parquet_file(file) as opened:
        names = opened.schema_arrow.names
    missing = [name for name in _LEAST_COLUMNS if name not in names]
    if missing:
        raise UsageError(
            f"the files in {directory} have no column {', '.join(missing)}",
            facts=(f"columns: {', '.join(names)}",),
            hint="needed: partition, offset, timestamp, key, value, as Spark's Kafka source names them",
        )


def without_values(directory: Place, *names: str) -> UsageError:
    return UsageError(f"the files in {directory} have records without {' and '.join(names)}")


def _check_places(partition: pa.Array, offset: pa.Array | None, directory: Place) -> None:
    """Raises UsageError for places that no log has: its next record needs an offset too."""
    for name, column, most in ((_PARTITION, partition, MOST_PARTITION), ("offset", offset, MAX_OFFSET - 1)):
        found = None if column is None else pc.min_max(column).as_py()
        if found is None or found["min"] is None:
            continue
        wrong = next((number for number in found.values() if not 0 <= number <= most), None)
        if wrong is not None:
            raise UsageError(f"the files in {directory} have a record with {name} {wrong}, which no log can have")


def first_conflict(rows: pa.Table) -> int | None:
    """The first offset that two records of a partition have that are not the same; None if there is none. rows: by
    offset."""
    offset = rows.column("offset").to_numpy()
    again = np.nonzero(offset[1:] == offset[:-1])[0]
    before, after = rows.take(pa.array(again)), rows.take(pa.array(again + 1))
    differs = np.zeros(len(again), dtype=np.bool_)
    for name in _BYTES:
        one, other = before.column(name), after.column(name)
        by_null = pc.xor(pc.is_null(one), pc.is_null(other))
        differs |= pc.coalesce(pc.not_equal(one, other), by_null).to_numpy()
    return int(offset[again[int(np.argmax(differs))]]) if differs.any() else None


def _expansion(files: Sequence[Place], directory: Place, most_bytes: int | None) -> RecordExpansion:
    """The expansion of these files. Raises RefusedError for more than they may hold, before any record is read."""
    expansion = RecordExpansion(directory, most_bytes)
    for file in files:
        expansion.grow_by(file)
    shapes = each_file(files, _shape)
    expansion.expect_records(sum(rows for rows, _ in shapes), sum(size for _, size in shapes))
    return expansion


def _shape(file: Place) -> tuple[int, int]:
    """(number of records, bytes of their keys and values as encoded), according to the file's footer."""
    with parquet_file(file) as opened:
        metadata = opened.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        columns = [group.column(place) for group in groups for place in range(group.num_columns)]
        values = [column.total_uncompressed_size for column in columns if column.path_in_schema in _BYTES]
        return metadata.num_rows, sum(values)


def _batches(
    files: Sequence[Place], columns: Sequence[str], expansion: RecordExpansion, partition: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Records of the topic, of one partition or of all, with those of these columns that exist, in parts."""

    def chosen(batch: pa.RecordBatch) -> pa.RecordBatch:
        return _of_partition(_of_topic(batch), partition)

    for file in files:
        yield from batches(
            file, lambda schema: [name for name in columns if name in schema.names], expansion,
            may_be_in=lambda metadata, number: _may_have(metadata, number, partition), chosen=chosen,
            most_rows=_BATCH_RECORDS,
        )  # fmt: skip


def _may_have(metadata: pq.FileMetaData, row_group: int, partition: int | None) -> bool:
    """Whether a row group can have records of a partition, according to its statistics."""
    group = metadata.row_group(row_group)
    for place in range(group.num_columns):
        column = group.column(place)
        seen = column.statistics if column.path_in_schema == _PARTITION else None
        if partition is not None and seen is not None and seen.has_min_max:
            return bool(seen.min <= partition <= seen.max)
    return True


def _of_topic(batch: pa.RecordBatch) -> pa.RecordBatch:
    if _TOPIC not in batch.schema.names:
        return batch
    return batch.filter(pc.equal(batch.column(_TOPIC).cast(pa.string()), pa.scalar(TOPIC)))


def _of_partition(batch: pa.RecordBatch, partition: int | None) -> pa.RecordBatch:
    return batch if partition is None else batch.filter(pc.equal(batch.column(_PARTITION), pa.scalar(partition)))


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.nulls(len(batch), field.type)
    column: Any = batch.column(field.name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    return column.cast(field.type)
