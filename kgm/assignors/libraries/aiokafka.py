"""The assignors of aiokafka 0.14.0 (`coordinator/assignors`). They sort members by member id, whether static or not."""

from kgm.assignors.contract import Assigned, GroupSpec
from kgm.assignors.libraries.order import by_id, utf8_key
from kgm.assignors.libraries.python_sticky import no_generation, sticky_owners
from kgm.assignors.partition_numbers import client_layout
from kgm.assignors.result import by_owner, in_blocks, in_turn


def assign_range(group: GroupSpec) -> Assigned:
    """`RangePartitionAssignor`: blocks for each topic; the first ones have one partition more."""
    return in_blocks(client_layout(group), by_id(group.members))


def assign_round_robin(group: GroupSpec) -> Assigned:
    """`RoundRobinPartitionAssignor`: all partitions in turn, each to the next member that subscribes."""
    layout, members = client_layout(group, utf8_key), by_id(group.members)
    return in_turn(layout, members, layout.subscribers(members))


def assign_sticky(group: GroupSpec) -> Assigned:
    """`StickyPartitionAssignor`. Its members always report generation -1, whatever the actual one is."""
    layout, owner = sticky_owners(group, no_generation)
    return by_owner(layout, group.members, owner)
