"""SyncGroup (v0-5), Heartbeat (v0-4) and LeaveGroup (v0-5) for classic groups."""

from kgm.coordinator.classic import rebalance as rounds
from kgm.coordinator.classic import standby
from kgm.coordinator.classic.group import ClassicGroup, Parked
from kgm.coordinator.classic.state import ClassicState
from kgm.coordinator.contract.error_responses import sync_refusal
from kgm.coordinator.contract.event_draft import EventDraft
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from kgm.protocol.messages.sync_group_request import SyncGroupRequest

_SYNC_NAMES_PROTOCOL_FROM = 5
_LEAVE_IS_BATCH_FROM = 3


# -- SyncGroup


def handle_sync(message: SyncGroupRequest, installed: ClassicGroup | None, step: EventDraft) -> None:
    """A SyncGroup: parked until the leader's comes; the leader's ends the sync phase."""
    assert step.request is not None
    assert step.ticket is not None
    error = _sync_request_error(message, step.request.version)
    if error is ErrorCode.NONE:
        error = _sync_error(message, installed)
    if error is not ErrorCode.NONE:
        step.answer(sync_refusal(error))
        return
    assert installed is not None
    group = step.draft(installed)
    if group.state is ClassicState.STABLE:
        rounds.member_synced(group, step, message.member_id)
        step.answer(rounds.synced_reply(group, group.members[message.member_id]))
        return
    # An earlier one of the same member, which Kafka never answers, is told that something has moved on.
    rounds.answer_sync(group, step, message.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
    group.parked_syncs[message.member_id] = Parked(step.ticket, step.request.version)
    rounds.member_synced(group, step, message.member_id)
    if group.leader == message.member_id:
        rounds.complete_sync(group, step, {row.member_id: row.assignment for row in message.assignments})


def _sync_request_error(message: SyncGroupRequest, version: int) -> ErrorCode:
    if version >= _SYNC_NAMES_PROTOCOL_FROM and (message.protocol_type is None or message.protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE if message.group_id else ErrorCode.INVALID_GROUP_ID


def _sync_error(message: SyncGroupRequest, group: ClassicGroup | None) -> ErrorCode:
    if group is None or group.state is ClassicState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error := group.check_member(message.member_id, message.group_instance_id):
        return error
    if message.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(message.protocol_type, group.protocol_type) or _differ(message.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is ClassicState.PREPARING_REBALANCE else ErrorCode.NONE


def _differ(said: str | None, known: str | None) -> bool:
    return said is not None and known is not None and said != known


# -- Heartbeat


def handle_heartbeat(message: HeartbeatRequest, installed: ClassicGroup | None, step: EventDraft) -> None:
    """A Heartbeat: extends the session, also of a member that is told to rejoin."""
    error = ErrorCode.INVALID_GROUP_ID if not message.group_id else _heartbeat_error(message, installed)
    if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
        assert installed is not None
        rounds.extend_session(installed, step, installed.members[message.member_id])
    step.answer(HeartbeatResponse(error_code=error))


def _heartbeat_error(message: HeartbeatRequest, group: ClassicGroup | None) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error := group.check_member(message.member_id, message.group_instance_id):
        return error
    if message.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is ClassicState.PREPARING_REBALANCE else ErrorCode.NONE


# -- LeaveGroup


def handle_leave(message: LeaveGroupRequest, installed: ClassicGroup | None, step: EventDraft) -> None:
    """A LeaveGroup: of a member itself, or of an operator who removes members by group instance id.

    All members of one request cost one rebalance. Answers keep the order of the request and echo its ids."""
    assert step.request is not None
    version = step.request.version
    if not message.group_id:
        step.answer(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return
    if installed is not None and installed.is_in(ClassicState.DEAD):
        step.answer(LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    leaving = message.members if version >= _LEAVE_IS_BATCH_FROM else [MemberIdentity(member_id=message.member_id)]
    group = None if installed is None else step.draft(installed)
    errors = [ErrorCode.UNKNOWN_MEMBER_ID if group is None else _leave_one(group, step, member) for member in leaving]
    if group is not None and ErrorCode.NONE in errors:
        if group.is_in(ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            rounds.prepare_rebalance(group, step)
        else:
            rounds.maybe_complete_join(group, step)
    if version < _LEAVE_IS_BATCH_FROM:
        step.answer(LeaveGroupResponse(error_code=errors[0] or ErrorCode.NONE))
    else:
        step.answer(
            LeaveGroupResponse(
                members=[
                    MemberResponse(
                        member_id=member.member_id,
                        group_instance_id=member.group_instance_id,
                        error_code=error or ErrorCode.NONE,
                    )
                    for member, error in zip(leaving, errors, strict=True)
                ]
            )
        )


def _leave_one(group: ClassicGroup, step: EventDraft, leaving: MemberIdentity) -> ErrorCode | None:
    """Remove one member or pending id, without yet looking at what that means for the round. None: it means nothing,
    since it was held back, or a spare has taken its place."""
    member_id = leaving.member_id
    if group.held and standby.withdraw(group, step, leaving):
        return None
    if member_id == "":
        # An operator's removal names the instance only.
        instance_id = leaving.group_instance_id
        if instance_id is None or instance_id not in group.static_ids:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = group.static_ids[instance_id]
    elif member_id not in group.pending_joins and (error := group.check_member(member_id, leaving.group_instance_id)):
        return error
    if member_id in group.members and rounds.replaced_by_spare(group, step, group.members[member_id]):
        return None
    rounds.remove_member(group, step, member_id)
    return ErrorCode.NONE
