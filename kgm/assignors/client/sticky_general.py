"""The sticky assignment for a group whose members subscribe to different topics (`GeneralAssignmentBuilder`).

 1. Members keep what they owned, except for topics that they no longer subscribe to and, if racks matter, partitions
    without a replica in their rack.
 2. Free partitions, starting with topics that have the fewest subscribers, are assigned to the least loaded subscriber
   (by load, then member id); if racks matter, first to one in a rack with a replica.
 3. Partitions move from subscribers with more to subscribers with fewer, until no move helps. At first, only partitions
   from step 2 move, unless step 1 revoked a partition. The member that claimed a partition at an older generation is
   preferred.
 4. If the group is not better balanced than before step 3, and was not new, step 3 is undone.

Java scans the group before every partition that it considers; here the result of that scan is kept per topic.
"""

import heapq
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from kgm.assignors.client.sticky_claims import Racks
from kgm.assignors.client.sticky_moves import Movements
from kgm.assignors.partition_numbers import NO_OWNER, Layout


def subscribers_of(layout: Layout, subscribed: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each topic, the positions of the members that subscribe to it, ascending."""
    result: list[list[int]] = [[] for _ in layout.topics]
    for position, topics in enumerate(subscribed):
        for topic in topics:
            result[topic].append(position)
    return result


def fewest_subscribers_first(layout: Layout, subscribed: Sequence[Sequence[int]]) -> list[int]:
    """All partitions, topics with the fewest subscribers first, then by name."""
    count = [len(subscribers) for subscribers in subscribers_of(layout, subscribed)]
    order = sorted(range(len(layout.topics)), key=lambda topic: (count[topic], topic))
    return [number for topic in order for number in layout.range(topic)]


def largest_first(queues: Sequence[list[int]], rank: Mapping[int, int]) -> list[int]:
    """The partitions of all queues, one at a time from the longest queue, by rank among equally long ones. Each queue
    is emptied from its end."""
    heap = [(-len(queue), rank[position], position) for position, queue in enumerate(queues) if queue]
    heapq.heapify(heap)
    order = []
    while heap:
        left, place, position = heap[0]
        order.append(queues[position].pop())
        if queues[position]:
            heapq.heapreplace(heap, (left + 1, place, position))
        else:
            heapq.heappop(heap)
    return order


class GeneralBuilder:
    """One computation. Members are positions (their order does not matter), partitions are numbers.

    subscribed: for each member, the positions of its topics in the layout. owner: for each partition, its previous
    owner, or NO_OWNER; it is modified. older_claims: for each partition, the member with the latest claim before the
    newest generation. ids: the members' ids, which break ties. order: all partitions, in the order in which they are
    assigned and considered. misfiled (librdkafka): owned partitions that are looked up under another member before they
    move; they then go to their new owner, but also stay with the old one. slack: by how many partitions an owner may be
    ahead of a subscriber before the group counts as unbalanced. gives_back (kafka-python): if a different partition
    moves than the one that should, and it has a different owner, that owner gets the one that should have moved."""

    def __init__(
        self,
        *,
        layout: Layout,
        subscribed: Sequence[Sequence[int]],
        owner: list[int],
        older_claims: Mapping[int, int],
        racks: Racks,
        ids: Sequence[bytes],
        order: Sequence[int],
        movements: Movements,
        misfiled: Mapping[int, int] = MappingProxyType({}),
        slack: int = 1,
        gives_back: bool = False,
    ) -> None:
        self._layout = layout
        sizes = [topic.partitions for topic in layout.topics]
        self._most = [sum([sizes[topic] for topic in topics]) for topics in subscribed]
        self._claims = older_claims
        self._racks = racks
        self._order = order
        self._movements = movements
        self._misfiled = misfiled
        self._slack = slack
        self._gives_back = gives_back
        self._topic_of = layout.topic_of()
        self._subscribers = subscribers_of(layout, subscribed)
        self._rank = [0] * len(ids)
        for rank, position in enumerate(sorted(range(len(ids)), key=ids.__getitem__)):
            self._rank[position] = rank
        self._owner = owner
        self._loads = [0] * len(ids)
        # The members that actually have misfiled partitions, and partitions that they keep even though they were moved.
        self._holder: dict[int, int] = {}
        self._kept_too: list[tuple[int, int]] = []

    def build(self) -> list[int]:
        """For each partition, its owner."""
        was_revoked = self._keep_owned()
        free = [number for number in self._order if self._owner[number] == NO_OWNER]
        is_new = not any(self._loads)
        left = self._assign_free(free, within_racks=True) if self._racks.in_use else free
        self._assign_free(left, within_racks=False)
        self._balance(() if was_revoked else free, is_new=is_new)
        return self._owner

    def held(self) -> list[list[int]]:
        """After `build`: for each member, the partitions that it gets, including misfiled ones."""
        given: list[list[int]] = [[] for _ in self._loads]
        for number, owner in enumerate(self._owner):
            given[self._holder.get(number, owner)].append(number)
        for number, holder in self._kept_too:
            given[holder].append(number)
        return given

    def _keep_owned(self) -> bool:
        """Returns whether a member had to revoke a partition."""
        was_revoked = False
        owners, loads, misfiled = self._owner, self._loads, self._misfiled
        for topic, subscribers in enumerate(self._subscribers):
            may_have = set(subscribers)
            for number in self._layout.range(topic):
                owner = owners[number]
                if owner == NO_OWNER:
                    continue
                if owner not in may_have or (self._racks.in_use and self._racks.mismatch(owner, number)):
                    owners[number] = NO_OWNER
                    was_revoked = True
                    continue
                loads[owner] += 1
                if number in misfiled and misfiled[number] != owner:
                    self._holder[number] = owner
                    owners[number] = misfiled[number]
        return was_revoked

    def _assign_free(self, numbers: Sequence[int], *, within_racks: bool) -> list[int]:
        """Assign partitions to the least loaded subscribers. Returns the partitions without a subscriber (in their
        racks)."""
        loads, left, topic = self._loads, [], NO_OWNER
        heaps: dict[frozenset[str], list[tuple[int, int, int]]] = {}
        no_racks: frozenset[str] = frozenset()
        for number in numbers:
            if self._topic_of[number] != topic:
                topic, heaps = self._topic_of[number], {}
            racks = self._racks.partitions[number] if within_racks else no_racks
            heap = heaps.get(racks)
            if heap is None:
                near = (p for p in self._subscribers[topic] if not within_racks or not self._racks.mismatch(p, number))
                heap = heaps[racks] = [(loads[p], self._rank[p], p) for p in near]
                heapq.heapify(heap)
            if not heap:
                left.append(number)
                continue
            # Loads only increase here: an outdated entry is put back with its current load.
            load, rank, consumer = heap[0]
            while load != loads[consumer]:
                heapq.heapreplace(heap, (loads[consumer], rank, consumer))
                load, rank, consumer = heap[0]
            self._owner[number] = consumer
            loads[consumer] = load + 1
            heapq.heapreplace(heap, (load + 1, rank, consumer))
        return left

    def _balance(self, free: Sequence[int], *, is_new: bool) -> None:
        movable = [len(subscribers) >= 2 for subscribers in self._subscribers]
        fixed = self._fixed(movable)
        owner_before, loads_before, holder_before = list(self._owner), list(self._loads), dict(self._holder)
        # A claimant that can take nothing is skipped; a Java leader fails with a NullPointerException.
        older_claims = {number: position for number, position in self._claims.items() if position not in fixed}
        balancing = self.balancing(movable, older_claims)
        balancing.move([number for number in free if movable[self._topic_of[number]]])
        moved = balancing.move([number for number in self._order if movable[self._topic_of[number]]])
        if moved and not is_new and not self._is_better_than(loads_before, fixed):
            self._owner, self._loads, self._holder = owner_before, loads_before, holder_before
            self._kept_too.clear()

    def _is_better_than(self, loads_before: Sequence[int], fixed: Container[int]) -> bool:
        """Whether the group is better balanced now, not counting members whose partitions cannot change."""
        loose = [position for position in range(len(self._loads)) if position not in fixed]
        after = _unevenness(self._loads[position] for position in loose)
        return after < _unevenness(loads_before[position] for position in loose)

    def _fixed(self, movable: Sequence[bool]) -> set[int]:
        """Members that can neither give nor take: they have everything they can have, and no other member can have
        it."""
        held_movable = [False] * len(self._loads)
        for number, owner in enumerate(self._owner):
            if movable[self._topic_of[number]]:
                held_movable[self._holder.get(number, owner)] = True
        return {
            position
            for position, most in enumerate(self._most)
            if self._loads[position] >= most and not held_movable[position]
        }

    def balancing(self, movable: Sequence[bool], older_claims: Mapping[int, int]) -> "_Balancing":
        """Step 3, on the owners and loads of this builder."""
        return _Balancing(
            topic_of=self._topic_of,
            subscribers=self._subscribers,
            rank=self._rank,
            owner=self._owner,
            loads=self._loads,
            movements=self._movements,
            topics=[topic for topic, is_movable in enumerate(movable) if is_movable],
            older_claims=older_claims,
            holder=self._holder,
            kept_too=self._kept_too,
            slack=self._slack,
            gives_back=self._gives_back,
            most=self._most,
        )


@dataclass(slots=True, kw_only=True)
class _Balancing:
    """Step 3. A topic is uneven while one of its owners is ahead of one of its subscribers by more than the slack; the
    group is balanced when no topic is uneven.

    most: how many partitions each member can have. A former owner that no longer subscribes to a topic may get one of
    its partitions back (`_strays`); once a member has as many partitions as its own topics have, it no longer counts as
    lacking any."""

    topic_of: list[int]
    subscribers: list[list[int]]
    rank: list[int]
    owner: list[int]
    loads: list[int]
    movements: Movements
    topics: list[int]
    older_claims: Mapping[int, int]
    holder: dict[int, int]
    kept_too: list[tuple[int, int]]
    slack: int
    gives_back: bool
    most: list[int]
    _strays: bool = False
    _held: list[Counter[int]] = field(default_factory=list)
    _version: int = 0
    _lightest: dict[int, tuple[int, int]] = field(default_factory=dict)
    _checked: int = NO_OWNER
    _uneven: int | None = None

    def __post_init__(self) -> None:
        self._held = [Counter() for _ in self.subscribers]
        for number, owner in enumerate(self.owner):
            self._held[self.topic_of[number]][self.holder.get(number, owner)] += 1

    def move(self, numbers: Sequence[int]) -> bool:
        """Go through the partitions repeatedly, and move those that improve the balance. Returns whether anything
        moved."""
        owners, loads, older, topic_of = self.owner, self.loads, self.older_claims, self.topic_of
        moved_any = moved = False
        while True:
            moved = False
            for number in numbers:
                if self.is_balanced():
                    break
                load = loads[owners[number]]
                taker = older.get(number)
                if taker is None or load <= loads[taker] + 1:
                    taker = self._lightest_of(topic_of[number])
                    if load <= loads[taker] + 1:
                        continue
                elif not self._strays:
                    self._strays = taker not in self.subscribers[topic_of[number]]
                self._reassign(number, taker)
                moved = True
            if not moved:
                return moved_any
            moved_any = True

    def is_balanced(self) -> bool:
        """Whether no topic is uneven."""
        if self._checked != self._version:
            self._checked = self._version
            if self._uneven is None or not self._is_uneven(self._uneven):
                self._uneven = next((topic for topic in self.topics if self._is_uneven(topic)), None)
        return self._uneven is None

    def _is_uneven(self, topic: int) -> bool:
        loads = self.loads
        if self._strays:
            wanting = [loads[p] for p in self.subscribers[topic] if loads[p] != self.most[p]]
            least = min(wanting, default=len(self.owner))
        else:
            least = loads[self._lightest_of(topic)]
        return max(loads[owner] for owner in self._held[topic]) > least + self.slack

    def _lightest_of(self, topic: int) -> int:
        known = self._lightest.get(topic)
        if known is None or known[0] != self._version:
            loads, rank = self.loads, self.rank
            lightest = min(self.subscribers[topic], key=lambda position: (loads[position], rank[position]))
            known = self._lightest[topic] = self._version, lightest
        return known[1]

    def _reassign(self, wanted: int, taker: int) -> None:
        number = self.movements.instead_of(wanted, self.owner[wanted], taker)
        if self.gives_back and self.owner[number] != self.owner[wanted]:
            self._move(wanted, self.owner[number])
        self._move(number, taker)

    def _move(self, number: int, taker: int) -> None:
        giver = self.owner[number]
        self.movements.record(number, giver, taker)
        held = self._held[self.topic_of[number]]
        holder = self.holder.pop(number, None)
        if holder is None:
            held[giver] -= 1
            if not held[giver]:
                del held[giver]
            self.loads[giver] -= 1
        else:
            self.kept_too.append((number, holder))
        held[taker] += 1
        self.loads[taker] += 1
        self.owner[number] = taker
        self._version += 1


def _unevenness(loads: Iterable[int]) -> int:
    """The sum of the load differences over all pairs of members, in Java's 32 bits."""
    ordered = sorted(loads)
    count = len(ordered)
    total = sum(load * (2 * position - count + 1) for position, load in enumerate(ordered))
    return (total + 2**31) % 2**32 - 2**31
