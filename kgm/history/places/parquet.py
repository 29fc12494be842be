"""Parquet files wherever they are: opened, read as tables, several at once where each is a round trip."""

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from kgm.history.places.file_systems import opened, store_errors
from kgm.history.places.remote_path import UNFINISHED, Place, RemotePath, at_once, check_is_file
from kgm.model.errors import KgmError, UsageError

Result = TypeVar("Result")
_IMPOSSIBLE_NAME: Final = (errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL)
#: The compression of every file of a store.
CODEC = "zstd"


def parquet_file(path: Place, **options: Any) -> pq.ParquetFile:
    """To be used in a `with`. Raises what `check_is_file` does."""
    if isinstance(path, RemotePath):
        return checked(pq.ParquetFile(path.open(), pre_buffer=True, **options))
    check_is_file(path)
    return checked(pq.ParquetFile(path, **options))


def checked(opened: pq.ParquetFile) -> pq.ParquetFile:
    """The same. Raises ArrowInvalid for a footer that would end the whole process when it is asked for its columns."""
    metadata = opened.metadata
    if any(metadata.row_group(at).num_columns != metadata.num_columns for at in range(metadata.num_row_groups)):
        raise pa.ArrowInvalid("a row group has other columns than the file")
    return opened


def read_table(path: Place, **options: Any) -> pa.Table:
    """As `pyarrow.parquet.read_table`."""
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
    """A writer of a file that counts only when something else names it: what it has after a failure is no file. In a
    directory it is hidden until it is whole, from readers that do not ask what counts."""
    if not isinstance(path, RemotePath):
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f".{path.name}{UNFINISHED}")
        with pq.ParquetWriter(made, schema, compression=CODEC) as writer:
            yield writer
        made.replace(path)
        return

    system, base = opened(path.root)
    with (
        store_errors(path),
        system.open_output_stream(f"{base}/{path.key}") as stream,
        pq.ParquetWriter(stream, schema, compression=CODEC) as writer,
    ):
        yield writer


def each_file(files: Sequence[Place], function: Callable[[Place], Result]) -> list[Result]:
    """The results of a function of each file, in order."""
    if len(files) < 2 or not isinstance(files[0], RemotePath):
        return list(map(function, files))
    return at_once(function, files)


@contextmanager
def damage_as_usage_error(path: Place, said: str = "cannot be read", hint: str | None = None) -> Iterator[None]:
    """For files that are not Parquet, are damaged, or have columns of other types."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Of the system or the store, and not of what is in the file, or of the name that a log gives it.
        is_of_system = isinstance(error, OSError) and error.errno not in (None, *_IMPOSSIBLE_NAME)
        if is_of_system or (isinstance(error, OSError) and isinstance(path, RemotePath)):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{path} {said}", facts=(reason,), hint=hint) from error


@contextmanager
def failures_of(path: Place) -> Iterator[None]:
    """Around whatever reads a store: failures as KgmError where a URI names it, and wherever a file is gone;
    UsageError for files that are damaged."""
    try:
        with store_errors(path) if isinstance(path, RemotePath) else damage_as_usage_error(path):
            yield
    except FileNotFoundError as error:
        raise KgmError(
            f"{path}: {error}", hint="two newer builds may have replaced what was read: run it again"
        ) from error
