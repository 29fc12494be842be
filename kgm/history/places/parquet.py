"""Opens Parquet files wherever they are and reads them as tables, several at a time where each takes a round trip."""

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from kgm.history.places.drafts import UNFINISHED
from kgm.history.places.file_systems import opened, store_errors
from kgm.history.places.remote_path import (
    FULL_ERRNOS,
    Place,
    RemotePath,
    at_once,
    check_is_file,
    write_errors,
)
from kgm.history.places.thrift_compact import fields
from kgm.model.errors import KgmError, UsageError

Result = TypeVar("Result")
_MAGIC: Final = b"PAR1"
_AROUND: Final = 12
_FIRST_READ: Final = 64 << 10
#: Fields of FileMetaData, RowGroup, ColumnChunk, ColumnMetaData and Statistics in parquet.thrift.
_ROW_GROUPS, _COLUMNS, _META_DATA, _TYPE, _STATISTICS, _SIZES = 4, 1, 3, 1, 12, 16
_ENCRYPTED: Final = {8, 9}
_EXTREMES: Final = (1, 2, 5, 6)
_FIXED: Final = "FIXED_LEN_BYTE_ARRAY"
#: The types of columns, and how many bytes a value has; None if that varies.
_TYPES: Final = dict(enumerate((
    ("BOOLEAN", 1), ("INT32", 4), ("INT64", 8), ("INT96", 12), ("FLOAT", 4), ("DOUBLE", 8), ("BYTE_ARRAY", None),
    (_FIXED, None),
)))  # fmt: skip
_IMPOSSIBLE_NAME: Final = (errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL)
#: The compression of every file of a store.
CODEC = "zstd"


@contextmanager
def parquet_file(path: Place, **options: Any) -> Iterator[pq.ParquetFile]:
    """A file with a checked footer (`opened_parquet`). Raises the errors of `check_is_file`."""
    if isinstance(path, RemotePath):
        with path.open() as file:
            yield opened_parquet(file, pre_buffer=True, **options)
        return
    check_is_file(path)
    with pa.OSFile(str(path)) as file:
        yield opened_parquet(file, **options)


def opened_parquet(file: BinaryIO, **options: Any) -> pq.ParquetFile:
    """A Parquet file with a checked footer. Raises ArrowInvalid for a file that is not Parquet, and for a footer that
    would abort the whole process when its columns are read: pyarrow does not catch what C++'s `ColumnChunkMetaData`
    throws."""
    footer = _footer(file)
    try:
        groups = fields(footer, 0)[0].get(_ROW_GROUPS, [])
    except IndexError:
        raise pa.ArrowInvalid("the footer cannot be read") from None
    whole = _MAGIC + footer + len(footer).to_bytes(4, "little") + _MAGIC
    metadata = pq.read_metadata(pa.BufferReader(whole))
    leaves = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    try:
        for group in groups:
            for column, leaf in zip(group[_COLUMNS], leaves, strict=True):
                _check_column(column, leaf)
    except (TypeError, KeyError, ValueError, AttributeError):
        raise pa.ArrowInvalid("a row group does not match the schema") from None
    return pq.ParquetFile(file, metadata=metadata, **options)


def _footer(file: BinaryIO) -> bytes:
    size = file.seek(0, 2)
    tail = _read(file, max(0, size - _FIRST_READ), size)
    if tail[-len(_MAGIC) :] != _MAGIC or len(tail) < _AROUND:
        raise pa.ArrowInvalid("it does not end as a Parquet file does")
    length = int.from_bytes(tail[-8:-4], "little")
    if length > size - _AROUND:
        raise pa.ArrowInvalid("its footer is longer than the file")
    start = size - 8 - length
    return tail[-8 - length : -8] if length <= len(tail) - 8 else _read(file, start, size - 8)


def _read(file: BinaryIO, start: int, end: int) -> bytes:
    file.seek(start)
    return file.read(end - start)


def _check_column(column: dict[int, Any], leaf: pq.ColumnSchema) -> None:
    """Raises one of several errors, or ArrowInvalid, for an invalid column."""
    found = column[_META_DATA]
    kind, size = _TYPES[found[_TYPE]]
    if not _ENCRYPTED.isdisjoint(column) or kind != leaf.physical_type:
        raise pa.ArrowInvalid("a column has another type than in the schema, or is encrypted")
    sizes = found.get(_SIZES, {})
    if 1 in sizes and kind != "BYTE_ARRAY":
        raise pa.ArrowInvalid("a column of numbers has a text size")
    for levels, most in ((sizes.get(2), leaf.max_repetition_level), (sizes.get(3), leaf.max_definition_level)):
        if levels and len(levels) != most + 1:
            raise pa.ArrowInvalid("a column has other levels than in the schema")
    statistics = found.get(_STATISTICS, {})
    for value in map(statistics.get, _EXTREMES):
        if value is not None and len(value) != (leaf.length if kind == _FIXED else size or len(value)):
            raise pa.ArrowInvalid("a column has statistics of another type")


def read_table(path: Place, **options: Any) -> pa.Table:
    """Same as `pyarrow.parquet.read_table`."""
    if isinstance(path, RemotePath):
        with path.open() as file:
            return pq.read_table(file, **options)
    return pq.read_table(path, **options)


def write_table(table: pa.Table, path: Place) -> None:
    """Write a file."""
    with writing(path, table.schema) as writer:
        writer.write_table(table)


@contextmanager
def writing(path: Place, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """A writer for a file that counts only once something else names it: after a failure, what it left does not count.
    In a directory the file is hidden until complete, from readers that do not check what counts."""
    if not isinstance(path, RemotePath):
        made = path.with_name(f".{path.name}{UNFINISHED}")
        try:
            with write_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                opened_writer = pq.ParquetWriter(made, schema, compression=CODEC)
            # What is written may be read meanwhile, which fails with other errors.
            with write_errors(path, FULL_ERRNOS), opened_writer as writer:
                yield writer
            with write_errors(path):
                made.replace(path)
        except BaseException:
            with suppress(OSError):
                made.unlink()
            raise
        return

    system, base = opened(path.root)
    with (
        store_errors(path),
        system.open_output_stream(f"{base}/{path.key}") as stream,
        pq.ParquetWriter(stream, schema, compression=CODEC) as writer,
    ):
        yield writer


def each_file(files: Sequence[Place], function: Callable[[Place], Result]) -> list[Result]:
    """The results of calling a function with each file, in order."""
    if len(files) < 2 or not isinstance(files[0], RemotePath):
        return list(map(function, files))
    return at_once(function, files)


@contextmanager
def damage_as_usage_error(path: Place, said: str = "cannot be read", hint: str | None = None) -> Iterator[None]:
    """UsageError for files that are not Parquet, are damaged, or have columns of other types."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Errors from the system or the store, as opposed to the file's content, or the name that a log gives it.
        is_of_system = isinstance(error, OSError) and error.errno not in (None, *_IMPOSSIBLE_NAME)
        if is_of_system or (isinstance(error, OSError) and isinstance(path, RemotePath)):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{path} {said}", facts=(reason,), hint=hint) from error


@contextmanager
def failures_of(path: Place) -> Iterator[None]:
    """For use around any code that reads a store: turns failures into KgmError if a URI names the store, and for a
    missing file anywhere; into UsageError for damaged files."""
    try:
        with store_errors(path) if isinstance(path, RemotePath) else damage_as_usage_error(path):
            yield
    except FileNotFoundError as error:
        raise KgmError(
            f"{path}: {error}", hint="two newer builds may have replaced what was read: run it again"
        ) from error
