"""The assignors of IBM/sarama 1.61.1 (`balance_strategy.go`) that give the same result in each run. They sort members
by member id, whether static or not."""

from kgm.assignors.contract import Assigned, GroupSpec
from kgm.assignors.libraries.order import by_id, utf8_key
from kgm.assignors.partition_numbers import NO_OWNER, client_layout
from kgm.assignors.result import by_owner, in_blocks


def assign_range(group: GroupSpec) -> Assigned:
    """`NewBalanceStrategyRange`: blocks for each topic; the first ones have one partition more."""
    return in_blocks(client_layout(group), by_id(group.members))


def assign_round_robin(group: GroupSpec) -> Assigned:
    """`NewBalanceStrategyRoundRobin`: all partitions in the order of the string TOPIC-PARTITION, in which orders-10
    comes before orders-2."""
    layout, members = client_layout(group), by_id(group.members)
    subscribers = [frozenset(positions) for positions in layout.subscribers(members)]
    texts = [
        (utf8_key(f"{topic.name}-{partition}"), at, start + partition)
        for at, (topic, start) in enumerate(zip(layout.topics, layout.starts, strict=False))
        for partition in range(topic.partitions)
    ]
    owner, turn = [NO_OWNER] * layout.total, 0
    for _, at, number in sorted(texts):
        while turn not in subscribers[at]:
            turn = (turn + 1) % len(members)
        owner[number] = turn
        turn = (turn + 1) % len(members)
    return by_owner(layout, members, owner)
