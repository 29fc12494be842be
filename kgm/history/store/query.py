"""Which rows of the history's tables are wanted, reading no more of Parquet files than may hold them.

Start-up time matters here: an answer takes less time than importing pandas, which `pyarrow.dataset` does, and so do
`pa.scalar` and `pa.array` when they see their first value. So files are read with `ParquetFile`, their own statistics
decide which row groups can be skipped, and the few values to compare with are built from bytes."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgm.history.expansion import RowExpansion
from kgm.history.places.parquet import damage_as_usage_error, each_file
from kgm.history.places.parquet_batches import batches
from kgm.history.places.remote_path import Place

_GROUP = "group_id"
Table = TypeVar("Table", pa.Table, pa.RecordBatch)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """The wanted rows. group_ids: None for every group. Times in ms since 1970: since is inclusive, until is exclusive;
    an interval counts if any part of it is within these, an event if it is."""

    group_ids: tuple[str, ...] | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns that the filter looks at, in a table that has columns with these names."""
        starts, ends = _times(names)
        given = ((_GROUP, self.group_ids), (ends, self.since_ms), (starts, self.until_ms))
        return tuple(dict.fromkeys(name for name, value in given if value is not None and name in names))

    def of(self, table: Table) -> Table:
        """The wanted rows of a table, or of a part of one, that has those columns."""
        names = table.column_names
        chosen: pa.ChunkedArray | None = None
        starts, ends = _times(names)
        if self.group_ids is not None and _GROUP in names:
            chosen = pc.is_in(table.column(_GROUP), value_set=_strings(self.group_ids))
        if self.since_ms is not None and ends in names:
            column = table.column(ends)
            chosen = _both(chosen, pc.or_kleene(pc.is_null(column), pc.greater_equal(column, _int64(self.since_ms))))
        if self.until_ms is not None and starts in names:
            chosen = _both(chosen, pc.less(table.column(starts), _int64(self.until_ms)))
        return table if chosen is None else table.filter(chosen)

    def may_be_in(self, metadata: pq.FileMetaData, row_group: int) -> bool:
        """Whether a row group can hold any such row, according to its statistics."""
        group = metadata.row_group(row_group)
        names = metadata.schema.names
        starts, ends = _times(names)
        for place in range(group.num_columns):
            column = group.column(place)
            name = column.path_in_schema
            if name not in (_GROUP, starts, ends):
                continue
            seen = column.statistics
            if seen is None or not seen.has_min_max:
                continue
            if name == _GROUP:
                if self.group_ids is not None and not any(seen.min <= each <= seen.max for each in self.group_ids):
                    return False
                continue
            is_later = name == starts and self.until_ms is not None and seen.min >= self.until_ms
            is_over = name == ends and self.since_ms is not None and not seen.null_count and seen.max < self.since_ms
            if is_later or is_over:
                return False
        return True


def _times(names: Sequence[str]) -> tuple[str, str]:
    """The columns with the start and the end of what a row is about."""
    return ("from_timestamp", "to_timestamp") if "from_timestamp" in names else ("timestamp", "timestamp")


def _both(one: pa.ChunkedArray | None, other: pa.ChunkedArray) -> pa.ChunkedArray:
    return other if one is None else pc.and_kleene(one, other)


def _strings(values: Sequence[str]) -> pa.StringArray:
    encoded = [value.encode("utf-8", "surrogatepass") for value in values]
    ends = [0]
    for each in encoded:
        ends.append(ends[-1] + len(each))
    return pa.StringArray.from_buffers(
        len(encoded), pa.py_buffer(struct.pack(f"<{len(ends)}i", *ends)), pa.py_buffer(b"".join(encoded))
    )


def _int64(value: int) -> pa.Int64Scalar:
    return pa.Int64Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(struct.pack("<q", value))])[0]


def read_files(files: Sequence[Place], wanted: RowFilter, columns: pa.Schema, expansion: RowExpansion) -> pa.Table:
    """The wanted rows of Parquet files, with these columns; a column that a file does not have is null. Raises
    UsageError for a damaged file, RefusedError for more than such files may hold."""
    of_each = each_file(files, lambda file: list(_of_file(file, wanted, columns, expansion)))
    parts = [part for parts in of_each for part in parts]
    return pa.Table.from_batches(parts, schema=columns) if parts else _empty(columns)


def _of_file(file: Place, wanted: RowFilter, columns: pa.Schema, expansion: RowExpansion) -> Iterator[pa.RecordBatch]:
    def needed(there: pa.Schema) -> list[str]:
        return sorted({*columns.names, *wanted.columns(there.names)} & set(there.names))

    with damage_as_usage_error(file):
        for rows in batches(file, needed, expansion, may_be_in=wanted.may_be_in, chosen=wanted.of):
            there = set(rows.schema.names)
            arrays = [
                rows.column(field.name).cast(field.type) if field.name in there else pa.nulls(len(rows), field.type)
                for field in columns
            ]
            part = pa.RecordBatch.from_arrays(arrays, schema=columns)
            expansion.keep(file, part)
            yield part


def _empty(columns: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays([pa.nulls(0, field.type) for field in columns], schema=columns)
