"""How a long-running command is told to stop."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Final

_TERMINATED: Final = 143


@contextlib.contextmanager
def stopped_by_sigterm(stop: threading.Event) -> Iterator[None]:
    """SIGTERM sets the event, so that the command shuts down cleanly, as systemd and Kubernetes expect. Only the main
    thread can have a handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def sigterm_as_exit() -> Iterator[None]:
    """SIGTERM ends kgm cleanly, so that the terminal gets its cursor and screen back."""

    def leave(_number: int, _frame: object) -> None:
        raise SystemExit(_TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
