"""A group of the embedded coordinator as a `GroupSnapshot`: what `kgm describe` shows of it, but without a request. For
a classic group it also has the generation and the timeouts, which no response contains."""

from dataclasses import replace

from kgm.clients.recognition import MemberEvidence, recognise
from kgm.clients.subscribed_topics import subscribed_topics
from kgm.coordinator.admin.view import ConsumerMemberView, GroupView, MemberView, StreamsMemberView
from kgm.coordinator.contract.settings import GroupConfig, session_timeout_ms, streams_setting
from kgm.model.assignment import Partitions
from kgm.model.changes import REBALANCING
from kgm.model.client_library import ClientLibrary
from kgm.model.snapshot import (
    CoordinatorNode,
    GroupSnapshot,
    MemberSnapshot,
    OffsetSnapshot,
    TopicSnapshot,
    status_at,
    with_lag,
)
from kgm.model.work import MemberWork
from kgm.protocol.subscription import PROTOCOL_TYPE, readable_assignment, readable_subscription
from kgm.server.cluster.cluster import EmbeddedCluster

_STABLE = "Stable"


def group_snapshot(cluster: EmbeddedCluster, group_id: str, host: str) -> GroupSnapshot | None:
    """The group as it is now; None if it does not exist, or is loading. host: the brokers' host."""
    view = cluster.view.group(group_id)
    if view is None:
        return None
    has_epochs = view.group_type in ("consumer", "streams")
    members, leader_library = _members(cluster, view)
    node_id = cluster.placement.coordinator_of(group_id)
    port = None if node_id is None else cluster.nodes[node_id].port
    offsets = _offsets(cluster, group_id, members)
    snapshot = GroupSnapshot(
        group_id=group_id,
        type=view.group_type,
        state=view.state,
        protocol_type=view.protocol_type,
        assignor=_assignor(cluster, view),
        coordinator=None if node_id is None or port is None else CoordinatorNode(id=node_id, host=host, port=port),
        generation=None if has_epochs else view.generation,
        group_epoch=view.generation if has_epochs else None,
        topology_epoch=view.topology_epoch,
        assignment_epoch=view.assignment_epoch,
        session_timeout_ms=_session_timeout_ms(cluster, view) if has_epochs else None,
        topics=_topics(cluster, members, offsets),
        members=tuple(
            with_lag(member, [row for row in offsets if row.member_id == member.member_id])
            for member in sorted(members, key=lambda member: member.identity)
        ),
        offsets=offsets,
        leader_library=leader_library,
        kafka_versions=(cluster.settings.kafka_version,),
    )
    if has_epochs:
        return snapshot
    timeouts_ms = {one.member_id: (one.session_timeout_ms, one.rebalance_timeout_ms) for one in view.members}
    return snapshot.with_member_timeouts(timeouts_ms)


def _assignor(cluster: EmbeddedCluster, view: GroupView) -> str | None:
    """The assignor in use; None for a classic group that is rebalancing."""
    if view.group_type == "consumer":
        return view.protocol or cluster.settings.consumer_assignors[0]
    return view.protocol if view.state == _STABLE else None


def _session_timeout_ms(cluster: EmbeddedCluster, view: GroupView) -> int:
    """The session timeout configured for a consumer group or streams group."""
    config = GroupConfig.of(cluster.group_configs.get(view.group_id, {}), cluster.settings)
    if view.group_type == "streams":
        return streams_setting("session_timeout_ms", cluster.settings, config)
    return session_timeout_ms(cluster.settings, config)


def _members(cluster: EmbeddedCluster, view: GroupView) -> tuple[tuple[MemberSnapshot, ...], ClientLibrary | None]:
    """The members, each with the client library recognized, and the leader's client library."""
    members = tuple(_member(view, member) for member in view.members)
    if view.protocol_type != PROTOCOL_TYPE:
        return members, None
    verdict = recognise(view.group_id, _assignor(cluster, view), [_evidence(view, member) for member in view.members])
    known = tuple(replace(one, client_library=each) for one, each in zip(members, verdict.members, strict=True))
    return known, verdict.leader


def _evidence(view: GroupView, member: MemberView) -> MemberEvidence:
    is_static = member.group_instance_id is not None
    ids = MemberEvidence(member_id=member.member_id, client_id=member.client_id, is_static=is_static)
    if member.consumer is not None:
        return replace(ids, protocol="classic" if member.consumer.uses_classic else "consumer")
    # Kafka does not describe subscriptions while the group rebalances.
    subscription = readable_subscription(member.subscription) if view.state == _STABLE else None
    return replace(ids, subscription=subscription, assignment=readable_assignment(member.assignment))


def _member(view: GroupView, member: MemberView) -> MemberSnapshot:
    ids = MemberSnapshot(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host.removeprefix("/"),
    )
    if member.streams is not None:
        return _streams_member(view, ids, member.streams)
    if member.consumer is not None:
        return _consumer_member(view, ids, member.consumer)
    return _classic_member(view, ids, member)


def _streams_member(view: GroupView, ids: MemberSnapshot, streams: StreamsMemberView) -> MemberSnapshot:
    active, standby, warmup = streams.assigned
    target_active, target_standby, target_warmup = streams.target
    return replace(
        ids,
        rack=streams.rack_id or None,
        member_epoch=streams.member_epoch,
        status=status_at(streams.member_epoch, view.assignment_epoch),
        topics=streams.topics,
        assignment=streams.partitions,
        target_assignment=streams.target_partitions,
        protocol="streams",
        work=MemberWork(
            process_id=streams.process_id or None,
            user_endpoint=streams.endpoint,
            active_tasks=active,
            standby_tasks=standby,
            warmup_tasks=warmup,
            target_active_tasks=target_active,
            target_standby_tasks=target_standby,
            target_warmup_tasks=target_warmup,
            topology_epoch=streams.topology_epoch,
        ),
    )


def _classic_member(view: GroupView, ids: MemberSnapshot, member: MemberView) -> MemberSnapshot:
    """As in a DescribeGroups response, subscriptions are known only while the group is stable."""
    is_consumer = view.protocol_type == PROTOCOL_TYPE
    subscription = readable_subscription(member.subscription) if is_consumer and view.state == _STABLE else None
    status = "stable" if view.state == _STABLE else "reconciling" if view.state in REBALANCING else "unknown"
    return replace(
        ids,
        rack=(subscription.rack_id or None) if subscription else None,
        status=status,
        topics=subscription.distinct_topics if subscription else None if is_consumer else (),
        assignment=_assignment(member.assignment) if is_consumer else {},
        protocol="classic",
        subscription_version=None if subscription is None else subscription.version,
        names_owned=None if subscription is None else bool(subscription.owned_partitions),
    )


def _assignment(data: bytes) -> Partitions:
    decoded = readable_assignment(data)
    partitions = {} if decoded is None else decoded.partitions
    return {topic: tuple(sorted(numbers)) for topic, numbers in partitions.items()}


def _consumer_member(view: GroupView, ids: MemberSnapshot, consumer: ConsumerMemberView) -> MemberSnapshot:
    has_target = consumer.assigned == consumer.target
    return replace(
        ids,
        rack=consumer.rack_id or None,
        member_epoch=consumer.member_epoch,
        status=status_at(consumer.member_epoch, view.assignment_epoch, has_target=has_target),
        topics=consumer.topics,
        regex=consumer.regex,
        assignment=consumer.assigned,
        target_assignment=consumer.target,
        protocol="classic" if consumer.uses_classic else "consumer",
    )


def _offsets(
    cluster: EmbeddedCluster, group_id: str, members: tuple[MemberSnapshot, ...]
) -> tuple[OffsetSnapshot, ...]:
    """One row for each partition that has an owner or a committed offset."""
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
                # An offset past the end gives no lag: the topic was created again, or has lost records.
                lag=None if offset is None or offset > end else end - offset,
                group_instance_id=None if owner is None else owner.group_instance_id,
                member_id=None if owner is None else owner.member_id,
                lost=None if offset is None or offset > end else 0,  # these logs have no retention
                lag_ms=0 if offset == end else None,
            )
        )
    return tuple(rows)


def _topics(
    cluster: EmbeddedCluster, members: tuple[MemberSnapshot, ...], offsets: tuple[OffsetSnapshot, ...]
) -> tuple[TopicSnapshot, ...]:
    """The topics that members subscribe to, and those with committed offsets."""
    every = [
        TopicSnapshot(name=topic.name, partitions=topic.partitions, topic_id=topic.topic_id)
        for topic in cluster.topics.all()
    ]
    names = {row.topic for row in offsets} | subscribed_topics(members, every)
    return tuple(topic for topic in every if topic.name in names)
