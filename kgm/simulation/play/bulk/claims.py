"""What the leader of a cooperative crowd assigns: an owner for each partition at once, if it is a Java consumer with
cooperative-sticky and the members are alike; otherwise the assignor itself is asked.

The rules are those of `assignors.client.sticky_constrained`, for claims that are not disputed, without racks."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from kgm.assignors import MemberSpec
from kgm.assignors.contract import Assigned
from kgm.java.hash_map import DEFAULT_CAPACITY, map_order
from kgm.protocol.subscription import NO_GENERATION
from kgm.simulation.plan.client_library import Library
from kgm.simulation.plan.starting_group import StartingGroup, StartingMember
from kgm.simulation.play.bulk.ledger import NOBODY
from kgm.simulation.play.bulk.streams import Flags, Ints
from kgm.simulation.play.leader import SubscriptionCache, assigned

_NOTHING: Final[dict[str, tuple[int, ...]]] = {}


class CooperativeAssignment:
    """slots: a number for each member, by member id, in the order in which the broker lists them. by_id: the slots in
    the order of member ids, if the members are alike (`are_alike`); None if not. specs: members by slot. sent: by slot,
    the generation that each named in its subscription. before: for each partition the slot of the member that claims
    it, or NOBODY. starts: the number of the first partition of each topic."""

    def __init__(
        self, group: StartingGroup, library: Library, slots: Mapping[str, int], by_id: Ints | None,
        specs: Sequence[StartingMember], sent: Ints, before: Ints, starts: Mapping[str, int],
    ) -> None:  # fmt: skip
        self.library = library
        self._group = group
        self._slots = slots
        self._specs = specs
        self._sent = sent
        self._before = before
        self._starts = starts
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
        if self.is_dealt:
            rows = rows_of(self.owners(), self._starts, self._group.topics)
            return {member_id: rows.get(slot, _NOTHING) for member_id, slot in self._slots.items()}
        group, sent = self._group, self._sent.tolist()
        members = [self._member(member_id, slot, sent[slot]) for member_id, slot in self._slots.items()]
        return assigned(group.assignor, members, group.topics, self.library, self._capacity)

    @property
    def _capacity(self) -> int:
        return self._group.listing_capacity or DEFAULT_CAPACITY

    def owners(self) -> Ints:
        """For each partition the slot of its owner, or NOBODY."""
        owner: Ints = np.full(len(self._before), NOBODY, dtype=np.int64)
        if self._by_id is not None:
            topics = sorted(self._specs[self._by_id[0]].topics)
            numbers = [np.arange(self._group.topics[topic]) for topic in topics]
            places = np.concatenate([self._starts[topic] + row for topic, row in zip(topics, numbers, strict=True)])
            deal = StickyDeal(self._by_id, self._before[places], np.concatenate(numbers), self._in_map_order)
            owner[places] = deal.owners()
            return owner
        for member_id, partitions in self.by_member.items():
            for topic, mine in partitions.items():
                owner[self._starts[topic] + np.array(mine, dtype=np.int64)] = self._slots[member_id]
        return owner

    def _in_map_order(self) -> Ints:
        """The slots in the order of the leader's hash map."""
        ids = [*self._slots]
        listed = [ids[place] for place in map_order(ids, self._capacity)]
        return np.array([self._slots[listed[place]] for place in map_order(listed)], dtype=np.int64)

    def subscriptions(self, cache: SubscriptionCache) -> dict[str, bytes]:
        """What the members sent, by member id (`ScriptedClassicMember._subscription`)."""
        found, sent = {}, self._sent.tolist()
        for member_id, slot in self._slots.items():
            spec, claimed = self._specs[slot], self._claimed.get(slot, {})
            found[member_id] = cache.encode_subscription(spec.topics, claimed, None, sent[slot], spec.rack)
        return found

    def _member(self, member_id: str, slot: int, sent: int) -> MemberSpec:
        """A member as the leader reads its subscription (`leader.SubscriptionCache.decode_member`)."""
        named, spec = None if sent == NO_GENERATION else sent, self._specs[slot]
        return MemberSpec(
            member_id=member_id, group_instance_id=spec.group_instance_id, rack=spec.rack, topics=spec.topics,
            owned=self._claimed.get(slot, {}), generation=named, names_generation=named is not None,
        )  # fmt: skip


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
    """Whether members subscribe to the same topics, which the group has, and name no racks."""
    topics = members[0].topics
    return (
        bool(topics)
        and len(set(topics)) == len(topics)
        and all(topic in group.topics and topic.isascii() for topic in topics)
        and all(
            not member.rack and member.topics == topics and member.client_id.isascii() and member.identity.isascii()
            for member in members
        )
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
