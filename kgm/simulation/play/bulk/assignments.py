"""What the leader of a classic group assigns, as an array with an owner for each partition, and as assignments of the
members when they are needed.

The assignor itself runs, on objects, unless its result can be computed in arrays: with range and roundrobin it follows
from the order of the members; with the sticky assignors, if members have equal subscriptions and their claims are not
disputed, it follows from what they claim. `JavaStickyAssignment` implements the rules of
`assignors.client.sticky_constrained`, and `LibrdkafkaStickyAssignment` the rules of
`assignors.client.librdkafka_alike`."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from kgm.assignors import MemberSpec
from kgm.assignors.client.librdkafka_alike import sums_fit
from kgm.assignors.contract import Assigned
from kgm.java.hash_map import DEFAULT_CAPACITY, map_order
from kgm.java.scala_set import scala_set_order
from kgm.model.assignment import Partitions
from kgm.model.client_library import JAVA, PLAYED
from kgm.protocol.subscription import NO_GENERATION
from kgm.simulation.plan.starting_group import StartingGroup, StartingMember
from kgm.simulation.play.bulk.arrays import NO_MEMBER, Flags, Ints
from kgm.simulation.play.leader import DrawCache, assigned, encode_sticky_data

#: Assignors whose result follows from the order of the members alone, if all have the same topics and no racks.
_ORDERED: Final = frozenset({"range", "roundrobin"})


class LeaderAssignment:
    """What a leader assigns to members, as computed by the assignor itself.

    slots: a number for each member, by member id, in the order in which the broker lists them. specs: members by slot.
    sent: by slot, the generation that each member named in its subscription. starts: the number of the first partition
    of each topic. total: the number of partitions. leader: its slot. library: the one whose assignor it runs."""

    def __init__(
        self, group: StartingGroup, leader: int, slots: Mapping[str, int], specs: Sequence[StartingMember],
        sent: Ints, starts: Mapping[str, int], total: int,
    ) -> None:  # fmt: skip
        self.library = specs[leader].assigner(group.assignor)
        self._leader = leader
        self._group = group
        self._slots = slots
        self._specs = specs
        self._sent = sent
        self._starts = starts
        self._total = total

    @property
    @abstractmethod
    def is_computed(self) -> bool:
        """Whether the assignor itself does not have to run."""

    @cached_property
    def by_member(self) -> Assigned:
        """The assignment by member id, as the leader's assignor returns it."""
        return self._asked()

    def _asked(self) -> Assigned:
        group, sent = self._group, self._sent.tolist()
        members = [self._member(member_id, slot, sent[slot]) for member_id, slot in self._slots.items()]
        leader = next(member_id for member_id, slot in self._slots.items() if slot == self._leader)
        return assigned(group.assignor, members, group.topics, self.library, self._capacity, leader=leader)

    @property
    def _capacity(self) -> int:
        return self._group.listing_capacity or DEFAULT_CAPACITY

    def owners(self) -> Ints:
        """For each partition the slot of its owner, or NO_MEMBER."""
        owner: Ints = np.full(self._total, NO_MEMBER, dtype=np.int64)
        for member_id, partitions in self.by_member.items():
            for topic, numbers in partitions.items():
                owner[self._starts[topic] + np.array(numbers, dtype=np.int64)] = self._slots[member_id]
        return owner

    def owned(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """The partitions of each member by topic, both in order, by member id."""
        rows = rows_of(self.owners(), self._starts, self._group.topics)
        return {member_id: rows.get(slot, {}) for member_id, slot in self._slots.items()}

    def subscriptions(self, cache: DrawCache) -> dict[str, bytes]:
        """What the members sent, by member id (`ScriptedClassicMember._subscription`)."""
        found, sent = {}, self._sent.tolist()
        for member_id, slot in self._slots.items():
            spec, (owned, data) = self._specs[slot], self._said(member_id, slot)
            found[member_id] = cache.encode_subscription(
                spec.topics, owned, data, sent[slot], spec.rack, version=spec.subscription_version(self._group.assignor)
            )
        return found

    def _member(self, member_id: str, slot: int, sent: int) -> MemberSpec:
        """A member as the leader reads its subscription (`leader.DrawCache.decode_member`)."""
        named, spec = None if sent == NO_GENERATION else sent, self._specs[slot]
        owned, generation = self._had(member_id, slot, named)
        return MemberSpec(
            member_id=member_id, group_instance_id=spec.group_instance_id, rack=spec.rack, topics=spec.topics,
            owned=owned, generation=generation, names_generation=named is not None,
            says_owned=spec.says_owned,
        )  # fmt: skip

    @abstractmethod
    def _said(self, member_id: str, slot: int) -> tuple[Partitions, bytes | None]:
        """The partitions and the user data in a member's subscription."""

    @abstractmethod
    def _had(self, member_id: str, slot: int, named: int | None) -> tuple[Partitions, int | None]:
        """What the assignor reads from the subscription: the partitions of a member, and their generation."""


class EagerAssignment(LeaderAssignment):
    """A leader's assignment with an eager assignor, for which members claim nothing. order: the slots in the order in
    which they are assigned partitions, if nothing else matters (`is_ordered`)."""

    def __init__(
        self, group: StartingGroup, leader: int, slots: Mapping[str, int], specs: Sequence[StartingMember],
        sent: Ints, starts: Mapping[str, int], total: int, *, order: Ints | None,
    ) -> None:  # fmt: skip
        super().__init__(group, leader, slots, specs, sent, starts, total)
        self._order = order

    @property
    def is_computed(self) -> bool:
        return self._order is not None

    def _said(self, member_id: str, slot: int) -> tuple[Partitions, bytes | None]:
        del member_id, slot
        return {}, None

    def _had(self, member_id: str, slot: int, named: int | None) -> tuple[Partitions, int | None]:
        del member_id, slot
        return {}, named

    def owners(self) -> Ints:
        return super().owners() if self._order is None else self._computed(self._order)

    def _computed(self, order: Ints) -> Ints:
        owner: Ints = np.full(self._total, NO_MEMBER, dtype=np.int64)
        members, turn = len(order), 0
        for topic in sorted(self._specs[order[0]].topics):
            first, count = self._starts[topic], self._group.topics[topic]
            if self._group.assignor == "range":
                size, over = divmod(count, members)
                shares = np.full(members, size)
                shares[:over] += 1
                owner[first : first + count] = np.repeat(order, shares)
            else:
                owner[first : first + count] = order[(np.arange(count) + turn) % members]
                turn += count
        return owner


def is_ordered(group: StartingGroup, members: Sequence[StartingMember]) -> bool:
    """Whether the assignment follows from the order of the member ids alone, and all libraries agree on it."""
    return (
        group.assignor in _ORDERED
        and all(member.assigner(group.assignor) in PLAYED for member in members)
        and subscribe_alike(group, members)
        and all(member.group_instance_id is None and member.member_id.isascii() for member in members)
    )


def subscribe_alike(group: StartingGroup, members: Sequence[StartingMember]) -> bool:
    """Whether members subscribe to the same topics, which all exist in the group, and name no racks, and all names are
    ASCII."""
    topics = members[0].topics
    return (
        len(set(topics)) == len(topics)
        and all(topic in group.topics and topic.isascii() for topic in topics)
        and all(not member.rack and member.topics == topics and member.client_id.isascii() for member in members)
    )


class _StickyAssignment:
    """One computation, among members that have equal subscriptions and name no racks. Members are positions in the
    order of their ids. by_id: their slots. before: for each partition, in the order of topics and partitions, the slot
    of the member that claims it, or NO_MEMBER. At least one partition is claimed."""

    def __init__(self, by_id: Ints, before: Ints) -> None:
        self._by_id = by_id
        self._place_of: Ints = np.full(max(int(by_id.max()), int(before.max())) + 2, NO_MEMBER, dtype=np.int64)
        self._place_of[by_id] = np.arange(len(by_id))
        self._claimed = self._place_of[before]
        self._owner = self._claimed.copy()
        self._loads = np.bincount(self._claimed[self._claimed >= 0], minlength=len(by_id))

    def _slots(self) -> Ints:
        return np.where(self._owner == NO_MEMBER, NO_MEMBER, self._by_id[self._owner])


class JavaStickyAssignment(_StickyAssignment):
    """`ConstrainedBuilder`. numbers: the partitions' numbers in their topics. in_map_order: called for the slots in the
    order of the leader's hash map, if that order matters."""

    def __init__(self, by_id: Ints, before: Ints, numbers: Ints, in_map_order: Callable[[], Ints]) -> None:
        super().__init__(by_id, before)
        self._numbers = numbers
        self._in_map_order = in_map_order
        self._floor, self._big_allowed = divmod(len(before), len(by_id))
        self._ceiling = self._floor + (self._big_allowed > 0)

    def owners(self, *, is_cooperative: bool) -> Ints:
        """For each partition the slot of its owner, or NO_MEMBER."""
        loads = self._loads
        big = self._big()
        keep = np.minimum(loads, np.where(big, self._ceiling, self._floor))
        self._owner[self._surplus(loads - keep)] = NO_MEMBER
        free = np.flatnonzero(self._owner == NO_MEMBER)
        self._owner[free] = self._takers(loads, big)[: len(free)]
        if is_cooperative:  # a partition that another member claims goes to no member until it is given up
            self._owner[(self._claimed != NO_MEMBER) & (self._owner != self._claimed)] = NO_MEMBER
        return self._slots()

    def _big(self) -> Flags:
        """The members that keep one more than the others."""
        rich = self._loads >= self._ceiling
        if not self._big_allowed:
            return np.zeros(len(rich), dtype=np.bool_)
        if np.count_nonzero(rich) > self._big_allowed:
            order = self._place_of[self._in_map_order()]
            rich[order[rich[order]][self._big_allowed :]] = False
        return rich

    def _surplus(self, surplus: Ints) -> Ints:
        """The partitions that members give up. surplus: how many each gives up; these are its last ones by partition,
        then topic."""
        if not surplus.any():
            return surplus[:0]
        mine = np.flatnonzero((surplus > 0)[self._owner] & (self._owner != NO_MEMBER))
        owner = self._owner[mine]
        order = np.lexsort((-mine, -self._numbers[mine], owner))
        mine, owner = mine[order], owner[order]
        return mine[_number_within(owner) < surplus[owner]]

    def _takers(self, loads: Ints, big: Flags) -> Ints:
        """The members that get the free partitions, in order: lap after lap the members below the floor, until they
        reach it; then, one each, the members at the floor."""
        below = np.flatnonzero(loads < self._floor)
        need = self._floor - loads[below]
        laps = np.arange(int(need.sum())) - np.repeat(np.cumsum(need) - need, need)
        takers = np.repeat(below, need)[np.argsort(laps, kind="stable")]
        has_room = np.count_nonzero(big) < self._big_allowed
        at_floor = np.flatnonzero((loads >= self._floor) & ~big) if has_room else below[:0]
        return np.concatenate([takers, at_floor, below[np.argsort(need, kind="stable")]])


class LibrdkafkaStickyAssignment(_StickyAssignment):
    """The rules of `assign_alike`, which explains why they reduce to this: free partitions go to the members that have
    the fewest; then the members that have the most give up partitions, until no member is ahead of another by more than
    one.

    last_first: the partitions in the order in which the unclaimed ones are assigned."""

    def __init__(self, by_id: Ints, before: Ints, last_first: Ints) -> None:
        super().__init__(by_id, before)
        self._last_first = last_first

    def owners(self) -> Ints:
        """For each partition the slot of its owner, or NO_MEMBER."""
        free = self._last_first[self._claimed[self._last_first] == NO_MEMBER]
        takers, _ = _least_loaded(self._loads, len(free))
        gives = self._given(self._loads + np.bincount(takers, minlength=len(self._loads)))
        if gives.any():
            self._owner[self._first(gives)] = NO_MEMBER
        self._owner[free] = takers
        return self._slots()

    def _given(self, loads: Ints) -> Ints:
        """How many partitions each member gives up. Among those that have the most, the one with the last id gives
        next."""
        share, most = len(self._owner) // len(loads), int(loads.max())
        offers, room = np.maximum(loads - share, 0).sum(), np.maximum(most - 1 - loads, 0).sum()
        count = int(min(offers, room))
        givers, minus_load = _least_loaded(-loads[::-1], count)
        _, least = _least_loaded(loads, count)
        helps = int(np.count_nonzero(-minus_load > least + 1))  # only the first ones help
        return np.bincount(len(loads) - 1 - givers[:helps], minlength=len(loads))

    def _first(self, count: Ints) -> Ints:
        """The first `count` partitions that each member claims."""
        mine = np.flatnonzero((count > 0)[self._claimed] & (self._claimed != NO_MEMBER))
        mine = mine[np.argsort(self._claimed[mine], kind="stable")]
        owner = self._claimed[mine]
        first: Ints = mine[_number_within(owner) < count[owner]]
        return first


def _least_loaded(loads: Ints, count: int) -> tuple[Ints, Ints]:
    """The members that get `count` partitions, each going to the first of the members that have the fewest; and how
    many that member had before."""
    level = _level(loads, count)
    below = np.flatnonzero(loads < level)
    room = level - loads[below]
    lap = np.arange(int(room.sum())) - np.repeat(np.cumsum(room) - room, room)
    takers = np.repeat(below, room)
    has = loads[takers] + lap
    order = np.argsort(has, kind="stable")[:count]
    return takers[order], has[order]


def _level(loads: Ints, count: int) -> int:
    """The lowest load up to which members have room for `count` partitions."""
    rising = np.sort(loads)
    room = rising * np.arange(1, len(rising) + 1) - np.cumsum(rising)  # up to the load of each
    at = int(np.searchsorted(room, count, side="right"))
    return int(rising[at - 1] + -(-(count - int(room[at - 1])) // at))


def _number_within(owner: Ints) -> Ints:
    """For partitions sorted by owner: the index of each among its owner's partitions, from 0."""
    return np.arange(len(owner)) - np.searchsorted(owner, owner)


_NOTHING: Final[dict[str, tuple[int, ...]]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribedPartitions:
    """The partitions that members with equal subscriptions subscribe to, in the order of topics and partitions. places:
    their positions in the ledger. numbers: their numbers in their topics. last_first: their order for librdkafka, see
    `LibrdkafkaStickyAssignment`."""

    places: Ints
    numbers: Ints
    last_first: Ints

    @staticmethod
    def of(topics: Sequence[str], starts: Mapping[str, int], counts: Mapping[str, int]) -> "SubscribedPartitions":
        """topics: in the order in which each of the members names them."""
        numbers = {topic: np.arange(counts[topic]) for topic in sorted(topics)}
        first_at, total = {}, 0
        for topic, row in numbers.items():
            first_at[topic], total = total, total + len(row)
        in_metadata = [first_at[topic] + numbers[topic] for topic in scala_set_order(topics)]
        return SubscribedPartitions(
            places=np.concatenate([starts[topic] + row for topic, row in numbers.items()]),
            numbers=np.concatenate([*numbers.values()]),
            last_first=np.concatenate(in_metadata)[::-1],
        )


class OwnedPartitionsAssignment(LeaderAssignment):
    """A leader's assignment with an assignor that heeds claims. by_id, subscribed: the slots in the order of member
    ids, and the partitions that are assigned, if the members have equal subscriptions (`are_alike`). before: for each
    partition the slot of the member that claims it, or NO_MEMBER."""

    def __init__(
        self, group: StartingGroup, leader: int, slots: Mapping[str, int], specs: Sequence[StartingMember],
        sent: Ints, starts: Mapping[str, int], *, by_id: Ints | None, subscribed: SubscribedPartitions | None,
        before: Ints,
    ) -> None:  # fmt: skip
        super().__init__(group, leader, slots, specs, sent, starts, len(before))
        self._before = before
        self._by_id = by_id
        self._subscribed = subscribed

    @cached_property
    def is_computed(self) -> bool:
        if self._by_id is None or self._subscribed is None or not self._has_rules or self.library not in PLAYED:
            return False
        claimed = np.count_nonzero(self._before != NO_MEMBER)
        if self.library == JAVA or not claimed:
            return bool(claimed)
        # Members keep what they claim of topics that they do not subscribe to.
        places = self._subscribed.places
        is_usual = len(places) == self._total or claimed == np.count_nonzero(self._before[places] != NO_MEMBER)
        return bool(is_usual) and sums_fit(len(self._by_id), self._total)

    @cached_property
    def _claimed(self) -> dict[int, dict[str, tuple[int, ...]]]:
        return rows_of(self._before, self._starts, self._group.topics)

    @cached_property
    def by_member(self) -> Assigned:
        """The assignment by member id, as the leader's assignor returns it."""
        if not self.is_computed:
            return self._asked()
        rows = rows_of(self.owners(), self._starts, self._group.topics)
        return {member_id: rows.get(slot, _NOTHING) for member_id, slot in self._slots.items()}

    def owners(self) -> Ints:
        if not self.is_computed:
            return super().owners()
        assert self._by_id is not None
        assert self._subscribed is not None
        owner: Ints = np.full(self._total, NO_MEMBER, dtype=np.int64)
        owner[self._subscribed.places] = self._computed(self._by_id, self._subscribed)
        return owner

    @property
    @abstractmethod
    def _has_rules(self) -> bool:
        """Whether `_computed` implements this assignor's rules for these claims."""

    @abstractmethod
    def _computed(self, by_id: Ints, subscribed: SubscribedPartitions) -> Ints:
        """The slot of each partition's owner, or NO_MEMBER, in the order of topics and partitions."""

    def _java_assignment(self, by_id: Ints, subscribed: SubscribedPartitions) -> JavaStickyAssignment:
        return JavaStickyAssignment(by_id, self._before[subscribed.places], subscribed.numbers, self._in_map_order)

    def _in_map_order(self) -> Ints:
        """The slots in the order of the leader's hash map."""
        ids = [*self._slots]
        listed = [ids[place] for place in map_order(ids, self._capacity)]
        return np.array([self._slots[listed[place]] for place in map_order(listed)], dtype=np.int64)


class CooperativeAssignment(OwnedPartitionsAssignment):
    """A leader's assignment with a cooperative assignor: members claim what they consume, in their subscriptions."""

    @property
    def _has_rules(self) -> bool:
        return self._group.assignor == "cooperative-sticky"

    def _computed(self, by_id: Ints, subscribed: SubscribedPartitions) -> Ints:
        if self.library == JAVA:
            return self._java_assignment(by_id, subscribed).owners(is_cooperative=True)
        return LibrdkafkaStickyAssignment(by_id, self._before[subscribed.places], subscribed.last_first).owners()

    def _said(self, member_id: str, slot: int) -> tuple[Partitions, bytes | None]:
        del member_id
        return self._claimed.get(slot, {}), None

    def _had(self, member_id: str, slot: int, named: int | None) -> tuple[Partitions, int | None]:
        del member_id
        return self._claimed.get(slot, {}), named


class StickyAssignment(OwnedPartitionsAssignment):
    """A leader's assignment with `sticky`: members claim in their user data what they were assigned last, and in which
    generation.

    generation: the one of the claims in `before`. waited: by slot, the claims of members that were already waiting when
    the round was played; None if they are new."""

    def __init__(
        self, group: StartingGroup, leader: int, slots: Mapping[str, int], specs: Sequence[StartingMember],
        sent: Ints, starts: Mapping[str, int], *, by_id: Ints | None, subscribed: SubscribedPartitions | None,
        before: Ints, generation: int, waited: Mapping[int, tuple[Partitions, int] | None],
    ) -> None:  # fmt: skip
        super().__init__(
            group, leader, slots, specs, sent, starts, by_id=by_id, subscribed=subscribed, before=before
        )  # fmt: skip
        self._generation = generation
        self._waited = waited

    @property
    def _has_rules(self) -> bool:
        are_new = all(claims is None for claims in self._waited.values())
        return are_new and self.library == JAVA

    def _computed(self, by_id: Ints, subscribed: SubscribedPartitions) -> Ints:
        return self._java_assignment(by_id, subscribed).owners(is_cooperative=False)

    def _said(self, member_id: str, slot: int) -> tuple[Partitions, bytes | None]:
        del member_id
        data = self._data(slot)
        return {}, None if data is None else encode_sticky_data(*data)

    def _had(self, member_id: str, slot: int, named: int | None) -> tuple[Partitions, int | None]:
        del member_id, named
        owned, generation = self._data(slot) or (_NOTHING, None)
        return {topic: tuple(owned[topic]) for topic in sorted(owned)}, generation

    def _data(self, slot: int) -> tuple[Partitions, int] | None:
        if slot in self._waited:
            return self._waited[slot]
        return self._claimed.get(slot, _NOTHING), self._generation


def are_alike(group: StartingGroup, members: Sequence[StartingMember]) -> bool:
    """Whether sticky assignors do not have to run, because arrays can compute their result (`_StickyAssignment`)."""
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
            if slot != NO_MEMBER:
                rows.setdefault(slot, {})[topic] = tuple(numbers[first:end])
    return rows
