"""Reads Parquet files in batches that fit into memory, whatever they hold.

A small file can hold any number of records, and any number of bytes: repeated values are stored once. So the pages to
be read are inspected before they are decoded (`parquet_pages`), and strings that could become long stay in dictionaries
until their length is known."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgm.history.places.parquet import opened_parquet
from kgm.history.places.parquet_pages import Chunk, bounds, chunk_of
from kgm.history.places.remote_path import Place, RemotePath, check_is_file

if TYPE_CHECKING:
    from typing import BinaryIO

#: The most rows in a batch, and the most bytes to which a part of one is decoded at a time, unless it is a single row.
_BATCH_ROWS: Final = 1 << 16
_PART_BYTES: Final = 32 << 20
#: A list value takes this many bytes while it is decoded, with its levels.
_LISTED: Final = 24
#: Bytes between two columns are read with them if there are no more than this.
_GAP_BYTES: Final = 64 << 10


class ReadingLimit(Protocol):
    """How much may be made of files; raises RefusedError for more (`kgm.history.expansion`)."""

    def opened(self, path: Place, /) -> None: ...
    def decode(self, path: Place, size_bytes: int, /) -> None: ...
    def expect(self, path: Place, size_bytes: int, /) -> None: ...


#: Whether a row group can have wanted rows.
May = Callable[[pq.FileMetaData, int], bool]
#: Removes unwanted rows from a batch as it is read, with strings in dictionaries.
Choice = Callable[[pa.RecordBatch], pa.RecordBatch]


def batches(
    path: Place, columns: Callable[[pa.Schema], Sequence[str]], bound: ReadingLimit, *,
    may_be_in: May = lambda *_: True, chosen: Choice = lambda batch: batch, most_rows: int = _BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """The chosen rows of a file with these columns, in parts of about 32 MiB. Raises the errors of `check_is_file`."""
    bound.opened(path)
    with ExitStack() as stack:
        if isinstance(path, RemotePath):
            whole = stack.enter_context(path.open())
        else:
            check_is_file(path)
            whole = stack.enter_context(pa.OSFile(str(path)))
        with opened_parquet(whole) as opened:
            metadata, schema = opened.metadata, opened.schema_arrow
        names = columns(schema)
        groups = [number for number in range(metadata.num_row_groups) if may_be_in(metadata, number)]
        places = _places(metadata, names)
        file = _fetched(whole, path, metadata, groups, places) if isinstance(path, RemotePath) else whole
        kept, shared = _check_pages(file, path, metadata, groups, places, bound)
        rows = max(1, min(most_rows, _PART_BYTES // shared if shared else most_rows))
        plain = pa.schema([schema.field(name) for name in names])
        with pq.ParquetFile(file, metadata=metadata, read_dictionary=kept) as opened:
            for batch in opened.iter_batches(rows, groups, list(names)):
                for part in _parts(chosen(batch.select(list(names)))):
                    size = sum(map(_decoded, part.columns))
                    if size > _PART_BYTES:
                        bound.expect(path, size)
                    yield part.cast(plain) if kept else part


def _places(metadata: pq.FileMetaData, names: Sequence[str]) -> list[int]:
    """The indexes, in the file's schema, of the leaves of these columns."""
    return [at for at in range(metadata.num_columns) if metadata.schema.column(at).path.partition(".")[0] in names]


def _check_pages(
    file: BinaryIO,
    path: Place,
    metadata: pq.FileMetaData,
    groups: Sequence[int],
    places: Sequence[int],
    bound: ReadingLimit,
) -> tuple[list[str], int]:
    """(columns whose strings stay in dictionaries, the most bytes of pages whose values share prefixes)"""
    kept, most_shared = [], 0
    for at in places:
        leaf = metadata.schema.column(at)
        is_listed = leaf.max_repetition_level > 0
        of_groups = [chunk_of(file, metadata.row_group(number).column(at)) for number in groups]
        for chunk in of_groups:
            bound.decode(path, chunk.size + chunk.values * (_LISTED if is_listed else 1))
            if is_listed and chunk.shared:
                bound.expect(path, chunk.values * chunk.shared)
            most_shared = max(most_shared, chunk.shared)
        if any(_may_be_long(chunk) for chunk in of_groups):
            kept.append(leaf.path)
    return kept, most_shared


def _may_be_long(chunk: Chunk) -> bool:
    return chunk.values * chunk.dictionary > _PART_BYTES


def _fetched(
    file: BinaryIO, path: Place, metadata: pq.FileMetaData, groups: Sequence[int], places: Sequence[int]
) -> BinaryIO:
    """The file, with the parts to be read in memory: a request for each page would take too long."""
    size = path.stat().st_size
    found = pa.BufferReader(pa.py_buffer(b""))
    if not size:
        return found  # type: ignore[no-any-return]
    # The mapping's untouched parts take no memory.
    memory = mmap.mmap(-1, size)
    parts = sorted(bounds(metadata.row_group(number).column(at)) for number in groups for at in places)
    start = end = 0
    for first, last in [*parts, (size, size)]:
        if not 0 <= first <= last <= size:
            raise pa.ArrowInvalid("a column is outside of the file")
        if first - end > _GAP_BYTES or first == size:
            file.seek(start)
            memory[start:end] = file.read(end - start)
            start = first
        end = max(end, last)
    return pa.BufferReader(pa.py_buffer(memory))  # type: ignore[no-any-return]


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch, halved until each part is small enough to be decoded."""
    if len(batch) > 1 and sum(map(_decoded, batch.columns)) > _PART_BYTES:
        half = len(batch) // 2
        yield from _parts(batch.slice(0, half))
        yield from _parts(batch.slice(half))
    elif len(batch):
        yield batch


def _decoded(column: Any) -> int:
    """The size in bytes of a column once nothing in it is dictionary-encoded."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        if not (pa.types.is_string(kind.value_type) or pa.types.is_binary(kind.value_type)):
            return len(column) * 16 + int(column.nbytes)
        lengths = pc.binary_length(column.dictionary).take(column.indices)
        return 4 * len(column) + (pc.sum(lengths).as_py() or 0)
    if pa.types.is_struct(kind):
        return int(sum(map(_decoded, column.flatten())))
    if pa.types.is_map(kind):
        return 4 * len(column) + _decoded(column.keys) + _decoded(column.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return 4 * len(column) + _decoded(column.flatten())
    return int(column.nbytes)
