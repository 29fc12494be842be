"""A rebalance of a classic group: the join and sync phases, the alarms that end them, and removed members.

Each function changes a draft of a group, and adds the resulting records, timers and replies to the event (Kafka:
GroupMetadataManager.prepareRebalance, completeClassicGroupJoin, tryCompleteInitialRebalanceElseSchedule,
expirePendingSync, expireClassicGroupMemberHeartbeat)."""

from collections.abc import Mapping

from kgm.coordinator.classic import standby
from kgm.coordinator.classic.records import group_record, stable_record, tombstone
from kgm.coordinator.contract.api_versions import JOIN_MAY_SKIP_ASSIGNMENT
from kgm.coordinator.contract.error_responses import join_refusal, protocol_name, sync_refusal
from kgm.coordinator.contract.outcome import TimerKey, TimerKind, session_key
from kgm.coordinator.groups.classic_group import NO_ASSIGNMENT, ClassicGroup, ClassicMember, InitialDelay, ParkedRequest
from kgm.coordinator.groups.classic_state import ClassicState, can_move
from kgm.coordinator.groups.event_draft import EventDraft, OnAppendFailure
from kgm.coordinator.groups.overlay import whole
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from kgm.protocol.messages.sync_group_response import SyncGroupResponse

#: The minimum extension of a join phase that no member has joined: one tick of Kafka's timer (SystemTimer).
_TICK_MS = 1


def join_key(group: ClassicGroup) -> TimerKey:
    return TimerKey(TimerKind.JOIN, group.group_id)


def sync_key(group: ClassicGroup) -> TimerKey:
    return TimerKey(TimerKind.SYNC, group.group_id)


def extend_session(group: ClassicGroup, member: ClassicMember, event: EventDraft) -> None:
    """Start the member's session again."""
    event.set_timer(TimerKey(TimerKind.SESSION, group.group_id, member.member_id), member.session_timeout_ms)


# -- parked requests


def park_join(group: ClassicGroup, member_id: str, parked: ParkedRequest, event: EventDraft) -> None:
    """Park a JoinGroup until the end of the join phase. An earlier one from the same member, which Kafka never answers,
    is answered with REBALANCE_IN_PROGRESS."""
    answer_join(group, member_id, ErrorCode.REBALANCE_IN_PROGRESS, event, echo=member_id)
    group.soft.parked_joins[member_id] = parked


def answer_join(group: ClassicGroup, member_id: str, error: ErrorCode, event: EventDraft, *, echo: str = "") -> None:
    """Refuse a member's parked JoinGroup, if there is one. echo: the member id in the reply."""
    parked = group.soft.parked_joins.pop(member_id, None)
    if parked is not None:
        event.reply(parked.ticket, join_refusal(error, parked.version, echo))


def answer_sync(group: ClassicGroup, member_id: str, error: ErrorCode, event: EventDraft) -> None:
    """Refuse a member's parked SyncGroup, if there is one."""
    parked = group.soft.parked_syncs.pop(member_id, None)
    if parked is not None:
        event.reply(parked.ticket, sync_refusal(error))


def joined_reply(
    group: ClassicGroup, member_id: str, version: int, *, for_leader: bool, has_scala_maps: bool = False
) -> JoinGroupResponse:
    """A successful JoinGroup reply for the current generation. Only the leader gets the list of members."""
    members = [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in (group.listed(has_scala_maps=has_scala_maps) if for_leader else ())
    ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=protocol_name(group.protocol, version),
        leader=group.leader or "",
        member_id=member_id,
        members=members,
    )


def replaced_reply(
    group: ClassicGroup, member_id: str, version: int, *, leader_before: str | None, has_scala_maps: bool = False
) -> JoinGroupResponse:
    """The JoinGroup reply to a member that has taken the place of another without a rebalance.

    From v9 on a leader gets the list of members, and skip_assignment is set (KIP-814). In earlier versions the reply
    names the previous leader, so that a restarted leader acts as a follower."""
    may_skip = version >= JOIN_MAY_SKIP_ASSIGNMENT
    leads = may_skip and group.leader == member_id
    reply = joined_reply(group, member_id, version, for_leader=leads, has_scala_maps=has_scala_maps)
    reply.skip_assignment = leads
    if not may_skip:
        reply.leader = leader_before or ""
    return reply


def synced_reply(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    """A successful SyncGroup reply."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


# -- join phase


def rebalance_or_complete(group: ClassicGroup, event: EventDraft) -> None:
    """After a member was added, changed or removed: start a rebalance, or end the join phase in flight if it can
    end."""
    if can_move(group.state, ClassicState.PREPARING_REBALANCE):
        prepare_rebalance(group, event)
    else:
        maybe_complete_join(group, event)


def prepare_rebalance(group: ClassicGroup, event: EventDraft) -> None:
    """Start a join phase. The first one of an Empty group lasts until the initial delay ends, even if every member has
    joined."""
    if group.state is ClassicState.COMPLETING_REBALANCE:
        _fail_sync_phase(group, ErrorCode.REBALANCE_IN_PROGRESS, event)
    _end_sync_phase(group, event)
    initial = group.is_empty
    group.move_to(ClassicState.PREPARING_REBALANCE, event.now)
    if initial:
        delay_ms = event.settings.group_initial_rebalance_delay_ms
        group.soft.initial_delay = InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        event.set_timer(join_key(group), delay_ms)
    elif group.all_joined:
        complete_join(group, event)
    else:
        event.set_timer(join_key(group), group.rebalance_timeout_ms)


def maybe_complete_join(group: ClassicGroup, event: EventDraft) -> None:
    """End the join phase early if every member has joined. The first join phase of a group that was Empty ends early
    only if a scale-out is planned and all planned members have joined."""
    if (
        group.state is ClassicState.PREPARING_REBALANCE
        and group.all_joined
        and (group.soft.previous_state is not ClassicState.EMPTY or standby.is_plan_fulfilled(group, event.settings))
    ):
        complete_join(group, event)


def join_phase_expired(group: ClassicGroup, event: EventDraft) -> None:
    """The join timer fired: extend the initial delay if a member was added meanwhile, else end the phase."""
    soft = group.soft
    delay = soft.initial_delay
    if delay is None or not soft.new_member_added or delay.remaining_ms == 0:
        complete_join(group, event)
        return
    soft.new_member_added = False
    next_delay_ms = min(event.settings.group_initial_rebalance_delay_ms, delay.remaining_ms)
    soft.initial_delay = InitialDelay(next_delay_ms, max(delay.remaining_ms - delay.delay_ms, 0))
    event.set_timer(join_key(group), next_delay_ms)


def complete_join(group: ClassicGroup, event: EventDraft) -> None:
    """End the join phase.

    Dynamic members that have not joined are removed; static ones stay. If there are members and none of them has
    joined, the phase goes on for another rebalance timeout, in the same generation."""
    event.cancel_timer(join_key(group))
    soft, behavior = group.soft, event.behavior
    soft.initial_delay = None
    joined = whole(soft.parked_joins)
    for member in list(group.members.values()):
        if member.group_instance_id is None and member.member_id not in joined:
            remove_member(group, member.member_id, event)
    standby.let_in_all(group, event)
    if group.members and not group.elect_joined_leader(has_scala_maps=behavior.has_scala_maps):
        # A member's rebalance timeout can be 0. Kafka's timer then waits one tick, so time still advances.
        event.set_timer(join_key(group), max(group.rebalance_timeout_ms, _TICK_MS))
        return
    group.start_generation(event.now, has_scala_maps=behavior.has_scala_maps)
    if group.is_empty:
        event.write(group_record(group, {}))
        event.on_append_failure = OnAppendFailure.KEEP
        return
    joined, soft.parked_joins = whole(soft.parked_joins), {}
    members = whole(group.members)
    for member_id, member in members.items():
        parked = joined.get(member_id)
        if parked is not None:
            event.reply(
                parked.ticket,
                joined_reply(
                    group,
                    member_id,
                    parked.version,
                    for_leader=member_id == group.leader,
                    has_scala_maps=behavior.has_scala_maps,
                ),
            )
        extend_session(group, member, event)
        if member.is_new:
            members[member_id] = member._replace(is_new=False)
    if behavior.has_sync_timer:
        soft.pending_syncs = dict.fromkeys(members)
        event.set_timer(sync_key(group), group.rebalance_timeout_ms)


# -- sync phase


def complete_sync(group: ClassicGroup, assignments: Mapping[str, bytes], event: EventDraft) -> None:
    """The leader has assigned: write the group, and answer every parked SyncGroup. Members that the leader left out get
    an empty assignment; ids that are not members are ignored."""
    by_member = {member_id: assignments.get(member_id, NO_ASSIGNMENT) for member_id in group.members}
    listed = group.listed(has_scala_maps=event.behavior.has_scala_maps)
    record, logged_members = stable_record(group, listed, by_member)
    event.write(record)
    event.on_append_failure = OnAppendFailure.REBALANCE
    waiting, group.soft.parked_syncs = whole(group.soft.parked_syncs), {}
    members = whole(group.members)
    for member_id, member in members.items():
        assigned = members[member_id] = member._replace(assignment=by_member[member_id])
        parked = waiting.get(member_id)
        if parked is not None:
            event.reply(parked.ticket, synced_reply(group, assigned))
            # The session of a member with a parked request does not expire.
            extend_session(group, assigned, event)
    group.move_to(ClassicState.STABLE, event.now)
    group.logged_members = logged_members


def member_synced(group: ClassicGroup, member_id: str, event: EventDraft) -> None:
    """A member has sent SyncGroup. The last one cancels the sync timer."""
    group.soft.pending_syncs.pop(member_id, None)
    if not group.soft.pending_syncs:
        event.cancel_timer(sync_key(group))


def sync_phase_expired(group: ClassicGroup, event: EventDraft) -> None:
    """The sync timer fired, in CompletingRebalance or Stable: remove every member, static or not, that has sent no
    SyncGroup, and start a rebalance."""
    for member_id in list(group.soft.pending_syncs):
        remove_member(group, member_id, event)
    prepare_rebalance(group, event)


def fail_sync(group: ClassicGroup, error: ErrorCode, event: EventDraft) -> None:
    """The assignment could not be written: answer all parked SyncGroups with the error, and start a rebalance."""
    _fail_sync_phase(group, error, event)
    rebalance_or_complete(group, event)


def _fail_sync_phase(group: ClassicGroup, error: ErrorCode, event: EventDraft) -> None:
    members, waiting = whole(group.members), whole(group.soft.parked_syncs)
    for member_id, member in members.items():
        if member.assignment:
            members[member_id] = member._replace(assignment=NO_ASSIGNMENT)
        if member_id in waiting:
            answer_sync(group, member_id, error, event)
            extend_session(group, member, event)


def _end_sync_phase(group: ClassicGroup, event: EventDraft) -> None:
    group.soft.pending_syncs.clear()
    event.cancel_timer(sync_key(group))


# -- removed members


def remove_member(group: ClassicGroup, member_id: str, event: EventDraft) -> None:
    """Remove a member or a pending id, with its timer. Its parked requests are answered with UNKNOWN_MEMBER_ID (Kafka
    never answers a parked SyncGroup)."""
    answer_join(group, member_id, ErrorCode.UNKNOWN_MEMBER_ID, event)
    answer_sync(group, member_id, ErrorCode.UNKNOWN_MEMBER_ID, event)
    group.remove(member_id, has_scala_maps=event.behavior.has_scala_maps)
    event.cancel_timer(session_key(group.group_id, member_id))


def session_expired(group: ClassicGroup, member_id: str, event: EventDraft) -> None:
    """The session of a pending id or of a member, static or dynamic, expired. A member whose request is parked stays,
    unless it is new."""
    member = group.members.get(member_id)
    if member is not None and not member.is_new and _waits(group, member_id):
        return
    if member is not None and replaced_by_spare(group, member, event):
        return
    remove_member(group, member_id, event)
    if member is not None and group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        rebalance_or_complete(group, event)
    elif not event.behavior.expiry_ends_initial_delay:
        maybe_complete_join(group, event)
    elif group.state is ClassicState.PREPARING_REBALANCE and group.all_joined:
        complete_join(group, event)


def replaced_by_spare(group: ClassicGroup, gone: ClassicMember, event: EventDraft) -> bool:
    """Whether a spare has taken the place of a member that is about to be removed (`standby`)."""
    leader = group.leader
    spare = standby.take_over(group, gone, event)
    if spare is not None:
        member_id, version = spare.member.member_id, spare.parked.version
        event.reply(spare.parked.ticket, replaced_reply(group, member_id, version, leader_before=leader))
    return spare is not None


def _waits(group: ClassicGroup, member_id: str) -> bool:
    return member_id in group.soft.parked_joins or member_id in group.soft.parked_syncs


def delete_group(group: ClassicGroup, event: EventDraft) -> None:
    """Delete an Empty group. Its pending ids become void."""
    for member_id in group.soft.pending_joins:
        event.cancel_timer(session_key(group.group_id, member_id))
    if group.generation or event.behavior.writes_new_groups:
        event.write(tombstone(group.group_id))
    else:
        event.dropped_groups.append(group.group_id)
