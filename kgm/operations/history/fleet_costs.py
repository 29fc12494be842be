"""What planned work would cost each group of a history, simulated in this process, or on Spark if there are many
groups."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from kgm.operations.history.group_rows import matching
from kgm.operations.history.source import History, extra_needed
from kgm.pipeline.options import SparkOptions

if TYPE_CHECKING:
    from kgm.history.store.final_state import FinalGroup
    from kgm.simulation.draws.executor import DrawExecutor
    from kgm.simulation.fleet import FleetCost, FleetPlan

#: Up to this many groups are simulated in this process; starting Spark is not worth it for fewer.
MOST_IN_PROCESS = 300


def groups_to_simulate(history: History, group_id: str | None, match: str | None) -> "list[FinalGroup]":
    """The state of each group at the end of the history. Raises NotFoundError for a group that does not exist."""
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
    on_group: Callable[[int, "Sequence[FleetCost]"], None] = lambda _done, _costs: None,
    executor: "DrawExecutor | None" = None,
) -> "list[FleetCost]":  # fmt: skip
    """What the plan costs each group, the most expensive first. spark: how to start Spark, which is used for many
    groups or if it names a master. on_group: called in this process with the number of groups done, and with the costs
    of the last one. executor: simulates the groups, unless Spark does."""
    from kgm.simulation.draws.executor import HERE
    from kgm.simulation.fleet import FleetCost, costs_of_groups

    def ranked(costs: list[FleetCost]) -> list[FleetCost]:
        return sorted(costs, key=lambda cost: cost.rank)

    spark = spark or SparkOptions()
    if uses_spark(groups, spark):
        return ranked(_on_spark(groups, plan, spark))
    costs: list[FleetCost] = []
    played = costs_of_groups([group.to_json() for group in groups], plan, executor or HERE)
    for number, found in enumerate(played):
        costs += found
        on_group(number + 1, found)
    return ranked(costs)


def _on_spark(groups: "Sequence[FinalGroup]", plan: "FleetPlan", options: SparkOptions) -> "list[FleetCost]":
    """Simulate the groups on Spark. Groups are passed to Spark as the JSON that `kgm describe` prints; the costs come
    back as JSON, too."""
    from kgm.simulation.fleet import FleetCost

    with extra_needed():
        from kgm.pipeline import jobs, start

        spark = start(options)
        try:
            texts = [(group.snapshot.group_id, json.dumps(group.to_json())) for group in groups]
            frame = spark.createDataFrame(texts, "group_id string, text string")
            costs = jobs.map_texts(frame, partial(costs_as_text, plan=plan))
            return [msgspec.json.decode(cost, type=FleetCost) for cost in costs]
        finally:
            spark.stop()


def costs_as_text(group: str, plan: "FleetPlan") -> list[str]:
    """What the plan costs a group, one JSON text per scenario. group: as JSON."""
    from kgm.simulation.fleet import group_costs

    return [msgspec.json.encode(cost).decode() for cost in group_costs(json.loads(group), plan)]
