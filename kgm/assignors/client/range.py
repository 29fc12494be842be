"""`range`: each topic in contiguous blocks of partitions over its sorted subscribers (`RangeAssignor`, KIP-881).

With racks there are no blocks: a first pass assigns only partitions with a replica in the consumer's rack, and topics
with the same subscribers and the same number of partitions are assigned together, so that co-partitioned topics stay
co-partitioned. A second pass assigns the rest regardless of racks. The number of partitions of a topic that each
consumer gets is the same either way.
"""

from collections.abc import Callable, Sequence

from kgm.assignors.client.member_order import in_map_order
from kgm.assignors.client.racks import racks_count
from kgm.assignors.contract import Assigned, GroupSpec, MemberSpec, TopicSpec, by_identity
from kgm.assignors.partition_numbers import Layout, client_layout
from kgm.assignors.result import by_member, in_blocks


def assign_range(group: GroupSpec) -> Assigned:
    """Assign blocks. Static members come first, by instance id, so they keep their blocks across restarts (KIP-345)."""
    return assign_blocks(client_layout(group), by_identity(in_map_order(group.members)))


def assign_blocks(layout: Layout, members: Sequence[MemberSpec], *, strict_racks: bool = False) -> Assigned:
    """Assign the partitions of a layout to members in the order given.

    strict_racks: co-partitioned topics are matched even if racks do not matter for them, and a member without a rack
    matches nothing."""
    if not any(member.rack for member in members):
        return in_blocks(layout, members)
    given: list[list[int]] = [[] for _ in members]
    shares = [
        _Share(topic, start, subscribers, members, given)
        for topic, start, subscribers in zip(layout.topics, layout.starts, layout.subscribers(members), strict=False)
    ]
    if strict_racks or any(share.needs_racks for share in shares):
        _match_racks(shares, strict_racks=strict_racks)
    for share in shares:
        share.give_blocks()
    return by_member(layout, members, given)


class _Share:
    """One topic while it is being assigned: its subscribers, the partitions that are left, and how many each subscriber
    may still get."""

    __slots__ = ("_given", "_got", "_left", "_over", "_quota", "consumers", "needs_racks", "racks", "racks_of", "start")

    def __init__(
        self, topic: TopicSpec, start: int, consumers: list[int], members: Sequence[MemberSpec], given: list[list[int]]
    ) -> None:
        self.start = start
        self.consumers = consumers
        self._given = given
        self._left = dict.fromkeys(range(topic.partitions))
        self._got = dict.fromkeys(consumers, 0)
        self._quota, self._over = divmod(topic.partitions, len(consumers))
        self.racks = {position: rack for position in consumers if (rack := members[position].rack)}
        # Java reads the partitions' racks only when some subscriber has one.
        self.racks_of: list[frozenset[str]] = []
        if self.racks:
            self.racks_of = [frozenset(racks) for racks in topic.racks or [()] * topic.partitions]
        self.needs_racks = bool(self.racks) and racks_count(self.racks.values(), self.racks_of)

    def matches(self, consumer: int, partition: int) -> bool:
        """Whether a partition has a replica in the consumer's rack. A consumer without a rack matches all
        partitions."""
        rack = self.racks.get(consumer)
        return rack is None or rack in self.racks_of[partition]

    def room(self, consumer: int) -> int:
        """How many more partitions a consumer can get."""
        return max(0, self._quota + (self._over > 0) - self._got[consumer])

    def give(self, consumer: int, partitions: Sequence[int]) -> None:
        self._given[consumer].extend(self.start + partition for partition in partitions)
        self._got[consumer] += len(partitions)
        if self._got[consumer] > self._quota:
            self._over -= 1
        for partition in partitions:
            del self._left[partition]

    def give_blocks(self, may: Callable[[int, int], bool] | None = None) -> None:
        """Each consumer in turn takes the first remaining partitions, as many as it can get. may: whether a consumer
        can take a partition; None: always."""
        for consumer in self.consumers:
            if not self._left:
                break
            room, chosen = self.room(consumer), []
            if room:
                for partition in self._left:
                    if may is None or may(consumer, partition):
                        chosen.append(partition)
                        if len(chosen) == room:
                            break
            if chosen:
                self.give(consumer, chosen)


def _match_racks(shares: Sequence[_Share], *, strict_racks: bool) -> None:
    together: dict[tuple[tuple[int, ...], int], list[_Share]] = {}
    for share in shares:
        together.setdefault((tuple(share.consumers), len(share.racks_of)), []).append(share)
    for (_, partitions), alike in together.items():
        if len(alike) > 1:
            _match_co_partitioned(alike, partitions, strict_racks=strict_racks)
        elif alike[0].needs_racks:
            alike[0].give_blocks(alike[0].matches)


def _match_co_partitioned(shares: Sequence[_Share], partitions: int, *, strict_racks: bool) -> None:
    """Assign partition p of all topics to the first consumer that matches all of them and has room in all."""
    remaining = list(shares[0].racks) if strict_racks else list(shares[0].consumers)
    for partition in range(partitions):
        consumer = next(
            (c for c in remaining if all(share.matches(c, partition) and share.room(c) for share in shares)), None
        )
        if consumer is None:
            continue
        for share in shares:
            share.give(consumer, [partition])
        if not any(share.room(consumer) for share in shares):
            remaining.remove(consumer)
            if not remaining:
                break
