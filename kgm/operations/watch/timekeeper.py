"""The clock of the loops in this package."""

from __future__ import annotations

import time
from typing import Protocol


class Timekeeper(Protocol):
    """A clock that can wait."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; never goes back."""
        ...

    def sleep_ms(self, span_ms: int) -> None: ...


class SystemTimekeeper:
    """Starts from the wall clock and advances with the monotonic clock."""

    def __init__(self) -> None:
        self._started_ms = round(time.time() * 1000)
        self._started_s = time.monotonic()

    def now_ms(self) -> int:
        return self._started_ms + round((time.monotonic() - self._started_s) * 1000)

    def sleep_ms(self, span_ms: int) -> None:
        time.sleep(span_ms / 1000)
