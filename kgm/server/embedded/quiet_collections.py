"""Full garbage collections at moments when no client is waiting.

A full collection goes through everything the server keeps, and no client is answered meanwhile: with 200,000 objects,
for some tenths of a second. It finds next to nothing: groups, requests and connections that end are freed immediately,
without the collector. So here Python never starts a full collection on its own. The server does, at a moment without
requests, or after a long time without such a moment, and each one goes through few objects: what a collection leaves is
frozen, and later collections skip it. Only after a minute without any request are all objects checked again. Young
objects are collected as usual, a few at a time."""

import asyncio
import gc
from collections.abc import Callable

#: A collection of the young generation starts when this many more objects were created than freed; every fourth one
#: also collects the middle generation.
_YOUNG, _MIDDLE = 5_000, 4
_NEVER = 2**31 - 1
_EVERY_S = 1.0
#: How many collections of the middle generation make a full one due: some 40,000 objects, if none were freed.
_DUE = 2
#: If there is no quiet moment, a full collection that is due waits for this many checks.
_MOST_LOOKS = 600
#: After this many quiet checks in a row, frozen objects are collected too.
_SILENCE = 60


class QuietCollections:
    """Controls the garbage collector of the process from `start` to `stop`. served: how many requests have been
    served."""

    def __init__(self, served: Callable[[], int]) -> None:
        self._served = served
        self._before, self._busy_looks, self._quiet_looks = -1, 0, 0
        self._has_frozen = False
        self._thresholds = gc.get_threshold()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start, in the running loop. Objects that exist now are frozen: collections skip them."""
        self._collect()
        gc.set_threshold(_YOUNG, _MIDDLE, _NEVER)
        self._look_later()

    def stop(self) -> None:
        """Restore the collector's previous settings."""
        if self._timer is not None:
            self._timer.cancel()
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_EVERY_S, self._look)

    def _look(self) -> None:
        self._look_later()
        served = self._served()
        is_quiet, self._before = served == self._before, served
        self._quiet_looks = self._quiet_looks + 1 if is_quiet else 0
        if self._has_frozen and self._quiet_looks >= _SILENCE:
            gc.unfreeze()
            self._collect()
            self._has_frozen, self._quiet_looks = False, 0
            return
        if gc.get_count()[2] < _DUE:
            return
        self._busy_looks += 1
        if is_quiet or self._busy_looks >= _MOST_LOOKS:
            self._collect()
            self._has_frozen = True

    def _collect(self) -> None:
        """Collect what is not frozen, and freeze what is left."""
        self._busy_looks = 0
        gc.collect()
        gc.freeze()
