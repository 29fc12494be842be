"""`roundrobin`: assign all partitions in turn, skipping members that do not subscribe (`RoundRobinAssignor`)."""

from kgm.assignors.client.member_order import in_map_order
from kgm.assignors.contract import Assigned, GroupSpec, by_identity
from kgm.assignors.partition_numbers import client_layout
from kgm.assignors.result import in_turn


def assign_round_robin(group: GroupSpec) -> Assigned:
    """Round robin over the members (static members first), with topics by name."""
    layout, members = client_layout(group), by_identity(in_map_order(group.members))
    return in_turn(layout, members, layout.subscribers(members))
