"""The order of what bystanders do among what the coordinator did meanwhile, if they are told of it later.

Of timers with equal deadlines the one that was set first fires first: each has a turn. So whenever the coordinator is
about to act, turns are left free for the sessions that bystanders have begun again by then."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from kgm.records.record import Record
from kgm.simulation.play.bulk.streams import Floats, Ints
from kgm.simulation.play.world import World

#: So many turns are left free each time: more than sessions can begin again in the meantime.
_FREE: Final = 1 << 30


class FreeTurns:
    """times_ms: when the coordinator has acted. first: the first of the turns that are free before each of these.
    recorded: how many records were kept by then."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._times_ms: list[float] = []
        self._first: list[int] = []
        self._recorded: list[int] = []

    def coordinator_acts(self) -> None:
        """It is about to. What bystanders do at the same time comes before."""
        kept = self._world.kept_records
        self._times_ms.append(self._world.clock.now_ms)
        self._first.append(self._world.runtime.reserve_turns(_FREE))
        self._recorded.append(0 if kept is None else len(kept))

    def clear(self) -> None:
        """Bystanders have done everything that they do until now."""
        self._times_ms.clear()
        self._first.clear()
        self._recorded.clear()

    def at(self, at_ms: Floats) -> Ints:
        """A turn for each session that begins again, at these times, given ascending. The turn before it is free, too:
        for a timer that is set with it."""
        first = np.array([*self._first, self._world.runtime.reserve_turns(_FREE)])
        turns: Ints = first[np.searchsorted(self._times_ms, at_ms)] + 2 * np.arange(len(at_ms)) + 1
        return turns

    def record(self, records: Sequence[Record], at_ms: Floats) -> None:
        """Keep records that the coordinator would have written at these times, given ascending."""
        kept = self._world.kept_records
        assert kept is not None
        recorded = [*self._recorded, len(kept)]
        places: list[int] = np.searchsorted(self._times_ms, at_ms).tolist()
        for record, place in reversed([*zip(records, places, strict=True)]):
            kept.insert(recorded[place], record)
