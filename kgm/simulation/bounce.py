"""From a plan to a prediction: play it, and play it again as often as it takes to know what is certain."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median_low

from kgm.coordinator.settings import BrokerSettings
from kgm.model.errors import NotFoundError
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.caveats import caveats
from kgm.simulation.library import HEARTBEAT_INTERVAL_MS
from kgm.simulation.origin import Origin, origin_of
from kgm.simulation.plan import Plan
from kgm.simulation.report import Outcome, Range, Ranges, Scenario
from kgm.simulation.script import Script

DRAWS = 200
SEED = 1
#: What all draws together may cost (about 10 s), beyond the fewest draws that say anything: a request costs 1, and as
#: much again for every 100 members of the group.
_BUDGET = 300_000
_MEMBERS_PER_COST = 100
_FEWEST_DRAWS = 3
#: A process that takes longer than that to come up is beyond what `library` draws.
_SLOW_START_MS = 4_000


def simulate(
    snapshot: GroupSnapshot, plan: Plan, *, name: str = "as-is", draws: int = DRAWS, seed: int = SEED
) -> Scenario:
    """Predict what the plan does to the group.

    Raises NotFoundError for a member that is not there, RefusedError for a group that cannot be played."""
    _refuse_strangers(snapshot, plan)
    origin = origin_of(snapshot, plan.what_if)
    plan = renamed(plan, snapshot, origin)
    settings = BrokerSettings.from_overrides(plan.settings)
    outcomes = _play(origin, plan, settings, draws=draws, seed=seed)
    exact = all(outcome.verdict == outcomes[0].verdict for outcome in outcomes) and not _is_open(outcomes)
    typical = _typical(outcomes)
    return Scenario(
        name=name,
        assignor=origin.assignor,
        generation_before=origin.generation if origin.generation_is_known else None,
        typical=outcomes[typical],
        exact=exact,
        caveats=caveats(origin, plan, settings, outcomes),
        ranges=None if exact else _ranges(outcomes),
    )


def _refuse_strangers(snapshot: GroupSnapshot, plan: Plan) -> None:
    there = {member.identity for member in snapshot.members}
    strangers = [name for name in plan.named if name not in there]
    if strangers:
        raise NotFoundError(
            f"group {snapshot.group_id} has no member {', '.join(strangers)}",
            facts=(f"members: {', '.join(sorted(there)) or 'none'}",),
            hint="an identity is a group instance id, or the member id of a dynamic member",
            group_id=snapshot.group_id,
        )


def renamed(plan: Plan, snapshot: GroupSnapshot, origin: Origin) -> Plan:
    """The plan in the names of the origin, in which a what-if may have made static members dynamic or the reverse."""
    names = {member.identity: seat.identity for member, seat in zip(snapshot.members, origin.seats, strict=True)}
    return replace(
        plan,
        bounce=tuple(names[name] for name in plan.bounce),
        scale_in=tuple(names[name] for name in plan.scale_in),
        remove=tuple(names[name] for name in plan.remove),
    )


def _play(origin: Origin, plan: Plan, settings: BrokerSettings, *, draws: int, seed: int) -> Sequence[Outcome]:
    """As many draws as are asked for; fewer when one is costly, and one only when nothing was left to chance."""
    first = Script(origin, plan, settings, f"{seed}/0").play()
    if _is_certain(origin, plan, first):
        return (first,)
    cost = first.requests * (1 + len(origin.seats) / _MEMBERS_PER_COST)
    affordable = max(_FEWEST_DRAWS, round(_BUDGET / max(cost, 1)))
    rest = range(1, min(draws, affordable))
    return (first, *(Script(origin, plan, settings, f"{seed}/{draw}").play() for draw in rest))


def _is_certain(origin: Origin, plan: Plan, outcome: Outcome) -> bool:
    """Static members that are all back well within their session: the coordinator answers each with what it had, and
    nobody else hears of it. No draw can differ."""
    slack_ms = 2 * (plan.heartbeat_interval_ms or HEARTBEAT_INTERVAL_MS) + _SLOW_START_MS
    return (
        origin.all_static
        and not outcome.generations
        and not (plan.scale_in or plan.remove or plan.scale_out)
        and plan.restart_time_ms + slack_ms < origin.session_timeout_ms
    )


def _is_open(outcomes: Sequence[Outcome]) -> bool:
    return any(outcome.random_ids or not outcome.settled for outcome in outcomes)


def _typical(outcomes: Sequence[Outcome]) -> int:
    """The draw that is nearest to the median in everything."""
    columns = [
        [outcome.rebalances for outcome in outcomes],
        [outcome.moved_partitions for outcome in outcomes],
        [outcome.stopped_partition_ms for outcome in outcomes],
    ]
    middles = [median_low(column) for column in columns]

    def distance(draw: int) -> float:
        return sum(abs(column[draw] - middle) / (middle or 1) for column, middle in zip(columns, middles, strict=True))

    return min(range(len(outcomes)), key=distance)


def _ranges(outcomes: Sequence[Outcome]) -> Ranges:
    return Ranges(
        generations=_range([outcome.generations for outcome in outcomes]),
        rebalances=_range([outcome.rebalances for outcome in outcomes]),
        moved_partitions=_range([outcome.moved_partitions for outcome in outcomes]),
        stopped_partition_ms=_range([outcome.stopped_partition_ms for outcome in outcomes]),
        draws=len(outcomes),
    )


def _range(values: Sequence[int]) -> Range:
    return Range(min=min(values), median=median_low(values), max=max(values))
