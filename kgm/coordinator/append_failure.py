"""What becomes of an event whose records could not be appended (Kafka: the appendFuture callbacks, and timelines that
are reverted)."""

from collections.abc import Mapping

from kgm.coordinator.admin.describe_list_delete import Group
from kgm.coordinator.classic import rebalance as rounds
from kgm.coordinator.classic.group import ClassicGroup, Parked
from kgm.coordinator.classic.state import ClassicState
from kgm.coordinator.consumer import fencing, migration
from kgm.coordinator.consumer.group import ConsumerGroup
from kgm.coordinator.contract.error_responses import refusal
from kgm.coordinator.contract.event_draft import EventDraft
from kgm.coordinator.contract.outcome import Millis, TimerKey, TimerKind
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest
from kgm.protocol.messages.offset_commit_request import OffsetCommitRequest
from kgm.protocol.messages.sync_group_request import SyncGroupRequest

#: After how long an alarm whose records could not be appended goes off again; fixed in Kafka.
_RETRY_MS = 500


def revert(groups: Mapping[str, Group], step: EventDraft, undo: EventDraft, error: ErrorCode) -> None:
    """The request was never made; an alarm is set again. What has been told or shown without the log still holds:
    that a newcomer has to come back with an id, and that a committing or heartbeating member is alive."""
    if step.request is None:
        _try_again(step, undo)
        return
    message = step.request.message
    if isinstance(message, OffsetCommitRequest):
        undo.timers = _set_timers(step)
    group = groups.get(message.group_id) if isinstance(message, JoinGroupRequest) else None
    if isinstance(group, ClassicGroup):
        _keep_static(group, undo, error)
    elif isinstance(message, JoinGroupRequest) and step.replies and not isinstance(group, ConsumerGroup):
        undo.replies = step.replies
    else:
        if isinstance(message, ConsumerGroupHeartbeatRequest):
            _keep_timers(groups, message, step, undo)
        undo.answer(refusal(step.request, error))


def _try_again(step: EventDraft, undo: EventDraft) -> None:
    """An alarm of a consumer group's member goes off again soon; expressions wait for the next heartbeat."""
    if step.alarm is None or not (fencing.is_of_member(step.alarm.kind) or step.alarm.kind is TimerKind.REGEX):
        undo.timers = _set_timers(step)
    elif step.alarm.kind is TimerKind.REGEX:
        undo.cancel_timer(step.alarm)
    else:
        if not step.groups:
            # It waits for nothing else any more.
            undo.timers = {key: None for key, deadline in step.timers.items() if deadline is None}
        undo.set_timer(step.alarm, _RETRY_MS)


def _set_timers(step: EventDraft) -> dict[TimerKey, Millis | None]:
    return {key: deadline for key, deadline in step.timers.items() if deadline is not None}


def _keep_timers(
    groups: Mapping[str, Group], message: ConsumerGroupHeartbeatRequest, step: EventDraft, undo: EventDraft
) -> None:
    """A heartbeat is a sign of life, whether it could be written or not."""
    group = groups.get(message.group_id)
    if isinstance(group, ClassicGroup) and not group.is_in(ClassicState.EMPTY):
        migration.send_away(undo.draft(group), undo)
    if isinstance(group, ConsumerGroup) and message.member_id in group.members and message.member_epoch >= 0:
        undo.timers = {key: deadline for key, deadline in step.timers.items() if key.member_id == message.member_id}


def _keep_static(group: ClassicGroup, undo: EventDraft, error: ErrorCode) -> None:
    """A static member was to be replaced: the old id stays, and gets a new session."""
    assert undo.request is not None
    message = undo.request.message
    assert isinstance(message, JoinGroupRequest)
    assert message.group_instance_id is not None
    rounds.extend_session(group, undo, group.members[group.static_ids[message.group_instance_id]])
    reply = rounds.joined_reply(group, "", undo.request.version, for_leader=False)
    reply.error_code = error
    undo.answer(reply)


def keep(step: EventDraft, undo: EventDraft, error: ErrorCode) -> None:
    """A group became Empty, which is not in the log: after a restart its last members will time out."""
    undo.groups, undo.timers = step.groups, step.timers
    undo.replies = [reply for reply in step.replies if reply.ticket != step.ticket]
    if step.request is not None:
        undo.answer(refusal(step.request, error))


def rebalance(groups: Mapping[str, Group], step: EventDraft, undo: EventDraft, error: ErrorCode) -> None:
    """The leader's assignment is lost: all that wait for it hear of the error, and have to join again."""
    assert step.request is not None
    assert step.ticket is not None
    message = step.request.message
    assert isinstance(message, SyncGroupRequest)
    installed = groups[message.group_id]
    assert isinstance(installed, ClassicGroup)
    group = undo.draft(installed)
    group.parked_syncs[message.member_id] = Parked(step.ticket, step.request.version)
    rounds.fail_sync(group, undo, error)
