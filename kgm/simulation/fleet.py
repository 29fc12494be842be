"""What planned work would cost each group of a fleet, in each scenario.

A scenario is simulated like any other plan (`bounce`), for groups as they were described or as they are at the end of a
history. Nothing here knows about Spark: `group_costs` takes a group and runs in a loop as well as on a worker. The cost
of a group that cannot be simulated (it is rebalancing or migrating, or kgm does not know its assignor) is the reason.

    rolling    every member restarts, one after another
    each       one member restarts: each in turn, from the same start; the cost has the worst and the median one
    scale-in   one member stops and stays away: each in turn, from the same start
    drain      the members of a target restart, all together; a group that has none of them is left out"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
#: A fleet has many groups, so there are fewer draws for each than for a single group.
DRAWS = 5
#: Where each member is simulated in turn: for a larger group only this many members, evenly spread.
MOST_IN_TURN = 20
#: How many groups are sent to another process at a time.
_AT_ONCE = 8
#: What is summed up over draws.
_MEASURES = ("rebalances", "moved_partitions", "handovers", "stopped_partition_ms")
#: Why a group has not been simulated when the time is over.
OUT_OF_TIME = "the time limit (--timeout) has passed before the group was simulated"
_NO_ORDER = (
    "the order in which the broker lists the group is not known: its records were not seen from its beginning on, a "
    "coordinator has loaded them after members had left, or the history was built by an older kgm (build it again)"
)


class MemberTarget(Protocol):
    """Members by where they run."""

    def takes(self, member: MemberSnapshot) -> bool:
        """Whether the member is one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCost:
    """One group and scenario. Values that differ between draws, or between members that are simulated in turn, are
    ranges. reason: why the group could not be simulated; then the costs are None. worst: the member whose stop costs
    most; played: how many members were simulated."""

    group_id: str
    scenario: str
    assignor: str | None = None
    members: int | None = None
    static_members: int | None = None
    partitions: int | None = None
    session_timeout_ms: int | None = None
    rebalances: Range | None = None
    moved_partitions: Range | None = None
    handovers: Range | None = None
    stopped_partition_ms: Range | None = None
    exact: bool | None = None
    worst: str | None = None
    played: int | None = None
    caveats: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def is_late(self) -> bool:
        """Whether the time ran out before the group could be simulated."""
        return self.reason == OUT_OF_TIME

    @property
    def rank(self) -> tuple[object, ...]:
        """Sort key, the most expensive first: by stopped time, then moves, then rebalances. Groups that could not be
        simulated come last."""
        ranges = self.stopped_partition_ms, self.moved_partitions, self.rebalances
        numbers = [0 if one is None else -one.median for one in ranges]
        return (self.reason is not None, *numbers, self.group_id, self.scenario)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """What is simulated for each group. settings: the broker's, as in `kgm simulate-bounce --set`. target: the members
    that restart in a drain. ends_at_s: when the time is over, in seconds since the epoch, because groups may be
    simulated on other machines; None: never."""

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


#: What this process has played so far, for all parts of a fleet that it was given.
_SHAPES = PlayedShapes()


def group_costs(group: Mapping[str, Any], plan: FleetPlan, executor: DrawExecutor = HERE) -> Iterator[FleetCost]:
    """One cost per scenario, except a drain if the group has no member of the target. An error becomes the `reason` and
    is not raised.

    group: as `kgm describe -o json` prints it, with `unplayable` if its source knows why it cannot be simulated."""
    for scenario in plan.scenarios:
        cost = FleetCost(group_id=str(group.get("group_id")), scenario=scenario, reason=group.get("unplayable"))
        try:
            snapshot = snapshot_from_json(group)
            if scenario == DRAIN and not _drained(snapshot, plan):
                continue
            cost = _described(cost, snapshot)
            if cost.reason is None and plan.is_out_of_time():
                cost = replace(cost, reason=OUT_OF_TIME)
            elif cost.reason is None:
                starting_group_of(snapshot, WhatIf())  # refuses what cannot be simulated
                cost = _as_far_as_listed(snapshot, _played(cost, snapshot, plan, executor))
        except TimedOutError:
            cost = replace(cost, reason=OUT_OF_TIME)
        except KgmError as error:
            cost = replace(cost, reason=error.message)
        except Exception as error:  # noqa: BLE001  (one group of a fleet must not end the job for the others)
            cost = replace(cost, reason=f"internal error: {type(error).__name__}: {error}")
        yield cost


@dataclass(frozen=True, slots=True)
class FleetPlayer:
    """Plays groups of a fleet, several at a time (`draws.task.Playable`)."""

    plan: FleetPlan

    def play_task(self, task: Sequence[Mapping[str, Any]]) -> list[list[FleetCost]]:
        return [list(group_costs(group, self.plan)) for group in task]

    def in_process(self, parent_pid: int) -> "FleetPlayer":  # noqa: ARG002  (each of its plays is small)
        return self


def costs_of_groups(
    groups: Sequence[Mapping[str, Any]], plan: FleetPlan, executor: DrawExecutor = HERE
) -> Iterator[list[FleetCost]]:
    """The `group_costs` of each group, in order. Small groups are played on one core each, large ones on all cores."""
    are_small = [len(group.get("members") or ()) <= MOST_MEMBERS for group in groups]
    at = 0
    for is_small, run in groupby(are_small):
        some = groups[at : at + len(list(run))]
        at += len(some)
        if is_small:
            tasks = [some[first : first + _AT_ONCE] for first in range(0, len(some), _AT_ONCE)]
            for costs in executor.play(FleetPlayer(plan), tasks, never):  # each group checks the time itself
                yield from costs
        else:
            yield from (list(group_costs(group, plan, executor)) for group in some)


def _described(cost: FleetCost, snapshot: GroupSnapshot) -> FleetCost:
    return replace(
        cost,
        assignor=snapshot.assignor,
        members=len(snapshot.members),
        static_members=snapshot.static_members,
        partitions=sum(count(member.assignment) for member in snapshot.members),
        session_timeout_ms=snapshot.session_timeout_ms,
    )


def _played(cost: FleetCost, snapshot: GroupSnapshot, plan: FleetPlan, executor: DrawExecutor) -> FleetCost:
    """Raises KgmError for a group that cannot be simulated."""
    play = partial(
        simulate, snapshot, draws=plan.draws, seed=plan.seed, executor=executor, shapes=_SHAPES,
        is_out_of_time=plan.is_out_of_time,
    )  # fmt: skip
    identities = [member.identity for member in snapshot.members]
    if not identities:
        return replace(cost, reason="the group has no members")
    if cost.scenario == "rolling":
        bounce = _plan(plan, bounce=tuple(identities), rolling=Rolling())
        return _total(cost, [(None, play(bounce))])
    if cost.scenario == DRAIN:
        drain = _plan(plan, bounce=_drained(snapshot, plan))
        return _total(cost, [(None, play(drain))])
    plans: Callable[[str], Plan] = (
        (lambda who: _plan(plan, bounce=(who,)))
        if cost.scenario == "each"
        else (lambda who: _plan(plan, scale_in=(who,)))
    )
    return _total(cost, [(who, play(plans(who))) for who in _spread(identities)])


def _as_far_as_listed(snapshot: GroupSnapshot, cost: FleetCost) -> FleetCost:
    """What moves in a consumer group depends on the order in which the broker lists members, topics and partitions. If
    that is not known, a few draws that agree by chance prove nothing."""
    known = snapshot.knows_listed_order and all(member.listed_target is not None for member in snapshot.members)
    if snapshot.type != GroupProtocol.CONSUMER.value or known or cost.rebalances is None:
        return cost
    return replace(cost, exact=cost.exact and not cost.rebalances.max, caveats=(*cost.caveats, _NO_ORDER))


def _drained(snapshot: GroupSnapshot, plan: FleetPlan) -> tuple[str, ...]:
    """The members that restart in a drain, by identity."""
    if plan.target is None:
        return ()
    return tuple(sorted(member.identity for member in snapshot.members if plan.target.takes(member)))


def _plan(plan: FleetPlan, **what: Any) -> Plan:
    return Plan(restart_time_ms=plan.restart_time_ms, settings=plan.settings, **what)


def _spread(identities: Sequence[str]) -> list[str]:
    """All of the identities, or MOST_IN_TURN of them, evenly spread."""
    names = sorted(identities)
    if len(names) <= MOST_IN_TURN:
        return names
    return [names[place * len(names) // MOST_IN_TURN] for place in range(MOST_IN_TURN)]


def _total(cost: FleetCost, by_member: Sequence[tuple[str | None, Prediction]]) -> FleetCost:
    """The cost of one plan for all members (None), or of one plan for each member in turn."""
    predictions = [prediction for _, prediction in by_member]
    worst, _ = max(by_member, key=lambda each: (each[1].typical.stopped_partition_ms, each[1].typical.moved_partitions))
    caveats = list(dict.fromkeys(caveat for prediction in predictions for caveat in prediction.caveats))
    if worst is not None and len(by_member) < (cost.members or 0):
        caveats.append(f"{len(by_member)} of {cost.members} members were simulated, evenly spread by name")
    measured: dict[str, Any] = {
        name: _over_all([_range(prediction, name) for prediction in predictions]) for name in _MEASURES
    }
    exact = all(prediction.exact for prediction in predictions)
    return replace(cost, worst=worst, played=len(by_member), caveats=tuple(caveats), exact=exact, **measured)


def _over_all(ranges: Sequence[Range]) -> Range:
    return Range(
        min=min(one.min for one in ranges),
        median=median_low([one.median for one in ranges]),
        max=max(one.max for one in ranges),
    )


def _range(prediction: Prediction, name: str) -> Range:
    if name == "stopped_partition_ms":
        return prediction.stopped_partition_range_ms
    typical: int = getattr(prediction.typical, name)
    if prediction.ranges is None:
        return Range(min=typical, median=typical, max=typical)
    drawn: Range = getattr(prediction.ranges, name)
    return drawn
