"""Files and folders of a log, opened without following symbolic links.

A log is opened by whoever runs the server, possibly root, and opening it cuts off what a crash left behind. So a link
that is named like a segment must not lead to some other file."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

FILE_MODE: Final = 0o600
_OPEN: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # opening a FIFO must not wait for its writer


def open_file(path: Path, flags: int) -> int:
    """Open a regular file; returns its descriptor. Raises OSError; for a symbolic link or anything else that is not a
    regular file, the error says so."""
    try:
        fd = os.open(path, flags | _OPEN, FILE_MODE)
    except OSError as error:
        raise _said_better(error, path) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, f"{path} is not a regular file", str(path))
    return fd


def open_to_read(path: Path) -> BinaryIO:
    """Open a regular file. Raises OSError as `open_file` does."""
    return os.fdopen(open_file(path, os.O_RDONLY), "rb")


def check_folder(path: Path) -> None:
    """Raises OSError for a symbolic link, and for anything that is not a folder."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError as error:
        raise _said_better(error, path) from None


def _said_better(error: OSError, path: Path) -> OSError:
    # Linux answers ENOTDIR for a link that is opened with O_DIRECTORY | O_NOFOLLOW.
    if error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink():
        return OSError(errno.ELOOP, f"{path} is a symbolic link, which is not followed", str(path))
    return error
