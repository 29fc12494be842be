"""A group of the embedded coordinator as a `GroupSnapshot`: what `kgm describe` shows of it, without a request, and its
generation, which no request tells."""

from kgm.coordinator.admin.view import ConsumerSeat, GroupView, MemberView
from kgm.model.assignment import Partitions
from kgm.model.changes import REBALANCING
from kgm.model.errors import DecodeError
from kgm.model.snapshot import CoordinatorNode, GroupSnapshot, MemberSnapshot, OffsetSnapshot, TopicSnapshot
from kgm.protocol.subscription import PROTOCOL_TYPE, Subscription, decode_assignment, decode_subscription
from kgm.server.cluster.cluster import EmbeddedCluster

_STABLE = "Stable"
_AWAY_EPOCH = -2


def group_snapshot(cluster: EmbeddedCluster, group_id: str, host: str) -> GroupSnapshot | None:
    """A group as it is now; None if it does not exist, or is loading. host: that of the brokers."""
    view = cluster.view.group(group_id)
    if view is None:
        return None
    is_consumer = view.group_type == "consumer"
    members = tuple(_member(view, member) for member in view.members)
    node_id = cluster.placement.coordinator_of(group_id)
    port = None if node_id is None else cluster.nodes[node_id].port
    offsets = _offsets(cluster, group_id, members)
    return GroupSnapshot(
        group_id=group_id,
        type=view.group_type,
        state=view.state,
        protocol_type=view.protocol_type,
        assignor=view.protocol,
        coordinator=None if node_id is None or port is None else CoordinatorNode(id=node_id, host=host, port=port),
        generation=None if is_consumer else view.generation,
        group_epoch=view.generation if is_consumer else None,
        assignment_epoch=view.assignment_epoch,
        topics=_topics(cluster, members, offsets),
        members=tuple(sorted(members, key=lambda member: member.identity)),
        offsets=offsets,
    )


def _member(view: GroupView, member: MemberView) -> MemberSnapshot:
    return _classic_member(view, member) if member.consumer is None else _consumer_member(view, member, member.consumer)


def _classic_member(view: GroupView, member: MemberView) -> MemberSnapshot:
    """As in the answer of DescribeGroups, subscriptions and assignments are known only while the group is stable."""
    is_known = view.state == _STABLE and view.protocol_type == PROTOCOL_TYPE
    subscription = _subscription(member.subscription) if is_known else None
    status = "stable" if view.state == _STABLE else "reconciling" if view.state in REBALANCING else "unknown"
    return MemberSnapshot(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host.removeprefix("/"),
        rack=(subscription.rack_id or None) if subscription else None,
        status=status,
        topics=tuple(sorted(set(subscription.topics))) if subscription else (),
        assignment=_assignment(member.assignment) if is_known else {},
        protocol="classic",
    )


def _subscription(data: bytes) -> Subscription | None:
    try:
        return decode_subscription(data)
    except DecodeError:
        return None


def _assignment(data: bytes) -> Partitions:
    try:
        return decode_assignment(data).partitions
    except DecodeError:
        return {}


def _consumer_member(view: GroupView, member: MemberView, consumer: ConsumerSeat) -> MemberSnapshot:
    is_stable = consumer.member_epoch == view.assignment_epoch and consumer.assigned == consumer.target
    status = "away" if consumer.member_epoch == _AWAY_EPOCH else "stable" if is_stable else "reconciling"
    return MemberSnapshot(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host.removeprefix("/"),
        rack=consumer.rack_id or None,
        member_epoch=consumer.member_epoch,
        status=status,
        topics=consumer.topics,
        regex=consumer.regex,
        assignment=consumer.assigned,
        target_assignment=consumer.target,
        protocol="classic" if consumer.speaks_classic else "consumer",
    )


def _offsets(
    cluster: EmbeddedCluster, group_id: str, members: tuple[MemberSnapshot, ...]
) -> tuple[OffsetSnapshot, ...]:
    """A row for each partition that has an owner or a committed offset."""
    committed = {at: row.offset for at, row in cluster.view.offsets(group_id).items()}
    owners = {
        (topic, partition): member
        for member in members
        for topic, partitions in member.assignment.items()
        for partition in partitions
    }
    rows = []
    for topic, partition in sorted(committed.keys() | owners.keys()):
        offset, owner = committed.get((topic, partition)), owners.get((topic, partition))
        end = cluster.records.log(topic, partition).end_offset
        rows.append(
            OffsetSnapshot(
                topic=topic,
                partition=partition,
                committed=offset,
                end=end,
                lag=None if offset is None else max(0, end - offset),
                group_instance_id=None if owner is None else owner.group_instance_id,
                member_id=None if owner is None else owner.member_id,
            )
        )
    return tuple(rows)


def _topics(
    cluster: EmbeddedCluster, members: tuple[MemberSnapshot, ...], offsets: tuple[OffsetSnapshot, ...]
) -> tuple[TopicSnapshot, ...]:
    """Those that members subscribe to or own, and those with committed offsets."""
    names = {row.topic for row in offsets}.union(*(member.topics for member in members))
    return tuple(
        TopicSnapshot(name=topic.name, partitions=topic.partitions, topic_id=topic.topic_id)
        for topic in cluster.topics.all()
        if topic.name in names
    )
