"""The `RoundRobinAssigner` of kafkajs 2.2.4 (`consumer/assigners/roundRobinAssigner`).

It knows only the leader's subscription: the leader's topics, in the order in which it names them, are dealt to all
members, even to those that have not subscribed to them."""

from kgm.assignors.contract import Assigned, GroupSpec, by_member_id
from kgm.assignors.libraries.leader_topics import deal_topics_of_leader


def assign_round_robin(group: GroupSpec) -> Assigned:
    """All partitions of the leader's topics in turn, over the members by member id."""
    return deal_topics_of_leader(group, by_member_id(group.members))
