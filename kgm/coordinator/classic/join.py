"""JoinGroup (v0-9) for classic groups, with static membership (KIP-345) and KIP-814's skipAssignment
(Kafka: GroupMetadataManager.classicGroupJoinToClassicGroup).

In v0 the session timeout is also the rebalance timeout. From v4 on a dynamic newcomer is given an id with
MEMBER_ID_REQUIRED, and must join again with it (KIP-394). v5 added group instance ids. From v9 on a restarted static
leader may skip the assignment."""

from collections.abc import Callable

from kgm.coordinator.classic import rebalance, standby
from kgm.coordinator.classic.records import current_record, new_group_record, replaced_record
from kgm.coordinator.contract.api_versions import JOIN_HAS_REBALANCE_TIMEOUT, JOIN_REQUIRES_MEMBER_ID
from kgm.coordinator.contract.error_responses import UNKNOWN_MEMBER_ID, join_refusal
from kgm.coordinator.contract.outcome import session_key
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.groups.classic_group import (
    ClassicGroup,
    ClassicMember,
    HeldNewcomer,
    OfferedProtocol,
    ParkedRequest,
)
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.join_group_request import JoinGroupRequest


class Joining:
    """One JoinGroup request as it changes a draft of its group."""

    __slots__ = ("client_host", "client_id", "event", "group", "message", "protocols", "version")

    def __init__(self, message: JoinGroupRequest, group: ClassicGroup, event: EventDraft) -> None:
        assert event.request is not None
        self.message = message
        self.group = group
        self.event = event
        self.version = event.request.version
        self.client_id = event.request.client_id or ""
        self.client_host = event.request.client_host
        self.protocols = tuple([OfferedProtocol(offered.name, offered.metadata) for offered in message.protocols])

    def refuse(self, error: ErrorCode, member_id: str = UNKNOWN_MEMBER_ID) -> None:
        self.event.answer(join_refusal(error, self.version, member_id))

    def park(self, member_id: str) -> None:
        rebalance.park_join(self.group, member_id, self.parked(), self.event)

    def parked(self) -> ParkedRequest:
        assert self.event.ticket is not None
        return ParkedRequest(self.event.ticket, self.version)


def join_error(message: JoinGroupRequest, settings: BrokerSettings) -> ErrorCode:
    """What is wrong with a request, regardless of the state of its group."""
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    lowest, highest = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    return ErrorCode.NONE if lowest <= message.session_timeout_ms <= highest else ErrorCode.INVALID_SESSION_TIMEOUT


def creates_group(message: JoinGroupRequest, settings: BrokerSettings) -> bool:
    """Whether a request creates its group if it does not exist."""
    return message.member_id == UNKNOWN_MEMBER_ID and join_error(message, settings) is ErrorCode.NONE


def rebalance_timeout_ms(message: JoinGroupRequest, version: int) -> int:
    """The rebalance timeout of a member."""
    return message.rebalance_timeout_ms if version >= JOIN_HAS_REBALANCE_TIMEOUT else message.session_timeout_ms


def handle_join(
    message: JoinGroupRequest, installed: ClassicGroup | None, event: EventDraft, new_member_id: Callable[[str], str]
) -> None:
    """A JoinGroup for a classic group, or for a group that does not exist yet."""
    error = join_error(message, event.settings)
    if installed is None and error is ErrorCode.NONE and message.member_id:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    if error is not ErrorCode.NONE:
        event.answer(join_refusal(error, event.version, message.member_id))
        return
    if installed is not None and _only_joins(message, installed, event):
        group = event.in_place(installed)
    else:
        group = event.draft(
            ClassicGroup(group_id=message.group_id, state_timestamp_ms=event.now) if installed is None else installed
        )
    joining = Joining(message, group, event)
    if not _has_room(group, message.member_id, event.settings.group_max_size):
        rebalance.remove_member(group, message.member_id, event)
        joining.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if event.behavior.refusal_may_end_join_phase:
            rebalance.maybe_complete_join(group, event)
    elif message.member_id == UNKNOWN_MEMBER_ID:
        _join_without_id(joining, new_member_id)
    else:
        _join_with_id(joining)
    if installed is None and event.behavior.writes_new_groups:
        event.write(new_group_record(group))


def _only_joins(message: JoinGroupRequest, group: ClassicGroup, event: EventDraft) -> bool:
    """Whether the request is from a member in a join phase, so that it can at most end the phase: nothing is written
    then, because the group has at least this member."""
    return (
        group.state is ClassicState.PREPARING_REBALANCE
        and message.member_id in group.members
        and not event.settings.plans
        and _has_room(group, message.member_id, event.settings.group_max_size)
    )


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """Whether the group has room for this member. In a join phase, only members that have joined are counted, so if the
    limit was lowered, the last ones to join are dropped. Pending ids are never counted."""
    parked_joins = group.soft.parked_joins
    if group.state is ClassicState.PREPARING_REBALANCE:
        return len(parked_joins) < max_size or member_id in parked_joins
    if group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
        return len(group.members) < max_size or member_id in group.members
    return True


def _join_without_id(joining: Joining, new_member_id: Callable[[str], str]) -> None:
    """A newcomer, or a static member that has restarted."""
    group, event, message = joining.group, joining.event, joining.message
    instance_id = message.group_instance_id
    if group.state is ClassicState.DEAD:
        joining.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return
    if not group.supports(message.protocol_type, [offered.name for offered in joining.protocols]):
        joining.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return
    member_id = new_member_id(joining.client_id if instance_id is None else instance_id)
    if instance_id is not None and instance_id in group.static_ids:
        _replace_static(joining, group.static_ids[instance_id], member_id)
    elif instance_id is None and joining.version >= JOIN_REQUIRES_MEMBER_ID:
        group.soft.pending_joins[member_id] = None
        event.set_timer(session_key(group.group_id, member_id), message.session_timeout_ms)
        joining.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    else:
        _add(joining, member_id)


def _join_with_id(joining: Joining) -> None:
    """A member, or a newcomer that joins with the id it was given."""
    group, message = joining.group, joining.message
    member_id = message.member_id
    if group.state is ClassicState.DEAD:
        joining.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
    elif not group.supports(message.protocol_type, [offered.name for offered in joining.protocols]):
        joining.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    elif member_id in group.soft.pending_joins:
        if message.group_instance_id is not None:
            # Static members are never given a pending id: an illegal state in Kafka.
            joining.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            _add(joining, member_id)
    elif standby.is_held(group, member_id, message.group_instance_id):
        _add(joining, member_id)
    elif error := group.check_member(member_id, message.group_instance_id):
        joining.refuse(error, member_id)
    else:
        _rejoin(joining, group.members[member_id])


def _rejoin(joining: Joining, member: ClassicMember) -> None:
    group, has_scala_maps = joining.group, joining.event.behavior.has_scala_maps
    unchanged = member.protocols == joining.protocols
    leads = group.leader == member.member_id
    match group.state:
        case ClassicState.COMPLETING_REBALANCE if unchanged:
            # The member may have missed the reply.
            reply = rebalance.joined_reply(
                group, member.member_id, joining.version, for_leader=leads, has_scala_maps=has_scala_maps
            )
            joining.event.answer(reply)
        case ClassicState.STABLE if unchanged and not leads:
            reply = rebalance.joined_reply(group, member.member_id, joining.version, for_leader=False)
            joining.event.answer(reply)
        case _:
            # The leader of a Stable group asks for a rebalance by joining again: topics may have changed.
            _update(joining, member)
            joining.park(member.member_id)
            rebalance.rebalance_or_complete(group, joining.event)


def _add(joining: Joining, member_id: str) -> None:
    """Add a new member, or hold it back if a scale-out of the group is planned."""
    group, event, message = joining.group, joining.event, joining.message
    member = ClassicMember(
        member_id=member_id,
        group_instance_id=message.group_instance_id,
        client_id=joining.client_id,
        client_host=joining.client_host,
        rebalance_timeout_ms=rebalance_timeout_ms(message, joining.version),
        session_timeout_ms=message.session_timeout_ms,
        protocols=joining.protocols,
        is_new=True,
    )
    parked = joining.parked()
    if event.settings.plans:
        newcomer = HeldNewcomer(member, message.protocol_type, parked, standby.wait_deadline_ms(member, event))
        if standby.hold_back(group, newcomer, event):
            if standby.let_in_if_due(group, event):
                rebalance.rebalance_or_complete(group, event)
            return
    standby.admit(group, member, message.protocol_type, parked, event)
    rebalance.rebalance_or_complete(group, event)


def _update(joining: Joining, member: ClassicMember) -> None:
    """Replace the timeouts and protocols of a member with those in the request."""
    message = joining.message
    timeout_ms, session_ms = rebalance_timeout_ms(message, joining.version), message.session_timeout_ms
    if not joining.event.behavior.updates_timeouts:
        timeout_ms, session_ms = member.rebalance_timeout_ms, member.session_timeout_ms
    if (timeout_ms, session_ms, joining.protocols) != (
        member.rebalance_timeout_ms, member.session_timeout_ms, member.protocols,
    ):  # fmt: skip
        joining.group.update(
            member._replace(rebalance_timeout_ms=timeout_ms, session_timeout_ms=session_ms, protocols=joining.protocols)
        )


def _replace_static(joining: Joining, old_id: str, new_id: str) -> None:
    """A static member joins without its member id: the new id takes the place of the old one, which is fenced
    (KIP-345).

    The first session of the new id uses the old id's session timeout, as in Kafka."""
    group, event = joining.group, joining.event
    leader_before, rows_before = group.leader, group.logged_members
    assert group.state not in (ClassicState.EMPTY, ClassicState.DEAD), f"group {group.group_id} has members"
    rebalance.answer_join(group, old_id, ErrorCode.FENCED_INSTANCE_ID, event, echo=old_id)
    rebalance.answer_sync(group, old_id, ErrorCode.FENCED_INSTANCE_ID, event)
    event.cancel_timer(session_key(group.group_id, old_id))
    behavior = event.behavior
    member = group.rename(old_id, new_id, stays_new=behavior.replaced_members_stay_new)
    rebalance.extend_session(group, member, event)
    _update(joining, member)
    match group.state:
        case ClassicState.STABLE | ClassicState.COMPLETING_REBALANCE if not behavior.writes_replaced_members:
            event.answer(rebalance.replaced_reply(group, new_id, joining.version, leader_before=leader_before))
        case ClassicState.STABLE if group.select_protocol(has_scala_maps=behavior.has_scala_maps) == group.protocol:
            if behavior.has_scala_maps:
                record, group.logged_members = current_record(group, group.listed(has_scala_maps=True))
            else:
                record, group.logged_members = replaced_record(group, rows_before, old_id, group.members[new_id])
            event.write(record)
            event.answer(
                rebalance.replaced_reply(
                    group,
                    new_id,
                    joining.version,
                    leader_before=leader_before,
                    has_scala_maps=behavior.has_scala_maps,
                )
            )
        case ClassicState.STABLE | ClassicState.COMPLETING_REBALANCE:
            # In CompletingRebalance the leader may already be assigning to the old id.
            joining.park(new_id)
            rebalance.prepare_rebalance(group, event)
        case _:
            joining.park(new_id)
            rebalance.maybe_complete_join(group, event)
