"""Which partitions have moved between which members during one sticky assignment.

When a partition should go from A to B, and another one of the same topic has already gone from B to A, the latter goes
back instead: partitions of a topic never trade places. (`PartitionMovements` of `AbstractStickyAssignor`.)"""

from kgm.assignors.partition_numbers import Layout
from kgm.java.hash_set import PartitionHashSet
from kgm.java.partitions import topic_partition_hash
from kgm.java.strings import string_hash

_Pair = tuple[int, int]


class Movements:
    """Members and partitions are numbers. oldest_first: of several partitions that could go back, the one that moved
    first does (librdkafka); otherwise the one that comes first in a Java hash set."""

    def __init__(self, layout: Layout, *, oldest_first: bool = False) -> None:
        self._layout = layout
        self._topic_of = layout.topic_of()
        self._by_topic: dict[int, dict[_Pair, PartitionHashSet]] = {}
        self._pair_of: dict[int, _Pair] = {}
        self._hashes: dict[int, int] = {}
        self._oldest_first = oldest_first

    def instead_of(self, number: int, owner: int, taker: int) -> int:
        """The partition that actually moves when this one should go from its owner to a taker."""
        pairs = self._by_topic.get(self._topic_of[number])
        if pairs is None:
            return number
        moved = self._pair_of.get(number)
        source = owner if moved is None else moved[0]
        opposite = pairs.get((taker, source))
        return number if opposite is None else self._first(opposite)

    def _first(self, moved: PartitionHashSet) -> int:
        return moved.first()

    def record(self, number: int, owner: int, taker: int) -> None:
        """Record that a partition moves. Several moves of one partition count as one move from its first owner."""
        pair = self._pair_of.pop(number, None)
        topic = self._topic_of[number]
        if pair is None:
            self._add(number, topic, (owner, taker))
            return
        pairs = self._by_topic[topic]
        pairs[pair].remove(number)
        if not pairs[pair]:
            del pairs[pair]
            if not pairs:
                del self._by_topic[topic]
        if pair[0] != taker:
            self._add(number, topic, (pair[0], taker))

    def _add(self, number: int, topic: int, pair: _Pair) -> None:
        self._pair_of[number] = pair
        moved = self._by_topic.setdefault(topic, {}).setdefault(pair, PartitionHashSet())
        moved.add(number, 0 if self._oldest_first else self._hash(number, topic))

    def _hash(self, number: int, topic: int) -> int:
        topic_hash = self._hashes.get(topic)
        if topic_hash is None:
            topic_hash = self._hashes[topic] = string_hash(self._layout.topics[topic].name)
        return topic_partition_hash(topic_hash, number - self._layout.starts[topic])
