"""Flushing several files at once: the file system makes one commit of what would be many."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

#: Flushes wait for the disk, not for the processor.
_AT_ONCE = 16


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="kgm-flush")


def flush_all(flushes: Sequence[Callable[[], None]]) -> list[OSError | None]:
    """Call all, at once, and wait for them; says what went wrong with each. They must have nothing in common."""
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
    """Make durable what files there are in a folder. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
