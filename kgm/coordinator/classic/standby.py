"""Newcomers that are held back until a planned scale-out is complete, and spares (KIP-345, "future works").

Apache Kafka does not have this. It is off unless a scale-out of the group is planned (`contract.scale_out_plan`),
requires nothing from clients, and puts nothing on the wire or in the log that Kafka would not. A *held* newcomer waits
for the reply to its JoinGroup, as it would in a long join phase, while the members of the group keep consuming.

Rules
-----
- A group without members starts as usual; its first join phase ends early once the plan is fulfilled and every member
  has joined. Members of the group are never held, whatever they request; neither is a restarting static member.
- Pre-registered ids without a target size: a newcomer with one of them is held until all of them have arrived. Other
  newcomers join as usual.
- A target size: every newcomer is held until the group reaches that size. Places are reserved for pre-registered ids. A
  newcomer without a free place is a *spare*: it is held until a member is removed.
- When a member of a Stable group is removed (its session expires, or it leaves), a spare with the same subscription
  takes its place, just like a restarted static member: same assignment, same generation, no rebalance.
- When the plan is fulfilled, all held newcomers that have a place are let in, in one rebalance. They are also let in
  with any rebalance that happens for another reason, since that costs nothing extra.
- No newcomer is held longer than its own rebalance timeout, counted from its first JoinGroup, or than
  `kgm.group.newcomer.max.wait.ms` if that is shorter. After that, all newcomers that have a place are let in, even
  though the plan is not fulfilled. A spare is answered with REBALANCE_IN_PROGRESS; every client then rejoins, and
  becomes a spare again.
- A held newcomer that restarts is fenced by its successor, which keeps the deadline. One that leaves or disconnects is
  dropped, and the group is not affected: a held newcomer has no session that could expire.
- Held newcomers are soft state: when the coordinator moves, they are sent to the next one.
- Nothing here removes a member. Members are removed immediately, as usual, and their partitions then have no consumer
  until the rebalance."""

from collections.abc import Sequence

from kgm.coordinator.classic.records import group_record
from kgm.coordinator.contract.error_responses import join_refusal
from kgm.coordinator.contract.outcome import Millis, Ticket, TimerKey, TimerKind, session_key
from kgm.coordinator.contract.scale_out_plan import GroupPlan
from kgm.coordinator.contract.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, BrokerSettings
from kgm.coordinator.groups.classic_group import ClassicGroup, ClassicMember, HeldNewcomer, ParkedRequest, topics_in
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.event_draft import EventDraft, OnAppendFailure
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.leave_group_request import MemberIdentity


def hold_key(group: ClassicGroup) -> TimerKey:
    return TimerKey(TimerKind.HOLD, group.group_id)


# -- the plan of a group


def is_plan_fulfilled(group: ClassicGroup, settings: BrokerSettings) -> bool:
    """Whether the group has a plan, and all members that the plan names or counts have joined."""
    plan = settings.plans.of(group.group_id)
    return plan is not None and _has_all(group, plan, ())


def _has_all(group: ClassicGroup, plan: GroupPlan, coming: Sequence[HeldNewcomer]) -> bool:
    if plan.target_size is not None:
        return len(group.members) + len(coming) >= plan.target_size
    return plan.instance_ids <= {*group.static_ids, *(held.member.group_instance_id for held in coming)}


def _is_registered(plan: GroupPlan, member: ClassicMember) -> bool:
    return member.group_instance_id is not None and member.group_instance_id in plan.instance_ids


def _with_a_place(group: ClassicGroup, plan: GroupPlan | None) -> list[HeldNewcomer]:
    """The held newcomers that have a place: first those with a pre-registered id, then in the order of joining."""
    waiting = list(group.soft.held.values())
    if plan is None or plan.target_size is None:
        return waiting
    waiting.sort(key=lambda held: not _is_registered(plan, held.member))
    there = {*group.static_ids, *(held.member.group_instance_id for held in waiting)}
    reserved = len(plan.instance_ids - there)
    free = plan.target_size - len(group.members)
    admitted: list[HeldNewcomer] = []
    for held in waiting:
        if free - len(admitted) > (0 if _is_registered(plan, held.member) else reserved):
            admitted.append(held)
    # A group without members lets newcomers in immediately.
    return admitted or ([] if group.members else waiting[: plan.target_size])


# -- newcomers


def admit(
    group: ClassicGroup, member: ClassicMember, protocol_type: str, parked: ParkedRequest, event: EventDraft
) -> None:
    """Add a new member, whose JoinGroup is parked until the end of the join phase. Its session lasts 300 s until the
    first reply, because it cannot send heartbeats without an id."""
    if group.state is ClassicState.PREPARING_REBALANCE and group.soft.previous_state is ClassicState.EMPTY:
        extends_delay = not group.generation or event.behavior.extends_every_initial_delay
        group.soft.new_member_added = group.soft.new_member_added or extends_delay
    group.add(member, protocol_type)
    group.soft.parked_joins[member.member_id] = parked
    event.set_timer(session_key(group.group_id, member.member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)


def is_held(group: ClassicGroup, member_id: str, group_instance_id: str | None) -> bool:
    """Whether this newcomer is already held."""
    held = group.soft.held.get(member_id)
    return held is not None and held.member.group_instance_id == group_instance_id


def hold_back(group: ClassicGroup, newcomer: HeldNewcomer, event: EventDraft) -> bool:
    """Hold a newcomer back if the plan requires it. True if it is held or refused; False if the caller should add
    it."""
    until_ms = _dismiss_former(group, newcomer, event)
    plan = event.settings.plans.of(group.group_id)
    if plan is None or not _must_wait(plan, group, newcomer.member):
        return False
    if _size(group) + len(group.soft.held) >= event.settings.group_max_size:
        _refuse(newcomer, ErrorCode.GROUP_MAX_SIZE_REACHED, event)
        return True
    group.soft.pending_joins.pop(newcomer.member.member_id, None)
    event.cancel_timer(session_key(group.group_id, newcomer.member.member_id))
    _hold(group, {**group.soft.held, newcomer.member.member_id: newcomer._replace(until_ms=until_ms)}, event)
    return True


def wait_deadline_ms(member: ClassicMember, event: EventDraft) -> Millis:
    """The time until which a newcomer that joins now may be held."""
    wait_ms = min(max(member.rebalance_timeout_ms, 0), event.settings.kgm_group_newcomer_max_wait_ms)
    return Millis(event.now + wait_ms)


def _must_wait(plan: GroupPlan, group: ClassicGroup, member: ClassicMember) -> bool:
    """Whether a newcomer must be held, at least until the plan is checked."""
    if not group.members:
        return False
    return plan.target_size is not None or _is_registered(plan, member)


def _size(group: ClassicGroup) -> int:
    """The size that is compared with `group.max.size`: in a join phase, as in Kafka, the number of members that have
    joined."""
    return len(group.soft.parked_joins if group.state is ClassicState.PREPARING_REBALANCE else group.members)


def _dismiss_former(group: ClassicGroup, newcomer: HeldNewcomer, event: EventDraft) -> Millis:
    """Answer an earlier request of the same newcomer as in a join phase. Returns the time until which the new request
    may wait: no longer than the earlier one."""
    member, until_ms = newcomer.member, newcomer.until_ms
    for held in list(group.soft.held.values()):
        same_id = held.member.member_id == member.member_id
        same_instance = member.group_instance_id is not None and (
            held.member.group_instance_id == member.group_instance_id
        )
        if same_id or same_instance:
            error = ErrorCode.REBALANCE_IN_PROGRESS if same_id else ErrorCode.FENCED_INSTANCE_ID
            _dismiss(group, held, error, event)
            until_ms = min(until_ms, held.until_ms)
    return until_ms


# -- letting in or dismissing held newcomers


def let_in_if_due(group: ClassicGroup, event: EventDraft) -> bool:
    """Let in the newcomers that have a place, if they fulfill the plan or if a join phase is in flight. Returns whether
    a member was added."""
    plan = event.settings.plans.of(group.group_id)
    admitted = _with_a_place(group, plan)
    due = plan is None or _has_all(group, plan, admitted) or group.state is ClassicState.PREPARING_REBALANCE
    return due and _let_in(group, admitted, event)


def let_in_all(group: ClassicGroup, event: EventDraft) -> bool:
    """A join phase ends: let in all newcomers that have a place. Returns whether a member was added."""
    return bool(group.soft.held) and _let_in(
        group, _with_a_place(group, event.settings.plans.of(group.group_id)), event
    )


def wait_expired(group: ClassicGroup, event: EventDraft) -> bool:
    """The wait of a newcomer has expired. Returns whether a member was added."""
    admitted = _with_a_place(group, event.settings.plans.of(group.group_id))
    was_added = any(held.until_ms <= event.now for held in admitted) and _let_in(group, admitted, event)
    for held in list(group.soft.held.values()):
        if held.until_ms <= event.now:
            _dismiss(group, held, ErrorCode.REBALANCE_IN_PROGRESS, event)
    return was_added


def withdraw(group: ClassicGroup, leaving: MemberIdentity, event: EventDraft) -> bool:
    """A held newcomer leaves, or is removed by its instance id. Returns whether there is such a newcomer."""
    for held in group.soft.held.values():
        member = held.member
        same_instance = leaving.group_instance_id == member.group_instance_id
        by_instance = leaving.member_id == "" and leaving.group_instance_id is not None and same_instance
        by_id = member.member_id == leaving.member_id and (leaving.group_instance_id is None or same_instance)
        if by_instance or by_id:
            _dismiss(group, held, ErrorCode.UNKNOWN_MEMBER_ID, event)
            return True
    return False


def disconnected(group: ClassicGroup, ticket: Ticket, event: EventDraft) -> None:
    """The connection on which a held newcomer waits was closed: the newcomer is dropped."""
    for held in list(group.soft.held.values()):
        if held.parked.ticket == ticket:
            _dismiss(group, held, ErrorCode.UNKNOWN_MEMBER_ID, event)


def dismiss_all(group: ClassicGroup, error: ErrorCode, event: EventDraft) -> None:
    """Refuse all held newcomers with this error."""
    for held in list(group.soft.held.values()):
        _dismiss(group, held, error, event)


def take_over(group: ClassicGroup, gone: ClassicMember, event: EventDraft) -> HeldNewcomer | None:
    """A member of a Stable group is about to be removed: a spare takes its place and its partitions. Returns the spare;
    None if no spare fits, in which case nothing has changed."""
    plan = event.settings.plans.of(group.group_id) if group.soft.held and group.state is ClassicState.STABLE else None
    if plan is None or plan.target_size is None or len(group.members) > plan.target_size:
        return None
    if gone.member_id in group.soft.pending_syncs:
        return None
    spares = sorted(group.soft.held.values(), key=lambda held: not _is_registered(plan, held.member))
    spare = next((held for held in spares if _can_replace(group, held, gone)), None)
    if spare is None:
        return None
    _hold(group, {member_id: held for member_id, held in group.soft.held.items() if held is not spare}, event)
    _put_in_place_of(group, gone, spare.member._replace(assignment=gone.assignment, is_new=False), spare.protocol_type)
    event.cancel_timer(session_key(group.group_id, gone.member_id))
    event.set_timer(session_key(group.group_id, spare.member.member_id), spare.member.session_timeout_ms)
    event.write(group_record(group, {member.member_id: member.assignment for member in group.members.values()}))
    event.on_append_failure = OnAppendFailure.WITHOUT_PLANS
    return spare


def _can_replace(group: ClassicGroup, spare: HeldNewcomer, gone: ClassicMember) -> bool:
    """Whether the spare is a consumer with the same topics, so that the leader would have given it the same
    assignment."""
    if not group.uses_consumer_protocol or all(offered.name != group.protocol for offered in spare.member.protocols):
        return False
    topics = topics_in([spare.member.metadata(group.protocol)])
    return topics is not None and topics == topics_in([gone.metadata(group.protocol)])


def _put_in_place_of(group: ClassicGroup, gone: ClassicMember, member: ClassicMember, protocol_type: str) -> None:
    """Replace `gone` with this member, which becomes the leader if `gone` was."""
    led = group.leader == gone.member_id
    group.remove(gone.member_id)
    group.add(member, protocol_type)
    if led:
        group.leader = member.member_id


def _let_in(group: ClassicGroup, admitted: Sequence[HeldNewcomer], event: EventDraft) -> bool:
    """Add newcomers. The group may have changed since they were held, so each is checked again."""
    before = len(group.members)
    coming = {held.member.member_id for held in admitted}
    _hold(group, {member_id: held for member_id, held in group.soft.held.items() if member_id not in coming}, event)
    for held in admitted:
        names = [offered.name for offered in held.member.protocols]
        if not group.supports(held.protocol_type, names):
            _refuse(held, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, event)
        elif _size(group) >= event.settings.group_max_size:
            _refuse(held, ErrorCode.GROUP_MAX_SIZE_REACHED, event)
        else:
            admit(group, held.member, held.protocol_type, held.parked, event)
    return len(group.members) > before


def _dismiss(group: ClassicGroup, held: HeldNewcomer, error: ErrorCode, event: EventDraft) -> None:
    _hold(group, {member_id: each for member_id, each in group.soft.held.items() if each is not held}, event)
    _refuse(held, error, event)


def _refuse(held: HeldNewcomer, error: ErrorCode, event: EventDraft) -> None:
    event.reply(held.parked.ticket, join_refusal(error, held.parked.version))


def _hold(group: ClassicGroup, held: dict[str, HeldNewcomer], event: EventDraft) -> None:
    """Hold these newcomers, and set the timer to the earliest of their deadlines."""
    group.soft.held = held
    if held:
        event.set_timer(hold_key(group), min(each.until_ms for each in held.values()) - event.now)
    else:
        event.cancel_timer(hold_key(group))
