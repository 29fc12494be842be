"""The host of processes that a rollout stops and starts: each of its commands writes a file, the request."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def fulfilled(folder: Path, fulfil: Callable[[str], None]) -> Iterator[None]:
    """While the block runs, `fulfil` is called with the name of each file that appears in the folder; then the file is
    deleted."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(0.1):
            for wish in folder.iterdir():
                fulfil(wish.name)
                wish.unlink()

    host = threading.Thread(target=run)
    host.start()
    try:
        yield
    finally:
        is_over.set()
        host.join()
