"""Groups as plain values, for reports and for the simulation. Nothing here can change a group."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kgm.coordinator.contract.outcome import Millis, TimerKey, TimerKind, session_key
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import ConsumerMember
from kgm.coordinator.groups.foreign_group import ForeignGroup
from kgm.coordinator.groups.group import Group
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.groups.streams_member import StreamsMember, Tasks
from kgm.coordinator.groups.streams_topology import input_topics
from kgm.coordinator.streams.records import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberView:
    """What only members of consumer groups (KIP-848) have. Partitions are given by topic name, without deleted topics.

    state: STABLE, UNREVOKED_PARTITIONS, … uses_classic: whether it uses the classic protocol."""

    member_epoch: int
    previous_member_epoch: int
    state: str
    rack_id: str | None
    topics: tuple[str, ...]
    regex: str | None
    server_assignor: str | None
    assigned: Mapping[str, tuple[int, ...]]
    pending_revocation: Mapping[str, tuple[int, ...]]
    target: Mapping[str, tuple[int, ...]]
    uses_classic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMemberView:
    """What only members of streams groups (KIP-1071) have. endpoint: `HOST:PORT`. assigned, target: active, standby and
    warm-up tasks, each as `SUBTOPOLOGY_PARTITION`. topics: all topics that the group reads. partitions,
    target_partitions: what the active tasks read, by topic."""

    member_epoch: int
    state: str
    process_id: str
    endpoint: str | None
    topology_epoch: int
    rack_id: str | None
    assigned: tuple[tuple[str, ...], ...]
    target: tuple[tuple[str, ...], ...]
    topics: tuple[str, ...]
    partitions: Mapping[str, tuple[int, ...]]
    target_partitions: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """One member.

    subscription: its metadata for the group's protocol (or for its own first protocol while none is selected). joined:
    it is waiting for the end of the join phase. synced: it has sent SyncGroup in this generation. session_deadline_ms:
    when its session expires; None if the session has expired while a request of the member is parked."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[str, ...] = ()
    subscription: bytes = b""
    assignment: bytes = b""
    joined: bool = False
    synced: bool = True
    session_deadline_ms: Millis | None
    consumer: ConsumerMemberView | None = None
    streams: StreamsMemberView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One group; members in the order of joining. deadline_ms: the latest time at which the current phase of a
    rebalance ends; None if there is no rebalance. held: newcomers that are held back (`classic.standby`): their
    instance ids, or member ids if they have none.

    The generation of a consumer or streams group is its group epoch. The protocol of a consumer group is the assignor
    that most members prefer. Members of a consumer group have `consumer`, and members of a streams group have
    `streams`. assignment_epoch and metadata_hash are None for other groups. topology_epoch: only for streams groups."""

    group_id: str
    group_type: str
    state: str
    state_timestamp_ms: Millis | None = None
    generation: int = 0
    leader: str | None = None
    protocol_type: str | None
    protocol: str | None = None
    members: tuple[MemberView, ...] = ()
    pending_member_ids: tuple[str, ...] = ()
    deadline_ms: Millis | None = None
    held: tuple[str, ...] = ()
    assignment_epoch: int | None = None
    metadata_hash: int | None = None
    topology_epoch: int | None = None


def view_of(group: Group, deadlines: Mapping[TimerKey, Millis], image: TopicImage) -> GroupView:
    match group:
        case ClassicGroup():
            return _classic(group, deadlines)
        case ConsumerGroup():
            return _consumer(group, deadlines, image)
        case StreamsGroup():
            return _streams(group, deadlines)
        case ForeignGroup():
            return GroupView(
                group_id=group.group_id,
                group_type=group.group_type,
                state=group.state,
                protocol_type=group.group_type,
            )


def _streams(group: StreamsGroup, deadlines: Mapping[TimerKey, Millis]) -> GroupView:
    return GroupView(
        group_id=group.group_id,
        group_type=group.group_type,
        state=group.state,
        generation=group.group_epoch,
        protocol_type=group.protocol_type,
        members=tuple(_streams_member(group, member, deadlines) for member in group.members.values()),
        topology_epoch=None if group.topology is None else group.topology.epoch,
        deadline_ms=deadlines.get(TimerKey(TimerKind.INITIAL_DELAY, group.group_id)),
        assignment_epoch=group.assignment_epoch,
        metadata_hash=group.metadata_hash,
    )


def _streams_member(group: StreamsGroup, member: StreamsMember, deadlines: Mapping[TimerKey, Millis]) -> MemberView:
    target = group.target_of(member.member_id)
    return MemberView(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=0,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_deadline_ms=deadlines.get(session_key(group.group_id, member.member_id)),
        streams=StreamsMemberView(
            member_epoch=member.member_epoch,
            state=member.state.name,
            process_id=member.process_id or "",
            endpoint=None if member.endpoint is None else "{}:{}".format(*member.endpoint),
            topology_epoch=member.topology_epoch,
            rack_id=member.rack_id,
            assigned=tuple(map(_task_names, member.assigned.kinds)),
            target=tuple(map(_task_names, target)),
            topics=() if group.topology is None else tuple(sorted(group.topology.subtopology_of)),
            partitions=_partitions_of(group, member.assigned.active),
            target_partitions=_partitions_of(group, target.active),
        ),
    )


def _task_names(tasks: Tasks) -> tuple[str, ...]:
    return tuple(f"{name}_{partition}" for name, partitions in listed(tasks) for partition in partitions)


def _partitions_of(group: StreamsGroup, tasks: Tasks) -> Mapping[str, tuple[int, ...]]:
    subtopologies = group.topology.subtopologies if group.topology is not None else {}
    read: dict[str, set[int]] = {}
    for name, partitions in tasks.items():
        for topic in input_topics(subtopologies[name]) if name in subtopologies else ():
            read.setdefault(topic, set()).update(partitions)
    return {topic: tuple(sorted(read[topic])) for topic in sorted(read)}


def _consumer(group: ConsumerGroup, deadlines: Mapping[TimerKey, Millis], image: TopicImage) -> GroupView:
    return GroupView(
        group_id=group.group_id,
        group_type=group.group_type,
        state=group.state,
        generation=group.group_epoch,
        protocol_type=group.protocol_type,
        protocol=group.preferred_assignor(),
        members=tuple(_consumer_member(group, member, deadlines, image) for member in group.members.values()),
        assignment_epoch=group.assignment_epoch,
        metadata_hash=group.metadata_hash,
    )


def _consumer_member(
    group: ConsumerGroup, member: ConsumerMember, deadlines: Mapping[TimerKey, Millis], image: TopicImage
) -> MemberView:
    def named(partitions: Mapping[bytes, Iterable[int]]) -> dict[str, tuple[int, ...]]:
        by_id = image.by_id
        return {by_id[topic_id].name: tuple(sorted(p)) for topic_id, p in partitions.items() if topic_id in by_id}

    return MemberView(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=0 if member.classic is None else member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=() if member.classic is None else tuple(name for name, _ in member.classic.protocols),
        session_deadline_ms=deadlines.get(session_key(group.group_id, member.member_id)),
        consumer=ConsumerMemberView(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state.name,
            rack_id=member.rack_id,
            topics=tuple(sorted(member.subscribed_topic_names)),
            regex=member.subscribed_topic_regex or None,
            server_assignor=member.server_assignor,
            assigned=named(member.assigned),
            pending_revocation=named(member.pending_revocation),
            target=named(group.target_of(member.member_id)),
            uses_classic=member.classic is not None,
        ),
    )


def _classic(group: ClassicGroup, deadlines: Mapping[TimerKey, Millis]) -> GroupView:
    join_deadline = deadlines.get(TimerKey(TimerKind.JOIN, group.group_id))
    in_sync_phase = group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
    sync_deadline = deadlines.get(TimerKey(TimerKind.SYNC, group.group_id))
    return GroupView(
        group_id=group.group_id,
        group_type=group.group_type,
        state=group.state.value,
        state_timestamp_ms=group.state_timestamp_ms,
        generation=group.generation,
        leader=group.leader,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        members=tuple(
            MemberView(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout_ms=member.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                protocols=tuple(offered.name for offered in member.protocols),
                subscription=next(
                    (offered.metadata for offered in member.protocols if offered.name == group.protocol),
                    member.protocols[0].metadata,
                ),
                assignment=member.assignment,
                joined=member.member_id in group.soft.parked_joins,
                synced=in_sync_phase and member.member_id not in group.soft.pending_syncs,
                session_deadline_ms=deadlines.get(session_key(group.group_id, member.member_id)),
            )
            for member in group.members.values()
        ),
        pending_member_ids=tuple(group.soft.pending_joins),
        deadline_ms=sync_deadline if join_deadline is None else join_deadline,
        held=tuple(held.member.group_instance_id or held.member.member_id for held in group.soft.held.values()),
    )
