"""LeaveGroup (v0-5) for classic groups (Kafka: GroupMetadataManager.classicGroupLeaveToClassicGroup).

A member leaves, or an operator removes members, by group instance id or by member id. v0-2 name one member by its
member id; from v3 on there is a list, and each member gets its own error (KIP-345)."""

from collections.abc import Sequence

from kgm.coordinator.classic import rebalance, standby
from kgm.coordinator.contract.api_versions import LEAVE_HAS_MEMBERS
from kgm.coordinator.contract.error_responses import UNKNOWN_MEMBER_ID
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse


def handle_leave(message: LeaveGroupRequest, installed: ClassicGroup | None, event: EventDraft) -> None:
    """A LeaveGroup. However many members it names, it costs one rebalance."""
    if not message.group_id:
        event.answer(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return
    if installed is not None and installed.state is ClassicState.DEAD:
        event.answer(LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    leaving = leaving_members(message, event.version)
    group = None if installed is None else event.draft(installed)
    together = event.behavior.removes_members_together
    remove = _remove if together else _remove_alone
    # None: the group is not affected.
    errors = [ErrorCode.UNKNOWN_MEMBER_ID if group is None else remove(group, member, event) for member in leaving]
    if together and group is not None and ErrorCode.NONE in errors:
        _rebalance(group, event)
    event.answer(leave_response(leaving, [error or ErrorCode.NONE for error in errors], event.version))


def leaving_members(message: LeaveGroupRequest, version: int) -> Sequence[MemberIdentity]:
    """The members named in a request."""
    return message.members if version >= LEAVE_HAS_MEMBERS else [MemberIdentity(member_id=message.member_id)]


def leave_response(leaving: Sequence[MemberIdentity], errors: Sequence[ErrorCode], version: int) -> LeaveGroupResponse:
    """The response with each member's error, in the order of the request, with the ids as sent."""
    if version < LEAVE_HAS_MEMBERS:
        return LeaveGroupResponse(error_code=errors[0])
    rows = [
        MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error)
        for member, error in zip(leaving, errors, strict=True)
    ]
    return LeaveGroupResponse(members=rows)


def _rebalance(group: ClassicGroup, event: EventDraft) -> None:
    """After members were removed: start a rebalance, or end the join phase in flight if it can end."""
    if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        rebalance.prepare_rebalance(group, event)
    else:
        rebalance.maybe_complete_join(group, event)


def _remove_alone(group: ClassicGroup, leaving: MemberIdentity, event: EventDraft) -> ErrorCode | None:
    """Remove one member and rebalance, before the next one is removed (when `removes_members_together` is false)."""
    before = len(group.members)
    error = _remove(group, leaving, event)
    if error is ErrorCode.NONE:
        if len(group.members) < before:
            _rebalance(group, event)
        else:
            rebalance.maybe_complete_join(group, event)
    return error


def _remove(group: ClassicGroup, leaving: MemberIdentity, event: EventDraft) -> ErrorCode | None:
    """Remove one member or pending id. The caller then starts a rebalance, unless the result is None: a held newcomer
    left, or a spare took the member's place."""
    member_id = leaving.member_id
    if group.soft.held and standby.withdraw(group, leaving, event):
        return None
    if member_id == UNKNOWN_MEMBER_ID:
        # Removed by an operator, who gives only the instance id.
        instance_id = leaving.group_instance_id
        if instance_id is None or instance_id not in group.static_ids:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = group.static_ids[instance_id]
    elif member_id not in group.soft.pending_joins and (
        error := group.check_member(
            member_id,
            leaving.group_instance_id,
            checks_instance_ids=event.behavior.checks_instance_ids,
        )
    ):
        return error
    if member_id in group.members and rebalance.replaced_by_spare(group, group.members[member_id], event):
        return None
    rebalance.remove_member(group, member_id, event)
    return ErrorCode.NONE
