"""What sticky assignors make of claims that are not disputed, without racks, among members that subscribe alike: an
owner for each partition at once. `JavaDeal` has the rules of `assignors.client.sticky_constrained`, `LibrdkafkaDeal`
those of `assignors.client.librdkafka_alike`.

Members are places in the order of their ids. by_id: their slots. before: for each partition the slot of the member that
claims it, or NOBODY; in the order of topics and partitions. Some partition is claimed."""

from collections.abc import Callable

import numpy as np

from kgm.simulation.play.bulk.ledger import NOBODY
from kgm.simulation.play.bulk.streams import Flags, Ints


class _Deal:
    """One computation."""

    def __init__(self, by_id: Ints, before: Ints) -> None:
        self._by_id = by_id
        self._place_of: Ints = np.full(max(int(by_id.max()), int(before.max())) + 2, NOBODY, dtype=np.int64)
        self._place_of[by_id] = np.arange(len(by_id))
        self._claimed = self._place_of[before]
        self._owner = self._claimed.copy()
        self._loads = np.bincount(self._claimed[self._claimed >= 0], minlength=len(by_id))

    def _slots(self) -> Ints:
        return np.where(self._owner == NOBODY, NOBODY, self._by_id[self._owner])


class JavaDeal(_Deal):
    """`ConstrainedBuilder`. numbers: the partitions' numbers in their topics. in_map_order: asked for the slots in the
    order of the leader's hash map, if it matters."""

    def __init__(self, by_id: Ints, before: Ints, numbers: Ints, in_map_order: Callable[[], Ints]) -> None:
        super().__init__(by_id, before)
        self._numbers = numbers
        self._in_map_order = in_map_order
        self._floor, self._big_allowed = divmod(len(before), len(by_id))
        self._ceiling = self._floor + (self._big_allowed > 0)

    def owners(self, *, is_cooperative: bool) -> Ints:
        """For each partition the slot of its owner, or NOBODY."""
        loads = self._loads
        big = self._big()
        keep = np.minimum(loads, np.where(big, self._ceiling, self._floor))
        self._owner[self._surplus(loads - keep)] = NOBODY
        free = np.flatnonzero(self._owner == NOBODY)
        self._owner[free] = self._takers(loads, big)[: len(free)]
        if is_cooperative:  # what another member claims goes to nobody until it is given up
            self._owner[(self._claimed != NOBODY) & (self._owner != self._claimed)] = NOBODY
        return self._slots()

    def _big(self) -> Flags:
        """Who keeps one more than the others."""
        rich = self._loads >= self._ceiling
        if not self._big_allowed:
            return np.zeros(len(rich), dtype=np.bool_)
        if np.count_nonzero(rich) > self._big_allowed:
            order = self._place_of[self._in_map_order()]
            rich[order[rich[order]][self._big_allowed :]] = False
        return rich

    def _surplus(self, surplus: Ints) -> Ints:
        """The partitions that members give up: so many of each, by partition, then topic, the last ones."""
        if not surplus.any():
            return surplus[:0]
        mine = np.flatnonzero((surplus > 0)[self._owner] & (self._owner != NOBODY))
        owner = self._owner[mine]
        order = np.lexsort((-mine, -self._numbers[mine], owner))
        mine, owner = mine[order], owner[order]
        return mine[_number_within(owner) < surplus[owner]]

    def _takers(self, loads: Ints, big: Flags) -> Ints:
        """Who gets the free partitions, in order: lap after lap the members below the floor, until they reach it; then
        the others with as many, one each."""
        below = np.flatnonzero(loads < self._floor)
        need = self._floor - loads[below]
        laps = np.arange(int(need.sum())) - np.repeat(np.cumsum(need) - need, need)
        takers = np.repeat(below, need)[np.argsort(laps, kind="stable")]
        has_room = np.count_nonzero(big) < self._big_allowed
        at_floor = np.flatnonzero((loads >= self._floor) & ~big) if has_room else below[:0]
        return np.concatenate([takers, at_floor, below[np.argsort(need, kind="stable")]])


class LibrdkafkaDeal(_Deal):
    """`assign_alike`, which says why it comes to this: what is free goes to whoever has least; then whoever has most
    gives up partitions, until nobody is ahead of another by more than one.

    last_first: the partitions in the order in which those that nobody claims are assigned."""

    def __init__(self, by_id: Ints, before: Ints, last_first: Ints) -> None:
        super().__init__(by_id, before)
        self._last_first = last_first

    def owners(self) -> Ints:
        """For each partition the slot of its owner, or NOBODY."""
        free = self._last_first[self._claimed[self._last_first] == NOBODY]
        takers, _ = _least_loaded(self._loads, len(free))
        gives = self._given(self._loads + np.bincount(takers, minlength=len(self._loads)))
        if gives.any():
            self._owner[self._first(gives)] = NOBODY
        self._owner[free] = takers
        return self._slots()

    def _given(self, loads: Ints) -> Ints:
        """How much each gives. Of those that have most, the one with the last id gives next."""
        share, most = len(self._owner) // len(loads), int(loads.max())
        offers, room = np.maximum(loads - share, 0).sum(), np.maximum(most - 1 - loads, 0).sum()
        count = int(min(offers, room))
        givers, minus_load = _least_loaded(-loads[::-1], count)
        _, least = _least_loaded(loads, count)
        helps = int(np.count_nonzero(-minus_load > least + 1))  # the first ones do
        return np.bincount(len(loads) - 1 - givers[:helps], minlength=len(loads))

    def _first(self, count: Ints) -> Ints:
        """So many of the partitions of each, the first ones."""
        mine = np.flatnonzero((count > 0)[self._claimed] & (self._claimed != NOBODY))
        mine = mine[np.argsort(self._claimed[mine], kind="stable")]
        owner = self._claimed[mine]
        first: Ints = mine[_number_within(owner) < count[owner]]
        return first


def _least_loaded(loads: Ints, count: int) -> tuple[Ints, Ints]:
    """Who gets so many partitions, each to the one that has least, of these to the first; and how many it has
    before."""
    level = _level(loads, count)
    below = np.flatnonzero(loads < level)
    room = level - loads[below]
    lap = np.arange(int(room.sum())) - np.repeat(np.cumsum(room) - room, room)
    takers = np.repeat(below, room)
    has = loads[takers] + lap
    order = np.argsort(has, kind="stable")[:count]
    return takers[order], has[order]


def _level(loads: Ints, count: int) -> int:
    """The least load up to which members have room for so many partitions."""
    rising = np.sort(loads)
    room = rising * np.arange(1, len(rising) + 1) - np.cumsum(rising)  # up to the load of each
    at = int(np.searchsorted(room, count, side="right"))
    return int(rising[at - 1] + -(-(count - int(room[at - 1])) // at))


def _number_within(owner: Ints) -> Ints:
    """Of partitions that are sorted by owner: which one of its owner's each is, from 0."""
    return np.arange(len(owner)) - np.searchsorted(owner, owner)
