"""A clock that only advances when it is read or slept on."""

from __future__ import annotations


class VirtualTime:
    """A `Timekeeper` without a real clock. Each reading takes a millisecond."""

    def __init__(self) -> None:
        self._now_ms = 1_000_000

    def now_ms(self) -> int:
        self._now_ms += 1
        return self._now_ms

    def sleep_ms(self, span_ms: int) -> None:
        self._now_ms += span_ms
