"""`range` of the coordinator (KIP-848): contiguous blocks per topic, static members first; no racks, not sticky.

Kafka's class has one path for equal and one for different subscriptions; their answers follow one rule."""

from kgm.assignors.layout import Layout
from kgm.assignors.server import server_layout, subscriptions
from kgm.assignors.spec import Assigned, GroupSpec, by_identity


def assign_server_range(group: GroupSpec) -> Assigned:
    """Raises UsageError when a member subscribes to a topic that is not there."""
    layout: Layout = server_layout(group)
    members = by_identity(group.members)
    subscribed = subscriptions(members, layout)
    subscribers: list[int] = [0] * len(layout.topics)
    for topics in subscribed:
        for topic in topics:
            subscribers[topic] += 1
    quota = [divmod(topic.partitions, count or 1) for topic, count in zip(layout.topics, subscribers, strict=True)]
    turn = [0] * len(layout.topics)
    given: list[list[int]] = []
    for topics in subscribed:
        mine: list[int] = []
        for topic in topics:
            size, over = quota[topic]
            rank = turn[topic]
            turn[topic] += 1
            first = layout.starts[topic] + rank * size + min(rank, over)
            mine.extend(range(first, first + size + (rank < over)))
        given.append(mine)
    return layout.answer(members, given)
