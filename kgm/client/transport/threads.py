"""Threads that are not waited for after a deadline, and never keep the process alive.

They are the ones that `threading` is made of: importing it, with what it imports, takes milliseconds."""

from __future__ import annotations

import _thread

TYPE_CHECKING = False  # as in kgm/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable

    from kgm.client.transport.deadline import Deadline

new_lock = _thread.allocate_lock
#: A lock that the thread that holds it may take again.
NestedLock = _thread.RLock


def start(function: Callable[[], None]) -> None:
    """Run it in a thread. It must not raise."""
    _thread.start_new_thread(function, ())


def finish_by(deadline: Deadline, function: Callable[[], None]) -> None:
    """Run it in a thread, and wait for its end, but not after the deadline. It must not raise."""
    ended = new_lock()
    ended.acquire()

    def run() -> None:
        try:
            function()
        finally:
            ended.release()

    start(run)
    ended.acquire(timeout=deadline.remaining())
