"""What the leader of a cooperative crowd assigns: an owner for each partition at once, if it is a Java consumer with
cooperative-sticky and the members are alike; otherwise the assignor itself is asked.

The rules are those of `assignors.client.sticky_constrained`, for claims that are not disputed, without racks."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from kgm.assignors.contract import Assigned
from kgm.java.hash_map import map_order
from kgm.model.assignment import Partitions
from kgm.simulation.plan.client_library import Library
from kgm.simulation.plan.starting_group import StartingGroup, StartingMember
from kgm.simulation.play.bulk.ledger import NOBODY
from kgm.simulation.play.bulk.owners import LeaderAssignment, subscribe_alike
from kgm.simulation.play.bulk.streams import Flags, Ints

_NOTHING: Final[dict[str, tuple[int, ...]]] = {}


class CooperativeAssignment(LeaderAssignment):
    """The same with a cooperative assignor. by_id: the slots in the order of member ids, if the members are alike
    (`are_alike`); None if not. before: for each partition the slot of the member that claims it, or NOBODY."""

    def __init__(
        self, group: StartingGroup, library: Library, slots: Mapping[str, int], specs: Sequence[StartingMember],
        sent: Ints, starts: Mapping[str, int], *, by_id: Ints | None, before: Ints,
    ) -> None:  # fmt: skip
        super().__init__(group, library, slots, specs, sent, starts, len(before))
        self._before = before
        is_java = library is Library.JAVA and group.assignor == "cooperative-sticky"
        self._by_id = by_id if is_java and bool((before != NOBODY).any()) else None

    @property
    def is_dealt(self) -> bool:
        """Whether the assignor need not be asked."""
        return self._by_id is not None

    @cached_property
    def _claimed(self) -> dict[int, dict[str, tuple[int, ...]]]:
        return rows_of(self._before, self._starts, self._group.topics)

    @cached_property
    def by_member(self) -> Assigned:
        """By member id, as the leader's assignor answers."""
        if not self.is_dealt:
            return self._asked()
        rows = rows_of(self.owners(), self._starts, self._group.topics)
        return {member_id: rows.get(slot, _NOTHING) for member_id, slot in self._slots.items()}

    def owners(self) -> Ints:
        return super().owners() if self._by_id is None else self._dealt(self._by_id)

    def _dealt(self, by_id: Ints) -> Ints:
        owner: Ints = np.full(self._total, NOBODY, dtype=np.int64)
        topics = sorted(self._specs[by_id[0]].topics)
        numbers = [np.arange(self._group.topics[topic]) for topic in topics]
        places = np.concatenate([self._starts[topic] + row for topic, row in zip(topics, numbers, strict=True)])
        deal = StickyDeal(by_id, self._before[places], np.concatenate(numbers), self._in_map_order)
        owner[places] = deal.owners()
        return owner

    def _in_map_order(self) -> Ints:
        """The slots in the order of the leader's hash map."""
        ids = [*self._slots]
        listed = [ids[place] for place in map_order(ids, self._capacity)]
        return np.array([self._slots[listed[place]] for place in map_order(listed)], dtype=np.int64)

    def _said(self, member_id: str, slot: int) -> tuple[Partitions, bytes | None]:
        del member_id
        return self._claimed.get(slot, {}), None

    def _had(self, member_id: str, slot: int, named: int | None) -> tuple[Partitions, int | None]:
        del member_id
        return self._claimed.get(slot, {}), named


class StickyDeal:
    """One computation of `ConstrainedBuilder` with the adjustment of the cooperative protocol. Members are places in
    the order of their ids.

    by_id: their slots. before: for each partition the slot of the member that claims it, or NOBODY; in the order of
    topics and partitions. numbers: the partitions' numbers in their topics. in_map_order: asked for the slots in the
    order of the leader's hash map, if it matters."""

    def __init__(self, by_id: Ints, before: Ints, numbers: Ints, in_map_order: Callable[[], Ints]) -> None:
        self._by_id = by_id
        self._numbers = numbers
        self._in_map_order = in_map_order
        self._place_of: Ints = np.full(max(int(by_id.max()), int(before.max())) + 2, NOBODY, dtype=np.int64)
        self._place_of[by_id] = np.arange(len(by_id))
        self._owner = self._place_of[before]
        self._loads = np.bincount(self._owner[self._owner >= 0], minlength=len(by_id))
        self._floor, self._big_allowed = divmod(len(before), len(by_id))
        self._ceiling = self._floor + (self._big_allowed > 0)

    def owners(self) -> Ints:
        """For each partition the slot of its owner, or NOBODY."""
        claimed, loads = self._owner.copy(), self._loads
        big = self._big()
        keep = np.minimum(loads, np.where(big, self._ceiling, self._floor))
        surplus = self._surplus(loads - keep)
        self._owner[surplus] = NOBODY
        free = np.flatnonzero(self._owner == NOBODY)
        self._owner[free] = self._takers(loads, big)[: len(free)]
        moved = surplus[self._owner[surplus] != claimed[surplus]]
        self._owner[moved] = NOBODY
        return np.where(self._owner == NOBODY, NOBODY, self._by_id[self._owner])

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
        mine = np.flatnonzero((surplus > 0)[self._owner] & (self._owner != NOBODY))
        owner = self._owner[mine]
        order = np.lexsort((-mine, -self._numbers[mine], owner))
        mine, owner = mine[order], owner[order]
        rank = np.arange(len(mine)) - np.searchsorted(owner, owner)
        return mine[rank < surplus[owner]]

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


def are_alike(group: StartingGroup, members: Sequence[StartingMember]) -> bool:
    """Whether cooperative-sticky can be dealt in arrays."""
    return (
        bool(members[0].topics)
        and subscribe_alike(group, members)
        and all(member.identity.isascii() for member in members)
    )


def rows_of(owner: Ints, starts: Mapping[str, int], counts: Mapping[str, int]) -> dict[int, dict[str, tuple[int, ...]]]:
    """The partitions of each slot, by topic in alphabetical order. Slots without any are left out."""
    rows: dict[int, dict[str, tuple[int, ...]]] = {}
    for topic in sorted(starts):
        mine = owner[starts[topic] : starts[topic] + counts[topic]]
        order = np.argsort(mine, kind="stable")
        slots, firsts = np.unique(mine[order], return_index=True)
        numbers, ends = order.tolist(), [*firsts[1:].tolist(), len(order)]
        for slot, first, end in zip(slots.tolist(), firsts.tolist(), ends, strict=True):
            if slot != NOBODY:
                rows.setdefault(slot, {})[topic] = tuple(numbers[first:end])
    return rows
