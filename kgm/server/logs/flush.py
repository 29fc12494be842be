"""Flushes several files at the same time, of which the file system makes one commit."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

#: Flushes wait for the disk, not for the processor.
_THREADS = 16


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="kgm-flush")


def flush_all(flushes: Sequence[Callable[[], None]]) -> list[OSError | None]:
    """Call all of them at the same time and wait; returns the error of each. They must not share anything."""
    if len(flushes) <= 1:
        return [_attempt(flush) for flush in flushes]
    return list(_pool().map(_attempt, flushes))


def _attempt(flush: Callable[[], None]) -> OSError | None:
    try:
        flush()
    except OSError as error:
        return error
    return None


def sync_folder(path: Path) -> None:
    """Make the entries of a folder durable: files created, renamed or deleted in it. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
