"""What replaces an event whose records could not be appended (Kafka: the appendFuture callbacks, and timelines that are
reverted).

failed: the draft of that event, which has not taken effect. event: the draft that replaces it."""

from collections.abc import Mapping

from kgm.coordinator.classic import rebalance
from kgm.coordinator.consumer import migration
from kgm.coordinator.consumer.timers import MEMBER_TIMERS
from kgm.coordinator.contract.error_responses import refusal
from kgm.coordinator.contract.outcome import Millis, TimerKey, TimerKind
from kgm.coordinator.groups.classic_group import ClassicGroup, ParkedRequest
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.group import Group
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest
from kgm.protocol.messages.offset_commit_request import OffsetCommitRequest
from kgm.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kgm.protocol.messages.sync_group_request import SyncGroupRequest

#: How long until an alarm whose records could not be appended fires again; fixed in Kafka.
_RETRY_MS = 500


def revert(groups: Mapping[str, Group], failed: EventDraft, event: EventDraft, error: ErrorCode) -> None:
    """Drop the request, or set the alarm again. What does not depend on the log remains: the id that a newcomer was
    given, and the extended session of a member that has committed or sent a heartbeat."""
    if failed.request is None:
        _try_again(failed, event)
        return
    message = failed.request.message
    if isinstance(message, OffsetCommitRequest):
        event.timers = _set_timers(failed)
    group = groups.get(message.group_id) if isinstance(message, JoinGroupRequest) else None
    if isinstance(group, ClassicGroup):
        _keep_static(group, event, error)
    elif isinstance(message, JoinGroupRequest) and failed.replies and not isinstance(group, ConsumerGroup):
        event.replies = failed.replies
    else:
        if isinstance(message, ConsumerGroupHeartbeatRequest | StreamsGroupHeartbeatRequest):
            _keep_timers(groups, message, failed, event)
        event.answer(refusal(failed.request, error))


def _try_again(failed: EventDraft, event: EventDraft) -> None:
    """An alarm for a member of a consumer group fires again soon. Expressions are resolved after the next heartbeat."""
    if failed.alarm is None or failed.alarm.kind not in (*MEMBER_TIMERS, TimerKind.REGEX):
        event.timers = _set_timers(failed)
    elif failed.alarm.kind is TimerKind.REGEX:
        event.cancel_timer(failed.alarm)
    else:
        if not failed.groups:
            # The member has no other deadline.
            event.timers = {key: None for key, deadline in failed.timers.items() if deadline is None}
        event.set_timer(failed.alarm, _RETRY_MS)


def _set_timers(failed: EventDraft) -> dict[TimerKey, Millis | None]:
    return {key: deadline for key, deadline in failed.timers.items() if deadline is not None}


def _keep_timers(
    groups: Mapping[str, Group],
    message: ConsumerGroupHeartbeatRequest | StreamsGroupHeartbeatRequest,
    failed: EventDraft,
    event: EventDraft,
) -> None:
    """A heartbeat extends the session, even if its records could not be written."""
    group = groups.get(message.group_id)
    if (
        isinstance(message, ConsumerGroupHeartbeatRequest)
        and isinstance(group, ClassicGroup)
        and group.state is not ClassicState.EMPTY
    ):
        migration.answer_parked(event.draft(group), event)
    is_known = isinstance(group, ConsumerGroup | StreamsGroup) and message.member_id in group.members
    if is_known and message.member_epoch >= 0:
        event.timers = {key: deadline for key, deadline in failed.timers.items() if key.member_id == message.member_id}


def _keep_static(group: ClassicGroup, event: EventDraft, error: ErrorCode) -> None:
    """A static member could not be replaced: the old id stays, and its session starts again."""
    assert event.request is not None
    message = event.request.message
    assert isinstance(message, JoinGroupRequest)
    assert message.group_instance_id is not None
    rebalance.extend_session(group, group.members[group.static_ids[message.group_instance_id]], event)
    reply = rebalance.joined_reply(group, "", event.request.version, for_leader=False)
    reply.error_code = error
    event.answer(reply)


def end_delays(failed: EventDraft, event: EventDraft) -> None:
    """The initial delay of a streams group does not start again once it has ended, or once the event tried to delete
    the group."""
    for key, deadline in failed.timers.items():
        if key.kind is TimerKind.INITIAL_DELAY and deadline is None:
            event.cancel_timer(key)


def keep(failed: EventDraft, event: EventDraft, error: ErrorCode) -> None:
    """A group became Empty, and stays so in memory. After a restart its last members are loaded, and expire."""
    event.groups, event.timers = failed.groups, failed.timers
    event.replies = [reply for reply in failed.replies if reply.ticket != failed.ticket]
    if failed.request is not None:
        event.answer(refusal(failed.request, error))


def start_rebalance(groups: Mapping[str, Group], failed: EventDraft, event: EventDraft, error: ErrorCode) -> None:
    """The leader's assignment is lost: answer all members that wait for it with the error, and start a rebalance."""
    assert failed.request is not None
    assert failed.ticket is not None
    message = failed.request.message
    assert isinstance(message, SyncGroupRequest)
    installed = groups[message.group_id]
    assert isinstance(installed, ClassicGroup)
    group = event.draft(installed)
    group.soft.parked_syncs[message.member_id] = ParkedRequest(failed.ticket, failed.request.version)
    rebalance.fail_sync(group, error, event)
