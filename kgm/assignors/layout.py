"""Partitions as numbers: topic after topic, so that the order of numbers is the order of (topic, partition).

An assignor then works on lists of small integers and never makes an object for a partition."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, repeat

from kgm.assignors.java import utf16_key
from kgm.assignors.spec import Assigned, GroupSpec, MemberSpec, TopicSpec


class Layout:
    """The topics that are assigned, in an order that the assignor chose.

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
        """For each number the position of its topic."""
        return list(chain.from_iterable(repeat(t, topic.partitions) for t, topic in enumerate(self.topics)))

    def owned(self, member: MemberSpec) -> Iterable[int]:
        """The numbers that a member claims, without repeats, unknown topics and partitions that do not exist.

        (Java keeps a partition beyond the end of a topic that was made anew with fewer; such an answer cannot work.)"""
        for name, partitions in member.owned.items():
            topic = self.index.get(name)
            if topic is not None:
                start, count = self.starts[topic], self.topics[topic].partitions
                for partition in dict.fromkeys(partitions):
                    if 0 <= partition < count:
                        yield start + partition

    def subscribed(self, member: MemberSpec) -> list[int]:
        """The positions of the topics that a member subscribes to, ascending, as far as they are here."""
        return sorted({self.index[name] for name in member.topics if name in self.index})

    def named(self, numbers: Iterable[int]) -> dict[str, list[int]]:
        """Numbers as topics and partitions, both in order."""
        ordered, result, done = sorted(numbers), {}, 0
        while done < len(ordered):
            topic = bisect_right(self.starts, ordered[done]) - 1
            end = bisect_left(ordered, self.starts[topic + 1], done)
            start = self.starts[topic]
            result[self.topics[topic].name] = [number - start for number in ordered[done:end]]
            done = end
        return result

    def answer(self, members: Sequence[MemberSpec], numbers: Sequence[Iterable[int]]) -> Assigned:
        """The answer of an assignor: for each member, in the same order, the numbers that it gets."""
        return {member.member_id: self.named(mine) for member, mine in zip(members, numbers, strict=True)}


def client_layout(group: GroupSpec, order: Callable[[str], bytes] = utf16_key) -> Layout:
    """The topics a client-side leader assigns: those that somebody subscribes to and that have partitions, by name
    (`AbstractPartitionAssignor` leaves out what its metadata does not know)."""
    wanted = {name for member in group.members for name in member.topics}
    topics = [topic for topic in group.topics if topic.partitions and topic.name in wanted]
    return Layout(sorted(topics, key=lambda topic: order(topic.name)))
