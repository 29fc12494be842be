"""`roundrobin`: deal all partitions in turn, skipping whoever does not subscribe (`RoundRobinAssignor`)."""

from kgm.assignors.answers import in_turn
from kgm.assignors.layout import client_layout
from kgm.assignors.spec import Assigned, GroupSpec, by_identity
from kgm.assignors.subscribers import in_map_order


def assign_round_robin(group: GroupSpec) -> Assigned:
    """One walk in a circle over the members (static first), through the topics by name."""
    layout, members = client_layout(group), by_identity(in_map_order(group.members))
    return in_turn(layout, members, layout.subscribers(members))
