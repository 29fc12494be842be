"""The assignors of kafka-python 3.0.12 (`coordinator/assignors`).

They put static members before dynamic ones by grouping neighbors in the order in which the broker lists the members,
but keep only the last group of each kind. So if the broker lists static and dynamic members in alternation, some
members get nothing."""

from collections.abc import Sequence
from itertools import groupby

from kgm.assignors.client.sticky_claims import generation_of
from kgm.assignors.contract import Assigned, GroupSpec, MemberSpec
from kgm.assignors.libraries.order import static_first, utf8_key
from kgm.assignors.libraries.python_sticky import no_generation, sticky_owners
from kgm.assignors.partition_numbers import NO_OWNER, client_layout
from kgm.assignors.result import by_owner


def assign_range(group: GroupSpec) -> Assigned:
    """`RangePartitionAssignor`: blocks for each topic; the first ones have one partition more."""
    layout = client_layout(group)
    owner = [NO_OWNER] * layout.total
    place_of = {member.member_id: place for place, member in enumerate(group.members)}
    for topic, subscribers in enumerate(layout.subscribers(group.members)):
        takers = _kept([group.members[position] for position in subscribers])
        size, over = divmod(layout.topics[topic].partitions, len(takers))
        number = layout.starts[topic]
        for place, member in enumerate(takers):
            count = size + (place < over)
            owner[number : number + count] = [place_of[member.member_id]] * count
            number += count
    return by_owner(layout, group.members, owner)


def assign_round_robin(group: GroupSpec) -> Assigned:
    """`RoundRobinPartitionAssignor`: all partitions in turn, each to the next member that subscribes. (If it has to
    skip a member, 3.0.12 fails with a KeyError, so nothing is assigned; this is what it would do otherwise.)"""
    layout, kept = client_layout(group, utf8_key), _kept(group.members)
    ids = {member.member_id for member in kept}
    members = [*kept, *(member for member in group.members if member.member_id not in ids)]
    owner, turn = [NO_OWNER] * layout.total, 0
    for topic, subscribers in enumerate(layout.subscribers(members)):
        takers = {position for position in subscribers if position < len(kept)}
        for number in layout.range(topic) if takers else ():  # possibly no subscriber was kept
            while turn not in takers:
                turn = (turn + 1) % len(kept)
            owner[number] = turn
            turn = (turn + 1) % len(kept)
    return by_owner(layout, members, owner)


def assign_sticky(group: GroupSpec) -> Assigned:
    """`StickyPartitionAssignor`."""
    layout, owner = sticky_owners(group, generation_of, gives_back=True)
    return by_owner(layout, group.members, owner)


def assign_cooperative_sticky(group: GroupSpec) -> Assigned:
    """`CooperativeStickyAssignor`: partitions that another member claims are left out for this rebalance. Its
    subscriptions (version 1) have no generation."""
    layout, owner = sticky_owners(group, no_generation, gives_back=True)
    claimed = {number: position for position, member in enumerate(group.members) for number in layout.owned(member)}
    for number, position in claimed.items():
        if owner[number] != position:
            owner[number] = NO_OWNER
    return by_owner(layout, group.members, owner)


def _kept(members: Sequence[MemberSpec]) -> list[MemberSpec]:
    """The last run of static members and the last run of dynamic ones, sorted."""
    runs = {is_static: [*run] for is_static, run in groupby(members, lambda one: one.group_instance_id is not None)}
    return static_first([*runs.get(True, []), *runs.get(False, [])])
