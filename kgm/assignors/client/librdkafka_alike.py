"""librdkafka's `cooperative-sticky` for the usual group: all members subscribe to the same topics, racks do not matter,
and no partition is claimed twice.

In this case, its search for a better balance (`sticky_general`) comes down to this: free partitions go to the member
with the fewest; then the member with the most gives to the member with the fewest, until no member has more than one
partition more than another. A member that has given never has the fewest again, and one that has received never has the
most: so partitions do not trade places, and a second pass moves nothing. What a member gives is still claimed by it, so
it is left out in this rebalance: only how much each member gives matters."""

import heapq
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Final

from kgm.assignors.contract import Assigned, MemberSpec
from kgm.assignors.partition_numbers import NO_OWNER, Layout
from kgm.assignors.result import by_owner, in_turn

#: librdkafka adds up how uneven a group is in 32 bits, and undoes moves that did not lower this sum. Each move lowers
#: it unless the sum overflows, which it cannot if members times partitions is below this number.
_OVERFLOW: Final = 2**31


def sums_fit(members: int, partitions: int) -> bool:
    """Whether sums over pairs of members stay within 32 bits."""
    return members * partitions < _OVERFLOW


def assign_alike(
    members: Sequence[MemberSpec], layout: Layout, ids: Sequence[bytes], named: Sequence[int]
) -> Assigned | None:
    """The assignment of these members, which all subscribe to all topics. None if this is not the usual kind of group.

    ids: the members' ids, which break ties. named: the topics in the order of the leader's metadata."""
    claimed = _undisputed(members, layout)
    instances = [member.group_instance_id for member in members if member.group_instance_id is not None]
    if claimed is None or len(set(instances)) < len(instances) or not sums_fit(len(members), layout.total):
        return None
    by_id = sorted(range(len(ids)), key=ids.__getitem__)
    loads = Counter(claimed)
    if loads[NO_OWNER] == layout.total:
        return in_turn(layout, [members[position] for position in by_id], [range(len(by_id))] * len(layout.topics))
    lightest = [(loads[position], rank) for rank, position in enumerate(by_id)]
    heapq.heapify(lightest)
    owner = _with_free_ones(claimed, layout, lightest, by_id, named)
    gives = _given(lightest)
    if gives:
        left = {by_id[rank]: count for rank, count in gives.items()}
        for number, position in enumerate(claimed):
            if left.get(position):
                left[position] -= 1
                owner[number] = NO_OWNER
    return by_owner(layout, members, owner)


def _undisputed(members: Sequence[MemberSpec], layout: Layout) -> list[int] | None:
    """For each partition, the member that claims it, or NO_OWNER. None if two members claim a partition, or if a
    claimed one does not exist."""
    owner = [NO_OWNER] * layout.total
    for position, member in enumerate(members):
        for name, partitions in member.owned.items():
            topic = layout.index.get(name)
            if topic is None:
                return None
            start, count = layout.starts[topic], layout.topics[topic].partitions
            for partition in partitions:
                if not 0 <= partition < count or owner[start + partition] != NO_OWNER:
                    return None
                owner[start + partition] = position
    return owner


def _with_free_ones(
    claimed: Sequence[int],
    layout: Layout,
    lightest: list[tuple[int, int]],
    by_id: Sequence[int],
    named: Sequence[int],
) -> list[int]:
    """The owners after unclaimed partitions have been assigned, last partition first. lightest: a heap of the members'
    (load, rank); it is modified."""
    owner = list(claimed)
    for number in chain.from_iterable(reversed(layout.range(topic)) for topic in reversed(named)):
        if claimed[number] == NO_OWNER:
            load, rank = lightest[0]
            heapq.heapreplace(lightest, (load + 1, rank))
            owner[number] = by_id[rank]
    return owner


def _given(lightest: list[tuple[int, int]]) -> Counter[int]:
    """How many partitions members give, by rank. Of the members that have the most, the one with the last id gives
    next."""
    heaviest = [(-load, -rank) for load, rank in lightest]
    heapq.heapify(heaviest)
    gives: Counter[int] = Counter()
    while True:
        (less, last), (least, first) = heaviest[0], lightest[0]
        if -less <= least + 1:
            return gives
        heapq.heapreplace(heaviest, (less + 1, last))
        heapq.heapreplace(lightest, (least + 1, first))
        gives[-last] += 1
