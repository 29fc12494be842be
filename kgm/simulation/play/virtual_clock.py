"""Virtual time: a heap of what is going to happen. Milliseconds, with fractions, so that two things rarely coincide."""

import heapq
import math
from collections.abc import Callable
from typing import Any

_Entry = tuple[float, int, "Alarm | None", Callable[..., None] | None, tuple[Any, ...]]


class Alarm:
    """Something that is going to happen, unless it is cancelled."""

    __slots__ = ("action", "arguments", "at_ms")

    def __init__(self, at_ms: float, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self.at_ms = at_ms
        self.action: Callable[..., None] | None = action
        self.arguments = arguments

    def cancel(self) -> None:
        self.action = None


class Clock:
    """Time goes on only when `run_next` is called. What is due at one time happens in the order it was asked for."""

    __slots__ = ("_heap", "_sequence", "now_ms")

    def __init__(self, now_ms: float) -> None:
        self.now_ms = now_ms
        self._sequence = 0
        self._heap: list[_Entry] = []

    def at(self, at_ms: float, action: Callable[..., None], *arguments: Any) -> Alarm:
        """Do it then; now, if that is past."""
        at_ms = max(at_ms, self.now_ms)
        alarm = Alarm(at_ms, action, arguments)
        self._sequence += 1
        heapq.heappush(self._heap, (at_ms, self._sequence, alarm, None, ()))
        return alarm

    def after(self, delay_ms: float, action: Callable[..., None], *arguments: Any) -> Alarm:
        return self.at(self.now_ms + delay_ms, action, *arguments)

    def post(self, at_ms: float, action: Callable[..., None], *arguments: Any) -> None:
        """Do it then, not before now; it cannot be cancelled."""
        self._sequence += 1
        heapq.heappush(self._heap, (at_ms, self._sequence, None, action, arguments))

    def run_next_before(self, limit_ms: float) -> bool:
        """Do the next thing if it happens before that time. False if it does not."""
        heap = self._heap
        while heap:
            at_ms, _, alarm, action, arguments = heap[0]
            if alarm is not None:
                action, arguments = alarm.action, alarm.arguments
            if action is None:
                heapq.heappop(heap)  # it was cancelled
            elif at_ms < limit_ms:
                heapq.heappop(heap)
                self.now_ms = at_ms
                if alarm is not None:
                    alarm.action = None
                action(*arguments)
                return True
            else:
                return False
        return False

    def next_at(self) -> float | None:
        """When the next thing happens; None if nothing will."""
        heap = self._heap
        while heap:
            at_ms, _, alarm, _, _ = heap[0]
            if alarm is None or alarm.action is not None:
                return at_ms
            heapq.heappop(heap)
        return None

    def run_next(self) -> None:
        """Go to the next thing that happens, and do it. There must be one (`next_at`)."""
        happened = self.run_next_before(math.inf)
        assert happened
