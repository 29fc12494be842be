"""One absolute deadline for everything that a command does: names, connections, requests, retries."""

from __future__ import annotations

import time
from collections.abc import Callable


class Deadline:
    """A moment on the monotonic clock. Spans are in seconds inside, in milliseconds where they come from a user."""

    __slots__ = ("_at", "_clock", "budget_ms")

    def __init__(self, at: float, *, budget_ms: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._at, self.budget_ms, self._clock = at, budget_ms, clock

    @classmethod
    def after(cls, budget_ms: int, *, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """The moment `budget_ms` from now."""
        return cls(clock() + budget_ms / 1000, budget_ms=budget_ms, clock=clock)

    def remaining(self) -> float:
        """Seconds left; never negative."""
        return max(0.0, self._at - self._clock())

    @property
    def expired(self) -> bool:
        return self.remaining() <= 0

    def part(self, fraction: float) -> Deadline:
        """A nearer deadline: this share of what is left. The rest is for what follows."""
        return Deadline(self._clock() + self.remaining() * fraction, budget_ms=self.budget_ms, clock=self._clock)

    def within(self, seconds: float) -> Deadline:
        """At most so many seconds from now, and not after this deadline."""
        return Deadline(self._clock() + min(seconds, self.remaining()), budget_ms=self.budget_ms, clock=self._clock)

    def later(self, seconds: float) -> Deadline:
        """The deadline that is so many seconds later."""
        return Deadline(self._at + seconds, budget_ms=self.budget_ms, clock=self._clock)

    def sleep(self, seconds: float) -> None:
        """Sleep, but not past the deadline."""
        time.sleep(min(seconds, self.remaining()))
