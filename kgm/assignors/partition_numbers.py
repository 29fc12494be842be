"""Partitions as numbers, counted topic by topic, so that the order of numbers is the order of (topic, partition).

So an assignor works on lists of small integers and never creates an object for a partition. Most of these lists have
one entry per partition: the position of its owner."""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, repeat

from kgm.assignors.contract import GroupSpec, MemberSpec, TopicSpec
from kgm.java.strings import utf16_key

#: Stands for the owner of a partition without an owner.
NO_OWNER = -1


class Layout:
    """The topics to assign, in the order chosen by the assignor.

    starts[t] is the number of partition 0 of topic t; starts[-1] is the number of partitions of all topics."""

    __slots__ = ("index", "starts", "topics")

    def __init__(self, topics: Sequence[TopicSpec]) -> None:
        self.topics = tuple(topics)
        self.index = {topic.name: position for position, topic in enumerate(topics)}
        self.starts = [0, *accumulate(topic.partitions for topic in topics)]

    @property
    def total(self) -> int:
        """How many partitions there are."""
        return self.starts[-1]

    def range(self, topic: int) -> range:
        """The numbers of a topic's partitions."""
        return range(self.starts[topic], self.starts[topic + 1])

    def topic_of(self) -> list[int]:
        """For each number, the position of its topic."""
        return list(chain.from_iterable(repeat(t, topic.partitions) for t, topic in enumerate(self.topics)))

    def owned(self, member: MemberSpec) -> Iterable[int]:
        """The numbers that a member claims, without repeats, unknown topics, or nonexistent partitions.

        (If a topic was created again with fewer partitions, Java keeps partitions beyond its end; such an assignment
        cannot work.)"""
        for name, partitions in member.owned.items():
            topic = self.index.get(name)
            if topic is not None:
                start, count = self.starts[topic], self.topics[topic].partitions
                for partition in dict.fromkeys(partitions):
                    if 0 <= partition < count:
                        yield start + partition

    def subscribed(self, members: Sequence[MemberSpec]) -> list[list[int]]:
        """For each member, the positions of the topics that it subscribes to, ascending, without unknown topics.

        Members with equal subscriptions share one list."""
        by_value: dict[tuple[str, ...], list[int]] = {}
        known: dict[int, list[int]] = {}
        for topics in distinct_subscriptions(members):
            if topics not in by_value:
                by_value[topics] = sorted({self.index[name] for name in topics if name in self.index})
            known[id(topics)] = by_value[topics]
        if len(known) == 1:
            return [next(iter(known.values()))] * len(members)
        return [known[id(member.topics)] for member in members]

    def subscribers(self, members: Sequence[MemberSpec]) -> list[list[int]]:
        """For each topic, the positions of the members that subscribe to it, ascending.

        Topics that all members subscribe to share one list."""
        kinds: dict[tuple[str, ...], list[int]] = {}
        same: dict[int, list[int]] = {}  # no need to compare subscriptions that are the same object
        for position, member in enumerate(members):
            known = same.get(id(member.topics))
            if known is None:
                known = same[id(member.topics)] = kinds.setdefault(member.topics, [])
            known.append(position)
        lists: list[list[list[int]]] = [[] for _ in self.topics]
        for topics, positions in kinds.items():
            for name in dict.fromkeys(topics):
                topic = self.index.get(name)
                if topic is not None:
                    lists[topic].append(positions)
        all_positions = list(range(len(members)))
        return [all_positions if len(those) == len(kinds) else sorted(chain.from_iterable(those)) for those in lists]


def distinct_subscriptions(members: Sequence[MemberSpec]) -> Iterable[tuple[str, ...]]:
    """The distinct subscription objects, each once (comparing objects is faster than hashing their names)."""
    return {id(member.topics): member.topics for member in members}.values()


def client_layout(group: GroupSpec, order: Callable[[str], bytes] = utf16_key) -> Layout:
    """The topics that a leader assigns, by name: topics that have partitions and at least one subscriber
    (`AbstractPartitionAssignor` leaves out topics that are not in its metadata)."""
    wanted: set[str] = set().union(*distinct_subscriptions(group.members))
    topics = [topic for topic in group.topics if topic.partitions and topic.name in wanted]
    return Layout(sorted(topics, key=lambda topic: order(topic.name)))
