"""How a command that runs until it is told to stop hears of it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def stopped_by_sigterm(stop: threading.Event) -> Iterator[None]:
    """SIGTERM sets the event, so that the command ends in order, as systemd and Kubernetes expect. Only the main thread
    can have a handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
