"""What a coordinator knows of its groups, as plain values for reports. Nothing here can change a group."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kgm.coordinator.admin.describe_list_delete import Group, type_of
from kgm.coordinator.classic.group import ClassicGroup
from kgm.coordinator.classic.state import ClassicState
from kgm.coordinator.consumer.group import ConsumerGroup
from kgm.coordinator.consumer.member import ConsumerMember
from kgm.coordinator.contract.foreign_group import ForeignGroup
from kgm.coordinator.contract.outcome import Millis, TimerKey, TimerKind
from kgm.coordinator.contract.topic_image import TopicImage


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSeat:
    """What a member of a consumer group (KIP-848) has besides; partitions by topic name, those of topics that are gone
    left out. speaks_classic: it is there with the classic protocol. state: STABLE, UNREVOKED_PARTITIONS, …"""

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
    speaks_classic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """One member.

    subscription: what it says for the group's protocol (its first one while none is chosen). joined: it waits for the
    end of the join phase. synced: it has sent SyncGroup in this generation. session_deadline_ms: when it is
    removed unless it shows a sign of life; None while it waits for a reply with its session run out."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[str, ...]
    subscription: bytes
    assignment: bytes
    joined: bool
    synced: bool
    session_deadline_ms: Millis | None
    consumer: ConsumerSeat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One group; members in order of joining. deadline_ms: when the phase that the group is in ends at the latest;
    None when no phase is running. held: newcomers that are held back (`standby`), by instance id or else member id.

    Of a consumer group, the generation is the group epoch, the protocol the assignor that members ask for, and each
    member has a `consumer` seat; assignment_epoch and metadata_hash are None of other groups."""

    group_id: str
    group_type: str
    state: str
    state_timestamp_ms: Millis | None
    generation: int
    leader: str | None
    protocol_type: str | None
    protocol: str | None
    members: tuple[MemberView, ...]
    pending_member_ids: tuple[str, ...]
    deadline_ms: Millis | None
    held: tuple[str, ...] = ()
    assignment_epoch: int | None = None
    metadata_hash: int | None = None


def view_of(group: Group, deadlines: Mapping[TimerKey, Millis], image: TopicImage) -> GroupView:
    match group:
        case ClassicGroup():
            return _classic(group, deadlines)
        case ConsumerGroup():
            return _consumer(group, deadlines, image)
        case ForeignGroup():
            return GroupView(
                group_id=group.group_id,
                group_type=type_of(group),
                state=group.state,
                state_timestamp_ms=None,
                generation=0,
                leader=None,
                protocol_type=type_of(group),
                protocol=None,
                members=(),
                pending_member_ids=(),
                deadline_ms=None,
            )


def _consumer(group: ConsumerGroup, deadlines: Mapping[TimerKey, Millis], image: TopicImage) -> GroupView:
    return GroupView(
        group_id=group.group_id,
        group_type=type_of(group),
        state=group.state,
        state_timestamp_ms=None,
        generation=group.group_epoch,
        leader=None,
        protocol_type=group.protocol_type,
        protocol=group.preferred_assignor(),
        members=tuple(_consumer_member(group, member, deadlines, image) for member in group.members.values()),
        pending_member_ids=(),
        deadline_ms=None,
        assignment_epoch=group.assignment_epoch,
        metadata_hash=group.metadata_hash,
    )


def _consumer_member(
    group: ConsumerGroup, member: ConsumerMember, deadlines: Mapping[TimerKey, Millis], image: TopicImage
) -> MemberView:
    def named(partitions: Mapping[bytes, Iterable[int]]) -> dict[str, tuple[int, ...]]:
        by_id = image.by_id
        return {by_id[topic_id].name: tuple(sorted(p)) for topic_id, p in partitions.items() if topic_id in by_id}

    session = TimerKey(TimerKind.SESSION, group.group_id, member.member_id)
    return MemberView(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=0 if member.classic is None else member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=() if member.classic is None else tuple(name for name, _ in member.classic.protocols),
        subscription=b"",
        assignment=b"",
        joined=False,
        synced=True,
        session_deadline_ms=deadlines.get(session),
        consumer=ConsumerSeat(
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
            speaks_classic=member.classic is not None,
        ),
    )


def _classic(group: ClassicGroup, deadlines: Mapping[TimerKey, Millis]) -> GroupView:
    join_deadline = deadlines.get(TimerKey(TimerKind.JOIN, group.group_id))
    in_sync_phase = group.is_in(ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
    sync_deadline = deadlines.get(TimerKey(TimerKind.SYNC, group.group_id))
    return GroupView(
        group_id=group.group_id,
        group_type="classic",
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
                joined=member.member_id in group.parked_joins,
                synced=in_sync_phase and member.member_id not in group.pending_syncs,
                session_deadline_ms=deadlines.get(TimerKey(TimerKind.SESSION, group.group_id, member.member_id)),
            )
            for member in group.members.values()
        ),
        pending_member_ids=tuple(group.pending_joins),
        deadline_ms=sync_deadline if join_deadline is None else join_deadline,
        held=tuple(held.member.group_instance_id or held.member.member_id for held in group.held.values()),
    )
