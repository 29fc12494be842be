"""The output of `kgm plan`: a row for each plan that no other beats, and the command that runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgm.cli.output.bounce_report import sink_tables
from kgm.cli.output.contracts.planning.plan import advice_json, limits_json, plan_json, what_if_json
from kgm.cli.output.report import Cell, Column, Report, Table
from kgm.model.errors import KgmError, TimedOutError
from kgm.simulation.plan.bounce_plan import units_of
from kgm.text.durations import show_duration
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.operations.plan.costs import PlanCosts
    from kgm.operations.plan.search import FoundPlan, FoundPlans
    from kgm.operations.plan.session_advice import SessionAdvice

SCHEMA = "kgm.plan/v1"
#: The columns of csv and tsv.
_KEYS = (
    "flags", "rebalances=costs.rebalances", "handovers=costs.handovers",
    "stopped_partition_ms=costs.stopped_partition_ms", "duration_ms=costs.duration_ms",
    "fewest_consumed_percent=costs.fewest_consumed_percent", "exact=scenario.exact",
    "tasks_without_copy=costs.tasks_without_copy",
)  # fmt: skip
_NOTE = (
    "STOPPED: partition-seconds without a consumer; CONSUMED: the lowest share of partitions with a consumer at any "
    "time; both are the median or the worst of all draws, times are never exact"
)
_NO_COPY = "NO COPY: the most tasks without a copy elsewhere while processes are away"
_REMOVES = (
    "--remove-first: --exec-stop stops a member, one LeaveGroup removes it, --exec starts it; with --assume-stopped "
    "also if nothing but the command shows that it has stopped"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutput:
    """What to print. rollout: makes the command that runs a plan. failure: the error if no plan meets the limits,
    or if that is not known. is_out_of_time: whether --timeout has passed."""

    found: FoundPlans
    rollout: Callable[[FoundPlan], str]
    where: dict[str, str | None] | None
    advice: SessionAdvice | None
    draws: int
    seed: int
    budget_ms: int
    failure: KgmError | None
    is_out_of_time: bool = False


def report(output: PlanOutput) -> Report:
    """The report."""
    found = output.found
    plans = [{**plan_json(one), "rollout": output.rollout(one)} for one in found.plans]
    closest = None if found.closest is None else {
        **plan_json(found.closest, found.closest_exceeds), "rollout": output.rollout(found.closest)
    }  # fmt: skip
    data = {
        "group_id": found.group.group_id,
        "minimise": found.task.objective.value,
        "limits": limits_json(found),
        "plan": found.base.to_json(),
        "plans": plans,
        "closest": closest,
        "what_ifs": [what_if_json(one) for one in found.what_ifs],
        "what_ifs_not_played": [
            {"name": name, "reason": error.message} for name, error in sorted(found.not_played.items())
        ],
        "session_advice": advice_json(output.advice),
        "search": {
            "tried": found.tried, "ways": found.ways, "complete": found.is_complete, "draws": output.draws,
            "seed": output.seed, "budget_ms": output.budget_ms,
            "not_predicted": [" ".join(shape.words) for shape in found.unpredicted],
        },
    }  # fmt: skip
    advice = [] if output.advice is None else [_advice(output.advice)]
    return Report(
        schema=SCHEMA,
        data=data,
        tables=[_plans(output), *_sinks(found), *_what_ifs(found), *advice],
        keys=_KEYS,
        names=[" ".join(one.shape.words) for one in found.plans],
        items=plans,
        rows=plans if closest is None else [closest],
        cluster=output.where,
        errors=[] if output.failure is None else [output.failure],
    )


def _columns(first: str) -> list[Column]:
    titles = ("REBALANCES", "HANDOVERS", "STOPPED", "DURATION", "CONSUMED")
    return [Column(title=first), *(Column(title=title, right=True) for title in titles)]


def _cells(costs: PlanCosts) -> list[Cell]:
    return [
        costs.rebalances,
        costs.handovers,
        f"{costs.stopped_partition_ms / 1000:.1f}s",
        show_duration(costs.took_ms),
        f"{costs.fewest_consumed_percent}%",
    ]


def _plans(output: PlanOutput) -> Table:
    found = output.found
    shown = list(found.plans)
    notes = [_NOTE]
    if found.closest is not None:
        shown = [found.closest]
        notes.append(f"no plan meets the limits; this one is closest: {', '.join(found.closest_exceeds)}")
    notes += [f"  {output.rollout(one)}" for one in shown]
    is_streams = any(one.costs.tasks_without_copy for one in shown)
    notes += [_NO_COPY] if is_streams else []
    if any(one.shape.removes_first for one in shown):
        notes.append(_REMOVES)
    if not found.is_complete:
        limit = "--timeout" if output.is_out_of_time else "--budget"
        notes.append(f"{found.tried} of {many(found.ways, 'way')} were tried within {limit}; a larger limit tries more")
    if found.unpredicted:
        left_out = ", ".join(" ".join(shape.words) for shape in found.unpredicted)
        notes.append(f"not predicted within --timeout, and no worse than those shown: {left_out}")
    notes += [
        f"not tried: {name}: {error.message}"
        for name, error in found.not_played.items()
        if isinstance(error, TimedOutError)
    ]
    for caveat in dict.fromkeys(caveat for one in shown for caveat in one.prediction.caveats):
        notes.append(f"note: {caveat}")
    rows: list[list[Cell]] = [
        [
            " ".join(one.shape.words),
            *_cells(one.costs),
            "yes" if one.prediction.exact else "no",
            *([one.costs.tasks_without_copy] if is_streams else []),
        ]
        for one in shown
    ]
    heading = f"{found.group.group_id}  {_asked(found)}, lowest {found.task.objective.value} first"
    columns = [*_columns("PLAN"), Column(title="EXACT")]
    columns += [Column(title="NO COPY", right=True)] if is_streams else []
    return Table(columns=columns, rows=rows, heading=heading, notes=notes)


def _sinks(found: FoundPlans) -> list[Table]:
    """Tables for the sink groups, from the best plan."""
    best = found.plans[0] if found.plans else found.closest
    return [] if best is None else sink_tables(best.prediction.sinks, found.group.group_id)


def _asked(found: FoundPlans) -> str:
    """The request, as kgm understood it."""
    base, most = found.base, found.task.max_unavailable
    if not base.restart_times_ms:
        back = f"back after {show_duration(base.restart_time_ms)}"
    else:
        back = f"back after up to {show_duration(base.longest_restart_ms)}"
    away = [] if most is None else [f"at most {most} away at a time"]
    how = ", ".join([*away, f"{base.stop.value} stop", back])
    processes = len(units_of(base.bounce, base.units))
    of = "" if not base.units else " of 1 process" if processes == 1 else f" of {processes} processes"
    return f"{many(len(base.bounce), 'member')}{of} to restart ({how})"


def _what_ifs(found: FoundPlans) -> list[Table]:
    if not found.what_ifs:
        return []
    rows: list[list[Cell]] = [
        [
            one.name,
            *_cells(one.best.costs),
            " ".join(one.best.shape.words),
            ", ".join(one.exceeded) or None,
            one.change,
        ]
        for one in found.what_ifs
    ]
    columns = [*_columns("WHAT IF"), Column(title="PLAN"), Column(title="EXCEEDS"), Column(title="NEEDS")]
    notes = [
        f"{one.name}: if {one.death.member} dies, partitions are stopped for "
        f"{one.death.stopped_partition_ms / 1000:.1f}s in total, instead of "
        f"{one.death.stopped_partition_now_ms / 1000:.1f}s now"
        for one in found.what_ifs
        if one.death is not None
    ]
    return [Table(columns=columns, rows=rows, heading="with another configuration", notes=notes)]


def _advice(advice: SessionAdvice) -> Table:
    def row(name: str, session_ms: int, quiet: int, died_ms: int) -> list[Cell]:
        return [name, show_duration(session_ms), f"{quiet}%", f"{died_ms / 1000:.1f}s"]

    death = advice.if_a_member_dies
    columns = [
        Column(title="SESSION TIMEOUT"),
        Column(title="IS", right=True),
        Column(title="MOVES NOTHING", right=True),
        Column(title="STOPPED IF ONE DIES", right=True),
    ]
    rows = [
        row("now", advice.session_timeout_now_ms, advice.quiet_percent_now, death.stopped_partition_now_ms),
        row("advised", advice.session_timeout_ms, advice.quiet_percent, death.stopped_partition_ms),
    ]
    seen = f"{many(len(advice.restart_times_ms), 'restart')} seen, up to {show_duration(max(advice.restart_times_ms))}"
    notes = [f"MOVES NOTHING: share of simulated runs; ONE: {death.member}, which has the most partitions"]
    return Table(
        columns=columns,
        rows=rows,
        heading=f"session timeout for restarts of {many(advice.members, 'static member')} ({seen})",
        notes=[*notes, *(f"note: {caveat}" for caveat in advice.caveats)],
    )
