"""The assignors of segmentio/kafka-go 0.4.51 (`groupbalancer.go`): each topic separately, its subscribers by member id.

Its rack-affinity assignor is not included: it depends on the order of a Go map, which differs from run to run."""

from kgm.assignors.contract import Assigned, GroupSpec
from kgm.assignors.libraries.order import by_id
from kgm.assignors.partition_numbers import NO_OWNER, client_layout
from kgm.assignors.result import by_owner


def assign_range(group: GroupSpec) -> Assigned:
    """`RangeGroupBalancer`: of P partitions, subscriber i of M gets those from i*P/M up to, but not including,
    (i+1)*P/M."""
    layout, members = client_layout(group), by_id(group.members)
    owner = [NO_OWNER] * layout.total
    for topic, subscribers in enumerate(layout.subscribers(members)):
        start, partitions, count = layout.starts[topic], layout.topics[topic].partitions, len(subscribers)
        for place, position in enumerate(subscribers):
            for number in range(place * partitions // count, (place + 1) * partitions // count):
                owner[start + number] = position
    return by_owner(layout, members, owner)


def assign_round_robin(group: GroupSpec) -> Assigned:
    """`RoundRobinGroupBalancer`: starts over with the first subscriber for each topic."""
    layout, members = client_layout(group), by_id(group.members)
    owner = [NO_OWNER] * layout.total
    for topic, subscribers in enumerate(layout.subscribers(members)):
        for turn, number in enumerate(layout.range(topic)):
            owner[number] = subscribers[turn % len(subscribers)]
    return by_owner(layout, members, owner)
