"""Full garbage collections while no client waits.

A full collection goes through everything that a server keeps, and answers no client meanwhile: with 200,000 objects for
some tenths of a second. It finds next to nothing: groups, requests and connections that end are freed at once, without
the collector. So Python starts none by itself here. The server does, in a moment without requests, or after a long time
without such a moment, and it goes through few objects: what a collection has left is frozen, and collections skip it
from then on. Only when no client has asked for anything for a minute, all objects are checked again. Young objects are
collected as ever, few at a time."""

import asyncio
import gc
from collections.abc import Callable

#: So many new objects more than freed ones, and a collection of the young ones starts; each fourth takes two ages.
_YOUNG, _MIDDLE = 5_000, 4
_NEVER = 2**31 - 1
_EVERY_S = 1.0
#: Collections of the middle age after which a full one is due: of some 40,000 objects, if nothing was freed.
_DUE = 2
#: Without a quiet moment, a full one that is due waits for so many looks.
_MOST_LOOKS = 600
#: So many quiet looks, one after the other, and what is frozen is collected too.
_SILENCE = 60


class QuietCollections:
    """In charge of the collector of the process from `start` to `stop`. served: how many requests have been served."""

    def __init__(self, served: Callable[[], int]) -> None:
        self._served = served
        self._before, self._busy_looks, self._quiet_looks = -1, 0, 0
        self._has_frozen = False
        self._thresholds = gc.get_threshold()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start, in the running loop. What there is now stays: collections skip it."""
        self._collect()
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
