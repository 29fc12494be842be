"""What planned work would cost each group of a history: simulated in this process, or on Spark for many groups."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kgm.operations.history.group_rows import matching
from kgm.operations.history.source import History, extra_needed
from kgm.pipeline.options import SparkOptions

if TYPE_CHECKING:
    from kgm.history.store.final_state import FinalGroup
    from kgm.simulation.draws.executor import DrawExecutor
    from kgm.simulation.fleet import FleetPlan

#: So many groups are simulated in this process: for fewer, starting Spark is not worth it.
MOST_IN_PROCESS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Of what differs between draws, and between members that are simulated in turn."""

    min: int
    median: int
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCost:
    """One group and scenario. reason: why the group could not be simulated; then the costs are None. worst: the member
    whose stop costs most; played: how many members were simulated."""

    group_id: str
    scenario: str
    assignor: str | None
    members: int | None
    static_members: int | None
    partitions: int | None
    session_timeout_ms: int | None
    rebalances: Spread | None
    moved_partitions: Spread | None
    handovers: Spread | None
    stopped_partition_ms: Spread | None
    exact: bool | None
    worst: str | None
    played: int | None
    caveats: tuple[str, ...]
    reason: str | None

    @property
    def is_late(self) -> bool:
        """Whether the time was over before the group could be simulated."""
        from kgm.simulation.fleet import OUT_OF_TIME

        return self.reason == OUT_OF_TIME


def groups_to_simulate(history: History, group_id: str | None, match: str | None) -> "list[FinalGroup]":
    """Each group as the history ends with it. Raises NotFoundError for a group that is not there."""
    with extra_needed():
        from kgm.history.store.final_state import final_groups

        groups = [
            group
            for group in final_groups(history.tables, history.filter(group_id))
            if matching([group.snapshot], match)
        ]
        if group_id is not None and not groups:
            history.require_group(group_id)
        return groups


def uses_spark(groups: "Sequence[FinalGroup]", spark: SparkOptions) -> bool:
    """Whether the groups are simulated on Spark."""
    return spark.master is not None or len(groups) > MOST_IN_PROCESS


def fleet_costs(
    groups: "Sequence[FinalGroup]", plan: "FleetPlan", *, spark: SparkOptions | None = None,
    on_group: Callable[[int, Sequence[FleetCost]], None] = lambda _done, _costs: None,
    executor: "DrawExecutor | None" = None,
) -> list[FleetCost]:  # fmt: skip
    """What the plan costs each group, the most expensive first. spark: how to start Spark, which is used for many
    groups or if it names a master. on_group: in this process, called with the number of groups done, and with what the
    last one costs. executor: plays the groups, unless that is Spark."""
    from kgm.simulation.draws.executor import HERE
    from kgm.simulation.fleet import all_cost_rows, ranked

    spark = spark or SparkOptions()
    if uses_spark(groups, spark):
        return [_cost(row) for row in ranked(_on_spark(groups, plan, spark))]
    rows: list[dict[str, Any]] = []
    played = all_cost_rows([group.to_json() for group in groups], plan, executor or HERE)
    for number, found in enumerate(played):
        rows += found
        on_group(number + 1, [*map(_cost, found)])
    return [_cost(row) for row in ranked(rows)]


def _on_spark(groups: "Sequence[FinalGroup]", plan: "FleetPlan", options: SparkOptions) -> list[dict[str, Any]]:
    """A group is a row of JSON, so what crosses over is what `kgm describe` prints."""
    from kgm.simulation.fleet import COLUMNS, cost_rows_of_text

    with extra_needed():
        from kgm.pipeline import jobs, start
        from kgm.pipeline.row_function import rowwise, schema_of

        spark = start(options)
        try:
            texts = [(group.snapshot.group_id, json.dumps(group.to_json())) for group in groups]
            frame = spark.createDataFrame(texts, "group_id string, group string")
            rows_of = rowwise(partial(cost_rows_of_text, plan=plan), COLUMNS)
            return [row.asDict() for row in jobs.map_groups(frame, rows_of, schema_of(COLUMNS)).collect()]
        finally:
            spark.stop()


def _cost(row: Mapping[str, Any]) -> FleetCost:
    def spread(name: str) -> Spread | None:
        if row[name] is None:
            return None
        return Spread(min=row[f"{name}_min"], median=row[name], max=row[f"{name}_max"])

    return FleetCost(
        group_id=row["group_id"], scenario=row["scenario"], assignor=row["assignor"], members=row["members"],
        static_members=row["static_members"], partitions=row["partitions"],
        session_timeout_ms=row["session_timeout_ms"], rebalances=spread("rebalances"), moved_partitions=spread("moved"),
        handovers=spread("handovers"), stopped_partition_ms=spread("stopped_partition_ms"), exact=row["exact"],
        worst=row["worst"], played=row["played"], caveats=tuple(row["caveats"] or ()), reason=row["reason"],
    )  # fmt: skip
