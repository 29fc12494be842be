"""What planned work would cost each group of a fleet: one row for each group and scenario.

A scenario is simulated like any other plan (`bounce`), for groups as they were described or as they are at the end of a
history. Nothing here knows of Spark: `cost_rows` takes a group and returns rows of plain values, so that it runs in a
loop as well as on a worker. The row of a group that cannot be simulated (it is rebalancing or migrating, or kgm does
not know its assignor) has the reason.

    rolling    every member restarts, one after another
    each       one member restarts: each in turn, from the same start; the row has the worst and the median one
    scale-in   one member stops and stays away: each in turn, likewise
    drain      the members of a target restart, all together; a group that has none of them gets no row"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from statistics import median_low
from typing import Any, Protocol

from kgm.model.assignment import count
from kgm.model.errors import KgmError, TimedOutError, UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.snapshot_json import snapshot_from_json
from kgm.simulation.bounce import simulate
from kgm.simulation.draws.executor import HERE, DrawExecutor
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan, Rolling, WhatIf
from kgm.simulation.plan.starting_group import starting_group_of
from kgm.simulation.report.prediction import Prediction, Range
from kgm.simulation.shape import MOST_MEMBERS, PlayedShapes
from kgm.simulation.simulation import SEED, never

DRAIN = "drain"
SCENARIOS = ("rolling", "each", "scale-in", DRAIN)
#: A fleet has many groups: fewer draws than for one of them.
DRAWS = 5
#: Where each member is simulated in turn: of a larger group only so many members, evenly spread.
MOST_IN_TURN = 20
#: So many groups go to another process at once.
_AT_ONCE = 8
#: The columns of a row and their SQL types. What differs between draws (and between members simulated in turn) has
#: minimum, median and maximum. `worst` is the member whose stop costs most.
COLUMNS = (
    ("group_id", "string"), ("scenario", "string"), ("assignor", "string"), ("members", "int"),
    ("static_members", "int"), ("partitions", "int"), ("session_timeout_ms", "bigint"),
    ("rebalances_min", "int"), ("rebalances", "int"), ("rebalances_max", "int"),
    ("moved_min", "int"), ("moved", "int"), ("moved_max", "int"),
    ("handovers_min", "int"), ("handovers", "int"), ("handovers_max", "int"),
    ("stopped_partition_ms_min", "bigint"), ("stopped_partition_ms", "bigint"), ("stopped_partition_ms_max", "bigint"),
    ("exact", "boolean"), ("worst", "string"), ("played", "int"), ("caveats", "array<string>"), ("reason", "string"),
)  # fmt: skip
#: The columns with minimum, median and maximum, and what they are of a draw.
_MEASURES = (
    ("rebalances", "rebalances"), ("moved", "moved_partitions"), ("handovers", "handovers"),
    ("stopped_partition_ms", "stopped_partition_ms"),
)  # fmt: skip
#: Why a group has not been simulated when the time is over.
OUT_OF_TIME = "the time limit (--timeout) has passed before the group was simulated"
_NO_ORDER = (
    "the order in which the broker lists the group is not known: its records were not seen from its beginning on, a "
    "coordinator has loaded them after members had left, or the history was built by an older kgm (build it again)"
)
Row = dict[str, Any]


class MemberTarget(Protocol):
    """Members by where they run."""

    def takes(self, member: MemberSnapshot) -> bool:
        """Whether it is one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """What is simulated for each group. settings: the broker's, as in `kgm simulate-bounce --set`. target: who restarts
    in a drain. ends_at_s: when the time is over, in seconds since the epoch, because groups may be simulated on other
    machines; None: never."""

    scenarios: tuple[str, ...] = ("rolling",)
    restart_time_ms: int = 10_000
    draws: int = DRAWS
    seed: int = SEED
    settings: Mapping[str, str] = field(default_factory=dict)
    target: MemberTarget | None = None
    ends_at_s: float | None = None

    def is_out_of_time(self) -> bool:
        return self.ends_at_s is not None and time.time() >= self.ends_at_s

    def __post_init__(self) -> None:
        if DRAIN in self.scenarios and self.target is None:
            raise UsageError("--scenario drain: no members selected", hint="--host 10.0.3.17, or --rack a")
        for name in self.scenarios:
            if name not in SCENARIOS:
                raise UsageError(f"--scenario: {name!r} is not one of {', '.join(SCENARIOS)}")


#: What this process has played, whichever part of a fleet it was given.
_SHAPES = PlayedShapes()


def cost_rows(group: Mapping[str, Any], plan: FleetPlan, executor: DrawExecutor = HERE) -> Iterator[Row]:
    """A row for each scenario, without a drain of a group that has no member of the target. An error is the `reason` of
    a row and is not raised.

    group: as `kgm describe -o json` prints it, with `unplayable` if its source knows why it cannot be simulated."""
    for scenario in plan.scenarios:
        row = dict.fromkeys(name for name, _ in COLUMNS)
        row |= {"group_id": str(group.get("group_id")), "scenario": scenario, "caveats": []}
        row["reason"] = group.get("unplayable")
        try:
            snapshot = snapshot_from_json(group)
            if scenario == DRAIN and not _drained(snapshot, plan):
                continue
            row |= _described(snapshot)
            if row["reason"] is None and plan.is_out_of_time():
                row["reason"] = OUT_OF_TIME
            elif row["reason"] is None:
                starting_group_of(snapshot, WhatIf())  # refuses what cannot be simulated
                row |= _as_far_as_listed(snapshot, _costs(snapshot, scenario, plan, executor))
        except TimedOutError:
            row["reason"] = OUT_OF_TIME
        except KgmError as error:
            row["reason"] = error.message
        except Exception as error:  # noqa: BLE001  (one group of a fleet must not end the job for the others)
            row["reason"] = f"internal error: {type(error).__name__}: {error}"
        yield row


@dataclass(frozen=True, slots=True)
class FleetPlayer:
    """Plays groups of a fleet, several at a time (`draws.task.Playable`)."""

    plan: FleetPlan

    def play_task(self, task: Sequence[Mapping[str, Any]]) -> list[list[Row]]:
        return [list(cost_rows(group, self.plan)) for group in task]

    def in_process(self, parent_pid: int) -> "FleetPlayer":  # noqa: ARG002  (what it plays is small)
        return self


def all_cost_rows(
    groups: Sequence[Mapping[str, Any]], plan: FleetPlan, executor: DrawExecutor = HERE
) -> Iterator[list[Row]]:
    """The `cost_rows` of each group, in order: small groups each on one core, and large ones on all of them."""
    are_small = [len(group.get("members") or ()) <= MOST_MEMBERS for group in groups]
    at = 0
    for is_small, run in groupby(are_small):
        some = groups[at : at + len(list(run))]
        at += len(some)
        if is_small:
            tasks = [some[first : first + _AT_ONCE] for first in range(0, len(some), _AT_ONCE)]
            for rows in executor.play(FleetPlayer(plan), tasks, never):  # each group looks at the time itself
                yield from rows
        else:
            yield from (list(cost_rows(group, plan, executor)) for group in some)


def cost_rows_of_text(row: Mapping[str, Any], plan: FleetPlan) -> Iterator[Row]:
    """`cost_rows` for a row whose column `group` is the group as JSON."""
    return cost_rows(json.loads(row["group"]), plan)


def ranked(rows: Sequence[Row]) -> list[Row]:
    """The most expensive first: by stopped time, then moves, then rebalances. Rows with a reason are last."""

    def cost(row: Row) -> tuple[object, ...]:
        known = row["reason"] is None
        numbers = [-(row[name] or 0) for name in ("stopped_partition_ms", "moved", "rebalances")]
        return (not known, *numbers, row["group_id"], row["scenario"])

    return sorted(rows, key=cost)


def _described(snapshot: GroupSnapshot) -> Row:
    return {
        "assignor": snapshot.assignor,
        "members": len(snapshot.members),
        "static_members": sum(member.group_instance_id is not None for member in snapshot.members),
        "partitions": sum(count(member.assignment) for member in snapshot.members),
        "session_timeout_ms": snapshot.session_timeout_ms,
    }


def _costs(snapshot: GroupSnapshot, scenario: str, plan: FleetPlan, executor: DrawExecutor) -> Row:
    """Raises KgmError for a group that cannot be simulated."""
    play = partial(
        simulate, snapshot, draws=plan.draws, seed=plan.seed, executor=executor, shapes=_SHAPES,
        is_out_of_time=plan.is_out_of_time,
    )  # fmt: skip
    identities = [member.identity for member in snapshot.members]
    if not identities:
        return {"reason": "the group has no members"}
    if scenario == "rolling":
        bounce = _plan(plan, bounce=tuple(identities), rolling=Rolling())
        return _row([(None, play(bounce))], len(identities))
    if scenario == DRAIN:
        drain = _plan(plan, bounce=_drained(snapshot, plan))
        return _row([(None, play(drain))], len(identities))
    chosen = _spread(identities)
    plans: Callable[[str], Plan] = (
        (lambda who: _plan(plan, bounce=(who,))) if scenario == "each" else (lambda who: _plan(plan, scale_in=(who,)))
    )
    predictions: list[tuple[str | None, Prediction]] = [(who, play(plans(who))) for who in chosen]
    return _row(predictions, len(identities))


def _as_far_as_listed(snapshot: GroupSnapshot, row: Row) -> Row:
    """What is moved in a consumer group depends on the order in which the broker lists members, topics and partitions.
    Where that is not known, a few draws that agree by chance prove nothing."""
    known = snapshot.knows_listed_order and all(member.listed_target is not None for member in snapshot.members)
    if snapshot.type != GroupProtocol.CONSUMER.value or known or "exact" not in row:
        return row
    return row | {"exact": row["exact"] and not row["rebalances_max"], "caveats": [*row["caveats"], _NO_ORDER]}


def _drained(snapshot: GroupSnapshot, plan: FleetPlan) -> tuple[str, ...]:
    """The members that restart in a drain, by identity."""
    if plan.target is None:
        return ()
    return tuple(sorted(member.identity for member in snapshot.members if plan.target.takes(member)))


def _plan(plan: FleetPlan, **what: Any) -> Plan:
    return Plan(restart_time_ms=plan.restart_time_ms, settings=plan.settings, **what)


def _spread(identities: Sequence[str]) -> list[str]:
    """Each of them, or MOST_IN_TURN that are evenly spread."""
    names = sorted(identities)
    if len(names) <= MOST_IN_TURN:
        return names
    return [names[place * len(names) // MOST_IN_TURN] for place in range(MOST_IN_TURN)]


def _row(by_member: Sequence[tuple[str | None, Prediction]], members: int) -> Row:
    """The cost of one plan for all members (None), or of one plan for each member in turn."""
    predictions = [prediction for _, prediction in by_member]
    worst, _ = max(by_member, key=lambda each: (each[1].typical.stopped_partition_ms, each[1].typical.moved_partitions))
    caveats = list(dict.fromkeys(caveat for prediction in predictions for caveat in prediction.caveats))
    if worst is not None and len(by_member) < members:
        caveats.append(f"{len(by_member)} of {members} members were simulated, evenly spread by name")
    row: Row = {"worst": worst, "played": len(by_member), "caveats": caveats}
    row["exact"] = all(prediction.exact for prediction in predictions)
    for column, name in _MEASURES:
        ranges = [_range(prediction, name) for prediction in predictions]
        row[f"{column}_min"] = min(low for low, _, _ in ranges)
        row[column] = median_low([median for _, median, _ in ranges])
        row[f"{column}_max"] = max(high for _, _, high in ranges)
    return row


def _range(prediction: Prediction, name: str) -> tuple[int, int, int]:
    """(minimum, median, maximum)."""
    if name == "stopped_partition_ms":
        stopped = prediction.stopped_partition_range_ms
        return stopped.min, stopped.median, stopped.max
    typical: int = getattr(prediction.typical, name)
    if prediction.ranges is None:
        return typical, typical, typical
    drawn: Range = getattr(prediction.ranges, name)
    return drawn.min, drawn.median, drawn.max
