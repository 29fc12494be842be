"""Virtual time: a heap of scheduled calls. Times are in ms, with fractions, so that two calls rarely coincide."""

import heapq
import math
from collections.abc import Callable
from typing import Any

_Entry = tuple[float, int, "ScheduledCall | None", Callable[..., None] | None, tuple[Any, ...]]


class ScheduledCall:
    """A call that will be made unless it is cancelled. action: None once it has been made or cancelled."""

    __slots__ = ("action", "arguments", "at_ms")

    def __init__(self, at_ms: float, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self.at_ms = at_ms
        self.action: Callable[..., None] | None = action
        self.arguments = arguments

    def cancel(self) -> None:
        self.action = None


class VirtualClock:
    """Time passes only in `run_next`. Calls that are due at the same time are made in the order in which they were
    scheduled."""

    __slots__ = ("_heap", "_sequence", "now_ms")

    def __init__(self, now_ms: float) -> None:
        self.now_ms = now_ms
        self._sequence = 0
        self._heap: list[_Entry] = []

    def at(self, at_ms: float, action: Callable[..., None], *arguments: Any) -> ScheduledCall:
        """Schedule a call for that time, or for now if that time has passed."""
        at_ms = max(at_ms, self.now_ms)
        call = ScheduledCall(at_ms, action, arguments)
        self._sequence += 1
        heapq.heappush(self._heap, (at_ms, self._sequence, call, None, ()))
        return call

    def after(self, delay_ms: float, action: Callable[..., None], *arguments: Any) -> ScheduledCall:
        return self.at(self.now_ms + delay_ms, action, *arguments)

    def post(self, at_ms: float, action: Callable[..., None], *arguments: Any) -> None:
        """Schedule a call that cannot be cancelled. at_ms: not before now."""
        self._sequence += 1
        heapq.heappush(self._heap, (at_ms, self._sequence, None, action, arguments))

    def run_next_before(self, limit_ms: float) -> bool:
        """Make the next call if it is due before that time; otherwise return False."""
        heap = self._heap
        while heap:
            at_ms, _, call, action, arguments = heap[0]
            if call is not None:
                action, arguments = call.action, call.arguments
            if action is None:
                heapq.heappop(heap)  # it was cancelled
            elif at_ms < limit_ms:
                heapq.heappop(heap)
                self.now_ms = at_ms
                if call is not None:
                    call.action = None
                action(*arguments)
                return True
            else:
                return False
        return False

    def next_at(self) -> float | None:
        """When the next call is due; None if nothing is scheduled."""
        heap = self._heap
        while heap:
            at_ms, _, call, _, _ = heap[0]
            if call is None or call.action is not None:
                return at_ms
            heapq.heappop(heap)
        return None

    def run_next(self) -> None:
        """Advance to the next call and make it. Something must be scheduled (`next_at`)."""
        was_called = self.run_next_before(math.inf)
        assert was_called
