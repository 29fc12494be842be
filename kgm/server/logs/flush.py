"""Flushes several files at the same time, which the file system combines into one commit."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

#: Flushes wait for the disk, not for the CPU.
_THREADS = 16


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="kgm-flush")


def flush_all(flushes: Sequence[Callable[[], None]]) -> list[OSError | None]:
    """Call all of them at the same time and wait; returns each one's error or None. They must not share anything."""
    if len(flushes) <= 1:
        return [_attempt(flush) for flush in flushes]
    return list(_pool().map(_attempt, flushes))


def _attempt(flush: Callable[[], None]) -> OSError | None:
    try:
        flush()
    except OSError as error:
        return error
    return None
