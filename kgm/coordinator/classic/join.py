"""JoinGroup, versions 0-9, for classic groups; with static membership (KIP-345) and KIP-814's skipAssignment.

v0 has no rebalance timeout (the session timeout is taken); v4 and later send a dynamic newcomer away with
MEMBER_ID_REQUIRED and an id (KIP-394); v5 brought group instance ids; v9 lets a restarted static leader skip the
assignment. Kafka: GroupMetadataManager.classicGroupJoinToClassicGroup."""

from collections.abc import Callable

from kgm.coordinator.classic import rebalance as rounds
from kgm.coordinator.classic import standby
from kgm.coordinator.classic.group import ClassicGroup, ClassicMember, Held, Parked, Protocol
from kgm.coordinator.classic.records import new_group_record, replaced_record
from kgm.coordinator.classic.state import ClassicState
from kgm.coordinator.contract.error_responses import UNKNOWN_MEMBER_ID, join_refusal
from kgm.coordinator.contract.event_draft import EventDraft
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.join_group_request import JoinGroupRequest

_MEMBER_ID_REQUIRED_FROM = 4


class Joining:
    """One JoinGroup request at work on a draft of its group."""

    __slots__ = ("client_host", "client_id", "group", "message", "protocols", "step", "version")

    def __init__(self, message: JoinGroupRequest, group: ClassicGroup, step: EventDraft) -> None:
        assert step.request is not None
        self.message = message
        self.group = group
        self.step = step
        self.version = step.request.version
        self.client_id = step.request.client_id or ""
        self.client_host = step.request.client_host
        self.protocols = tuple([Protocol(offered.name, offered.metadata) for offered in message.protocols])

    @property
    def rebalance_timeout_ms(self) -> int:
        return self.message.session_timeout_ms if self.version == 0 else self.message.rebalance_timeout_ms

    def refuse(self, error: ErrorCode, member_id: str = UNKNOWN_MEMBER_ID) -> None:
        self.step.answer(join_refusal(error, self.version, member_id))

    def park(self, member_id: str) -> None:
        assert self.step.ticket is not None
        rounds.park_join(self.group, self.step, member_id, Parked(self.step.ticket, self.version))


def join_error(message: JoinGroupRequest, settings: BrokerSettings) -> ErrorCode:
    """What is wrong with the request, whatever the state of its group."""
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    lowest, highest = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    return ErrorCode.NONE if lowest <= message.session_timeout_ms <= highest else ErrorCode.INVALID_SESSION_TIMEOUT


def makes_group(message: JoinGroupRequest, settings: BrokerSettings) -> bool:
    """Whether the request makes a group where there is none."""
    return message.member_id == UNKNOWN_MEMBER_ID and join_error(message, settings) is ErrorCode.NONE


def handle_join(
    message: JoinGroupRequest, installed: ClassicGroup | None, step: EventDraft, new_member_id: Callable[[str], str]
) -> None:
    """A JoinGroup for a classic group, or for one that does not exist yet."""
    assert step.request is not None
    error = join_error(message, step.settings)
    if installed is None and error is ErrorCode.NONE and message.member_id:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    if error is not ErrorCode.NONE:
        step.answer(join_refusal(error, step.request.version, message.member_id))
        return
    group = step.draft(
        ClassicGroup(group_id=message.group_id, state_timestamp_ms=step.now) if installed is None else installed
    )
    joining = Joining(message, group, step)
    if not _has_room(group, message.member_id, step.settings.group_max_size):
        rounds.remove_member(group, step, message.member_id)
        joining.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
    elif message.member_id == UNKNOWN_MEMBER_ID:
        _join_unknown(joining, new_member_id)
    else:
        _join_known(joining)
    if installed is None:
        step.write(new_group_record(group))


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """Whether the member may be let in. In a join phase those that wait are counted, so that the last to come back
    are dropped when the limit was lowered; pending ids are never counted."""
    if group.state is ClassicState.PREPARING_REBALANCE:
        return len(group.parked_joins) < max_size or member_id in group.parked_joins
    if group.is_in(ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
        return len(group.members) < max_size or member_id in group.members
    return True


def _join_unknown(joining: Joining, new_member_id: Callable[[str], str]) -> None:
    """A newcomer, or a static member that was restarted and has no member id."""
    group, step, message = joining.group, joining.step, joining.message
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
    elif instance_id is None and joining.version >= _MEMBER_ID_REQUIRED_FROM:
        group.pending_joins[member_id] = None
        step.set_timer(rounds.session_key(group, member_id), message.session_timeout_ms)
        joining.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    else:
        _add(joining, member_id)


def _join_known(joining: Joining) -> None:
    """A member that has its id, or a pending one that comes back with it."""
    group, message = joining.group, joining.message
    member_id = message.member_id
    if group.state is ClassicState.DEAD:
        joining.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
    elif not group.supports(message.protocol_type, [offered.name for offered in joining.protocols]):
        joining.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    elif member_id in group.pending_joins:
        if message.group_instance_id is not None:
            # Static members never get a pending id: Kafka calls this an illegal state.
            joining.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            _add(joining, member_id)
    elif standby.holds(group, member_id, message.group_instance_id):
        _add(joining, member_id)
    elif error := group.check_member(member_id, message.group_instance_id):
        joining.refuse(error, member_id)
    else:
        _rejoin(joining, group.members[member_id])


def _rejoin(joining: Joining, member: ClassicMember) -> None:
    group = joining.group
    unchanged = member.protocols == joining.protocols
    leads = group.leader == member.member_id
    match group.state:
        case ClassicState.COMPLETING_REBALANCE if unchanged:
            # It may have missed the reply: tell it again.
            reply = rounds.joined_reply(group, member.member_id, joining.version, for_leader=leads)
            joining.step.answer(reply)
        case ClassicState.STABLE if unchanged and not leads:
            reply = rounds.joined_reply(group, member.member_id, joining.version, for_leader=False)
            joining.step.answer(reply)
        case _:
            # The leader of a Stable group asks for a rebalance by rejoining: topics may have changed.
            _update(joining, member)
            joining.park(member.member_id)
            rounds.rebalance_or_complete(group, joining.step)


def _add(joining: Joining, member_id: str) -> None:
    """Let a new member in, or, where a plan for the group says so, have it wait for others."""
    group, step, message = joining.group, joining.step, joining.message
    member = ClassicMember(
        member_id=member_id,
        group_instance_id=message.group_instance_id,
        client_id=joining.client_id,
        client_host=joining.client_host,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        session_timeout_ms=message.session_timeout_ms,
        protocols=joining.protocols,
        is_new=True,
    )
    assert step.ticket is not None
    parked = Parked(step.ticket, joining.version)
    if step.settings.plans:
        newcomer = Held(member, message.protocol_type, parked, standby.bound_ms(member, step))
        if standby.holds_back(group, step, newcomer):
            if standby.let_in_if_due(group, step):
                rounds.rebalance_or_complete(group, step)
            return
    standby.admit(group, step, member, message.protocol_type, parked)
    rounds.rebalance_or_complete(group, step)


def _update(joining: Joining, member: ClassicMember) -> None:
    """Take over what the request says of a member."""
    said = (joining.rebalance_timeout_ms, joining.message.session_timeout_ms, joining.protocols)
    if said != (member.rebalance_timeout_ms, member.session_timeout_ms, member.protocols):
        rebalance_timeout_ms, session_timeout_ms, protocols = said
        joining.group.update(
            member._replace(
                rebalance_timeout_ms=rebalance_timeout_ms, session_timeout_ms=session_timeout_ms, protocols=protocols
            )
        )


def _replace_static(joining: Joining, old_id: str, new_id: str) -> None:
    """A static member came back without its member id: fence the old id, put the new one in its place (KIP-345).

    The new id's first session still has the old length, as in Kafka."""
    group, step = joining.group, joining.step
    leader_before, rows_before = group.leader, group.rows
    assert not group.is_in(ClassicState.EMPTY, ClassicState.DEAD), f"group {group.group_id} has members"
    rounds.answer_join(group, step, old_id, ErrorCode.FENCED_INSTANCE_ID, echo=old_id)
    rounds.answer_sync(group, step, old_id, ErrorCode.FENCED_INSTANCE_ID)
    step.cancel_timer(rounds.session_key(group, old_id))
    member = group.rename(old_id, new_id)
    rounds.extend_session(group, step, member)
    _update(joining, member)
    match group.state:
        case ClassicState.STABLE if group.select_protocol() == group.protocol:
            step.write(replaced_record(group, rows_before, old_id, group.members[new_id]))
            step.answer(rounds.replaced_reply(group, new_id, joining.version, leader_before=leader_before))
        case ClassicState.STABLE | ClassicState.COMPLETING_REBALANCE:
            # In CompletingRebalance the leader may already be assigning to the old id.
            joining.park(new_id)
            rounds.prepare_rebalance(group, step)
        case _:
            joining.park(new_id)
            rounds.maybe_complete_join(group, step)
