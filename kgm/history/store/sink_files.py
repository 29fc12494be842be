"""Which Parquet files in a directory count: all of them, or those that the log of kgm, Delta or Spark has committed.

A streaming job that was killed leaves files behind that it did not commit and wrote again later. A reader of every file
in such a directory sees rows twice, or half a file (Spark: FileStreamSinkLog, CompactibleFileStreamLog; Delta: the
transaction log protocol, https://github.com/delta-io/delta/blob/master/PROTOCOL.md)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, overload
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from kgm.history.expansion import RowExpansion
from kgm.history.places.parquet_batches import batches
from kgm.history.places.remote_path import Place, RemotePath, RemoteStat, below, by_name, text_of
from kgm.history.store import commit_log
from kgm.model.errors import UsageError

_SINK_LOG, _DELTA_LOG = "_spark_metadata", "_delta_log"
_COMPACT = ".compact"
_DELTA_DIGITS = 20
#: The newest reader version of Delta tables that can be read as plain files.
_NEWEST_DELTA_READER = 1
#: The actions in a line of the log that determine which files there are.
_ACTIONS = ("protocol", "add", "remove")


@overload
def counted_files(directory: Path) -> Sequence[Path]: ...
@overload
def counted_files(directory: RemotePath) -> Sequence[RemotePath]: ...
@overload
def counted_files(directory: Place) -> Sequence[Place]: ...
def counted_files(directory: Place) -> Sequence[Place]:
    """The Parquet files that hold the rows of a directory, sorted. Raises UsageError for a log of an unknown kind."""
    if entries := commit_log.committed(directory):
        return _of_commits(directory, entries)
    if (directory / _DELTA_LOG).is_dir():
        return delta_files(directory)
    if (directory / _SINK_LOG).is_dir():
        with _readable(directory / _SINK_LOG):
            return _of_sink(directory)
    return sorted(
        path
        for path in directory.rglob("*.parquet")
        if not any(part.startswith(("_", ".")) for part in below(directory, path))
    )


def _of_commits(directory: Place, entries: Mapping[str, commit_log.Commit]) -> list[Place]:
    files = {name: file.size for commit in entries.values() for name, file in commit.files.items()}
    return [_known(directory / name, size) for name, size in sorted(files.items())]


def _known(path: Place, size: int) -> Place:
    """The path with its size, so that the store is not asked for it again."""
    if not isinstance(path, RemotePath):
        return path
    return RemotePath(path.root, path.key, RemoteStat(st_size=size, st_mtime_ns=0))


@contextmanager
def _readable(log: Place) -> Iterator[None]:
    """For use around code that reads a log that others wrote: failures become UsageError."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise UsageError(f"the log in {log} cannot be read: {type(error).__name__}: {error}") from error


def _of_sink(directory: Place) -> list[Place]:
    """The files from the newest compacted batch on. Each line after the version is an added or deleted file."""
    batches: dict[int, Place] = {}
    for path in (directory / _SINK_LOG).iterdir():
        name = path.name.removesuffix(_COMPACT)
        if name.isdecimal() and (int(name) not in batches or path.name.endswith(_COMPACT)):
            batches[int(name)] = path
    start = max((number for number, path in batches.items() if path.name.endswith(_COMPACT)), default=-1)
    counted: set[Place] = set()
    for number in sorted(number for number in batches if number >= start):
        version, *lines = text_of(batches[number]).splitlines()
        if version != "v1":
            raise UsageError(f"file {batches[number]} has an unknown version: {version!r}")
        for line in filter(None, lines):
            entry: dict[str, Any] = json.loads(line)
            file = _within(directory, unquote(urlsplit(str(entry["path"])).path))
            if entry.get("action") == "delete":
                counted.discard(file)
            else:
                counted.add(file)
    return sorted(counted)


def _within(directory: Place, written: str) -> Place:
    """A file that the log names by its path when it was written; the directory may have been moved since."""
    path = Path(written)
    if isinstance(directory, Path) and path.is_relative_to(directory.resolve()):
        return path
    for at in range(1, len(path.parts)):
        moved = directory.joinpath(*path.parts[at:])
        if moved.is_file():
            return moved
    return path


def delta_files(directory: Place) -> list[Place]:
    """The files of a Delta table."""
    return [directory / file for file in sorted(delta_adds(directory))]


def delta_adds(directory: Place) -> dict[str, dict[str, Any]]:
    """The files by name, with the actions that added them, from the last checkpoint and the commits after it."""
    with _readable(directory / _DELTA_LOG):
        return _delta_adds(directory, directory / _DELTA_LOG)


def _delta_adds(directory: Place, log: Place) -> dict[str, dict[str, Any]]:
    files: dict[str, dict[str, Any]] = {}
    start = -1
    expansion = RowExpansion(log)
    last = log / "_last_checkpoint"
    if last.is_file():
        start = int(json.loads(text_of(last))["version"])
        for part in by_name(log.glob(f"{start:0{_DELTA_DIGITS}d}.checkpoint*.parquet")):
            for rows in batches(part, _actions, expansion):
                expansion.count(part, pa.Table.from_batches([rows]))
                for row in rows.to_pylist():
                    _apply(row, files, directory)
    commits = by_name(path for path in log.glob("*.json") if path.stem.isdecimal() and int(path.stem) > start)
    for commit in commits:
        for line in filter(None, text_of(commit).splitlines()):
            _apply(json.loads(line), files, directory)
    return files


def _actions(there: pa.Schema) -> list[str]:
    return [name for name in _ACTIONS if name in there.names]


def _apply(action: dict[str, Any], files: dict[str, dict[str, Any]], directory: Place) -> None:
    protocol = action.get("protocol")
    if protocol is not None and protocol["minReaderVersion"] > _NEWEST_DELTA_READER:
        raise UsageError(
            f"the Delta table {directory} requires reader version {protocol['minReaderVersion']}; "
            f"kgm supports version {_NEWEST_DELTA_READER} without Spark",
            hint="write it without column mapping and deletion vectors",
        )
    added, removed = action.get("add"), action.get("remove")
    if added is not None:
        files[unquote(added["path"])] = added
    if removed is not None:
        files.pop(unquote(removed["path"]), None)
