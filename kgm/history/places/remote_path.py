"""A file or directory named by a URI, with the methods of `pathlib.Path` that the history uses."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeVar, cast
from urllib.parse import unquote, urlsplit

from kgm.model.errors import KgmError, MissingFileError, UsageError
from kgm.text.input_files import read_input

if TYPE_CHECKING:
    from pyarrow import fs

Item = TypeVar("Item")
Result = TypeVar("Result")
#: For each scheme, the form of its URIs.
SCHEMES: Final = {
    "s3": "s3://BUCKET/PATH",
    "gs": "gs://BUCKET/PATH",
    "abfs": "abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
    "abfss": "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
    "hdfs": "hdfs://NAMENODE:PORT/PATH",
    "webhdfs": "webhdfs://NAMENODE:PORT/PATH",
}
_AT_ONCE: Final = 16
#: What the system answers if a file is too large for the disk, the quota or the limits, or the disk is read-only.
FULL_ERRNOS: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS))
#: The same, and what it answers if a file must not be written.
WRITE_ERRNOS: Final = FULL_ERRNOS | {errno.EACCES, errno.EPERM}


@dataclass(frozen=True, slots=True)
class RemoteStat:
    """st_size: in bytes; st_mtime_ns: by the store's clock. st_ino: always 0, because stores have no inodes; a file
    replaced under the same name shows by its size."""

    st_size: int
    st_mtime_ns: int
    st_ino: int = 0


@dataclass(frozen=True, slots=True, order=True)
class RemotePath:
    """root: scheme and bucket, container or name node; key: the path in it, without slashes at its ends. known: what a
    listing reported about it.

    Methods raise FileNotFoundError where pathlib's do, and KgmError for other failures of the store: see
    `file_systems.store_errors`."""

    root: str
    key: str = ""
    known: RemoteStat | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root

    def __truediv__(self, name: str) -> RemotePath:
        return self.joinpath(name)

    def joinpath(self, *names: str) -> RemotePath:
        return RemotePath(self.root, "/".join(filter(None, [self.key, *(name.strip("/") for name in names)])))

    @property
    def name(self) -> str:
        return posixpath.basename(self.key)

    @property
    def stem(self) -> str:
        return posixpath.splitext(self.name)[0]

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.root, *self.key.split("/")) if self.key else (self.root,)

    @property
    def parent(self) -> RemotePath:
        return RemotePath(self.root, posixpath.dirname(self.key))

    def with_name(self, name: str) -> RemotePath:
        return self.parent / name

    def resolve(self) -> RemotePath:
        return self

    def relative_to(self, other: RemotePath) -> Path:
        """The path from a directory to this one."""
        if not self.is_relative_to(other):
            raise ValueError(f"{self} is not below {other}")
        return Path(self.key[len(other.key) :].strip("/"))

    def is_relative_to(self, other: RemotePath) -> bool:
        return self.root == other.root and f"{self.key}/".startswith(f"{other.key}/" if other.key else "")

    def is_dir(self) -> bool:
        from pyarrow import fs

        return bool(self._info().type == fs.FileType.Directory)

    def is_file(self) -> bool:
        from pyarrow import fs

        return bool(self._info().type == fs.FileType.File)

    def exists(self) -> bool:
        from pyarrow import fs

        return bool(self._info().type != fs.FileType.NotFound)

    def stat(self) -> RemoteStat:
        if self.known is not None:
            return self.known
        from pyarrow import fs

        info = self._info()
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(f"{self} does not exist")
        return _stat(info)

    def iterdir(self) -> Iterator[RemotePath]:
        """The directory's contents, by name."""
        yield from self._listed(recursive=False, files_only=False)

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Files and directories in it with matching names; none if it does not exist. The pattern has no slash."""
        try:
            listed = self._listed(recursive=False, files_only=False)
        except FileNotFoundError:
            return
        yield from (path for path in listed if fnmatchcase(path.name, pattern))

    def rglob(self, pattern: str) -> Iterator[RemotePath]:
        """Files below it with matching names; none if it does not exist."""
        try:
            listed = self._listed(recursive=True, files_only=True)
        except FileNotFoundError:
            return
        yield from (path for path in listed if fnmatchcase(path.name, pattern))

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open it for reading, with seeks."""
        from kgm.history.places.file_systems import opened, store_errors

        assert mode == "rb"
        system, base = opened(self.root)
        with store_errors(self):
            return cast("BinaryIO", system.open_input_file(_inner(base, self.key)))

    def read_bytes(self) -> bytes:
        from kgm.history.places.file_systems import opened, store_errors

        system, base = opened(self.root)
        with store_errors(self), system.open_input_stream(_inner(base, self.key)) as stream:
            return cast("bytes", stream.read())

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, data: bytes) -> None:
        """Put a file that exists completely or not at all, in place of any other with this name."""
        from kgm.history.places.file_systems import opened, put, store_errors

        system, base = opened(self.root)
        with store_errors(self):
            put(system, _inner(base, self.key), data)

    def unlink(self, *, missing_ok: bool = False) -> None:
        from kgm.history.places.file_systems import opened, store_errors

        system, base = opened(self.root)
        try:
            with store_errors(self):
                system.delete_file(_inner(base, self.key))
        except FileNotFoundError:
            if not missing_ok:
                raise

    def _info(self) -> fs.FileInfo:
        from kgm.history.places.file_systems import opened, store_errors

        system, base = opened(self.root)
        with store_errors(self):
            return system.get_file_info(_inner(base, self.key))

    def _listed(self, *, recursive: bool, files_only: bool) -> list[RemotePath]:
        from pyarrow import fs

        from kgm.history.places.file_systems import opened, store_errors

        system, base = opened(self.root)
        selector = fs.FileSelector(_inner(base, self.key), recursive=recursive)
        with store_errors(self):
            try:
                infos = system.get_file_info(selector)
            except NotADirectoryError:
                # pyarrow also raises this for a directory that is created between its two checks, whether it is a
                # directory and whether it exists at all.
                infos = system.get_file_info(selector)
        return sorted(
            RemotePath(self.root, info.path[len(base) :].strip("/"), _stat(info))
            for info in infos
            if info.type == fs.FileType.File or not files_only
        )


#: Where a file or a directory is.
Place = Path | RemotePath


def inside(directory: Place) -> list[Place]:
    """A directory's contents, by name."""
    return by_name(directory.iterdir())


def by_name(paths: Iterable[Place]) -> list[Place]:
    """Paths in one directory, sorted by name."""
    return sorted(paths, key=lambda path: path.name)


def below(directory: Place, path: Place) -> tuple[str, ...]:
    """The names that lead from a directory to a path below it."""
    return path.parts[len(directory.parts) :]


def place(text: str) -> Place:
    """The place that a user typed: a path, `file:` and a path, or a URI. Raises UsageError for a scheme that is not
    supported, and for credentials in a URI, which it does not repeat."""
    scheme, colon, rest = text.partition(":")
    if scheme == "file" and colon:
        split = urlsplit(text)
        if split.netloc not in ("", "localhost") or not split.path.startswith("/"):
            raise UsageError(f"{text!r} is not a valid file URI", hint="file:///PATH, or just the path")
        return Path(unquote(split.path))
    if not rest.startswith("//"):
        return Path(text)
    if scheme not in SCHEMES:
        raise UsageError(
            f"stores with the scheme {scheme}:// are not supported",
            hint=f"a directory, or a URI like {', '.join(SCHEMES.values())}",
        )
    return _remote(scheme, rest[2:])


def _remote(scheme: str, rest: str) -> RemotePath:
    authority, _, key = rest.partition("/")
    user, at, _ = authority.rpartition("@")
    if ":" in user or (at and scheme not in ("abfs", "abfss")) or "?" in rest or "#" in rest:
        raise UsageError(
            f"a {scheme}:// URI must not have credentials or options in it: others can read a command line",
            facts=(f"expected: {SCHEMES[scheme]}",),
            hint="credentials and endpoints come from the environment and the store's own configuration; "
            "see docs/spark.md",
        )
    if not authority:
        raise UsageError(f"{scheme}://{rest} has no bucket or path", hint=f"expected: {SCHEMES[scheme]}")
    names = [name for name in key.split("/") if name]
    if any(name in (".", "..") for name in names):
        raise UsageError(f"{scheme}://{rest}: . and .. are not valid names in a store")
    return RemotePath(f"{scheme}://{authority}", "/".join(names))


def at_once(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The results of calling a function with each item, in order; several at a time, for calls that are round trips."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(function, items))


def read_all(paths: Sequence[Place]) -> list[bytes | None]:
    """The contents of small files, several at a time; None for a file that is gone."""

    def read(path: Place) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    return at_once(read, paths)


def _inner(base: str, key: str) -> str:
    """The path in its file system's form."""
    return f"{base}/{key}" if key else base or "/"


def _stat(info: fs.FileInfo) -> RemoteStat:
    return RemoteStat(st_size=info.size or 0, st_mtime_ns=info.mtime_ns or 0)


@contextmanager
def write_errors(path: Place, errnos: frozenset[int] = WRITE_ERRNOS) -> Iterator[None]:
    """Failures to write a file of a store as KgmError. errnos: the errors that are not passed on unchanged."""
    try:
        yield
    except OSError as error:
        if error.errno not in errnos:
            raise
        raise KgmError(
            f"cannot write {path}: {os.strerror(error.errno).lower()}",
            facts=("everything that was complete before is kept, and nothing else was changed",),
        ) from error


def check_is_file(path: Place) -> None:
    """Raises UsageError for a directory, and for files that never end or never start, such as a device or a FIFO."""
    if isinstance(path, Path) and not path.is_file():
        raise UsageError(f"{path} is not a regular file" if path.exists() else f"{path} does not exist")


def text_of(path: Place) -> str:
    """The text of a log or manifest file. Raises FileNotFoundError and NotADirectoryError, UsageError for a file that
    cannot be read, and UnicodeDecodeError."""
    if isinstance(path, RemotePath):
        return path.read_text()
    try:
        return read_input(str(path)).decode()
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def check_is_directory(path: Place) -> None:
    """Raises MissingFileError if there is nothing, UsageError for something that is not a directory."""
    if path.is_dir():
        return
    if not isinstance(path, RemotePath) and path.exists():
        raise UsageError(f"{path} is not a directory")
    raise MissingFileError(f"directory {path} does not exist")
