"""Side effects of a removal: a rebalance that has to wait, or a consumer group that is left to the classic protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kgm.frameworks.task_copies import freed_tasks, task_texts
from kgm.model.assignment import owners
from kgm.model.errors import RefusedError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.work import STREAMS_ASSIGNOR
from kgm.operations.groups.classic_only import NO_NEW_ASSIGNMENT, may_wait_for_a_join, run_only_classic
from kgm.operations.groups.refused_sessions import (
    MAX_SESSION,
    MIN_SESSION,
    limits_text,
    refused_members,
    sessions_text,
)
from kgm.operations.removal.guard import GuardReport
from kgm.operations.removal.liveness import LivenessVerdict
from kgm.text.braces import as_list
from kgm.text.names import in_order
from kgm.text.whole_numbers import whole_number
from kgm.text.wording import group_command, grouped, some

#: Broker settings: which groups with members can change their protocol, and how many members a classic group can have.
MIGRATION_POLICY, CLASSIC_MAX_SIZE = "group.consumer.migration.policy", "group.max.size"
_NAMES_SHOWN = 8
#: The number of plays of a Kafka Streams application, of which only the range is shown; and the largest application
#: that is played, as tasks times processes.
_DRAWS, _MOST_PLAYED = 15, 300


def stay_only_classic(group: GroupSnapshot, removed_member_ids: Iterable[str]) -> bool:
    """Whether a removal leaves a consumer group (KIP-848) with nobody running but members of the classic protocol, so
    that the broker's assignor does not run for it."""
    return run_only_classic(group, _staying(group, removed_member_ids))


def classic_only_warning(
    group: GroupSnapshot, removed_member_ids: Iterable[str], settings: Mapping[str, str]
) -> str | None:
    """A warning if the removal leaves no running member with the consumer protocol: the group becomes a classic group,
    or, where it may not, it gets no new assignment. settings: the broker's, as far as it reports them."""
    removed = set(removed_member_ids)
    staying = _staying(group, removed)
    if not run_only_classic(group, staying):
        return None
    policy = settings.get(MIGRATION_POLICY)
    why = _why_not_classic(staying, policy, settings.get(CLASSIC_MAX_SIZE, ""))
    waits = may_wait_for_a_join(group, staying)
    freed = grouped(owners({one.identity: one.assignment for one in group.members if one.member_id in removed}))
    if why is not None:
        then = f"{freed} will have no consumer" if freed else "it stays Assigning"
        stalls = (
            f"no running member with the consumer protocol is left, and group {group.group_id} does not become a "
            f"classic group ({why}): {NO_NEW_ASSIGNMENT}, so {then} until a member joins or rejoins. Restart a member "
            "that stays, or start another one, after the removal"
        )
        return stalls if waits else None
    unless = "" if policy is not None else f", unless {MIGRATION_POLICY} forbids it"
    if unless and waits and freed:
        unless += f" (then {freed} will have no consumer until a member joins or rejoins)"
    who = "the member that stays uses" if len(staying) == 1 else f"the {len(staying)} members that stay use"
    return (
        f"no member with the consumer protocol is left: group {group.group_id} becomes a classic group and rebalances"
        f"{unless}; {who} the classic protocol, whose own assignor then assigns the partitions"
    )


def _why_not_classic(staying: Sequence[MemberSnapshot], policy: str | None, max_size: str) -> str | None:
    """Why the group stays a consumer group without those that are removed; None if it does not, as far as is known."""
    away = in_order(one.identity for one in staying if one.status == "away")
    if away:
        return f"{some(away)}: away, and still a member"
    if policy in ("upgrade", "disabled"):
        return f"{MIGRATION_POLICY}={policy}"
    most = whole_number(max_size)
    is_too_large = most is not None and len(staying) > most
    return f"{len(staying)} members, and {CLASSIC_MAX_SIZE}={max_size}" if is_too_large else None


def _staying(group: GroupSnapshot, removed_member_ids: Iterable[str]) -> list[MemberSnapshot]:
    removed = set(removed_member_ids)
    return [member for member in group.members if member.member_id not in removed]


def static_members_that_stay(group: GroupSnapshot, removed_member_ids: Iterable[str]) -> list[MemberSnapshot]:
    """Members for which the rebalance that a removal starts in a classic group may have to wait.

    A static member that has stopped stays in the group until its session ends. So does a dynamic one, but dynamic
    members usually have short sessions, while sessions of static members are long on purpose."""
    removed = set(removed_member_ids)
    if group.type != "classic":
        return []
    return [one for one in group.members if one.member_id not in removed and one.group_instance_id is not None]


def stall_warnings(group: GroupSnapshot, removed_member_ids: Iterable[str], guard: GuardReport) -> list[str]:
    """Warnings about static members that stay in a classic group and are not known to be alive.

    The rebalance that a removal starts ends when every member has rejoined, or else after the smaller of the rebalance
    timeout (max.poll.interval.ms) and the session timeout of the member that is absent."""
    staying = static_members_that_stay(group, removed_member_ids)
    verdicts = {one.member_id: guard.verdict_of(one.member_id) for one in staying}
    stopped = [one for one in staying if verdicts[one.member_id] is LivenessVerdict.STOPPED]
    unknown = [one for one in staying if verdicts[one.member_id] is LivenessVerdict.UNKNOWN]
    warnings = []
    if stopped:
        have = "has stopped too and stays" if len(stopped) == 1 else "have stopped too and stay"
        warnings.append(
            f"{_names(stopped)} {have} in the group: the rebalance waits for {_them(stopped)}, "
            f"{_bound(stopped, guard)}; remove all that are gone in this one request"
        )
    if unknown:
        known = "is not known to be alive" if len(unknown) == 1 else "are not known to be alive"
        gone = "it has stopped" if len(unknown) == 1 else "one of them has stopped"
        warnings.append(
            f"{_names(unknown)} {known}, and {'stays' if len(unknown) == 1 else 'stay'} in the group: if {gone}, "
            f"every member waits for it in the rebalance, {_bound(unknown, guard)}"
        )
    return warnings


def refusal_warning(
    group: GroupSnapshot, removed_member_ids: Iterable[str], guard: GuardReport, settings: Mapping[str, str]
) -> str | None:
    """A warning if the broker refuses members that stay in a classic group when they rejoin, because it does not allow
    their session timeouts. settings: the broker's, as far as it reports them."""
    lowest_ms, longest_ms = (whole_number(settings.get(name)) for name in (MIN_SESSION, MAX_SESSION))
    staying = _staying(group, removed_member_ids)
    refused = refused_members(staying, guard.session_timeouts_ms, lowest_ms, longest_ms)
    if not refused:
        return None
    lost = grouped(owners({one.identity: one.assignment for one in refused}))
    then = "they leave the group"
    if len(refused) == len(staying):
        then = "the group becomes Empty" + (f", and {lost} will have no consumer" if lost else "")
    elif lost:
        then = f"they lose {lost}"
    return (
        f"{limits_text(lowest_ms, longest_ms)}, and {_names(refused)} "
        f"{'has' if len(refused) == 1 else 'have'} {sessions_text(refused, guard.session_timeouts_ms)}: "
        f"in the rebalance that the removal starts {len(refused)} of the {len(staying)} members that stay are refused "
        f"with INVALID_SESSION_TIMEOUT, so {then}. First change session.timeout.ms or the broker's limits"
    )


def task_warnings(group: GroupSnapshot, going: Sequence[str]) -> list[str]:
    """Which tasks of a Kafka Streams application the removal frees, which processes have copies of them, and how often
    the application rebalances until all tasks are where they should be, unless nobody is left to run them."""
    if group.assignor != STREAMS_ASSIGNOR or not going:
        return []
    until_settled = [] if {one.identity for one in group.members} <= {*going} else [_until_settled(group, going)]
    return [*task_texts(freed_tasks(group, going)), *until_settled]


def _until_settled(group: GroupSnapshot, going: Sequence[str]) -> str:
    """How many rebalances it takes to settle, or for a large application the command that shows it: playing that takes
    minutes, which someone who is removing dead members does not have."""
    from kgm.simulation.bounce import simulate
    from kgm.simulation.plan.bounce_plan import Plan
    from kgm.simulation.streams.group import streams_group_of

    plan = Plan(remove=tuple(going))
    try:
        played = streams_group_of(group, plan)
        if len(played.tasks) * played.processes > _MOST_PLAYED:
            words = group_command("simulate-bounce", group.group_id, "--remove", as_list(in_order(going)))
            return f"how often the application rebalances until it is settled: {words}"
        prediction = simulate(group, plan, draws=_DRAWS)
    except RefusedError as error:
        return error.message
    ranges, exactly = prediction.ranges, prediction.typical.rebalances
    span = [exactly] if ranges is None else dict.fromkeys((ranges.rebalances.min, ranges.rebalances.max))
    return f"rebalances until the application is settled: {' to '.join(map(str, span))}"


def _bound(members: Sequence[MemberSnapshot], guard: GuardReport) -> str:
    """The longest time that the rebalance waits, in words."""
    sessions = [guard.session_timeouts_ms.get(member.member_id) for member in members]
    known = [ms for ms in sessions if ms is not None]
    if guard.rebalance_timeout_ms is None or len(known) < len(sessions) or not known:
        return "until the rebalance timeout or its session ends"
    return f"up to {min(max(known), guard.rebalance_timeout_ms) / 1000:.0f} s"


def _them(members: Sequence[MemberSnapshot]) -> str:
    return "it" if len(members) == 1 else "them"


def _names(members: Sequence[MemberSnapshot]) -> str:
    names = in_order(member.identity for member in members)
    rest = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
