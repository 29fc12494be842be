"""A bound on the memory that all groups together use for their members, or for offsets.

A member stays in its group until its session ends, for up to half an hour, even if its connection is closed. In Kafka
nothing but the session bounds that, and nothing but retention bounds offsets. Actual use is measured only when it may
have reached the bound: until then, the sizes of the requests that may have increased it are added up."""

from collections.abc import Callable

from kgm.coordinator.contract.outcome import Millis

#: Measuring looks at every member, so while there is no room it is not repeated for each request.
_MEASURED_FOR_MS = 1_000


class GroupMemory:
    """measure: how many bytes all groups use now. limit: how many they are allowed."""

    def __init__(self, measure: Callable[[], int], limit: int) -> None:
        self._measure = measure
        self._limit = limit
        self._at_most: int | None = None
        self._measured = 0
        self._measured_at = Millis(0)

    def admits(self, size: int, now: Millis) -> bool:
        """Whether to serve a request that makes groups use at most this many more bytes."""
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
