"""What a coordinator knows of its groups, as plain values for reports. Nothing here can change a group."""

from collections.abc import Mapping
from dataclasses import dataclass

from kgm.coordinator.classic_group import ClassicGroup
from kgm.coordinator.classic_state import ClassicState
from kgm.coordinator.outcome import Millis, TimerKey, TimerKind


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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One group; members in order of joining. deadline_ms: when the phase that the group is in ends at the latest;
    None when no phase is running. held: newcomers that are held back (`standby`), by instance id or else member id."""

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


def view_of(group: ClassicGroup, deadlines: Mapping[TimerKey, Millis]) -> GroupView:
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
