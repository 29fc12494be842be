"""Newcomers that are held back until a planned scale-out is complete, and spare members (KIP-345, "future works").

Apache Kafka has no such thing. It is off unless a group has a plan (`planned`), needs nothing of the clients, and puts
nothing on the wire or into the log that Kafka would not: a newcomer that is *held* just waits for the reply to its
JoinGroup, as it would in a long join phase, while the members of the group go on consuming.

Rules
-----
- A group without members starts as ever; its first join phase ends early once the plan is fulfilled and nobody is
  missing. Members that are there are never held, whatever they ask for; nor is a static member that restarts.
- Pre-registered ids alone: a newcomer with one of them is held until all of them are there. Others come as ever.
- A target size: every newcomer is held until so many are there. Pre-registered ids among them have a place of their own
  that nobody else gets. Who finds no free place is a *spare*: it is held until a member goes.
- When a member of a Stable group goes (its session ends, or it leaves), a spare with the same subscription takes its
  place, as a static member's next life does: same assignment, same generation, no rebalance.
- Then all that are held and have a place are let in, in one rebalance. They also come along with any rebalance that
  takes place for another reason: it costs nobody anything more.
- Nobody is held longer than its own rebalance timeout, counted from its first JoinGroup, or than
  `kgm.group.newcomer.max.wait.ms` if that is less. Then all that have a place are let in, incomplete as the group is,
  and a spare is told REBALANCE_IN_PROGRESS, on which every client joins again, and is a spare again.
- A held newcomer that starts again is fenced by its next life and keeps its place in time; one that leaves, or whose
  connection ends, is gone, which the group does not notice: it has no session by which its death would show.
- What is held is soft state: a coordinator that moves sends everybody to the next.
- Nothing here makes anybody leave. Who goes is dealt with at once, as ever: its partitions are unread until then."""

from collections.abc import Sequence

from kgm.coordinator.classic.group import ClassicGroup, ClassicMember, Held, Parked, topics_of
from kgm.coordinator.classic.records import group_record
from kgm.coordinator.classic.state import ClassicState
from kgm.coordinator.contract.error_responses import join_refusal
from kgm.coordinator.contract.event_draft import EventDraft, OnAppendFailure
from kgm.coordinator.contract.outcome import Millis, Ticket, TimerKey, TimerKind
from kgm.coordinator.contract.scale_out_plan import GroupPlan
from kgm.coordinator.contract.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, BrokerSettings
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.leave_group_request import MemberIdentity


def hold_key(group: ClassicGroup) -> TimerKey:
    return TimerKey(TimerKind.HOLD, group.group_id)


# -- what a plan says of a group


def is_fulfilled(group: ClassicGroup, settings: BrokerSettings) -> bool:
    """Whether the group has a plan, and all its members are there."""
    plan = settings.plans.of(group.group_id)
    return plan is not None and _has_all(group, plan, ())


def _has_all(group: ClassicGroup, plan: GroupPlan, coming: Sequence[Held]) -> bool:
    if plan.target_size is not None:
        return len(group.members) + len(coming) >= plan.target_size
    return plan.instance_ids <= {*group.static_ids, *(held.member.group_instance_id for held in coming)}


def _is_registered(plan: GroupPlan, member: ClassicMember) -> bool:
    return member.group_instance_id is not None and member.group_instance_id in plan.instance_ids


def _seated(group: ClassicGroup, plan: GroupPlan | None) -> list[Held]:
    """Those of the held that have a place; first those whose place it is, then in order of coming."""
    waiting = list(group.held.values())
    if plan is None or plan.target_size is None:
        return waiting
    waiting.sort(key=lambda held: not _is_registered(plan, held.member))
    there = {*group.static_ids, *(held.member.group_instance_id for held in waiting)}
    reserved = len(plan.instance_ids - there)
    free = plan.target_size - len(group.members)
    seated: list[Held] = []
    for held in waiting:
        if free - len(seated) > (0 if _is_registered(plan, held.member) else reserved):
            seated.append(held)
    # Nobody is kept waiting for others by a group in which nobody works.
    return seated or ([] if group.members else waiting[: plan.target_size])


# -- newcomers


def admit(group: ClassicGroup, step: EventDraft, member: ClassicMember, protocol_type: str, parked: Parked) -> None:
    """Let a new member in, to wait for the end of the join phase. Until its first reply it has 300 s: it cannot
    heartbeat without knowing its id."""
    if group.is_in(ClassicState.PREPARING_REBALANCE) and group.previous_state is ClassicState.EMPTY:
        group.new_member_added = True
    group.add(member, protocol_type)
    group.parked_joins[member.member_id] = parked
    step.set_timer(TimerKey(TimerKind.SESSION, group.group_id, member.member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)


def holds(group: ClassicGroup, member_id: str, group_instance_id: str | None) -> bool:
    """Whether this newcomer is held, and asks again."""
    held = group.held.get(member_id)
    return held is not None and held.member.group_instance_id == group_instance_id


def holds_back(group: ClassicGroup, step: EventDraft, newcomer: Held) -> bool:
    """Hold a newcomer back if the plan says so. True if it is held, or refused; False if it may come in, or has: then
    the caller goes on with a rebalance."""
    until_ms = _withdraw_former(group, step, newcomer)
    plan = step.settings.plans.of(group.group_id)
    if plan is None or not _concerns(plan, group, newcomer.member):
        return False
    if _size(group) + len(group.held) >= step.settings.group_max_size:
        _refuse(step, newcomer, ErrorCode.GROUP_MAX_SIZE_REACHED)
        return True
    group.pending_joins.pop(newcomer.member.member_id, None)
    step.cancel_timer(TimerKey(TimerKind.SESSION, group.group_id, newcomer.member.member_id))
    _keep(group, {**group.held, newcomer.member.member_id: newcomer._replace(until_ms=until_ms)}, step)
    return True


def bound_ms(member: ClassicMember, step: EventDraft) -> Millis:
    """Until when a newcomer may be held that comes now."""
    wait_ms = min(max(member.rebalance_timeout_ms, 0), step.settings.kgm_group_newcomer_max_wait_ms)
    return Millis(step.now + wait_ms)


def _concerns(plan: GroupPlan, group: ClassicGroup, member: ClassicMember) -> bool:
    """Whether a newcomer has to wait, at least until it is seen who else is there."""
    if not group.members:
        return False
    return plan.target_size is not None or _is_registered(plan, member)


def _size(group: ClassicGroup) -> int:
    """What counts for `group.max.size`, as in Kafka: in a join phase those that have joined."""
    return len(group.parked_joins if group.is_in(ClassicState.PREPARING_REBALANCE) else group.members)


def _withdraw_former(group: ClassicGroup, step: EventDraft, newcomer: Held) -> Millis:
    """A newcomer that is held already asks again: the earlier request is answered as in a join phase, and the later one
    waits no longer than the earlier would have."""
    member, until_ms = newcomer.member, newcomer.until_ms
    for held in list(group.held.values()):
        same_id = held.member.member_id == member.member_id
        same_instance = member.group_instance_id is not None and (
            held.member.group_instance_id == member.group_instance_id
        )
        if same_id or same_instance:
            error = ErrorCode.REBALANCE_IN_PROGRESS if same_id else ErrorCode.FENCED_INSTANCE_ID
            _dismiss(group, step, held, error)
            until_ms = min(until_ms, held.until_ms)
    return until_ms


# -- letting in, and turning away


def let_in_if_due(group: ClassicGroup, step: EventDraft) -> bool:
    """Let those in that have a place, if with them the plan is fulfilled, or if members are joining just now. Whether
    anybody came in."""
    plan = step.settings.plans.of(group.group_id)
    seated = _seated(group, plan)
    due = plan is None or _has_all(group, plan, seated) or group.is_in(ClassicState.PREPARING_REBALANCE)
    return due and _let_in(group, step, seated)


def let_in_all(group: ClassicGroup, step: EventDraft) -> bool:
    """A join phase ends: let everybody in that has a place. Whether anybody came in."""
    return bool(group.held) and _let_in(group, step, _seated(group, step.settings.plans.of(group.group_id)))


def wait_expired(group: ClassicGroup, step: EventDraft) -> bool:
    """Somebody has been held for as long as it may be. Whether anybody came in."""
    seated = _seated(group, step.settings.plans.of(group.group_id))
    came = any(held.until_ms <= step.now for held in seated) and _let_in(group, step, seated)
    for held in list(group.held.values()):
        if held.until_ms <= step.now:
            _dismiss(group, step, held, ErrorCode.REBALANCE_IN_PROGRESS)
    return came


def withdraw(group: ClassicGroup, step: EventDraft, leaving: MemberIdentity) -> bool:
    """A held newcomer leaves, or is removed by its instance id. False if it is none."""
    for held in group.held.values():
        member = held.member
        same_instance = leaving.group_instance_id == member.group_instance_id
        by_instance = leaving.member_id == "" and leaving.group_instance_id is not None and same_instance
        by_id = member.member_id == leaving.member_id and (leaving.group_instance_id is None or same_instance)
        if by_instance or by_id:
            _dismiss(group, step, held, ErrorCode.UNKNOWN_MEMBER_ID)
            return True
    return False


def disconnected(group: ClassicGroup, step: EventDraft, ticket: Ticket) -> None:
    """The connection over which a held newcomer asked is gone, and so most likely is the newcomer."""
    for held in list(group.held.values()):
        if held.parked.ticket == ticket:
            _dismiss(group, step, held, ErrorCode.UNKNOWN_MEMBER_ID)


def dismiss_all(group: ClassicGroup, step: EventDraft, error: ErrorCode) -> None:
    """Nobody is held any more: everybody is told why."""
    for held in list(group.held.values()):
        _dismiss(group, step, held, error)


def take_over(group: ClassicGroup, step: EventDraft, gone: ClassicMember) -> Held | None:
    """A member of a Stable group is going: let a spare have its place and its partitions (hot swap). None if there is
    none that fits; nothing has been done then."""
    plan = step.settings.plans.of(group.group_id) if group.held and group.is_in(ClassicState.STABLE) else None
    if plan is None or plan.target_size is None or len(group.members) > plan.target_size:
        return None
    if gone.member_id in group.pending_syncs:
        return None
    spares = sorted(group.held.values(), key=lambda held: not _is_registered(plan, held.member))
    spare = next((held for held in spares if _can_replace(group, held, gone)), None)
    if spare is None:
        return None
    _keep(group, {member_id: held for member_id, held in group.held.items() if held is not spare}, step)
    _put_in_place_of(group, gone, spare.member._replace(assignment=gone.assignment, is_new=False), spare.protocol_type)
    step.cancel_timer(TimerKey(TimerKind.SESSION, group.group_id, gone.member_id))
    step.set_timer(TimerKey(TimerKind.SESSION, group.group_id, spare.member.member_id), spare.member.session_timeout_ms)
    step.write(group_record(group, {member.member_id: member.assignment for member in group.members.values()}))
    step.on_append_failure = OnAppendFailure.WITHOUT_PLANS
    return spare


def _can_replace(group: ClassicGroup, spare: Held, gone: ClassicMember) -> bool:
    """Whether the leader would not have assigned differently: to a consumer of the same topics."""
    if not group.uses_consumer_protocol or all(offered.name != group.protocol for offered in spare.member.protocols):
        return False
    topics = topics_of([spare.member.metadata(group.protocol)])
    return topics is not None and topics == topics_of([gone.metadata(group.protocol)])


def _put_in_place_of(group: ClassicGroup, gone: ClassicMember, member: ClassicMember, protocol_type: str) -> None:
    """It leads if the other one did."""
    led = group.leader == gone.member_id
    group.remove(gone.member_id)
    group.add(member, protocol_type)
    if led:
        group.leader = member.member_id


def _let_in(group: ClassicGroup, step: EventDraft, seated: Sequence[Held]) -> bool:
    """The group may have changed since they were found fit: that they fit in is seen to again."""
    before = len(group.members)
    coming = {held.member.member_id for held in seated}
    _keep(group, {member_id: held for member_id, held in group.held.items() if member_id not in coming}, step)
    for held in seated:
        names = [offered.name for offered in held.member.protocols]
        if not group.supports(held.protocol_type, names):
            _refuse(step, held, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif _size(group) >= step.settings.group_max_size:
            _refuse(step, held, ErrorCode.GROUP_MAX_SIZE_REACHED)
        else:
            admit(group, step, held.member, held.protocol_type, held.parked)
    return len(group.members) > before


def _dismiss(group: ClassicGroup, step: EventDraft, held: Held, error: ErrorCode) -> None:
    _keep(group, {member_id: each for member_id, each in group.held.items() if each is not held}, step)
    _refuse(step, held, error)


def _refuse(step: EventDraft, held: Held, error: ErrorCode) -> None:
    step.reply(held.parked.ticket, join_refusal(error, held.parked.version))


def _keep(group: ClassicGroup, held: dict[str, Held], step: EventDraft) -> None:
    """Hold these, and have the alarm go off when the first of them may not be held any longer."""
    group.held = held
    if held:
        step.set_timer(hold_key(group), min(each.until_ms for each in held.values()) - step.now)
    else:
        step.cancel_timer(hold_key(group))
