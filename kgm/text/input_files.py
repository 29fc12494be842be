"""Files that an operator names, opened so that nothing can hang or exhaust memory: a FIFO waits for a writer that may
never come, and a device or a file in /proc may have no end.

A shell's `<(command)` and `/dev/stdin` are pipes that are already open, and are read like stdin."""

from __future__ import annotations

import codecs
import errno
import os
import pathlib
import shlex
import stat
import sys
from collections.abc import Collection
from typing import BinaryIO, Final

from kgm.model.errors import RefusedError, UsageError

#: The limit for snapshots, cases and lists, in bytes. A group of 200,000 partitions takes 40 MB.
MOST_BYTES: Final = 256 << 20
#: The limit for settings files, in bytes.
MOST_SETTINGS_BYTES: Final = 8 << 20
_OPEN: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_INHERITED: Final = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
_NULL: Final = "/dev/null"


def open_input(path: str) -> BinaryIO:
    """A regular file, /dev/null, or a pipe that this process has inherited. Raises OSError, with a message for people
    in `strerror`."""
    file = os.open(path, _OPEN)
    try:
        _check(file, path)
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def _check(file: int, path: str) -> None:
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode) or path == _NULL:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISFIFO(mode):
        kind = "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "not a regular file"
        raise OSError(errno.EINVAL, f"it is {kind}", path)
    if not path.startswith(_INHERITED):
        raise OSError(errno.EINVAL, "it is a FIFO", path)
    os.set_blocking(file, True)


def who_else_writes(status: os.stat_result, *, but: Collection[int]) -> str | None:
    """Who may have written a file besides the users in `but`, as the end of a sentence; None if nobody else."""
    if status.st_uid not in but:
        return f"it is owned by another user (uid {status.st_uid})"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        others = "its group" if status.st_mode & stat.S_IWGRP else "everyone"
        return f"{others} may write it (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def refuse_foreign(path: str, what: str) -> None:
    """A check before acting on what a file says. what: what it says, for the message. Raises RefusedError if a user
    other than this one and root may have written it. Anything that is not a regular file has passed through the
    operator's hands."""
    try:
        status = pathlib.Path(path).stat()
    except OSError:
        return  # reading it fails, with an error of its own
    why = who_else_writes(status, but=(os.geteuid(), 0))
    if stat.S_ISREG(status.st_mode) and why is not None:
        raise RefusedError(
            f"nothing was done: {path} says {what}, and {why}",
            hint=f'look at it, then make it yours: chown "$USER" {shlex.quote(path)}; chmod go-w {shlex.quote(path)}',
        )


def read_input(path: str, most_bytes: int = MOST_BYTES) -> bytes:
    """The contents of a file that `open_input` opens. Raises OSError, also if there are more than `most_bytes`
    bytes."""
    with open_input(path) as file:
        if os.fstat(file.fileno()).st_size <= most_bytes:  # not known for a pipe, or in /proc
            data = file.read(most_bytes + 1)
            if len(data) <= most_bytes:
                return data
    raise OSError(errno.EFBIG, f"it has more than {most_bytes >> 20} MiB", path)


def read_input_or_stdin(path: str, most_bytes: int = MOST_BYTES) -> bytes:
    """What `read_input` reads; for `-`, the bytes of stdin. Raises OSError."""
    if path != "-":
        return read_input(path, most_bytes)
    if sys.stdin is None:
        raise OSError(errno.EBADF, "stdin is closed")
    data = sys.stdin.buffer.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes >> 20} MiB")
    return data


def without_mark(data: bytes, name: str) -> bytes:
    """The data without a byte order mark, which is no part of the first word. name: of the file, for the message.
    Raises UsageError for UTF-16."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError(f"{name} is in UTF-16", hint="save it as UTF-8, without a byte order mark")
    return data.removeprefix(codecs.BOM_UTF8)
