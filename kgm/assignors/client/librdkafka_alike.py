"""librdkafka's `cooperative-sticky` for the usual group: all members subscribe to the same topics, racks do not matter,
and no partition is claimed twice.

Its search for a better balance (`sticky_general`) comes to this then: what is free goes to whoever has least; then
whoever has most gives to whoever has least, until no member leads another by more than one. One that has given never
has least again, and one that was given never has most: so partitions do not trade places, and no second look moves any.
What is given is claimed by the giver, so it is left out in this rebalance: how much each gives is all that matters."""

import heapq
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Final

from kgm.assignors.contract import Assigned, MemberSpec
from kgm.assignors.partition_numbers import NO_OWNER, Layout
from kgm.assignors.result import by_owner, in_turn

#: How uneven a group is, librdkafka adds up in 32 bits, and undoes moves by which that did not shrink. It shrinks with
#: each move unless the sum overflows, which it cannot with fewer members times partitions.
_OVERFLOW: Final = 2**31


def sums_fit(members: int, partitions: int) -> bool:
    """Whether sums over pairs of members stay within 32 bits."""
    return members * partitions < _OVERFLOW


def assign_alike(
    members: Sequence[MemberSpec], layout: Layout, ids: Sequence[bytes], named: Sequence[int]
) -> Assigned | None:
    """What these members, which subscribe to all topics, are assigned. None if the group is not the usual one.

    ids: break ties between members. named: the topics in the order of the leader's metadata."""
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
    """For each partition the member that claims it, or NO_OWNER. None if two do, or if a partition does not exist."""
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
    """The owners when unclaimed partitions have been assigned, last first. lightest: a heap of loads and ranks of
    members; it is modified."""
    owner = list(claimed)
    for number in chain.from_iterable(reversed(layout.range(topic)) for topic in reversed(named)):
        if claimed[number] == NO_OWNER:
            load, rank = lightest[0]
            heapq.heapreplace(lightest, (load + 1, rank))
            owner[number] = by_id[rank]
    return owner


def _given(lightest: list[tuple[int, int]]) -> Counter[int]:
    """How much members give, by rank. Of those that have most, the one with the last id gives next."""
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
