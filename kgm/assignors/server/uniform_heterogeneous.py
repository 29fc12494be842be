"""The coordinator's `uniform` (KIP-848), for groups whose members subscribe to different topics.

There are three steps (`UniformHeterogeneousAssignmentBuilder`): members keep what they own in topics that they still
subscribe to; partitions without an owner are assigned, topic by topic, to the least loaded subscribers; then, topic by
topic and in at most 16 rounds, partitions move from the most to the least loaded subscribers, until their loads differ
by at most one or nothing can be moved.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Final

from kgm.assignors.contract import Assigned, MemberSpec
from kgm.assignors.partition_numbers import NO_OWNER, Layout
from kgm.assignors.result import by_owner, lines_of, with_changes

_MOST_ROUNDS: Final = 16
#: Partitions that move: topic, first partition, end (exclusive), and the owners before and after (positions in the
#: group, or NO_OWNER).
Gain = tuple[str, int, int, int, int]


class HeterogeneousBuilder:
    """One computation. Members, topics and partitions are numbers: positions in the group and in the layout."""

    def __init__(
        self,
        layout: Layout,
        subscribed: Sequence[Sequence[int]],
        members: Sequence[MemberSpec],
        gains: list[Gain] | None = None,
    ) -> None:
        self._layout = layout
        self._gains = gains
        self._members = members
        self._subscribers = layout.subscribers(members)
        # Partitions that move, with their previous owners; None: not tracked.
        self._changed: dict[int, int] | None = {}
        columns = self._columns_of_lines()
        if columns is None:
            self._changed = None
            columns = self._columns_of_members(subscribed) if any(member.owned for member in members) else []
        self._owner = list(chain.from_iterable(columns)) or [NO_OWNER] * layout.total
        loads = Counter(self._owner if columns else ())
        self._loads = [loads[position] for position in range(len(members))]

    def _columns_of_members(self, subscribed: Sequence[Sequence[int]]) -> list[list[int]]:
        """For each topic, the owners of its partitions."""
        topics = self._layout.topics
        columns = [[NO_OWNER] * topic.partitions for topic in topics]
        mine: dict[str, list[int]] = {}
        for position, member in enumerate(self._members):
            if not position or subscribed[position] is not subscribed[position - 1]:
                mine = {topics[topic].name: columns[topic] for topic in subscribed[position]}
            _keep_owned(position, member, mine)
        return columns

    def _columns_of_lines(self) -> list[list[int]] | None:
        """The same, but faster, if what members own comes from one earlier result, in which no partition has two
        owners."""
        reused = lines_of(self._members)
        if reused is None:
            return None
        before, lines = reused
        changed: dict[int, int] = {}
        columns = []
        for topic, start, subscribers in zip(self._layout.topics, self._layout.starts, self._subscribers, strict=False):
            column = [NO_OWNER] * topic.partitions
            may_have = set(subscribers)
            try:
                for position, partitions in zip(lines, before.get(topic.name, ()), strict=False):
                    if partitions and position in may_have:
                        for partition in partitions:
                            column[partition] = position
                    elif partitions and position != NO_OWNER:  # a topic that it no longer subscribes to
                        changed.update((start + p, position) for p in partitions if column[p] == NO_OWNER)
            except IndexError:  # the topic used to have more partitions
                return None
            columns.append(column)
        if not before.keys() <= self._layout.index.keys():
            return None
        self._changed = changed
        return columns

    def build(self) -> Assigned:
        """The assignment."""
        topics = sorted((t for t, those in enumerate(self._subscribers) if those), key=self._topic_key)
        self._assign_free(topics)
        self._balance([topic for topic in topics if len(self._subscribers[topic]) > 1])
        if self._changed is None:
            return by_owner(self._layout, self._members, self._owner)
        return with_changes(self._layout, self._members, self._owner, self._changed)

    def _topic_key(self, topic: int) -> tuple[float, int, int]:
        """Sort key: topics with the most partitions per subscriber first, then topics with the fewest subscribers."""
        count = len(self._subscribers[topic])
        return -self._layout.topics[topic].partitions / count, count, topic

    def _assign_free(self, topics: Sequence[int]) -> None:
        loads = self._loads
        for topic in topics:
            numbers = self._layout.range(topic)
            column = self._owner[numbers.start : numbers.stop]
            count = column.count(NO_OWNER)
            if not count:
                continue
            takers = _least_loaded(self._subscribers[topic], loads, count)
            for taker in takers:
                loads[taker] += 1
            if self._gains is not None:
                name = self._layout.topics[topic].name
                free = (partition for partition, owner in enumerate(column) if owner == NO_OWNER)
                self._gains += [(name, p, p + 1, NO_OWNER, taker) for p, taker in zip(free, takers, strict=True)]
            if self._changed is not None:
                for number, owner in zip(numbers, column, strict=True):
                    if owner == NO_OWNER:
                        self._changed.setdefault(number, NO_OWNER)
            if count < len(column):
                given = iter(takers)
                takers = [next(given) if owner == NO_OWNER else owner for owner in column]
            self._owner[numbers.start : numbers.stop] = takers

    def _give(self, topic: int, number: int, member: int) -> None:
        before = self._owner[number]
        if before != NO_OWNER:
            self._loads[before] -= 1
        if self._gains is not None:
            partition = number - self._layout.starts[topic]
            self._gains.append((self._layout.topics[topic].name, partition, partition + 1, before, member))
        self._owner[number] = member
        self._loads[member] += 1
        if self._changed is not None:
            self._changed.setdefault(number, before)

    def _balance(self, topics: Sequence[int]) -> None:
        last_changed = None
        if max(self._loads) - min(self._loads) <= 1:
            return  # and so is every topic
        for _ in range(_MOST_ROUNDS):
            for topic in topics:
                if topic == last_changed:
                    return  # a full round without a change
                if self._balance_topic(topic) or last_changed is None:
                    last_changed = topic

    def _balance_topic(self, topic: int) -> int:
        """Move partitions of one topic; returns how many moved."""
        loads = [self._loads[member] for member in self._subscribers[topic]]
        if max(loads) - min(loads) <= 1:
            return 0
        scales = _Scales(self._subscribers[topic], self._loads)
        to_give: dict[int, list[int]] = {}
        for number in self._layout.range(topic):
            to_give.setdefault(self._owner[number], []).append(number)
        moved = 0
        while True:
            heaviest = scales.heaviest()
            while heaviest != NO_OWNER and not to_give.get(heaviest):
                scales.exclude_heaviest()
                heaviest = scales.heaviest()
            if heaviest == NO_OWNER:
                return moved
            number = to_give[heaviest].pop()
            lightest = scales.lightest()
            if scales.is_balanced():
                return moved
            self._give(topic, number, lightest)
            moved += 1


def _keep_owned(position: int, member: MemberSpec, columns: Mapping[str, list[int]]) -> None:
    """Record what a member owns in the columns of the topics that it subscribes to.

    A partition that two members claim stays with the first one (this does not happen in a broker)."""
    for name, partitions in member.owned.items():
        column = columns.get(name)
        if column is not None:
            for partition in partitions:
                if NO_OWNER < partition < len(column) and column[partition] == NO_OWNER:
                    column[partition] = position


def _least_loaded(members: Sequence[int], loads: Sequence[int], count: int) -> list[int]:
    """The members that get a partition, in order: all members with the lowest load, then these and all members with the
    next higher load, and so on."""
    if count < len(members):
        level = min(map(loads.__getitem__, members))
        lowest = list(islice((member for member in members if loads[member] == level), count))
        if len(lowest) == count:
            return lowest
    order = sorted(members, key=loads.__getitem__)
    level, end = loads[order[0]], 0
    takers: list[int] = []
    while len(takers) < count:
        while end < len(order) and loads[order[end]] == level:
            end += 1
        takers += order[:end]
        level += 1
    return takers[:count]


class _Scales:
    """The subscribers of one topic by load, with a light range that grows from the left and a heavy range that grows
    from the right. Each range moves level by level: all members in it get (or give) one partition before any of them
    gets (or gives) a second one; then the neighbors at the new level join it."""

    __slots__ = (
        "_heavy_end", "_heavy_level", "_heavy_next", "_heavy_start", "_light_end", "_light_level", "_light_next",
        "_loads", "_order",
    )  # fmt: skip

    def __init__(self, members: Sequence[int], loads: list[int]) -> None:
        self._loads = loads  # live: the builder updates it while partitions move
        self._order = sorted(members, key=loads.__getitem__)
        self._light_end = 0  # exclusive
        self._light_level = loads[self._order[0]] - 1
        self._light_next = 0
        self._heavy_start = self._heavy_end = len(self._order)  # inclusive, exclusive
        self._heavy_level = loads[self._order[-1]] + 1
        self._heavy_next = len(self._order) - 1

    def is_balanced(self) -> bool:
        return self._heavy_level - self._light_level <= 1

    def lightest(self) -> int:
        """The member that should get the next partition, which then counts as assigned."""
        if self._light_next >= self._light_end:
            self._light_level += 1
            order, loads = self._order, self._loads
            while self._light_end < len(order) and loads[order[self._light_end]] == self._light_level:
                self._light_end += 1
            self._light_next = 0
        member = self._order[self._light_next]
        self._light_next += 1
        return member

    def heaviest(self) -> int:
        """The member that should give a partition, or NO_OWNER; the partition then counts as taken."""
        if self._heavy_next < self._heavy_start:
            order, loads = self._order, self._loads
            if self._heavy_end <= self._heavy_start and self._heavy_start > 0:
                # All members of the range were excluded: continue at the level of the next one.
                self._heavy_level = loads[order[self._heavy_start - 1]]
            else:
                self._heavy_level -= 1
            while self._heavy_start > 0 and loads[order[self._heavy_start - 1]] == self._heavy_level:
                self._heavy_start -= 1
            self._heavy_next = self._heavy_end - 1
        if self._heavy_next < 0:
            return NO_OWNER
        member = self._order[self._heavy_next]
        self._heavy_next -= 1
        return member

    def exclude_heaviest(self) -> None:
        """Remove the member that `heaviest` returned last from the heavy range: it has nothing to give."""
        order, position, last = self._order, self._heavy_next + 1, self._heavy_end - 1
        order[position], order[last] = order[last], order[position]
        self._heavy_end = last
