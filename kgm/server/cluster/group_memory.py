"""A bound on what all groups together keep, for their members or of offsets.

A member stays in its group until its session ends, for up to half an hour, although its connection is closed; Kafka has
no bound but the sessions, and none for offsets but their retention. What is kept is measured only when it may have
reached the bound: until then the sizes of the requests that may have added to it are added up."""

from collections.abc import Callable

from kgm.coordinator.contract.outcome import Millis

#: Measuring takes a look at every member, so where it left no room it is not done again for each request.
_MEASURED_FOR_MS = 1_000


class GroupMemory:
    """measure: how many bytes all groups keep. limit: how many they may."""

    def __init__(self, measure: Callable[[], int], limit: int) -> None:
        self._measure = measure
        self._limit = limit
        self._at_most: int | None = None
        self._measured = 0
        self._measured_at = Millis(0)

    def admits(self, size: int, now: Millis) -> bool:
        """Whether a request may be served after which groups keep at most so many bytes more."""
        if size == 0:
            return True
        if self._at_most is None or self._at_most + size > self._limit:
            is_recent = self._at_most is not None and now - self._measured_at < _MEASURED_FOR_MS
            if is_recent and self._measured + size > self._limit:
                return False
            self._at_most = self._measured = self._measure()
            self._measured_at = now
        if self._at_most + size > self._limit:
            return False
        self._at_most += size
        return True
