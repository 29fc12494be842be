"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup on a consumer group: members that speak the classic protocol in it.

For them the member epoch is the generation, nobody leads, and nothing is parked: JoinGroup makes the next step of the
reconciliation, SyncGroup fetches what it has given, Heartbeat tells them to join again when there is a next step.
Kafka: classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup, classicGroupHeartbeatToConsumerGroup,
classicGroupLeaveToConsumerGroup."""

from collections.abc import Callable

from kgm.coordinator.classic.join import join_error
from kgm.coordinator.consumer import fencing, member_update, migration, regexes, target, timers
from kgm.coordinator.consumer.group import ConsumerGroup
from kgm.coordinator.consumer.member import ClassicProtocols, ConsumerMember, MemberState
from kgm.coordinator.consumer.reconciliation import Owned
from kgm.coordinator.contract.error_responses import UNKNOWN_MEMBER_ID, join_refusal, protocol_name, sync_refusal
from kgm.coordinator.contract.event_draft import EventDraft
from kgm.model.errors import DecodeError, ErrorCode
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse
from kgm.protocol.messages.join_group_request import JoinGroupRequest
from kgm.protocol.messages.join_group_response import JoinGroupResponse
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from kgm.protocol.messages.sync_group_request import SyncGroupRequest
from kgm.protocol.messages.sync_group_response import SyncGroupResponse
from kgm.protocol.subscription import PROTOCOL_TYPE, Subscription, decode_subscription

_MEMBER_ID_REQUIRED_FROM = 4
_SYNC_NAMES_PROTOCOL_FROM = 5
_LEAVE_IS_BATCH_FROM = 3
#: JoinGroup v0 has the session timeout only.
_REBALANCE_TIMEOUT_FROM = 1


# -- JoinGroup


def handle_join(
    message: JoinGroupRequest, group: ConsumerGroup, step: EventDraft, new_member_id: Callable[[str], str]
) -> None:
    """A JoinGroup for a consumer group that has members."""
    assert step.request is not None
    version = step.request.version
    error = join_error(message, step.settings)
    if error is not ErrorCode.NONE:
        step.answer(join_refusal(error, version, message.member_id))
        return
    is_unknown = message.member_id == UNKNOWN_MEMBER_ID
    member_id = new_member_id("") if is_unknown else message.member_id
    if member_update.is_full(group, member_id, step.settings.group_consumer_max_size):
        _refuse_join(step, ErrorCode.GROUP_MAX_SIZE_REACHED)
    elif not group.supports_classic(message.protocol_type, [offered.name for offered in message.protocols]):
        _refuse_join(step, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif is_unknown and message.group_instance_id is None and version >= _MEMBER_ID_REQUIRED_FROM:
        step.answer(join_refusal(ErrorCode.MEMBER_ID_REQUIRED, version, member_id))
    else:
        answer = _join(message, group, member_id, step, is_unknown=is_unknown)
        if isinstance(answer, ErrorCode):
            _refuse_join(step, answer)
        else:
            step.answer(answer)


def _refuse_join(step: EventDraft, error: ErrorCode) -> None:
    assert step.request is not None
    step.records.clear()
    step.timers.clear()
    step.answer(join_refusal(error, step.request.version))


def _join(
    message: JoinGroupRequest, group: ConsumerGroup, member_id: str, step: EventDraft, *, is_unknown: bool
) -> JoinGroupResponse | ErrorCode:
    instance_id = message.group_instance_id
    seat = group.static_member(instance_id)
    before = (
        member_update.find_dynamic(group, member_id, None, {}, creates=True)
        if instance_id is None
        else member_update.find_static(group, member_id, None, instance_id, {}, step, creates=is_unknown)
    )
    if isinstance(before, ErrorCode):
        return before
    try:
        said = decode_subscription(message.protocols[0].metadata)
    except DecodeError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    after = _said(message, said, before, step)
    names_changed = member_update.write_member(group, before, after, step)
    regex = regexes.update(group, before, after, step)
    bumps = names_changed or regex is not regexes.RegexChange.NONE
    epochs = member_update.update_epoch(group, before, after, step, bumps=bumps)
    owned = {
        step.image.by_name[name].topic_id: partitions
        for name, partitions in said.owned_partitions.items()
        if name in step.image.by_name
    }
    if seat is not None and migration.may_downgrade_for(group, seat, step.settings):
        joined = _join_and_downgrade(group, after, seat, owned, epochs.group_epoch, step, bumps=bumps)
    else:
        aim = target.update(
            group, epochs.group_epoch, before, after, step, is_homogeneous=epochs.is_homogeneous, listed=said.topics
        )
        joined = member_update.reconcile(group, after, aim, owned, step, subscription_changed=bumps)
        if isinstance(joined, ConsumerMember):
            timers.joined(group.group_id, joined.member_id, _rebalance_timeout_ms(message, step), step)
            timers.extend_session(group.group_id, joined, step)
    return joined if isinstance(joined, ErrorCode) else _joined_reply(joined, step)


def _join_and_downgrade(
    group: ConsumerGroup,
    after: ConsumerMember,
    seat: ConsumerMember,
    owned: Owned,
    group_epoch: int,
    step: EventDraft,
    *,
    bumps: bool,
) -> ConsumerMember | ErrorCode:
    """A static member comes back with the classic protocol, in the place of the last one of the new protocol."""
    rebalances = group.assignment_epoch < group_epoch
    joined: ConsumerMember | ErrorCode = after
    if not rebalances:
        aim = group.assignment_epoch, group.target_of(after.member_id, after.group_instance_id)
        joined = member_update.reconcile(group, after, aim, owned, step, subscription_changed=bumps)
    if isinstance(joined, ConsumerMember):
        return migration.downgrade_with(group, joined, seat.member_id, step, rebalances=rebalances) or joined
    return joined


def _said(message: JoinGroupRequest, said: Subscription, member: ConsumerMember, step: EventDraft) -> ConsumerMember:
    assert step.request is not None
    timeout_ms = _rebalance_timeout_ms(message, step)
    return member._replace(
        group_instance_id=member.group_instance_id if message.group_instance_id is None else message.group_instance_id,
        rack_id=said.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        subscribed_topic_names=frozenset(said.topics),
        subscribed_topic_regex="",
        client_id=step.request.client_id or "",
        client_host=step.request.client_host,
        classic=ClassicProtocols(
            message.session_timeout_ms, tuple((offered.name, offered.metadata) for offered in message.protocols)
        ),
    )


def _rebalance_timeout_ms(message: JoinGroupRequest, step: EventDraft) -> int:
    assert step.request is not None
    has_own = step.request.version >= _REBALANCE_TIMEOUT_FROM
    return message.rebalance_timeout_ms if has_own else message.session_timeout_ms


def _joined_reply(member: ConsumerMember, step: EventDraft) -> JoinGroupResponse:
    assert step.request is not None
    assert member.classic is not None
    name, _ = member.classic.protocols[0]
    return JoinGroupResponse(
        generation_id=member.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol_name(name, step.request.version),
        member_id=member.member_id,
    )


# -- SyncGroup


def handle_sync(message: SyncGroupRequest, group: ConsumerGroup, step: EventDraft) -> None:
    """A SyncGroup: the assignment that the member has."""
    assert step.request is not None
    names = message.protocol_type, message.protocol_name
    if step.request.version >= _SYNC_NAMES_PROTOCOL_FROM and None in names:
        step.answer(sync_refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    member = _classic_member(group, message.member_id, message.group_instance_id, message.generation_id)
    if isinstance(member, ErrorCode):
        step.answer(sync_refusal(member))
        return
    assert member.classic is not None
    name, subscription = member.classic.protocols[0]
    if names[0] not in (None, PROTOCOL_TYPE) or names[1] not in (None, name):
        step.answer(sync_refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        timers.await_join(group.group_id, member, step)
        step.answer(sync_refusal(ErrorCode.REBALANCE_IN_PROGRESS))
        return
    timers.synced(group.group_id, member.member_id, step)
    timers.extend_session(group.group_id, member, step)
    step.answer(
        SyncGroupResponse(
            protocol_type=message.protocol_type,
            protocol_name=message.protocol_name,
            assignment=migration.as_blob(
                {topic_id: tuple(those) for topic_id, those in member.assigned.items()}, subscription, step.image
            ),
        )
    )


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> ConsumerMember | ErrorCode:
    member = group.find(member_id, instance_id)
    if isinstance(member, ErrorCode):
        return member
    if member.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return member if member.member_epoch == generation else ErrorCode.ILLEGAL_GENERATION


# -- Heartbeat


def handle_heartbeat(message: HeartbeatRequest, group: ConsumerGroup, step: EventDraft) -> None:
    """A Heartbeat: the member is told to join again if there is something new for it."""
    member = _classic_member(group, message.member_id, message.group_instance_id, message.generation_id)
    if isinstance(member, ErrorCode):
        step.answer(HeartbeatResponse(error_code=member))
        return
    timers.extend_session(group.group_id, member, step)
    error = ErrorCode.NONE
    if (
        member.member_epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
    ):
        error = ErrorCode.REBALANCE_IN_PROGRESS
        timers.await_join(group.group_id, member, step)
    step.answer(HeartbeatResponse(error_code=error))


# -- LeaveGroup


def handle_leave(message: LeaveGroupRequest, group: ConsumerGroup, step: EventDraft) -> None:
    """A LeaveGroup, of members of either protocol, by themselves or by an operator. One identity may stand twice."""
    assert step.request is not None
    version = step.request.version
    leaving = message.members if version >= _LEAVE_IS_BATCH_FROM else [MemberIdentity(member_id=message.member_id)]
    found = [_leaver(group, identity) for identity in leaving]
    errors = [member if isinstance(member, ErrorCode) else ErrorCode.NONE for member in found]
    if error := fencing.fence(group, [member for member in found if isinstance(member, ConsumerMember)], step):
        step.answer(LeaveGroupResponse(error_code=error))
        return
    if version < _LEAVE_IS_BATCH_FROM:
        step.answer(LeaveGroupResponse(error_code=errors[0]))
        return
    rows = [
        MemberResponse(member_id=row.member_id, group_instance_id=row.group_instance_id, error_code=error)
        for row, error in zip(leaving, errors, strict=True)
    ]
    step.answer(LeaveGroupResponse(members=rows))


def _leaver(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember | ErrorCode:
    if identity.group_instance_id is not None and identity.member_id == UNKNOWN_MEMBER_ID:
        return group.static_member(identity.group_instance_id) or ErrorCode.UNKNOWN_MEMBER_ID
    return group.find(identity.member_id, identity.group_instance_id)
