"""The assignor of @platformatic/kafka 1.35.0 (`clients/consumer/partitions-assigners`), a round robin with whatever
name the user gives it.

Like that of kafkajs, it knows only the leader's subscription; it takes members in the order in which the broker lists
them."""

from kgm.assignors.contract import Assigned, GroupSpec
from kgm.assignors.libraries.leader_topics import deal_topics_of_leader


def assign_round_robin(group: GroupSpec) -> Assigned:
    """`roundRobinAssigner`: all partitions of the leader's topics in turn."""
    return deal_topics_of_leader(group, group.members)
