"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup on a consumer group, for its members that use the classic protocol.

For them, the member epoch is the generation, there is no leader, and no request is parked: JoinGroup takes the next
step of the reconciliation, SyncGroup returns the resulting assignment, and Heartbeat asks the member to rejoin when
there is a next step. Kafka: classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup,
classicGroupHeartbeatToConsumerGroup, classicGroupLeaveToConsumerGroup."""

from collections.abc import Callable

from kgm.coordinator.classic.join import join_error, rebalance_timeout_ms
from kgm.coordinator.classic.leave import leave_response, leaving_members
from kgm.coordinator.consumer import fencing, member_update, migration, regexes, target, timers
from kgm.coordinator.consumer.reconciliation import Owned
from kgm.coordinator.contract.api_versions import JOIN_REQUIRES_MEMBER_ID, SYNC_REQUIRES_PROTOCOL
from kgm.coordinator.contract.error_responses import UNKNOWN_MEMBER_ID, join_refusal, protocol_name, sync_refusal
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import ClassicProtocols, ConsumerMember
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.model.errors import DecodeError, ErrorCode
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse
from kgm.protocol.messages.join_group_request import JoinGroupRequest
from kgm.protocol.messages.join_group_response import JoinGroupResponse
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.leave_group_response import LeaveGroupResponse
from kgm.protocol.messages.sync_group_request import SyncGroupRequest
from kgm.protocol.messages.sync_group_response import SyncGroupResponse
from kgm.protocol.subscription import PROTOCOL_TYPE, Subscription, decode_subscription
from kgm.records.member_states import MemberState

# -- JoinGroup


def handle_join(
    message: JoinGroupRequest, group: ConsumerGroup, event: EventDraft, new_member_id: Callable[[str], str]
) -> None:
    """A JoinGroup for a consumer group that has members."""
    version = event.version
    error = join_error(message, event.settings)
    if error is not ErrorCode.NONE:
        event.answer(join_refusal(error, version, message.member_id))
        return
    is_unknown = message.member_id == UNKNOWN_MEMBER_ID
    member_id = new_member_id("") if is_unknown else message.member_id
    if group.behavior.bars_classic_members and event.settings.group_consumer_migration_policy == "disabled":
        event.refuse(join_refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, version))
    elif member_update.is_full(group, member_id, message.group_instance_id, event.settings.group_consumer_max_size):
        event.refuse(join_refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, version))
    elif not group.supports_classic(message.protocol_type, [offered.name for offered in message.protocols]):
        event.refuse(join_refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, version))
    elif is_unknown and message.group_instance_id is None and version >= JOIN_REQUIRES_MEMBER_ID:
        event.answer(join_refusal(ErrorCode.MEMBER_ID_REQUIRED, version, member_id))
    else:
        answer = _join(message, group, member_id, event, is_unknown=is_unknown)
        if isinstance(answer, ErrorCode):
            event.refuse(join_refusal(answer, version))
        else:
            event.answer(answer)


def _join(
    message: JoinGroupRequest, group: ConsumerGroup, member_id: str, event: EventDraft, *, is_unknown: bool
) -> JoinGroupResponse | ErrorCode:
    instance_id = message.group_instance_id
    replaced = group.static_member(instance_id)
    before = (
        member_update.find_dynamic(group, member_id, None, {}, creates=True)
        if instance_id is None
        else member_update.find_static(group, member_id, None, instance_id, {}, event, creates=is_unknown)
    )
    if isinstance(before, ErrorCode):
        return before
    try:
        subscription = decode_subscription(message.protocols[0].metadata, is_strict=True)
    except DecodeError:
        is_refused = group.behavior.refuses_malformed_subscriptions
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_refused else ErrorCode.UNKNOWN_SERVER_ERROR
    after = _updated(message, subscription, before, event)
    if not group.behavior.rebalances_without_regex:
        after = after._replace(subscribed_topic_regex=before.subscribed_topic_regex)
    bumps = member_update.write_member(group, before, after, event)
    if group.behavior.rebalances_without_regex:
        bumps |= regexes.update(group, before, after, event) is not regexes.RegexChange.NONE
    epochs = member_update.update_epoch(group, before, after, event, bumps=bumps)
    owned = {
        event.image.by_name[name].topic_id: partitions
        for name, partitions in subscription.owned_partitions.items()
        if name in event.image.by_name
    }
    downgrades = replaced is not None and migration.may_downgrade_for(group, replaced, event.settings)
    if downgrades and group.behavior.downgrades_before_target:
        assert replaced is not None
        joined = _join_and_downgrade(group, after, replaced, owned, epochs.group_epoch, event, bumps=bumps)
    else:
        aim = target.update(
            group,
            epochs.group_epoch,
            before,
            after,
            event,
            is_homogeneous=epochs.is_homogeneous,
            listed=subscription.topics,
        )
        if isinstance(aim, ErrorCode):
            return aim
        joined = member_update.reconcile(group, after, aim, owned, event, subscription_changed=bumps)
        if downgrades and isinstance(joined, ConsumerMember):
            assert replaced is not None
            joined = migration.downgrade_with(group, joined, replaced.member_id, event, rebalances=False) or joined
        elif isinstance(joined, ConsumerMember):
            timers.joined(group.group_id, joined.member_id, rebalance_timeout_ms(message, event.version), event)
            timers.extend_session(group.group_id, joined, event)
    return joined if isinstance(joined, ErrorCode) else _joined_reply(joined, event)


def _join_and_downgrade(
    group: ConsumerGroup,
    after: ConsumerMember,
    replaced: ConsumerMember,
    owned: Owned,
    group_epoch: int,
    event: EventDraft,
    *,
    bumps: bool,
) -> ConsumerMember | ErrorCode:
    """A static member joins with the classic protocol, replacing the last member that uses the consumer protocol."""
    rebalances = group.assignment_epoch < group_epoch if group.behavior.has_assignment_interval else bumps
    joined: ConsumerMember | ErrorCode = after
    if not rebalances:
        aim = group.assignment_epoch, group.target_of(after.member_id, after.group_instance_id)
        joined = member_update.reconcile(group, after, aim, owned, event, subscription_changed=bumps)
    if isinstance(joined, ConsumerMember):
        return migration.downgrade_with(group, joined, replaced.member_id, event, rebalances=rebalances) or joined
    return joined


def _updated(
    message: JoinGroupRequest, subscription: Subscription, member: ConsumerMember, event: EventDraft
) -> ConsumerMember:
    """The member with the metadata from the request."""
    assert event.request is not None
    timeout_ms = rebalance_timeout_ms(message, event.version)
    return member._replace(
        group_instance_id=member.group_instance_id if message.group_instance_id is None else message.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",
        client_id=event.request.client_id or "",
        client_host=event.request.client_host,
        classic=ClassicProtocols(
            message.session_timeout_ms, tuple((offered.name, offered.metadata) for offered in message.protocols)
        ),
    )


def _joined_reply(member: ConsumerMember, event: EventDraft) -> JoinGroupResponse:
    assert member.classic is not None
    name, _ = member.classic.protocols[0]
    return JoinGroupResponse(
        generation_id=member.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol_name(name, event.version),
        member_id=member.member_id,
    )


# -- SyncGroup


def handle_sync(message: SyncGroupRequest, group: ConsumerGroup, event: EventDraft) -> None:
    """A SyncGroup, which returns the member's current assignment."""
    names = message.protocol_type, message.protocol_name
    if event.version >= SYNC_REQUIRES_PROTOCOL and None in names:
        event.answer(sync_refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    member = _classic_member(group, message.member_id, message.group_instance_id, message.generation_id)
    if isinstance(member, ErrorCode):
        event.answer(sync_refusal(member))
        return
    assert member.classic is not None
    name, subscription = member.classic.protocols[0]
    if names[0] not in (None, PROTOCOL_TYPE) or names[1] not in (None, name):
        event.answer(sync_refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    if _epoch_to_join(group) > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        timers.await_join(group.group_id, member, event)
        event.answer(sync_refusal(ErrorCode.REBALANCE_IN_PROGRESS))
        return
    timers.synced(group.group_id, member.member_id, event)
    timers.extend_session(group.group_id, member, event)
    event.answer(
        SyncGroupResponse(
            protocol_type=message.protocol_type,
            protocol_name=message.protocol_name,
            assignment=migration.as_blob(
                {topic_id: tuple(those) for topic_id, those in member.assigned.items()}, subscription, event.image
            ),
        )
    )


def _epoch_to_join(group: ConsumerGroup) -> int:
    """The epoch for which a member that uses the classic protocol must rejoin."""
    return group.assignment_epoch if group.behavior.has_assignment_interval else group.group_epoch


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


def handle_heartbeat(message: HeartbeatRequest, group: ConsumerGroup, event: EventDraft) -> None:
    """A Heartbeat, which asks the member to rejoin if there is a next step in its reconciliation."""
    member = _classic_member(group, message.member_id, message.group_instance_id, message.generation_id)
    if isinstance(member, ErrorCode):
        event.answer(HeartbeatResponse(error_code=member))
        return
    timers.extend_session(group.group_id, member, event)
    error = ErrorCode.NONE
    if (
        member.member_epoch < _epoch_to_join(group)
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
    ):
        error = ErrorCode.REBALANCE_IN_PROGRESS
        timers.await_join(group.group_id, member, event)
    event.answer(HeartbeatResponse(error_code=error))


# -- LeaveGroup


def handle_leave(message: LeaveGroupRequest, group: ConsumerGroup, event: EventDraft) -> None:
    """A LeaveGroup for members of either protocol, from the members or from an operator. If an identity occurs twice,
    both get a success response."""
    leaving = leaving_members(message, event.version)
    members = [_member_of(group, identity) for identity in leaving]
    errors = [member if isinstance(member, ErrorCode) else ErrorCode.NONE for member in members]
    error = fencing.fence(group, [member for member in members if isinstance(member, ConsumerMember)], event)
    if error is not ErrorCode.NONE:
        event.refuse(LeaveGroupResponse(error_code=error))
    else:
        event.answer(leave_response(leaving, errors, event.version))


def _member_of(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember | ErrorCode:
    if identity.group_instance_id is not None and identity.member_id == UNKNOWN_MEMBER_ID:
        return group.static_member(identity.group_instance_id) or ErrorCode.UNKNOWN_MEMBER_ID
    return group.find(identity.member_id, identity.group_instance_id)
