"""A rebalance of a classic group: the join phase, the sync phase, and the alarms that end them.

Each function changes a draft of a group and notes in the step what is to be written, timed and answered
(Kafka: GroupMetadataManager.prepareRebalance, completeClassicGroupJoin, tryCompleteInitialRebalanceElseSchedule,
expirePendingSync, expireClassicGroupMemberHeartbeat)."""

from collections.abc import Mapping

from kgm.coordinator.classic import standby
from kgm.coordinator.classic.group import NO_ASSIGNMENT, ClassicGroup, ClassicMember, InitialDelay, Parked
from kgm.coordinator.classic.records import group_record, settled_record
from kgm.coordinator.classic.state import ClassicState, can_move
from kgm.coordinator.contract.error_responses import join_refusal, protocol_name, sync_refusal
from kgm.coordinator.contract.event_draft import EventDraft, OnAppendFailure
from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.coordinator.contract.overlay import whole
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from kgm.protocol.messages.sync_group_response import SyncGroupResponse

_SKIP_ASSIGNMENT_FROM = 9


def session_key(group: ClassicGroup, member_id: str) -> TimerKey:
    return TimerKey(TimerKind.SESSION, group.group_id, member_id)


def join_key(group: ClassicGroup) -> TimerKey:
    return TimerKey(TimerKind.JOIN, group.group_id)


def sync_key(group: ClassicGroup) -> TimerKey:
    return TimerKey(TimerKind.SYNC, group.group_id)


def extend_session(group: ClassicGroup, step: EventDraft, member: ClassicMember) -> None:
    """Count the member's session from now on."""
    step.set_timer(TimerKey(TimerKind.SESSION, group.group_id, member.member_id), member.session_timeout_ms)


# -- parked requests


def park_join(group: ClassicGroup, step: EventDraft, member_id: str, parked: Parked) -> None:
    """Let a JoinGroup wait for the end of the join phase. An earlier one of the same member, which Kafka never
    answers, is told to join again."""
    answer_join(group, step, member_id, ErrorCode.REBALANCE_IN_PROGRESS, echo=member_id)
    group.parked_joins[member_id] = parked


def answer_join(group: ClassicGroup, step: EventDraft, member_id: str, error: ErrorCode, *, echo: str = "") -> None:
    """Refuse a member's parked JoinGroup, if there is one; `echo` is the member id in the reply."""
    parked = group.parked_joins.pop(member_id, None)
    if parked is not None:
        step.reply(parked.ticket, join_refusal(error, parked.version, echo))


def answer_sync(group: ClassicGroup, step: EventDraft, member_id: str, error: ErrorCode) -> None:
    """Refuse a member's parked SyncGroup, if there is one."""
    parked = group.parked_syncs.pop(member_id, None)
    if parked is not None:
        step.reply(parked.ticket, sync_refusal(error))


def joined_reply(group: ClassicGroup, member_id: str, version: int, *, for_leader: bool) -> JoinGroupResponse:
    """A successful JoinGroup reply of the current generation; only the leader is told who the members are."""
    members = [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in (group.members.values() if for_leader else ())
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
    group: ClassicGroup, member_id: str, version: int, *, leader_before: str | None
) -> JoinGroupResponse:
    """The reply to who has taken a member's place, without a rebalance: it says that all is as it was. From v9 on a
    leader is told that it leads and need not assign; an older leader is told who led before, so that it takes itself
    for a follower."""
    knows_better = version >= _SKIP_ASSIGNMENT_FROM
    leads = knows_better and group.leader == member_id
    reply = joined_reply(group, member_id, version, for_leader=leads)
    reply.skip_assignment = leads
    if not knows_better:
        reply.leader = leader_before or ""
    return reply


def synced_reply(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    """A successful SyncGroup reply."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


# -- join phase


def rebalance_or_complete(group: ClassicGroup, step: EventDraft) -> None:
    """After a member came, changed or went: begin a rebalance, or see whether the one in flight can go on."""
    if can_move(group.state, ClassicState.PREPARING_REBALANCE):
        prepare_rebalance(group, step)
    else:
        maybe_complete_join(group, step)


def prepare_rebalance(group: ClassicGroup, step: EventDraft) -> None:
    """Begin a join phase. The first one of an Empty group waits for the initial delay, whoever has joined."""
    if group.is_in(ClassicState.COMPLETING_REBALANCE):
        _fail_sync_phase(group, step)
    _end_sync_timer(group, step)
    initial = group.is_in(ClassicState.EMPTY)
    group.move_to(ClassicState.PREPARING_REBALANCE, step.now)
    if initial:
        delay_ms = step.settings.group_initial_rebalance_delay_ms
        group.initial_delay = InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        step.set_timer(join_key(group), delay_ms)
    elif group.all_joined:
        complete_join(group, step)
    else:
        step.set_timer(join_key(group), group.rebalance_timeout_ms)


def maybe_complete_join(group: ClassicGroup, step: EventDraft) -> None:
    """End the join phase early if nobody is missing; the first one of a group that was Empty only if there is a plan,
    and everybody is there."""
    if (
        group.state is ClassicState.PREPARING_REBALANCE
        and group.all_joined
        and (group.previous_state is not ClassicState.EMPTY or standby.is_fulfilled(group, step.settings))
    ):
        complete_join(group, step)


def join_phase_expired(group: ClassicGroup, step: EventDraft) -> None:
    """The join timer fired: the initial delay is over or extended, or the rebalance timeout is up."""
    delay = group.initial_delay
    if delay is None or not group.new_member_added or delay.remaining_ms == 0:
        complete_join(group, step)
        return
    group.new_member_added = False
    next_delay_ms = min(step.settings.group_initial_rebalance_delay_ms, delay.remaining_ms)
    group.initial_delay = InitialDelay(next_delay_ms, max(delay.remaining_ms - delay.delay_ms, 0))
    step.set_timer(join_key(group), next_delay_ms)


def complete_join(group: ClassicGroup, step: EventDraft) -> None:
    """End the join phase.

    Dynamic members that did not join are removed, static ones stay. If members exist and none of them joined, the
    phase is extended by a rebalance timeout, in the same generation."""
    step.cancel_timer(join_key(group))
    group.initial_delay = None
    joined = whole(group.parked_joins)
    for member in list(group.members.values()):
        if member.group_instance_id is None and member.member_id not in joined:
            remove_member(group, step, member.member_id)
    standby.let_in_all(group, step)
    if group.members and not group.elect_joined_leader():
        step.set_timer(join_key(group), group.rebalance_timeout_ms)
        return
    group.start_generation(step.now)
    if group.is_in(ClassicState.EMPTY):
        step.write(group_record(group, {}))
        step.on_append_failure = OnAppendFailure.KEEP
        return
    joined, group.parked_joins = whole(group.parked_joins), {}
    members = whole(group.members)
    for member_id, member in members.items():
        parked = joined.get(member_id)
        if parked is not None:
            for_leader = member_id == group.leader
            step.reply(parked.ticket, joined_reply(group, member_id, parked.version, for_leader=for_leader))
        extend_session(group, step, member)
        if member.is_new:
            members[member_id] = member._replace(is_new=False)
    group.pending_syncs = dict.fromkeys(members)
    step.set_timer(sync_key(group), group.rebalance_timeout_ms)


# -- sync phase


def complete_sync(group: ClassicGroup, step: EventDraft, assignments: Mapping[str, bytes]) -> None:
    """The leader has assigned: write the group, and give every parked SyncGroup its part. Members without one get an
    empty assignment; ids that are no members are ignored."""
    by_member = {member_id: assignments.get(member_id, NO_ASSIGNMENT) for member_id in group.members}
    record = settled_record(group, by_member)
    rows = group.rows
    step.write(record)
    step.on_append_failure = OnAppendFailure.REBALANCE
    waiting, group.parked_syncs = whole(group.parked_syncs), {}
    members = whole(group.members)
    for member_id, member in members.items():
        assigned = members[member_id] = member._replace(assignment=by_member[member_id])
        parked = waiting.get(member_id)
        if parked is not None:
            step.reply(parked.ticket, synced_reply(group, assigned))
            # Its session was not watched while the request was parked.
            extend_session(group, step, assigned)
    group.move_to(ClassicState.STABLE, step.now)
    group.rows = rows


def member_synced(group: ClassicGroup, step: EventDraft, member_id: str) -> None:
    """A member has sent SyncGroup; with the last one the sync timer goes."""
    group.pending_syncs.pop(member_id, None)
    if not group.pending_syncs:
        step.cancel_timer(sync_key(group))


def sync_phase_expired(group: ClassicGroup, step: EventDraft) -> None:
    """The sync timer fired, in CompletingRebalance or Stable: whoever sent no SyncGroup is removed, static or not."""
    for member_id in list(group.pending_syncs):
        remove_member(group, step, member_id)
    prepare_rebalance(group, step)


def fail_sync(group: ClassicGroup, step: EventDraft, error: ErrorCode) -> None:
    """The assignment could not be written: every parked SyncGroup gets the error, and a rebalance begins."""
    _fail_sync_phase(group, step, error)
    rebalance_or_complete(group, step)


def _fail_sync_phase(group: ClassicGroup, step: EventDraft, error: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS) -> None:
    members, waiting = whole(group.members), whole(group.parked_syncs)
    for member_id, member in members.items():
        if member.assignment:
            members[member_id] = member._replace(assignment=NO_ASSIGNMENT)
        if member_id in waiting:
            answer_sync(group, step, member_id, error)
            extend_session(group, step, member)


def _end_sync_timer(group: ClassicGroup, step: EventDraft) -> None:
    group.pending_syncs.clear()
    step.cancel_timer(sync_key(group))


# -- members that go


def remove_member(group: ClassicGroup, step: EventDraft, member_id: str) -> None:
    """Take a member or pending id out of the group, with its timer. What it had parked is answered with
    UNKNOWN_MEMBER_ID (Kafka leaves a parked SyncGroup without any answer)."""
    answer_join(group, step, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    answer_sync(group, step, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    group.remove(member_id)
    step.cancel_timer(session_key(group, member_id))


def session_expired(group: ClassicGroup, step: EventDraft, member_id: str) -> None:
    """A session ended: of a pending id, or of a member, static or dynamic. Members that wait for a reply are spared
    until they have it, unless they are new."""
    member = group.members.get(member_id)
    if member is not None and not member.is_new and _waits(group, member_id):
        return
    if member is not None and replaced_by_spare(group, step, member):
        return
    remove_member(group, step, member_id)
    if member is not None and group.is_in(ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        rebalance_or_complete(group, step)
    elif group.is_in(ClassicState.PREPARING_REBALANCE) and group.all_joined:
        complete_join(group, step)


def replaced_by_spare(group: ClassicGroup, step: EventDraft, gone: ClassicMember) -> bool:
    """Whether somebody who was held back has taken the place of a member that goes (`standby`)."""
    leader = group.leader
    spare = standby.take_over(group, step, gone)
    if spare is not None:
        member_id, version = spare.member.member_id, spare.parked.version
        step.reply(spare.parked.ticket, replaced_reply(group, member_id, version, leader_before=leader))
    return spare is not None


def _waits(group: ClassicGroup, member_id: str) -> bool:
    return member_id in group.parked_joins or member_id in group.parked_syncs
