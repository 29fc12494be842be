"""The assignors of librdkafka (on which the clients for Python, Go, Rust and .NET are based) when one of its consumers
leads a group: `range`, `roundrobin` and `cooperative-sticky` of 2.x.

They are ports of Java's assignors with visible differences. Members are compared by instance id only if both are
static, and by member id otherwise, so static members do not come first in a mixed group. (This comparison can be
cyclic; then the order is whatever a merge sort makes of it, because glibc's `qsort` is one.) `range` always matches
racks for co-partitioned topics, but never for a member without a rack. `cooperative-sticky` is Java's from before Kafka
2.4: one algorithm for both equal and different subscriptions, which assigns free partitions in descending order, from
the last partition of the last topic. It holds back partitions by comparing with what members claim, including stale
claims.

Members are in the order of the JoinGroup response, and topics in the order of the leader's metadata (see
`as_the_leader_sees`). (rdkafka_range_assignor.c, rdkafka_roundrobin_assignor.c, rdkafka_sticky_assignor.c,
rdkafka_cgrp.c, rdmap.c.)
"""

import dataclasses
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

from kgm.assignors.client.librdkafka_alike import assign_alike
from kgm.assignors.client.range import assign_blocks
from kgm.assignors.client.sticky_claims import Racks, named_generation_of
from kgm.assignors.client.sticky_general import GeneralBuilder, fewest_subscribers_first, largest_first
from kgm.assignors.client.sticky_moves import Movements
from kgm.assignors.contract import Assigned, GroupSpec, MemberSpec
from kgm.assignors.partition_numbers import NO_OWNER, Layout, client_layout
from kgm.assignors.result import by_member, in_turn
from kgm.java.scala_set import scala_set_order


def assign_range(group: GroupSpec) -> Assigned:
    """Blocks of partitions for each topic."""
    return assign_blocks(client_layout(group, order=_utf8), _sorted(group.members), strict_racks=True)


def assign_round_robin(group: GroupSpec) -> Assigned:
    """All partitions in turn."""
    layout, members = client_layout(group, order=_utf8), _sorted(group.members)
    return in_turn(layout, members, layout.subscribers(members))


def assign_cooperative_sticky(group: GroupSpec) -> Assigned:
    """Partitions that another member claims are left out for this rebalance."""
    layout = client_layout(group, order=_utf8)
    # A member without a subscription is treated like one whose subscription cannot be read, and is left out.
    members = [member for member in group.members if member.topics]
    answer: Assigned = {member.member_id: {} for member in group.members}
    if not layout.total:
        return answer
    subscribed = layout.subscribed(members)
    racks = Racks(members, layout)
    ids = [_utf8(member.member_id) for member in members]
    if not racks.in_use and all(len(topics) == len(layout.topics) for topics in subscribed):
        alike = assign_alike(members, layout, ids, _in_metadata(group, layout))
        if alike is not None:
            return {**answer, **alike}
    claims = _Claims(members, layout)
    owner = [NO_OWNER] * layout.total
    for position, numbers in enumerate(claims.owned):
        for number in numbers:
            owner[number] = position
    builder = GeneralBuilder(
        layout=layout,
        subscribed=subscribed,
        owner=owner,
        older_claims=claims.older,
        racks=racks,
        ids=ids,
        order=_order(group, layout, subscribed, claims),
        movements=Movements(layout, oldest_first=True),
        misfiled=claims.misfiled,
        slack=0,
    )
    builder.build()
    answer.update(_adjusted(members, by_member(layout, members, builder.held())))
    return answer


def as_the_leader_sees(group: GroupSpec) -> GroupSpec:
    """The group with its topics in the order in which a Kafka broker returns them to the leader, and without
    subscriptions that the leader cannot read: version 1 subscriptions that end before the owned partitions.

    The leader requests topics in the order in which members name them, and the broker puts them into a Scala set."""
    members = tuple([one if one.says_owned else dataclasses.replace(one, topics=()) for one in group.members])
    requested = scala_set_order(list(dict.fromkeys(name for member in members for name in member.topics)))
    place = {name: position for position, name in enumerate(requested)}
    ordered = sorted(group.topics, key=lambda topic: place.get(topic.name, len(place)))
    return dataclasses.replace(group, members=members, topics=tuple(ordered))


def compare(one: MemberSpec, other: MemberSpec) -> int:
    """The order of two members in `rd_kafka_group_member_cmp`: negative, 0 or positive."""
    left, right = one.member_id, other.member_id
    if one.group_instance_id is not None and other.group_instance_id is not None:
        left, right = one.group_instance_id, other.group_instance_id
    a, b = _utf8(left), _utf8(right)
    return (a > b) - (a < b)


def _utf8(text: str) -> bytes:
    """Sort key for the order of `strcmp`."""
    return text.encode("utf-8", "surrogatepass")


def _sorted(members: Sequence[MemberSpec]) -> list[MemberSpec]:
    """Members with a subscription, sorted; then the others."""
    others = [member for member in members if not member.topics]
    return [*merge_sort([member for member in members if member.topics], compare), *others]


def merge_sort(items: list[MemberSpec], order: Callable[[MemberSpec, MemberSpec], int]) -> list[MemberSpec]:
    """The result of glibc's `qsort`, even for a comparison that is not a consistent order: a merge sort by halves."""
    if len(items) < 2:
        return items
    half = len(items) // 2
    left, right = merge_sort(items[:half], order), merge_sort(items[half:], order)
    result, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if order(left[i], right[j]) <= 0:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    return result + left[i:] + right[j:]


class _Claims:
    """Which member owned which partition. A partition that two members claim at the same generation has no owner;
    otherwise the newest claim counts, and the second newest is kept in `older`. When librdkafka moves a partition that
    several members claim, it looks it up under the last claimant in the order of members (`misfiled`), whatever the
    generation."""

    def __init__(self, members: Sequence[MemberSpec], layout: Layout) -> None:
        self.owned: list[list[int]] = [[] for _ in members]
        self.older: dict[int, int] = {}
        self.misfiled: dict[int, int] = {}
        first = [NO_OWNER] * layout.total
        others: dict[int, list[int]] = {}  # claims after the first one on the same partition
        for position, member in enumerate(members):
            for number in layout.owned(member):
                if first[number] == NO_OWNER:
                    first[number] = position
                else:
                    others.setdefault(number, []).append(position)
        for number, position in enumerate(first):
            if position == NO_OWNER:
                continue
            if number not in others:
                self.owned[position].append(number)
                continue
            made = sorted((named_generation_of(members[each]), each) for each in (position, *others[number]))
            if len({generation for generation, _ in made}) == len(made):
                self.owned[made[-1][1]].append(number)
                self.older[number] = made[-2][1]
                self.misfiled[number] = others[number][-1]


def _order(group: GroupSpec, layout: Layout, subscribed: Sequence[Sequence[int]], claims: _Claims) -> list[int]:
    """The order in which partitions are assigned and checked (`sortPartitions`)."""
    if any(len(topics) < len(layout.topics) for topics in subscribed):
        return fewest_subscribers_first(layout, subscribed)
    if not any(claims.owned):
        return list(range(layout.total))
    # Owned partitions, one at a time from the member that has the most left, first those that another member claimed
    # earlier ...
    queues = [
        sorted(numbers, key=lambda number: (number not in claims.older, number), reverse=True)
        for numbers in claims.owned
    ]
    ids = [_utf8(member.member_id) for member in group.members if member.topics]
    last_first = {position: rank for rank, position in enumerate(sorted(range(len(ids)), key=ids.__getitem__)[::-1])}
    order = largest_first(queues, last_first)
    # ... then the rest, in the order of a map: the last one first.
    taken = set(order)
    rest = chain.from_iterable(reversed(layout.range(topic)) for topic in reversed(_in_metadata(group, layout)))
    return [*order, *(number for number in rest if number not in taken)]


def _in_metadata(group: GroupSpec, layout: Layout) -> list[int]:
    """The topics of the layout in the order of the leader's metadata."""
    return [layout.index[topic.name] for topic in group.topics if topic.name in layout.index]


def _adjusted(members: Sequence[MemberSpec], given: Assigned) -> Assigned:
    """What is assigned in this rebalance (`rd_kafka_cooperative_protocol_adjust_assignment`): partitions that no member
    claims, and those that their new owner claims. A partition that is claimed but not assigned, because its topic was
    deleted or has lost its last subscriber, goes back to the claimant. If several members claim or get a partition, the
    last one counts."""
    owner: dict[str, dict[int, MemberSpec]] = {}
    claimant: dict[str, dict[int, MemberSpec]] = {}
    for member in members:
        for topic, partitions in given[member.member_id].items():
            owner.setdefault(topic, {}).update(dict.fromkeys(partitions, member))
        for topic, claimed in member.owned.items():
            claimant.setdefault(topic, {}).update(dict.fromkeys(claimed, member))
    adjusted: dict[str, dict[str, list[int]]] = {member.member_id: {} for member in members}
    for topic in sorted(owner.keys() | claimant.keys()):
        owners, claimants = owner.get(topic, {}), claimant.get(topic, {})
        for partition in sorted(owners.keys() | claimants.keys()):
            new = owners.get(partition) or claimants[partition]
            old = claimants.get(partition, new)
            if old is new or compare(old, new) == 0:
                adjusted[old.member_id].setdefault(topic, []).append(partition)
    return {id_: {topic: tuple(numbers) for topic, numbers in topics.items()} for id_, topics in adjusted.items()}


ASSIGNORS: Final[dict[str, Callable[[GroupSpec], Assigned]]] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
    "cooperative-sticky": assign_cooperative_sticky,
}
