"""Full garbage collections while nobody waits.

A full collection goes through everything that a server keeps, and answers nobody meanwhile: with 200,000 objects for
some tenths of a second. It finds next to nothing: groups and requests that end are freed at once, without the
collector; of a connection only asyncio's closed transport is left for it. So Python starts none by itself here: the
server does, once enough has come together, in a moment without requests, or after a long time without such a moment.
Young objects are collected as ever, few at a time."""

import asyncio
import gc
from collections.abc import Callable

#: So many new objects more than freed ones, and a collection of the young ones starts; each fourth takes two ages.
_YOUNG, _MIDDLE = 5_000, 4
_NEVER = 2**31 - 1
_EVERY_S = 1.0
#: Collections of the middle age after which a full one is due.
_DUE = 10
#: Without a quiet moment, a full one that is due waits for so many looks.
_MOST_LOOKS = 600


class QuietCollections:
    """In charge of the collector of the process from `start` to `stop`. served: how many requests have been served."""

    def __init__(self, served: Callable[[], int]) -> None:
        self._served = served
        self._before, self._busy_looks = -1, 0
        self._thresholds = gc.get_threshold()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start, in the running loop. What there is now stays: collections skip it."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNG, _MIDDLE, _NEVER)
        self._look_later()

    def stop(self) -> None:
        """Leave the collector as it was."""
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
        if gc.get_count()[2] < _DUE:
            return
        self._busy_looks += 1
        if is_quiet or self._busy_looks >= _MOST_LOOKS:
            self._busy_looks = 0
            gc.collect()
