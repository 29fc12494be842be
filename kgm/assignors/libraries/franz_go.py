"""The eager assignors of twmb/franz-go 1.22.3 (`group_balancer.go`) that ignore what members own. They are the same as
Java's except for the order of strings; racks only matter with its option BalanceRacks, which is off by default."""

from kgm.assignors.contract import Assigned, GroupSpec
from kgm.assignors.libraries.order import static_first, utf8_key
from kgm.assignors.partition_numbers import client_layout
from kgm.assignors.result import in_blocks, in_turn


def assign_range(group: GroupSpec) -> Assigned:
    """`RangeBalancer`: blocks for each topic, over its subscribers."""
    return in_blocks(client_layout(group), static_first(group.members))


def assign_round_robin(group: GroupSpec) -> Assigned:
    """`RoundRobinBalancer`: all partitions in turn, each to the next member that subscribes."""
    layout, members = client_layout(group, utf8_key), static_first(group.members)
    return in_turn(layout, members, layout.subscribers(members))
