"""SyncGroup (v0-5) for classic groups (Kafka: GroupMetadataManager.classicGroupSyncToClassicGroup)."""

from kgm.coordinator.classic import rebalance
from kgm.coordinator.contract.api_versions import SYNC_REQUIRES_PROTOCOL
from kgm.coordinator.contract.behavior import CoordinatorBehavior
from kgm.coordinator.contract.error_responses import sync_refusal
from kgm.coordinator.groups.classic_group import ClassicGroup, ParkedRequest
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.sync_group_request import SyncGroupRequest


def handle_sync(message: SyncGroupRequest, installed: ClassicGroup | None, event: EventDraft) -> None:
    """A SyncGroup. It is parked until the leader's SyncGroup, which ends the sync phase."""
    version = event.version
    error = _request_error(message, version)
    if error is ErrorCode.NONE:
        error = _sync_error(message, installed, event.behavior)
    if error is not ErrorCode.NONE:
        event.answer(sync_refusal(error))
        return
    assert installed is not None
    assert event.ticket is not None
    # Only the leader's SyncGroup is written, and only if it ends the sync phase.
    ends_phase = installed.state is not ClassicState.STABLE and installed.leader == message.member_id
    group = event.draft(installed) if ends_phase else event.in_place(installed)
    if group.state is ClassicState.STABLE:
        rebalance.member_synced(group, message.member_id, event)
        member = group.members[message.member_id]
        event.answer(rebalance.synced_reply(group, member))
        if event.behavior.late_sync_extends_session:
            rebalance.extend_session(group, member, event)
        return
    # Kafka never answers an earlier SyncGroup from the same member.
    rebalance.answer_sync(group, message.member_id, ErrorCode.REBALANCE_IN_PROGRESS, event)
    group.soft.parked_syncs[message.member_id] = ParkedRequest(event.ticket, version)
    rebalance.member_synced(group, message.member_id, event)
    if group.leader == message.member_id:
        rebalance.complete_sync(group, {row.member_id: row.assignment for row in message.assignments}, event)


def _request_error(message: SyncGroupRequest, version: int) -> ErrorCode:
    if version >= SYNC_REQUIRES_PROTOCOL and (message.protocol_type is None or message.protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE if message.group_id else ErrorCode.INVALID_GROUP_ID


def _sync_error(message: SyncGroupRequest, group: ClassicGroup | None, behavior: CoordinatorBehavior) -> ErrorCode:
    if group is None or group.state is ClassicState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error := group.check_member(
        message.member_id, message.group_instance_id, checks_instance_ids=behavior.checks_instance_ids
    ):
        return error
    if message.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(message.protocol_type, group.protocol_type) or _differ(message.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if behavior.sync_needs_selected_protocol and message.protocol_name is not None and group.protocol is None:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is ClassicState.PREPARING_REBALANCE else ErrorCode.NONE


def _differ(sent: str | None, known: str | None) -> bool:
    return sent is not None and known is not None and sent != known
