"""One absolute deadline for everything that a command does: names, connections, requests, retries."""

from __future__ import annotations

import time
from collections.abc import Callable

#: A longer budget is cut: the system's clocks overflow at some 300 years.
_LONGEST_MS = 10 * 365 * 24 * 3_600_000


class _Vain:
    """How long a command has waited for answers that did not come, in seconds; overlapping waits count once. whole_s:
    the command's budget in seconds."""

    __slots__ = ("_end", "seconds", "whole_s")

    def __init__(self, whole_s: float) -> None:
        self.whole_s, self.seconds, self._end = whole_s, 0.0, float("-inf")

    def add(self, began: float, end: float) -> None:
        self.seconds += max(0.0, end - max(began, self._end))
        self._end = max(end, self._end)


class Deadline:
    """A moment on the monotonic clock. Spans are in seconds internally, in milliseconds where they come from a user."""

    __slots__ = ("_at", "_clock", "_vain", "budget_ms")

    def __init__(
        self, at: float, *, budget_ms: int, clock: Callable[[], float] = time.monotonic, vain: _Vain | None = None
    ) -> None:
        self._at, self.budget_ms, self._clock = at, budget_ms, clock
        self._vain = vain or _Vain(budget_ms / 1000)

    @classmethod
    def after(cls, budget_ms: int, *, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """The moment `budget_ms` from now, or ten years from now if that is sooner."""
        budget_ms = min(budget_ms, _LONGEST_MS)
        return cls(clock() + budget_ms / 1000, budget_ms=budget_ms, clock=clock)

    def remaining(self) -> float:
        """Seconds left; never negative."""
        return max(0.0, self._at - self._clock())

    @property
    def expired(self) -> bool:
        return self.remaining() <= 0

    def part(self, fraction: float) -> Deadline:
        """An earlier deadline: this share of the time left. The rest is for what follows."""
        return self._in(self.remaining() * fraction, self.budget_ms)

    def within(self, seconds: float) -> Deadline:
        """At most this many seconds from now, and not after this deadline."""
        return self._in(min(seconds, self.remaining()), self.budget_ms)

    def go_on(self, most_ms: float | None = None) -> Deadline:
        """A fresh budget, after time that was not spent on requests, minus the time already waited in vain. most_ms: an
        upper limit."""
        rest_s = max(0.0, self._vain.whole_s - self._vain.seconds)
        rest_s = rest_s if most_ms is None else min(rest_s, most_ms / 1000)
        return self._in(rest_s, round(rest_s * 1000))

    def _in(self, seconds: float, budget_ms: int) -> Deadline:
        return Deadline(self._clock() + seconds, budget_ms=budget_ms, clock=self._clock, vain=self._vain)

    def now(self) -> float:
        return self._clock()

    def waited_in_vain(self, began: float) -> None:
        """Record that nobody has answered since this moment."""
        self._vain.add(began, self._clock())

    def back_off(self, seconds: float) -> None:
        """Sleep before retrying something, but not past the deadline."""
        began = self.now()
        self.sleep(seconds)
        self.waited_in_vain(began)

    def later(self, seconds: float) -> Deadline:
        """A deadline this many seconds later."""
        return Deadline(self._at + seconds, budget_ms=self.budget_ms, clock=self._clock)

    def sleep(self, seconds: float) -> None:
        """Sleep, but not past the deadline."""
        self.pause(min(seconds, self.remaining()))

    def pause(self, seconds: float) -> None:
        """Sleep, even past the deadline if it does not apply to what comes next."""
        time.sleep(seconds)
