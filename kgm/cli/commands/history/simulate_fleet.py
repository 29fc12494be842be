"""`kgm history simulate-fleet`: what planned work would cost each group, ranked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.commands.history.capture_build import spark_options
from kgm.cli.commands.history.question import (
    Group,
    GroupOption,
    Match,
    check_group,
    maybe_group,
    warn_of_damage,
    window_json,
)
from kgm.cli.commands.history.question import cluster_of as cluster_of_tables
from kgm.cli.commands.history.rows import Json, short
from kgm.cli.commands.history.source import Where, of_history
from kgm.cli.options.broker_settings import parse_settings
from kgm.cli.options.extras import extra_needed
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.progress import progress
from kgm.cli.output.report import Cell, Column, Report, Table, emit
from kgm.model.errors import UsageError
from kgm.text.durations import parse_duration
from kgm.text.wording import many, typed

if TYPE_CHECKING:
    from kgm.simulation.fleet import FleetPlan

SCHEMA = "kgm.history-simulate-fleet/v1"
#: So many groups are simulated in this process; more go to Spark, whose start is not worth it for fewer.
IN_PROCESS = 300


@cluster_options
@of_history
def simulate_fleet(
    *,
    group: Group = None,
    group_option: GroupOption = None,
    match: Match = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option("--scenario", metavar="NAME", help="rolling | each | scale-in; repeatable or a,b. [rolling]"),
    ] = None,
    restart_time: Annotated[
        str, typer.Option("--restart-time", metavar="DURATION", help="From a member's stop to its start.")
    ] = "10s",
    draws: Annotated[int, typer.Option("--draws", metavar="N", help="How often to play what is left to chance.")] = 5,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed, the same answer.")] = 1,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="BROKER.KEY=VALUE", help="A broker setting; repeatable.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="Only the N costliest.")] = None,
    where: Where,
    common: RunOptions,
) -> None:
    """Play a planned bounce on every group as the history ends with it (or --until), and rank them by cost.

    rolling: every member restarts, one after another. each: one member restarts, each in turn; MOVED and STOPPED have
    the middle one and the range over all. scale-in: one stops and stays away, likewise. On Spark with --master or for
    many groups, otherwise in this process. A group that cannot be played is listed with the reason."""
    from kgm.simulation.fleet import FleetPlan, ranked

    name = maybe_group(group, group_option)
    if draws < 1:
        raise UsageError(f"--draws is {draws}, the lowest is 1")
    plan = FleetPlan(
        scenarios=_words(scenario) or ("rolling",), restart_time_ms=parse_duration(restart_time, "--restart-time"),
        draws=draws, seed=seed, settings=parse_settings(settings or ()),
    )  # fmt: skip
    with where.tables() as tables:
        from kgm.history.store.final_state import end_groups

        groups = list(_wanted(end_groups(tables, where.asked(name)), match))
        if name is not None and not groups:
            check_group(tables, where, name)
        window, cluster_json = window_json(tables, where), cluster_of_tables(tables)
        warn_of_damage(tables, common)
    found = ranked(_play(groups, plan, where, common))
    shown = [_cost_json(row) for row in (found if limit is None else found[:limit])]
    plan_json = {
        "scenarios": list(plan.scenarios), "restart_time_ms": plan.restart_time_ms, "draws": draws, "seed": seed,
        "settings": dict(plan.settings),
    }  # fmt: skip
    emit(
        Report(
            schema=SCHEMA, data={"window": window, "plan": plan_json, "costs": shown},
            tables=[_table(shown, len(found), where)], names=list(dict.fromkeys(each["group_id"] for each in shown)),
            items=shown, cluster=cluster_json,
        ),
        common,
    )  # fmt: skip


def _words(values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for value in values or () for word in value.split(",") if word.strip()))


def _wanted(groups: Iterator[Json], pattern: str | None) -> Iterator[Json]:
    import fnmatch

    return (each for each in groups if pattern is None or fnmatch.fnmatchcase(each["group_id"], pattern))


def _play(groups: Sequence[Json], plan: FleetPlan, where: Where, common: RunOptions) -> list[Json]:
    """The rows, in no order."""
    from kgm.simulation.fleet import cost_rows

    if where.master is not None or len(groups) > IN_PROCESS:
        return _on_spark(groups, plan, where)
    with progress(common, "simulating") as line:
        found: list[Json] = []
        for number, group in enumerate(groups):
            line.count(number, len(groups))
            found += cost_rows(group, plan)
    return found


def _on_spark(groups: Sequence[Json], plan: FleetPlan, where: Where) -> list[Json]:
    """A group is a row of JSON, so that what crosses over is what `kgm describe` prints."""
    from functools import partial

    from kgm.simulation.fleet import COLUMNS, cost_rows_of_text

    with extra_needed():
        from kgm.history.store.row_function import rowwise, schema_of
        from kgm.pipeline import jobs, start

        spark = start(spark_options(where))
        try:
            texts = [(group["group_id"], json.dumps(group)) for group in groups]
            frame = spark.createDataFrame(texts, "group_id string, group string")
            rows_of = rowwise(partial(cost_rows_of_text, plan=plan), COLUMNS)
            return [row.asDict() for row in jobs.map_groups(frame, rows_of, schema_of(COLUMNS)).collect()]
        finally:
            spark.stop()


def _cost_json(row: Mapping[str, Any]) -> Json:
    """One of `costs`; a reason says why a group could not be played, and then what it would cost is null."""

    def spread(name: str) -> Json | None:
        if row[name] is None:
            return None
        return {"min": row[f"{name}_min"], "median": row[name], "max": row[f"{name}_max"]}

    return {
        "group_id": row["group_id"], "scenario": row["scenario"], "assignor": row["assignor"],
        "members": row["members"], "static_members": row["static_members"], "partitions": row["partitions"],
        "session_timeout_ms": row["session_timeout_ms"], "rebalances": spread("rebalances"),
        "moved_partitions": spread("moved"), "stopped_partition_ms": spread("stopped_partition_ms"),
        "exact": row["exact"], "worst": row["worst"], "played": row["played"], "caveats": list(row["caveats"] or ()),
        "reason": row["reason"],
    }  # fmt: skip


def _table(costs: Sequence[Json], count: int, where: Where) -> Table:
    columns = [
        Column(title="GROUP"), Column(title="SCENARIO"), Column(title="MEMBERS", right=True),
        Column(title="STATIC", right=True), Column(title="PARTITIONS", right=True),
        Column(title="REBALANCES", right=True), Column(title="MOVED", right=True), Column(title="STOPPED", right=True),
        Column(title="EXACT"), Column(title="WORST", data=not any(each["worst"] for each in costs)),
        Column(title="ASSIGNOR", wide=True),
        Column(title="NOT PLAYED BECAUSE", data=not any(each["reason"] for each in costs)),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            each["group_id"], each["scenario"], each["members"], each["static_members"], each["partitions"],
            _spread(each["rebalances"]), _spread(each["moved_partitions"]), _seconds(each["stopped_partition_ms"]),
            None if each["exact"] is None else "yes" if each["exact"] else "no",
            each["worst"] and short(each["worst"]), each["assignor"], each["reason"],
        ]
        for each in costs
    ]  # fmt: skip
    notes = [f"and {count - len(costs)} more"] if count > len(costs) else []
    notes.append("STOPPED: time without a consumer, added up over partitions. 2 (1-3): the middle, and least to most.")
    played = [each for each in costs if each["reason"] is None]
    if played:
        notes.append(f"next: kgm simulate-bounce {typed(played[0]['group_id'])} --all --rolling --compare")
    if len(played) < len(costs):
        notes.append(f"{many(len(costs) - len(played), 'row')} could not be played")
    return Table(columns=columns, rows=rows, heading=f"what it would cost, from {where.text}", notes=notes)


def _spread(found: Json | None) -> str | None:
    if found is None:
        return None
    return (
        f"{found['median']} ({found['min']}-{found['max']})" if found["min"] != found["max"] else f"{found['median']}"
    )


def _seconds(found: Json | None) -> str | None:
    if found is None:
        return None
    middle = f"{found['median'] / 1000:.1f}s"
    return f"{middle} ({found['min'] / 1000:.1f}-{found['max'] / 1000:.1f})" if found["min"] != found["max"] else middle
