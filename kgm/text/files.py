"""Files that are written atomically, so that no other process sees half a file and no crash leaves one, and locks
between processes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def replace_file(
    path: Path,
    data: bytes | Iterable[bytes],
    *,
    mode: int | None = None,
    is_shared: bool = False,
    is_durable: bool = True,
    draft: Path | None = None,
) -> None:
    """Write the whole file in place of the previous one; a symbolic link is replaced, not followed.

    data: all of it, or pieces. mode: None for whatever the umask leaves. is_shared: whether several processes may write
    it at the same time; if not, a draft left by a process that was killed is removed. draft: where the file is written
    first; None: a hidden file next to it. is_durable: whether its content is on disk before it is moved into place;
    the caller syncs the folder (`flush_folder`). Raises OSError, and then the previous file is still there."""
    if draft is None:
        draft = path.with_name(f".{path.name}.{os.getpid()}.new" if is_shared else f".{path.name}.new")
    draft.unlink(missing_ok=True)
    file = os.open(draft, _NEW, 0o666 if mode is None else mode)
    try:
        try:
            if mode is not None:
                os.fchmod(file, mode)
            for piece in (data,) if isinstance(data, bytes) else data:
                write_all(file, piece)
            if is_durable:
                os.fsync(file)
        finally:
            os.close(file)
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def write_all(file: int, data: bytes) -> None:
    """Raises OSError, after which part of the data may have been written."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def flush_folder(folder: Path) -> None:
    """Make the entries of a folder durable: files created, renamed or removed in it. Raises OSError."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def same_file(file: int, path: Path) -> bool:
    """Whether an open file is still the one with this path. Raises OSError if that cannot be told."""
    try:
        there = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    ours = os.fstat(file)
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)


def try_lock(file: int) -> bool:
    """Lock an open file, until it is closed or the process ends; False if another process holds the lock.

    Raises OSError if the file system does not support locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        return False
    return True
