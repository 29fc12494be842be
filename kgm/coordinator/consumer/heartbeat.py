"""ConsumerGroupHeartbeat (v0-1): joining, staying, leaving a consumer group (KIP-848).

v1 brought regular expressions, and member ids that the client makes (KIP-1082); with v0 a member may join without one.
Kafka: GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid, and of GroupMetadataManager
consumerGroupHeartbeat and consumerGroupLeave."""

from collections.abc import Callable
from typing import Final

from kgm.coordinator.admin.describe_list_delete import Group, write_group_deletion
from kgm.coordinator.classic.group import ClassicGroup
from kgm.coordinator.classic.state import ClassicState
from kgm.coordinator.consumer import fencing, member_update, migration, records, regexes, target, timers
from kgm.coordinator.consumer.group import ConsumerGroup
from kgm.coordinator.consumer.member import AWAY, LEAVING, NOTHING, ConsumerMember
from kgm.coordinator.contract.event_draft import EventDraft
from kgm.coordinator.contract.settings import BrokerSettings, heartbeat_interval_ms
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_CLIENT_MAKES_ID_FROM = 1
_JOINING = 0
_NOT_SAID = -1

_WHY: Final = {
    ErrorCode.UNSUPPORTED_VERSION: "The consumer protocol is not enabled.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group has as many members as it may have.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The member is not in the group.",
    ErrorCode.FENCED_INSTANCE_ID: "The group instance id belongs to another member.",
    ErrorCode.UNRELEASED_INSTANCE_ID: "The group instance id is in use by a member that has not left.",
    ErrorCode.FENCED_MEMBER_EPOCH: "The member is not in this epoch: it has to give up its partitions and join again.",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "SubscribedTopicRegex is no regular expression in the syntax of RE2.",
}


def handle_heartbeat(
    message: ConsumerGroupHeartbeatRequest,
    installed: Group | None,
    step: EventDraft,
    new_member_id: Callable[[str], str],
) -> None:
    """A ConsumerGroupHeartbeat of whatever epoch."""
    assert step.request is not None
    member = _calm(message, installed, step)
    if member is not None:
        _stays(message.group_id, member, step)
        return
    if not step.settings.has_consumer_protocol:
        refuse(step, ErrorCode.UNSUPPORTED_VERSION)
        return
    error, why = request_error(message, step.request.version, step.settings)
    if error is not ErrorCode.NONE:
        refuse(step, error, why)
    elif message.member_epoch in (LEAVING, AWAY):
        _leave(message, installed, step)
    else:
        _beat(message, installed, step, new_member_id)


def _calm(message: ConsumerGroupHeartbeatRequest, installed: Group | None, step: EventDraft) -> ConsumerMember | None:
    """The member of a heartbeat that says nothing new, when there is nothing new to tell it either. Almost all
    heartbeats are such; `_beat` would come to the same, the long way round."""
    if (
        not isinstance(installed, ConsumerGroup)
        or message.topic_partitions is not None
        or message.rebalance_timeout_ms != _NOT_SAID
        or message.subscribed_topic_names is not None
        or message.subscribed_topic_regex is not None
        or message.server_assignor is not None
        or message.rack_id is not None
        or not step.settings.has_consumer_protocol
    ):
        return None
    member = installed.members.get(message.member_id)
    epoch = message.member_epoch
    if (
        member is None
        or epoch <= _JOINING
        or epoch != member.member_epoch
        or epoch != installed.group_epoch
        or not member.is_reconciled_to(installed.assignment_epoch)
        or member.classic is not None
        or (message.instance_id is not None and installed.static_ids.get(message.instance_id) != message.member_id)
        or installed.regexes
        or installed.metadata_expired(step.now)
    ):
        return None
    assert step.request is not None
    is_who_it_was = step.request.client_host == member.client_host and step.request.client_id == member.client_id
    return member if is_who_it_was else None


def _stays(group_id: str, member: ConsumerMember, step: EventDraft) -> ConsumerGroupHeartbeatResponse:
    """A member goes on: its session begins anew, and it hears its epoch."""
    timers.extend_session(group_id, member, step)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms(step.settings, step.configs.get(group_id)),
    )
    step.answer(response)
    return response


def request_error(
    message: ConsumerGroupHeartbeatRequest, version: int, settings: BrokerSettings
) -> tuple[ErrorCode, str]:
    """What is wrong with a request, whatever the state of its group, and in words."""
    why = _invalid(message, version)
    if why:
        return ErrorCode.INVALID_REQUEST, why
    if message.server_assignor is not None and message.server_assignor not in settings.consumer_assignors:
        known = ", ".join(settings.consumer_assignors)
        return ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {message.server_assignor} is not one of {known}."
    return ErrorCode.NONE, ""


def _invalid(message: ConsumerGroupHeartbeatRequest, version: int) -> str:
    epoch = message.member_epoch
    if (version >= _CLIENT_MAKES_ID_FROM or epoch > 0 or epoch == LEAVING) and not message.member_id.strip():
        return "MemberId is empty."
    for name in ("group_id", "instance_id", "rack_id"):
        value = getattr(message, name)
        if value is not None and not value.strip():
            return f"{name.title().replace('_', '')} is empty."
    if epoch == _JOINING:
        if message.rebalance_timeout_ms == _NOT_SAID:
            return "RebalanceTimeoutMs is missing in a request to join."
        if message.topic_partitions is None or message.topic_partitions:
            return "TopicPartitions is not empty in a request to join."
        if message.subscribed_topic_names is None and message.subscribed_topic_regex is None:
            return "SubscribedTopicNames and SubscribedTopicRegex are both missing in a request to join."
    elif epoch == AWAY and message.instance_id is None:
        return "InstanceId is missing."
    return "MemberEpoch is out of range." if epoch < AWAY else ""


def refuse(step: EventDraft, error: ErrorCode, why: str = "") -> None:
    """Nothing of the request is done; but who was sent away from a classic group stays so."""
    step.records.clear()
    step.timers.clear()
    step.answer(ConsumerGroupHeartbeatResponse(error_code=error, error_message=why or _WHY.get(error)))


# -- joining and staying


def _beat(
    message: ConsumerGroupHeartbeatRequest,
    installed: Group | None,
    step: EventDraft,
    new_member_id: Callable[[str], str],
) -> None:
    creates = message.member_epoch == _JOINING
    group = _group_for(message.group_id, installed, step, creates=creates)
    if isinstance(group, str):
        refuse(step, ErrorCode.GROUP_ID_NOT_FOUND if group else ErrorCode.UNKNOWN_SERVER_ERROR, group)
        return
    if member_update.is_full(group, message.member_id, step.settings.group_consumer_max_size):
        refuse(step, ErrorCode.GROUP_MAX_SIZE_REACHED)
        return
    before = _find(message, group, step, new_member_id, creates=creates)
    if isinstance(before, ErrorCode):
        refuse(step, before)
        return
    after = _change(message, group, before, step)
    if isinstance(after, ErrorCode):
        refuse(step, after)
        return
    step.groups.pop(group.group_id, None)  # it was a classic group before
    response = _stays(group.group_id, after, step)
    if creates or _is_full_request(message) or before.assigned != after.assigned:
        response.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in after.assigned.items()
            ]
        )


def _group_for(group_id: str, installed: Group | None, step: EventDraft, *, creates: bool) -> ConsumerGroup | str:
    """The group, perhaps a new one in the place of an Empty classic one or of one with members; or why not."""
    if isinstance(installed, ConsumerGroup):
        return installed
    if installed is None:
        return ConsumerGroup(group_id=group_id) if creates else f"Group {group_id} not found."
    if not creates or not isinstance(installed, ClassicGroup):
        return f"Group {group_id} is not a consumer group."
    if not installed.is_in(ClassicState.EMPTY):
        return migration.upgrade(installed, step)
    write_group_deletion(installed, step)
    return ConsumerGroup(group_id=group_id)


def _find(
    message: ConsumerGroupHeartbeatRequest,
    group: ConsumerGroup,
    step: EventDraft,
    new_member_id: Callable[[str], str],
    *,
    creates: bool,
) -> ConsumerMember | ErrorCode:
    member_id = message.member_id or new_member_id("")
    owned = None
    if message.topic_partitions is not None:
        owned = member_update.owned_from([(row.topic_id, row.partitions) for row in message.topic_partitions])
    if message.instance_id is None:
        return member_update.find_dynamic(group, member_id, message.member_epoch, owned, creates=creates)
    return member_update.find_static(
        group, member_id, message.member_epoch, message.instance_id, owned, step, creates=creates
    )


def _change(
    message: ConsumerGroupHeartbeatRequest, group: ConsumerGroup, before: ConsumerMember, step: EventDraft
) -> ConsumerMember | ErrorCode:
    """The member with what it says, and nearer to its target."""
    after = _said(message, before, step)
    names_changed = member_update.write_member(group, before, after, step)
    regex = regexes.update(group, before, after, step)
    if regex is regexes.RegexChange.INVALID:
        return ErrorCode.INVALID_REGULAR_EXPRESSION
    bumps = names_changed or regex is regexes.RegexChange.UPDATED_AND_RESOLVED
    epochs = member_update.update_epoch(group, before, after, step, bumps=bumps)
    listed = message.subscribed_topic_names
    aim = target.update(
        group, epochs.group_epoch, before, after, step, is_homogeneous=epochs.is_homogeneous, listed=listed
    )
    owned = None
    if message.topic_partitions is not None:
        owned = member_update.owned_from([(row.topic_id, row.partitions) for row in message.topic_partitions])
    changed = names_changed or regex is not regexes.RegexChange.NONE
    return member_update.reconcile(group, after, aim, owned, step, subscription_changed=changed)


def _said(message: ConsumerGroupHeartbeatRequest, member: ConsumerMember, step: EventDraft) -> ConsumerMember:
    """The member with what the request says of it; what it does not say stays as it is."""
    assert step.request is not None
    said: dict[str, object] = {}
    if message.instance_id is not None:
        said["group_instance_id"] = message.instance_id
    if message.rack_id is not None:
        said["rack_id"] = message.rack_id
    if message.rebalance_timeout_ms != _NOT_SAID:
        said["rebalance_timeout_ms"] = message.rebalance_timeout_ms
    if message.server_assignor is not None:
        said["server_assignor"] = message.server_assignor
    if message.subscribed_topic_names is not None:
        said["subscribed_topic_names"] = frozenset(message.subscribed_topic_names)
    if message.subscribed_topic_regex is not None:
        said["subscribed_topic_regex"] = message.subscribed_topic_regex
    client_id, client_host = step.request.client_id or "", step.request.client_host
    if client_id != member.client_id or client_host != member.client_host:
        said["client_id"], said["client_host"] = client_id, client_host
    if member.classic is not None:
        said["classic"] = None
    return member._replace(**said) if said else member  # type: ignore[arg-type]


def _is_full_request(message: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member says all that there is to say: it then hears all that it has."""
    return (
        message.rebalance_timeout_ms != _NOT_SAID
        and (message.subscribed_topic_names is not None or message.subscribed_topic_regex is not None)
        and message.topic_partitions is not None
    )


# -- leaving


def _leave(message: ConsumerGroupHeartbeatRequest, installed: Group | None, step: EventDraft) -> None:
    """-1 takes the member out of the group; -2 keeps the place of a static one until its session ends."""
    if not isinstance(installed, ConsumerGroup):
        why = "not found" if installed is None else "is not a consumer group"
        refuse(step, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {message.group_id} {why}.")
        return
    member = installed.find(message.member_id, message.instance_id)
    if isinstance(member, ErrorCode):
        refuse(step, member)
        return
    if message.member_epoch == AWAY:
        assigned = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()}
        away = member._replace(member_epoch=AWAY, assigned=assigned, pending_revocation=NOTHING)
        step.write(records.current_record(installed.group_id, away))
        timers.cancel_rebalance(installed.group_id, member.member_id, step)
    elif error := fencing.fence(installed, [member], step):
        refuse(step, error)
        return
    step.answer(ConsumerGroupHeartbeatResponse(member_id=message.member_id, member_epoch=message.member_epoch))
