"""`kgm history simulate-fleet`: what planned work would cost each group, ranked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.options.group_names import GroupOption, maybe_group
from kgm.cli.options.history import Group, HistoryOptions, Match, history_options
from kgm.cli.options.plan_options import Draws, Seed, plan_options
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options_with
from kgm.cli.options.words import split_words
from kgm.cli.output.history.forms import COST
from kgm.cli.output.history.rows_json import cluster_json, window_json
from kgm.cli.output.history.words import short
from kgm.cli.output.progress import progress
from kgm.cli.output.report import Cell, Column, Report, Table, emit, emit_item
from kgm.model.errors import UsageError
from kgm.model.forms.json_form import as_json
from kgm.operations.bounce.request import BounceRequest
from kgm.text.wording import many, typed

if TYPE_CHECKING:
    from kgm.history.store.final_state import FinalGroup
    from kgm.operations.drain.target import DrainTarget
    from kgm.operations.history.source import History
    from kgm.simulation.fleet import FleetCost, FleetPlan
    from kgm.simulation.report.prediction import Range

_SCHEMA = "kgm.history-simulate-fleet/v1"
#: The columns of csv and tsv.
_KEYS = (
    "group_id", "scenario", "members", "static_members", "partitions",
    "rebalances=rebalances.median", "rebalances.min", "rebalances.max",
    "moved_partitions=moved_partitions.median", "moved_partitions.min", "moved_partitions.max",
    "handovers=handovers.median", "handovers.min", "handovers.max",
    "stopped_partition_ms=stopped_partition_ms.median", "stopped_partition_ms.min", "stopped_partition_ms.max",
    "exact", "worst", "assignor", "reason",
)  # fmt: skip


@cluster_options_with("Time limit for reading the live topic (30s); if given on the command line, for everything.")
@history_options
@plan_options("restart_time_ms", "settings")
def simulate_fleet(
    *,
    group: Group = None,
    group_option: GroupOption = None,
    match: Match = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario",
            metavar="NAME",
            help="rolling | each | scale-in | drain; repeatable or a,b. [rolling; drain with --host]",
        ),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="ADDRESS", help="Drain: members at this address, network or glob; repeatable."),
    ] = None,
    rack: Annotated[
        list[str] | None, typer.Option("--rack", metavar="RACK", help="Drain: members in this rack; repeatable.")
    ] = None,
    request: BounceRequest,
    draws: Draws = 5,
    seed: Seed = 1,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="Only the N most expensive.")] = None,
    options: HistoryOptions,
    common: RunOptions,
) -> None:
    """Simulate a planned bounce of every group as it is at the end of the history (or at --until); rank groups by cost.

    rolling: every member restarts, one after another. each: one member restarts, each in turn; MOVED, HANDOVERS and
    STOPPED show the median and the range over all members. scale-in: one member stops and stays away, each in turn.
    drain: all members on --host and in --rack restart together; groups without such members are left out. MOVED
    counts the partitions whose owner at the end differs from the one at the start; HANDOVERS counts each time a
    partition passes from one member to another. Uses Spark with --master or for many groups, otherwise this
    process. A group that cannot be simulated, or is not reached before --timeout (if given), is listed with the
    reason. With -o ndjson, each group is printed as soon as it is simulated, not ranked, unless there is a --limit
    or Spark is used."""
    ends_at_s = None if common.given_timeout_ms is None else time.time() + common.given_timeout_ms / 1000
    from kgm.operations.history.fleet_costs import groups_to_simulate, uses_spark
    from kgm.simulation.fleet import FleetPlan

    name = maybe_group(group, group_option)
    if draws < 1:
        raise UsageError(f"--draws is {draws}; the minimum is 1")
    target = _target(host, rack)
    default = ("rolling",) if target is None else ("drain",)
    plan = FleetPlan(
        scenarios=tuple(dict.fromkeys(split_words(scenario))) or default,
        restart_time_ms=request.restart_time_ms,
        draws=draws,
        seed=seed,
        settings=request.settings,
        target=target,
        ends_at_s=ends_at_s,
    )
    history = options.open(common)
    groups = groups_to_simulate(history, name, match)
    if target is not None:
        _require_members(target, groups, history)
    streams = common.output == "ndjson" and limit is None and not uses_spark(groups, options.spark_options())
    costs = _costs(groups, plan, options, common, streams=streams)
    if streams:
        return
    shown = costs if limit is None else costs[:limit]
    items = [as_json(cost, COST) for cost in shown]
    plan_json = {
        "scenarios": list(plan.scenarios), "restart_time_ms": plan.restart_time_ms, "draws": draws, "seed": seed,
        "settings": dict(plan.settings), "hosts": list(host or ()), "racks": list(rack or ()),
    }  # fmt: skip
    emit(
        Report(
            schema=_SCHEMA, data={"window": window_json(history), "plan": plan_json, "costs": items},
            tables=[_table(shown, len(costs), history)], names=list(dict.fromkeys(cost.group_id for cost in shown)),
            keys=_KEYS, items=items, cluster=cluster_json(history),
        ),
        common,
    )  # fmt: skip


def _target(hosts: Sequence[str] | None, racks: Sequence[str] | None) -> DrainTarget | None:
    from kgm.operations.drain.target import DrainTarget, with_addresses

    if not hosts and not racks:
        return None
    return DrainTarget(hosts=with_addresses(hosts or ()), racks=tuple(racks or ()))


def _require_members(target: DrainTarget, groups: Sequence[FinalGroup], history: History) -> None:
    """Raises NotFoundError if no member of any group is in the target; see `History.lacks`."""
    members = [member for group in groups for member in group.snapshot.members]
    if target.taken_from(members):
        return
    unmatched = ", ".join(target.unmatched(members))
    raise history.lacks(
        f"no member of {many(len(groups), 'group')} matches {unmatched or '--host and --rack together'}",
        hint=f"see the hosts of its members: {history.command('timeline', 'GROUP')}",
    )


def _costs(
    groups: Sequence[FinalGroup], plan: FleetPlan, options: HistoryOptions, common: RunOptions, *, streams: bool
) -> list[FleetCost]:
    """The costs of all groups. streams: whether the costs of each group are written as soon as they are known."""
    from kgm.operations.history.fleet_costs import fleet_costs
    from kgm.simulation.draws.executor import ParallelDrawExecutor

    with progress(common, "simulating") as line, ParallelDrawExecutor() as executor:

        def count(done: int, costs: Sequence[FleetCost]) -> None:
            line.count(done, len(groups))
            for cost in costs if streams else ():
                line.hide()
                emit_item(as_json(cost, COST))

        return fleet_costs(groups, plan, spark=options.spark_options(), on_group=count, executor=executor)


def _table(costs: Sequence[FleetCost], count: int, history: History) -> Table:
    has_worst, has_reasons = any(cost.worst for cost in costs), any(cost.reason for cost in costs)
    columns = [
        Column(title="GROUP"), Column(title="SCENARIO"), Column(title="MEMBERS", right=True),
        Column(title="STATIC", right=True), Column(title="PARTITIONS", right=True),
        Column(title="REBALANCES", right=True), Column(title="MOVED", right=True),
        Column(title="HANDOVERS", right=True), Column(title="STOPPED", right=True),
        Column(title="EXACT"), *([Column(title="WORST")] if has_worst else []), Column(title="ASSIGNOR", wide=True),
        *([Column(title="NOT SIMULATED BECAUSE")] if has_reasons else []),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            cost.group_id, cost.scenario, cost.members, cost.static_members, cost.partitions,
            _spread(cost.rebalances), _spread(cost.moved_partitions), _spread(cost.handovers),
            _seconds(cost.stopped_partition_ms),
            None if cost.exact is None else "yes" if cost.exact else "no",
            *([cost.worst and short(cost.worst)] if has_worst else []), cost.assignor,
            *([cost.reason] if has_reasons else []),
        ]
        for cost in costs
    ]  # fmt: skip
    notes = [f"and {count - len(costs)} more"] if count > len(costs) else []
    notes.append("STOPPED: partition-seconds without a consumer. 2 (1-3): median (min-max).")
    simulated = [cost for cost in costs if cost.reason is None]
    if simulated:
        notes.append(f"next: kgm simulate-bounce {typed(simulated[0].group_id)} --all --rolling --compare")
    late = sum(cost.is_late for cost in costs)
    if late:
        notes.append(f"{many(late, 'row')} could not be simulated within --timeout")
    if len(simulated) + late < len(costs):
        notes.append(f"{many(len(costs) - len(simulated) - late, 'row')} could not be simulated")
    return Table(columns=columns, rows=rows, heading=f"simulated costs, from {history.source.option}", notes=notes)


def _spread(spread: Range | None) -> str | None:
    if spread is None:
        return None
    return f"{spread.median} ({spread.min}-{spread.max})" if spread.min != spread.max else f"{spread.median}"


def _seconds(spread: Range | None) -> str | None:
    if spread is None:
        return None
    median = f"{spread.median / 1000:.1f}s"
    return f"{median} ({spread.min / 1000:.1f}-{spread.max / 1000:.1f})" if spread.min != spread.max else median
