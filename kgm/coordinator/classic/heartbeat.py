"""Heartbeat (v0-4) for classic groups (Kafka: GroupMetadataManager.classicGroupHeartbeatToClassicGroup)."""

from kgm.coordinator.classic.rebalance import extend_session
from kgm.coordinator.contract.behavior import CoordinatorBehavior
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse

#: The answers to members whose session a heartbeat extends.
_EXTENDS = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


def handle_heartbeat(message: HeartbeatRequest, installed: ClassicGroup | None, event: EventDraft) -> None:
    """A Heartbeat. It extends the session, even if the member is asked to rejoin."""
    behavior = event.behavior
    error = ErrorCode.INVALID_GROUP_ID if not message.group_id else _heartbeat_error(message, installed, behavior)
    if error in _EXTENDS:
        assert installed is not None
        if _is_early(installed, behavior):
            event.answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
            return
        extend_session(installed, installed.members[message.member_id], event)
    event.answer(HeartbeatResponse(error_code=error))


def _is_early(group: ClassicGroup, behavior: CoordinatorBehavior) -> bool:
    """Whether heartbeats do not count yet because the members have no assignment."""
    return group.state is ClassicState.COMPLETING_REBALANCE and not behavior.heartbeats_count_in_sync_phase


def _heartbeat_error(message: HeartbeatRequest, group: ClassicGroup | None, behavior: CoordinatorBehavior) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error := group.check_member(
        message.member_id, message.group_instance_id, checks_instance_ids=behavior.checks_instance_ids
    ):
        return error
    if message.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is ClassicState.PREPARING_REBALANCE else ErrorCode.NONE
