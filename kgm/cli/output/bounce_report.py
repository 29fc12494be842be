"""What `kgm simulate-bounce` says: a row a scenario, the moves, and what happens when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kgm.cli.output.report import Cell, Column, Report, Table
from kgm.model.errors import KgmError

if TYPE_CHECKING:
    from kgm.model.snapshot import GroupSnapshot
    from kgm.simulation.plan.bounce_plan import Plan
    from kgm.simulation.report.report import Scenario

SCHEMA = "kgm.simulate-bounce/v1"
_MOVES_SHOWN = 40
_CONSUMER_WORDS = (
    "Protocol consumer: REBALANCES are new target assignments, GENERATIONS group epochs; only movers stop."
)
_EVENTS_SHOWN = 40


def report(
    snapshot: GroupSnapshot,
    plan: Plan,
    scenarios: Sequence[Scenario],
    errors: Sequence[KgmError],
    where: dict[str, str | None] | None,
) -> Report:
    """The report: a row a scenario, and the moves of the plan as it stands."""
    jsons = [scenario.to_json() for scenario in scenarios]
    return Report(
        schema=SCHEMA,
        data={"group_id": snapshot.group_id, "plan": plan.to_json(), "scenarios": jsons},
        tables=[
            _summary(snapshot, plan, scenarios),
            *_moves(scenarios[0]),
            *(_timeline(scenario) for scenario in (scenarios[0], *_standby(scenarios))),
        ],
        names=[scenario.name for scenario in scenarios],
        items=jsons,
        cluster=where,
        errors=errors,
    )


def _summary(snapshot: GroupSnapshot, plan: Plan, scenarios: Sequence[Scenario]) -> Table:
    comes = bool(plan.scale_out)
    mixed = len({scenario.protocol for scenario in scenarios}) > 1
    refuses = any(scenario.typical.refused_joins for scenario in scenarios)
    columns = [
        Column(title="SCENARIO"),
        *([Column(title="PROTOCOL")] if mixed else []),
        Column(title="ASSIGNOR"),
        Column(title="REBALANCES", right=True),
        Column(title="GENERATIONS", right=True),
        Column(title="MOVED", right=True),
        Column(title="STOPPED", right=True),
        *([Column(title="NEW WAIT", right=True)] if comes else []),
        *([Column(title="REFUSED", right=True)] if refuses else []),
        Column(title="EXACT"),
        Column(title="DRAWS", wide=True, right=True),
    ]
    rows: list[list[Cell]] = []
    for scenario in scenarios:
        typical, ranges = scenario.typical, scenario.ranges
        rows.append(
            [
                scenario.name,
                *([scenario.protocol] if mixed else []),
                scenario.assignor,
                _spread(typical.rebalances, ranges and ranges.rebalances),
                _spread(typical.generations, ranges and ranges.generations),
                _spread(typical.moved_partitions, ranges and ranges.moved_partitions),
                f"{typical.stopped_partition_ms / 1000:.1f}s",
                *([_seconds(typical.newcomers_wait_ms)] if comes else []),
                *([typical.refused_joins] if refuses else []),
                "yes" if scenario.exact else "no",
                None if ranges is None else ranges.draws,
            ]
        )
    notes = ["STOPPED: time without a consumer, added up over partitions. 2 (1-3): typical, and from least to most."]
    notes += ["NEW WAIT: the longest from the start of a new member to its first partitions."] if comes else []
    notes += [_CONSUMER_WORDS] if any(scenario.protocol == "consumer" for scenario in scenarios) else []
    notes += ["REFUSED: starts that the broker turned away."] if refuses else []
    notes += [f"note: {caveat}" for caveat in scenarios[0].caveats]
    notes += [
        f"note ({scenario.name}): {caveat}"
        for scenario in _standby(scenarios)
        for caveat in scenario.caveats
        if caveat not in scenarios[0].caveats
    ]
    return Table(columns=columns, rows=rows, heading=f"{snapshot.group_id}  {in_words(plan)}", notes=notes)


def _standby(scenarios: Sequence[Scenario]) -> list[Scenario]:
    return [scenario for scenario in scenarios if scenario.name == "standby"]


def _seconds(span_ms: int | None) -> str | None:
    return None if span_ms is None else f"{span_ms / 1000:.1f}s"


def in_words(plan: Plan) -> str:
    """The plan as one line."""
    from kgm.text.durations import show_duration

    parts = []
    if plan.bounce:
        how = "together" if plan.rolling is None else f"rolling, {plan.rolling.max_unavailable} at a time"
        back = show_duration(plan.restart_time_ms)
        again = (
            "" if plan.retry_every_ms is None else f", refused ones again every {show_duration(plan.retry_every_ms)}"
        )
        back += " with the consumer protocol" if plan.migrate else ""
        parts.append(f"{len(plan.bounce)} bounce ({how}, {plan.stop.value} stop, back after {back}{again})")
    parts += [f"{len(plan.scale_in)} stay away"] if plan.scale_in else []
    parts += [f"{len(plan.remove)} are removed"] if plan.remove else []
    every = f" (one every {show_duration(plan.scale_out_every_ms)})" if plan.scale_out_every_ms else ""
    parts += [f"{plan.scale_out} come{every}"] if plan.scale_out else []
    return ", ".join(parts)


def _spread(typical: int, found: Any) -> str:
    return f"{typical} ({found.min}-{found.max})" if found is not None and found.min != found.max else str(typical)


def _moves(scenario: Scenario) -> list[Table]:
    columns = [
        Column(title="TOPIC"),
        Column(title="PARTITION", right=True),
        Column(title="FROM"),
        Column(title="TO"),
        Column(title="AT", right=True),
    ]
    moves = scenario.typical.moves
    rows: list[list[Cell]] = [
        [move.topic, move.partition, move.owner_before, move.owner_after, f"{move.at_ms / 1000:.1f}s"]
        for move in moves[:_MOVES_SHOWN]
    ]
    return [Table(columns=columns, rows=rows, heading="moves", notes=_more(moves, _MOVES_SHOWN))] if moves else []


def _timeline(scenario: Scenario) -> Table:
    columns = [Column(title="AT", right=True), Column(title="EVENT"), Column(title="MEMBER"), Column(title="DETAIL")]
    events = scenario.typical.timeline
    rows: list[list[Cell]] = [
        [f"{event.at_ms / 1000:.1f}s", event.event, event.member, event.detail] for event in events[:_EVENTS_SHOWN]
    ]
    heading = "timeline" if scenario.name == "as-is" else f"timeline of {scenario.name}"
    return Table(columns=columns, rows=rows, heading=heading, notes=_more(events, _EVENTS_SHOWN))


def _more(rows: Sequence[object], shown: int) -> list[str]:
    return [f"and {len(rows) - shown} more: -o json has them all"] if len(rows) > shown else []
