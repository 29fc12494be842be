"""The sticky assignors of twmb/franz-go 1.22.3 (`internal/sticky`), which differ from Java's.

 1. Members keep what they claim. Of two claims, the one with the newer generation counts; a partition goes back to the
    older claimant if that member has at least two partitions fewer, or if no member has the partition now.
 2. Free partitions go to the least loaded subscriber, topic by topic.
 3. If all members subscribe to the same topics, members with the most partitions give to members with the fewest.
    Otherwise the member with the fewest looks for the shortest path to a member that has at least two more: each member
    on this path takes a partition from the next one.
 4. If subscriptions differ, as many partitions as possible go back to the members that had them (`franz_go_repair`).

Topics, and partitions that are claimed twice, are taken in the order of a Go map. This order decides which of the free
partitions go where if they are from several topics, and what moves in step 3 or 4 if subscriptions differ."""

import heapq
from collections.abc import Sequence

from kgm.assignors.client.sticky_claims import NO_GENERATION, generation_of
from kgm.assignors.client.sticky_general import subscribers_of
from kgm.assignors.contract import Assigned, GroupSpec, MemberSpec
from kgm.assignors.libraries.cooperative import without_transfers
from kgm.assignors.libraries.franz_go_repair import repaired
from kgm.assignors.libraries.order import static_first, utf8_key
from kgm.assignors.map_order import MapOrder
from kgm.assignors.partition_numbers import NO_OWNER, Layout, client_layout
from kgm.assignors.result import by_owner

#: A generation that no member reports: -1 counts as 0.
_NEVER = -1


def assign_sticky(group: GroupSpec) -> Assigned:
    """`StickyBalancer`. It reads what members claim, although franz-go's own members claim nothing: they give up their
    partitions before they join."""
    layout, members, owner = _owners(group, names_generation=False)
    return by_owner(layout, members, owner)


def assign_cooperative_sticky(group: GroupSpec) -> Assigned:
    """`CooperativeStickyBalancer`: leaves out partitions that another member must give up first. Members whose
    subscription has no generation keep nothing."""
    layout, members, owner = _owners(group, names_generation=True)
    return by_owner(layout, members, without_transfers(layout, members, owner, heeds_generations=True))


def _owners(group: GroupSpec, *, names_generation: bool) -> tuple[Layout, list[MemberSpec], list[int]]:
    """names_generation: whether only claims in subscriptions that have a generation count."""
    members, order = static_first(group.members), group.map_order or MapOrder()
    layout = Layout(order.of(client_layout(group).topics))
    counts = [not names_generation or (one.names_generation and generation_of(one) > NO_GENERATION) for one in members]
    balance = _Balance(layout, members, order)
    balance.keep_claims(members, counts)
    balance.assign_free()
    return layout, members, balance.evened()


class _Balance:
    """Members are positions in the order given, partitions are numbers in the layout.

    held: the partitions of each member in the order in which it got them; when one is removed, the last one takes its
    place."""

    def __init__(self, layout: Layout, members: Sequence[MemberSpec], order: MapOrder) -> None:
        self.layout = layout
        self.order = order
        self.topic_of = layout.topic_of()
        self.subscribers = subscribers_of(layout, layout.subscribed(members))
        self.may_have = [frozenset(those) for those in self.subscribers]
        self.is_mixed = any(len(those) != len(members) for those in self.subscribers)
        self.held: list[list[int]] = [[] for _ in members]
        self.owner = [NO_OWNER] * layout.total
        self.before: list[int] = []

    def keep_claims(self, members: Sequence[MemberSpec], counts: Sequence[bool]) -> None:
        """Step 1. counts: for each member, whether its claims count."""
        newer, older = [(_NEVER, NO_OWNER)] * self.layout.total, [(_NEVER, NO_OWNER)] * self.layout.total
        for position, member in enumerate(members):
            generation = max(generation_of(member), 0)
            for number in self.layout.owned(member) if counts[position] else ():
                if generation > newer[number][0]:
                    newer[number], older[number] = (generation, position), newer[number]
                elif generation > older[number][0]:
                    older[number] = generation, position
        for number, (_, position) in enumerate(newer):
            if position in self.may_have[self.topic_of[number]]:
                self._take(position, number)
        disputed = [number for number, (_, rival) in enumerate(older) if rival != NO_OWNER]
        self.order.decides |= len(disputed) > 1
        for number in self.order.of(disputed):
            self._give_back(number, older[number][1])
        self.before = [*self.owner]

    def _give_back(self, number: int, rival: int) -> None:
        owner = self.owner[number]
        if rival not in self.may_have[self.topic_of[number]]:
            return
        if owner == NO_OWNER or len(self.held[rival]) + 1 < len(self.held[owner]):
            self._drop(number)
            self._take(rival, number)

    def _take(self, position: int, number: int) -> None:
        self.held[position].append(number)
        self.owner[number] = position

    def _drop(self, number: int) -> None:
        if self.owner[number] != NO_OWNER:
            _take_out(self.held[self.owner[number]], number)
            self.owner[number] = NO_OWNER

    def assign_free(self) -> None:
        """Step 2: assign free partitions."""
        heap, topic = _MemberHeap(self.held, self.subscribers[0] if self.subscribers else []), 0
        free = [number for number, position in enumerate(self.owner) if position == NO_OWNER]
        self.order.decides |= len({self.topic_of[number] for number in free}) > 1
        for number in free:
            if self.is_mixed and self.topic_of[number] != topic:
                topic = self.topic_of[number]
                heap = _MemberHeap(self.held, self.subscribers[topic])
            self._take(heap.first, number)
            heap.first_has_grown()

    def evened(self) -> list[int]:
        """Steps 3 and 4. Returns the owners."""
        levels = _Levels(self.held)
        if not self.is_mixed:
            self._even_out(levels)
            return self.owner
        has_moved = _Exchange(self, levels).has_moved
        owner = repaired(self.topic_of, self.subscribers, self.held, self.before)
        self.order.decides |= len(self.layout.topics) > 1 and (has_moved or owner is not None)
        return self.owner if owner is None else owner

    def _even_out(self, levels: "_Levels") -> None:
        """The members with the most partitions each give one to the members with the fewest: their last one by
        partition number, then topic."""
        least, most = levels.least, levels.most
        topics = [utf8_key(topic.name) for topic in self.layout.topics]

        def by_number(number: int) -> tuple[int, bytes]:
            topic = self.topic_of[number]
            return number - self.layout.starts[topic], topics[topic]

        for numbers in self.held:
            if len(numbers) > least + 1 < most:
                numbers.sort(key=by_number)
        while most > least + 1:
            takers, givers = levels.at[least], levels.at[most]
            pairs = min(len(takers), len(givers))
            for taker, giver in zip(takers, givers, strict=False):
                self._take(taker, self.held[giver].pop())
            levels.at.setdefault(least + 1, []).extend(takers[:pairs])
            levels.at.setdefault(most - 1, []).extend(givers[:pairs])
            del takers[:pairs], givers[:pairs]
            levels.forget_empty(least, most)
            least, most = levels.least, levels.most


class _MemberHeap:
    """Members by how many partitions they have. Ties are broken by their place in this heap."""

    def __init__(self, held: Sequence[Sequence[int]], members: Sequence[int]) -> None:
        self._held = held
        self._members = [*members]
        for place in reversed(range(len(members) // 2)):
            self._sink(place)

    @property
    def first(self) -> int:
        return self._members[0]

    def first_has_grown(self) -> None:
        self._sink(0)

    def _sink(self, place: int) -> None:
        members, held = self._members, self._held
        while (child := 2 * place + 1) < len(members):
            if child + 1 < len(members) and len(held[members[child + 1]]) < len(held[members[child]]):
                child += 1
            if len(held[members[place]]) <= len(held[members[child]]):
                return
            members[place], members[child] = members[child], members[place]
            place = child


class _Levels:
    """Members by how many partitions they have, in the order in which they reached that number."""

    def __init__(self, held: Sequence[Sequence[int]]) -> None:
        self.at: dict[int, list[int]] = {}
        for position, numbers in enumerate(held):
            self.at.setdefault(len(numbers), []).append(position)

    @property
    def least(self) -> int:
        return min(self.at, default=0)

    @property
    def most(self) -> int:
        return max(self.at, default=0)

    def move(self, position: int, before: int, after: int) -> None:
        _take_out(self.at[before], position)
        self.forget_empty(before)
        self.at.setdefault(after, []).append(position)

    def forget_empty(self, *loads: int) -> None:
        for load in loads:
            if not self.at.get(load, True):
                del self.at[load]


class _Exchange:
    """Step 3 if subscriptions differ: the member with the fewest partitions takes one, as long as there is a path to a
    member with more.

    parts: for each topic, its partitions by member, in the order in which members first got any."""

    def __init__(self, balance: _Balance, levels: _Levels) -> None:
        self.balance = balance
        self.levels = levels
        self.has_moved = False
        self.wanted: list[list[int]] = [[] for _ in balance.held]
        for topic, subscribers in enumerate(balance.subscribers):
            for position in subscribers:
                self.wanted[position].append(topic)
        self.parts: list[dict[int, list[int]]] = [{} for _ in balance.subscribers]
        for number, position in enumerate(balance.owner):
            self.parts[balance.topic_of[number]].setdefault(position, []).append(number)
        while len(levels.at) > 1:
            least, most = levels.at[levels.least], levels.at[levels.most]
            if levels.most <= levels.least + 1:
                return
            self._raise(least, most)

    def _raise(self, least: list[int], most: Sequence[int]) -> None:
        """Move partitions until no member with the fewest, or none with the most, is left. A member that cannot take
        any is dropped."""
        while least and most:
            way = self._way_from(least[0])
            self.has_moved |= bool(way)
            for giver, taker, number in way:
                self._pass_on(giver, taker, number)
            if not way:
                load = len(self.balance.held[least[0]])
                _take_out(least, least[0])
                self.levels.forget_empty(load)

    def _way_from(self, start: int) -> list[tuple[int, int, int]]:
        """(giver, taker, partition) from the far end of the path; empty if there is no path."""
        held = self.balance.held
        reached: dict[int, tuple[int, int]] = {}
        seen, limit = {start}, len(held[start]) + 1
        queue = [(-len(held[start]), 0, start)]
        while queue:
            load, distance, position = heapq.heappop(queue)
            if -load > limit:
                way = []
                while position != start:
                    taker, number = reached[position]
                    way.append((position, taker, number))
                    position = taker
                return way
            for topic in self.wanted[position]:
                for owner, numbers in self.parts[topic].items():
                    if numbers and owner not in seen:
                        seen.add(owner)
                        reached[owner] = position, numbers[0]
                        heapq.heappush(queue, (-len(held[owner]), distance + 1, owner))
        return []

    def _pass_on(self, giver: int, taker: int, number: int) -> None:
        held, parts = self.balance.held, self.parts[self.balance.topic_of[number]]
        before = len(held[giver]), len(held[taker])
        _take_out(held[giver], number)
        held[taker].append(number)
        self.balance.owner[number] = taker
        self.levels.move(giver, before[0], before[0] - 1)
        self.levels.move(taker, before[1], before[1] + 1)
        _take_out(parts[giver], number)
        parts.setdefault(taker, []).append(number)


def _take_out(numbers: list[int], number: int) -> None:
    """Remove a number; the last one takes its place."""
    place = numbers.index(number)
    numbers[place] = numbers[-1]
    numbers.pop()
