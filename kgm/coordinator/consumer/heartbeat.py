"""ConsumerGroupHeartbeat (v0-1): a member joins, stays in or leaves a consumer group (KIP-848).

v1 added regular expressions, and member ids made by the client (KIP-1082); with v0 a member can join without an id.
Kafka: GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid,
GroupMetadataManager.consumerGroupHeartbeat and consumerGroupLeave."""

from collections.abc import Callable
from typing import Final

from kgm.coordinator.classic.rebalance import delete_group
from kgm.coordinator.consumer import fencing, member_update, migration, records, regexes, target, timers
from kgm.coordinator.consumer.reconciliation import Owned
from kgm.coordinator.contract.api_versions import HEARTBEAT_REQUIRES_MEMBER_ID
from kgm.coordinator.contract.error_responses import Refusal
from kgm.coordinator.contract.settings import BrokerSettings, heartbeat_interval_ms
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import AWAY, LEAVING, NOTHING, ConsumerMember
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.foreign_group import ForeignGroup
from kgm.coordinator.groups.group import Group
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.java.strings import is_blank
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_JOINING = 0
#: The epoch of a new group up to Kafka 4.2, and in all versions of a classic group without a generation whose first
#: member turns it into a consumer group.
_NO_EPOCH = 0
_NO_TIMEOUT = -1

#: Default error messages, for refusals without their own.
_MESSAGES: Final = {
    ErrorCode.UNSUPPORTED_VERSION: "The consumer protocol is not enabled.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group cannot become a classic group: a member's subscription is unreadable.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group already has the maximum number of members.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The member is not in the group.",
    ErrorCode.FENCED_INSTANCE_ID: "The group instance id belongs to another member.",
    ErrorCode.UNRELEASED_INSTANCE_ID: "The group instance id is in use by a member that has not left.",
    ErrorCode.FENCED_MEMBER_EPOCH: "The member epoch is fenced: the member must give up its partitions and join again.",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "SubscribedTopicRegex is not a valid RE2 regular expression.",
}


def handle_heartbeat(
    message: ConsumerGroupHeartbeatRequest,
    installed: Group | None,
    event: EventDraft,
    new_member_id: Callable[[str], str],
) -> None:
    """A ConsumerGroupHeartbeat with any member epoch."""
    if not event.settings.has_consumer_protocol:
        _refuse(Refusal(ErrorCode.UNSUPPORTED_VERSION), event)
        return
    refusal = request_error(message, event.version, event.settings)
    if refusal.error is not ErrorCode.NONE:
        _refuse(refusal, event)
    elif message.member_epoch in (LEAVING, AWAY):
        _leave(message, installed, event)
    else:
        _join_or_stay(message, installed, event, new_member_id)


def _acknowledge(group_id: str, member: ConsumerMember, event: EventDraft) -> ConsumerGroupHeartbeatResponse:
    """Start the member's session again, and answer with its epoch."""
    timers.extend_session(group_id, member, event)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms(event.settings, event.configs.get(group_id)),
    )
    event.answer(response)
    return response


def request_error(message: ConsumerGroupHeartbeatRequest, version: int, settings: BrokerSettings) -> Refusal:
    """What is wrong with a request, regardless of the state of its group; the error is NONE if it is valid."""
    reason = _invalid(message, version)
    if reason:
        return Refusal(ErrorCode.INVALID_REQUEST, reason)
    if message.server_assignor is not None and message.server_assignor not in settings.consumer_assignors:
        known = ", ".join(settings.consumer_assignors)
        why = f"ServerAssignor {message.server_assignor} is not one of {known}."
        return Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, why)
    return Refusal(ErrorCode.NONE)


def _invalid(message: ConsumerGroupHeartbeatRequest, version: int) -> str:
    epoch = message.member_epoch
    if (version >= HEARTBEAT_REQUIRES_MEMBER_ID or epoch > 0 or epoch == LEAVING) and is_blank(message.member_id):
        return "MemberId is empty."
    for name in ("group_id", "instance_id", "rack_id"):
        value = getattr(message, name)
        if value is not None and is_blank(value):
            return f"{name.title().replace('_', '')} is empty."
    if epoch == _JOINING:
        if message.rebalance_timeout_ms == _NO_TIMEOUT:
            return "RebalanceTimeoutMs is missing in a request to join."
        if message.topic_partitions is None or message.topic_partitions:
            return "TopicPartitions is not empty in a request to join."
        if message.subscribed_topic_names is None and message.subscribed_topic_regex is None:
            return "SubscribedTopicNames and SubscribedTopicRegex are both missing in a request to join."
    elif epoch == AWAY and message.instance_id is None:
        return "InstanceId is missing."
    return "MemberEpoch is out of range." if epoch < AWAY else ""


def _refuse(refusal: Refusal, event: EventDraft) -> None:
    error, message = refusal
    event.refuse(ConsumerGroupHeartbeatResponse(error_code=error, error_message=message or _MESSAGES.get(error)))


# -- joining and staying


def _join_or_stay(
    message: ConsumerGroupHeartbeatRequest,
    installed: Group | None,
    event: EventDraft,
    new_member_id: Callable[[str], str],
) -> None:
    creates = message.member_epoch == _JOINING
    group = _group_for(message.group_id, installed, event, creates=creates)
    if isinstance(group, Refusal):
        _refuse(group, event)
        return
    if member_update.is_full(group, message.member_id, message.instance_id, event.settings.group_consumer_max_size):
        _refuse(Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED), event)
        return
    before = _find(message, group, event, new_member_id, creates=creates)
    if isinstance(before, ErrorCode):
        _refuse(Refusal(before), event)
        return
    after = _change(message, group, before, event)
    if isinstance(after, ErrorCode):
        _refuse(Refusal(after), event)
        return
    event.groups.pop(group.group_id, None)  # the draft of the classic group that this group used to be
    response = _acknowledge(group.group_id, after, event)
    if creates or _is_full_request(message) or before.assigned != after.assigned:
        response.assignment = _assignment(after)


def _assignment(member: ConsumerMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in member.assigned.items()
        ]
    )


def _owned(message: ConsumerGroupHeartbeatRequest) -> Owned:
    """The partitions that a heartbeat reports as owned; None if it does not report any."""
    rows = message.topic_partitions
    return None if rows is None else member_update.owned_from([(row.topic_id, row.partitions) for row in rows])


def _group_for(group_id: str, installed: Group | None, event: EventDraft, *, creates: bool) -> ConsumerGroup | Refusal:
    """The member's group: the installed one, or a new one, which may replace a classic group."""
    match installed:
        case ConsumerGroup():
            return installed
        case None if creates:
            return ConsumerGroup.new(group_id, event.settings.behavior)
        case None:
            return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        case ClassicGroup(is_empty=True) if creates:
            delete_group(installed, event)
            return ConsumerGroup.new(group_id, event.settings.behavior)
        case ClassicGroup() if creates:
            return migration.upgrade(installed, event)
        case ClassicGroup() | StreamsGroup() | ForeignGroup():
            return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def _find(
    message: ConsumerGroupHeartbeatRequest,
    group: ConsumerGroup,
    event: EventDraft,
    new_member_id: Callable[[str], str],
    *,
    creates: bool,
) -> ConsumerMember | ErrorCode:
    member_id, owned = message.member_id or new_member_id(""), _owned(message)
    if message.instance_id is None:
        return member_update.find_dynamic(group, member_id, message.member_epoch, owned, creates=creates)
    return member_update.find_static(
        group, member_id, message.member_epoch, message.instance_id, owned, event, creates=creates
    )


def _change(
    message: ConsumerGroupHeartbeatRequest, group: ConsumerGroup, before: ConsumerMember, event: EventDraft
) -> ConsumerMember | ErrorCode:
    """The member with the changes from the request, after the next step of its reconciliation."""
    after = _updated(message, before, event)
    names_changed = member_update.write_member(group, before, after, event)
    regex = regexes.update(group, before, after, event)
    if regex is regexes.RegexChange.INVALID:
        return ErrorCode.INVALID_REGULAR_EXPRESSION
    bumps = (
        names_changed
        or regex is regexes.RegexChange.UPDATED_AND_RESOLVED
        or group.group_epoch == _NO_EPOCH == group.behavior.first_epoch
        or (group.behavior.rebalances_for_assignor and _changes_assignor(group, before, after, event))
    )
    epochs = member_update.update_epoch(group, before, after, event, bumps=bumps)
    listed = message.subscribed_topic_names
    aim = target.update(
        group, epochs.group_epoch, before, after, event, is_homogeneous=epochs.is_homogeneous, listed=listed
    )
    if isinstance(aim, ErrorCode):
        return aim
    changed = names_changed or regex is not regexes.RegexChange.NONE
    return member_update.reconcile(group, after, aim, _owned(message), event, subscription_changed=changed)


def _changes_assignor(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, event: EventDraft) -> bool:
    default = event.settings.consumer_assignors[0]
    return (group.preferred_assignor() or default) != (group.preferred_assignor(before, after) or default)


def _updated(message: ConsumerGroupHeartbeatRequest, member: ConsumerMember, event: EventDraft) -> ConsumerMember:
    """The member with the metadata from the request; whatever the request omits stays unchanged."""
    assert event.request is not None
    changed: dict[str, object] = {}
    if message.instance_id is not None:
        changed["group_instance_id"] = message.instance_id
    if message.rack_id is not None:
        changed["rack_id"] = message.rack_id
    if message.rebalance_timeout_ms != _NO_TIMEOUT:
        changed["rebalance_timeout_ms"] = message.rebalance_timeout_ms
    if message.server_assignor is not None:
        changed["server_assignor"] = message.server_assignor
    if message.subscribed_topic_names is not None:
        changed["subscribed_topic_names"] = frozenset(message.subscribed_topic_names)
    if message.subscribed_topic_regex is not None:
        changed["subscribed_topic_regex"] = message.subscribed_topic_regex
    client_id, client_host = event.request.client_id or "", event.request.client_host
    if client_id != member.client_id or client_host != member.client_host:
        changed["client_id"], changed["client_host"] = client_id, client_host
    if member.classic is not None:
        changed["classic"] = None
    return member._replace(**changed) if changed else member  # type: ignore[arg-type]


def _is_full_request(message: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a request has all member fields; if so, the response includes the member's assignment."""
    return (
        message.rebalance_timeout_ms != _NO_TIMEOUT
        and (message.subscribed_topic_names is not None or message.subscribed_topic_regex is not None)
        and message.topic_partitions is not None
    )


# -- leaving


def _leave(message: ConsumerGroupHeartbeatRequest, installed: Group | None, event: EventDraft) -> None:
    """Epoch -1 removes the member; epoch -2 keeps the assignment of a static member until its session expires."""
    if not isinstance(installed, ConsumerGroup):
        why = "not found" if installed is None else "is not a consumer group"
        _refuse(Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {message.group_id} {why}."), event)
        return
    member = installed.find(message.member_id, message.instance_id)
    if isinstance(member, ErrorCode):
        _refuse(Refusal(member), event)
        return
    if message.member_epoch == AWAY:
        assigned = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()}
        away = member._replace(member_epoch=AWAY, assigned=assigned, pending_revocation=NOTHING)
        event.write(records.current_record(installed, away))
        timers.cancel_rebalance(installed.group_id, member.member_id, event)
    elif error := fencing.fence(installed, [member], event):
        _refuse(Refusal(error), event)
        return
    event.answer(ConsumerGroupHeartbeatResponse(member_id=message.member_id, member_epoch=message.member_epoch))
