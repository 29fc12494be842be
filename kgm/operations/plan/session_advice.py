"""The shortest session timeout with which restarts move nothing, and what it costs when a member really dies.

A static member that is back within its session timeout keeps its partitions, and no other member notices. Observed
restart times show how likely each timeout is to be long enough for all members of a plan; a longer timeout leaves the
partitions of a member that has died without a consumer for longer."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kgm.client.failures import refuse_evidence_of_other_cluster
from kgm.history.rows import RestartRow
from kgm.model.assignment import Partitions, count
from kgm.model.errors import NotFoundError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.group import BounceGroup
from kgm.simulation.plan.bounce_plan import Plan, Stop, WhatIf
from kgm.simulation.plan.client_library import usual_heartbeat_interval_ms
from kgm.simulation.plan.played_settings import MAX_SESSION
from kgm.simulation.plan.starting_group import starting_group_of
from kgm.simulation.play.client_profiles import LONGEST_START_MS
from kgm.simulation.simulation import CONSUMER_INTERVAL_MS, SEED, Simulation
from kgm.text.durations import parse_duration
from kgm.text.whole_numbers import whole_number
from kgm.text.wording import many

#: The probability with which the plan should move nothing.
WANTED = 0.99
#: The number of simulated runs from which to estimate how often the plan moves nothing.
_DRAWS = 200
#: Extra time for the network and for occasional slowness.
_SPARE_MS = 350
_SECOND_MS = 1_000
#: The broker's default for the longest session timeout that it accepts from a classic member.
_LONGEST_SESSION_MS = 1_800_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeathCosts:
    """The total time that partitions are stopped if a member is killed and stays away: with another
    configuration, and now.

    member: the one that owns the most partitions."""

    member: str
    stopped_partition_ms: int
    stopped_partition_now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAdvice:
    """session_timeout_ms: the shortest timeout, rounded up to full seconds, with which all members are back in time
    with a probability of at least `WANTED`, if restarts take as long as the observed ones. session_timeout_now_ms: the
    shortest current session timeout of the members that restart. quiet_percent_now, quiet_percent: the percentage of
    simulated runs of the plan that move nothing, with the current timeout and with the advised one. caveats: what the
    observed restarts cannot show."""

    restart_times_ms: tuple[int, ...]
    members: int
    session_timeout_ms: int
    session_timeout_now_ms: int
    quiet_percent_now: int
    quiet_percent: int
    if_a_member_dies: DeathCosts
    caveats: tuple[str, ...]


def advise(group: BounceGroup, plan: Plan, *, seed: int = SEED) -> SessionAdvice:
    """Advice for a plan that has `restart_times_ms`. Raises what `simulate` raises, and UsageError if no static member
    restarts: a dynamic one leaves the group when it stops, whatever its session timeout is."""
    snapshot = group.snapshot
    static = [name for name in plan.bounce if name in _static(snapshot)]
    if not static:
        raise UsageError(
            "a session timeout makes no difference to these members: dynamic members leave when they stop",
            hint="give each member a group.instance.id",
        )
    plan = group.with_settings(plan)
    now_ms, _ = starting_group_of(snapshot, only_timeouts(plan)).sessions_ms(static)
    advised_ms = quiet_session_ms(snapshot, plan, len(static))
    advised = replace(plan, what_if=replace(plan.what_if, session_timeout_ms=advised_ms))
    return SessionAdvice(
        restart_times_ms=tuple(sorted(plan.restart_times_ms)),
        members=len(static),
        session_timeout_ms=advised_ms,
        session_timeout_now_ms=now_ms,
        quiet_percent_now=_quiet_percent(snapshot, plan, seed),
        quiet_percent=_quiet_percent(snapshot, advised, seed),
        if_a_member_dies=death_costs(snapshot, plan, static, only_timeouts(plan), only_timeouts(advised), seed),
        caveats=tuple(_caveats(snapshot, plan, len(static), advised_ms)),
    )


def quiet_session_ms(snapshot: GroupSnapshot, plan: Plan, members: int) -> int:
    """`shortest_session_ms` for this many members of the group that restart as the plan says."""
    times_ms = plan.restart_times_ms or (plan.restart_time_ms,)
    return shortest_session_ms(times_ms, members, lambda session_ms: _slack_ms(snapshot, plan, session_ms))


def death_costs(
    snapshot: GroupSnapshot, plan: Plan, names: Sequence[str], now: WhatIf, then: WhatIf, seed: int
) -> DeathCosts:
    """What the death of the one of these members that owns the most partitions costs."""
    member = _richest(snapshot, names)
    now_ms, then_ms = (stopped_by_death_ms(snapshot, plan, member, one, seed) for one in (now, then))
    return DeathCosts(member=member, stopped_partition_ms=then_ms, stopped_partition_now_ms=now_ms)


def _richest(snapshot: GroupSnapshot, names: Sequence[str]) -> str:
    """The one of these members that owns the most partitions."""
    owned = {member.identity: count(member.assignment) for member in snapshot.members}
    return max(names, key=lambda name: (owned[name], name))


def shortest_session_ms(restart_times_ms: Sequence[int], members: int, slack_ms: Callable[[int], int]) -> int:
    """The shortest session timeout, in full seconds, within which all members are back with a probability of `WANTED`
    or more.

    Restarts are taken to be independent, each as long as one of the observed ones. So the probability that all
    `members` restart within some time is the share of observed restarts within that time, to the power of `members`.
    slack_ms: the time to allow on top of the restart, given a session timeout."""
    times = sorted(restart_times_ms)
    longest_ms = next(
        time_ms for time_ms in times if (bisect.bisect_right(times, time_ms) / len(times)) ** members >= WANTED
    )
    session_ms = _next_second(longest_ms)
    while session_ms <= longest_ms + slack_ms(session_ms):
        session_ms += _SECOND_MS
    return session_ms


def _next_second(span_ms: int) -> int:
    return -(-span_ms // _SECOND_MS) * _SECOND_MS


def _slack_ms(snapshot: GroupSnapshot, plan: Plan, session_ms: int) -> int:
    """The time to allow on top of the restart: the session starts at the last heartbeat, before the stop, and must last
    until the JoinGroup, which a process sends once it is ready."""
    usual_ms = CONSUMER_INTERVAL_MS if snapshot.type == "consumer" else usual_heartbeat_interval_ms(session_ms)
    return round((plan.heartbeat_interval_ms or usual_ms) + LONGEST_START_MS + _SPARE_MS)


def _static(snapshot: GroupSnapshot) -> dict[str, Partitions]:
    """The partitions of each static member, by identity."""
    return {member.identity: member.assignment for member in snapshot.members if member.group_instance_id is not None}


def _quiet_percent(snapshot: GroupSnapshot, plan: Plan, seed: int) -> int:
    """The percentage of runs of the plan that move nothing."""
    drawn = Simulation.of(snapshot, plan, seed).play(_DRAWS)
    return 100 * sum(not draw.handovers and not draw.moves for draw in drawn) // len(drawn)


def only_timeouts(plan: Plan) -> WhatIf:
    """Only the timeouts of the plan's what-ifs."""
    what_if = plan.what_if
    return WhatIf(session_timeout_ms=what_if.session_timeout_ms, rebalance_timeout_ms=what_if.rebalance_timeout_ms)


def stopped_by_death_ms(snapshot: GroupSnapshot, plan: Plan, member: str, what_if: WhatIf, seed: int) -> int:
    """The total time that partitions are stopped if the member is killed and stays away. plan: only its settings,
    version and heartbeat interval are used."""
    died = Plan(
        scale_in=(member,),
        stop=Stop.CRASH,
        settings=plan.settings,
        kafka_version=plan.kafka_version,
        heartbeat_interval_ms=plan.heartbeat_interval_ms,
        what_if=what_if,
    )
    return Simulation.of(snapshot, died, seed).runner(0).play().stopped_partition_ms


def _caveats(snapshot: GroupSnapshot, plan: Plan, members: int, advised_ms: int) -> list[str]:
    texts = []
    seen = len(plan.restart_times_ms)
    needed = math.ceil(1 / (1 - WANTED ** (1 / members)))
    if seen < needed:
        texts.append(
            f"{many(seen, 'restart')} say little about rare ones: for 99 of 100 plans with {members} members "
            f"{needed} are needed"
        )
    if len(plan.bounce) > members:
        texts.append(
            f"{len(plan.bounce) - members} dynamic members leave when they stop, whatever the session timeout is"
        )
    if advised_ms > longest_session_ms(snapshot, plan):
        texts.append(f"the broker accepts at most {longest_session_ms(snapshot, plan) // 1000} s ({MAX_SESSION})")
    return texts


def longest_session_ms(snapshot: GroupSnapshot, plan: Plan) -> float:
    """The longest session timeout that the broker accepts from members of a classic group; infinite for other
    groups."""
    if snapshot.type != "classic":
        return math.inf
    limit_ms = whole_number(plan.settings.get(MAX_SESSION))
    return _LONGEST_SESSION_MS if limit_ms is None else limit_ms


def restart_times_of(folder: str, group_id: str, cluster_id: str | None) -> tuple[int, ...]:
    """How long, in ms, the static members of a group were away when they restarted, from a built history: the upper end
    of each range, because a history has ranges. Restarts without an upper end are left out, as the member's last sign
    of life is not known. cluster_id: of which cluster the group is; None if that is not known.

    Raises NotFoundError for a folder that is not a history, or has no restart of the group; RefusedError for a history
    of another cluster; UsageError if the extra for histories is not installed."""
    from kgm.operations.history.source import extra_needed

    with extra_needed():
        from kgm.history.places.remote_path import place
        from kgm.history.store.query import RowFilter
        from kgm.history.store.tables import open_store

        store = open_store(place(folder))
        refuse_evidence_of_other_cluster(f"the history in {folder}", store.origin.cluster, cluster_id)
        rows = store.rows(RestartRow, RowFilter(group_ids=(group_id,)))
        times_ms = tuple(row.max_ms for row in rows if row.static and row.max_ms is not None)
    if not times_ms:
        raise NotFoundError(
            f"the history in {folder} has no restart of a static member of group {group_id}", group_id=group_id
        )
    return times_ms


def read_restart_times(text: str, option: str) -> tuple[int, ...]:
    """Durations in ms, separated by commas or white space; `#` starts a comment. Raises UsageError for one that is not
    valid, or if there are none."""
    words = [word for line in text.splitlines() for word in line.partition("#")[0].replace(",", " ").split()]
    if not words:
        raise UsageError(f"{option}: there is no restart time")
    return tuple(parse_duration(word, option) for word in words)
