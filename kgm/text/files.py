"""Files that are written so that neither another process nor a crash sees half of one, and locks of processes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path
from typing import Final

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def replace_file(
    path: Path,
    data: bytes,
    *,
    mode: int | None = None,
    is_shared: bool = False,
    is_durable: bool = True,
    draft: Path | None = None,
) -> None:
    """Write the file as a whole, in the place of the former one; a symbolic link is replaced and not followed.

    mode: None: what the umask leaves. is_shared: whether several processes may write it at the same time; if not, the
    draft of one that was killed is removed. draft: where it is written first; None: a hidden file beside it.
    is_durable: whether its content is on disk before it is in its place; the folder is the caller's (`flush_folder`).
    Raises OSError, and then the former file is still there."""
    if draft is None:
        draft = path.with_name(f".{path.name}.{os.getpid()}.new" if is_shared else f".{path.name}.new")
    draft.unlink(missing_ok=True)
    file = os.open(draft, _NEW, 0o666 if mode is None else mode)
    try:
        try:
            if mode is not None:
                os.fchmod(file, mode)
            write_all(file, data)
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
    """Raises OSError, after which a part may have been written."""
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


def try_lock(file: int) -> bool:
    """Lock an open file, until it is closed or the process ends; False if another process has it locked.

    Raises OSError where the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        return False
    return True
