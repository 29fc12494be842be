"""From a plan to a prediction: play it, and play it again as often as it takes to know what is certain."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median_low

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import NotFoundError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan
from kgm.simulation.plan.starting_group import Origin, Seat, origin_of
from kgm.simulation.play.client_profiles import HABITS, Library, usual_interval_ms
from kgm.simulation.play.plan_runner import Script
from kgm.simulation.report.caveats import INITIAL_DELAY, caveats, hangs_on_session
from kgm.simulation.report.report import Outcome, Range, Ranges, Scenario

DRAWS = 200
SEED = 1
#: What all draws together may cost (about 10 s), beyond the fewest draws that say anything: a request costs 1, and as
#: much again for every 100 members of the group.
_BUDGET = 300_000
_MEMBERS_PER_COST = 100
_FEWEST_DRAWS = 3
#: How large the hash map of a consumer group may be: for as many members as now, twice or four times as many.
_SIZES_ONCE = 3
#: For the wire, and for what is slow for once.
_SPARE_MS = 350
#: What MIN_SESSION is by default.
SHORTEST_SESSION_MS = 6_000
#: Between two heartbeats in a consumer group, unless the broker is told otherwise.
CONSUMER_INTERVAL_MS = BrokerSettings().group_consumer_heartbeat_interval_ms
MIN_SESSION, MAX_SESSION = "group.min.session.timeout.ms", "group.max.session.timeout.ms"


def simulate(
    snapshot: GroupSnapshot, plan: Plan, *, name: str = "as-is", draws: int = DRAWS, seed: int = SEED,
    keeps_holdings: bool = False,
) -> Scenario:  # fmt: skip
    """Predict what the plan does to the group. keeps_holdings: also who consumes what when, in the typical draw.

    Raises NotFoundError for a member that is not there, RefusedError for a group that cannot be played."""
    _refuse_strangers(snapshot, plan)
    snapshot = snapshot.in_listed_order()
    origin = origin_of(snapshot, plan.what_if)
    if plan.migrate and origin.protocol is GroupProtocol.CONSUMER:
        raise UsageError(
            "the group has the consumer protocol already", hint="--migrate is for groups of the classic protocol"
        )
    plan = renamed(plan, snapshot, origin)
    settings = _allowing(origin, plan)
    outcomes = _play(origin, plan, settings, draws=draws, seed=seed)
    otherwise = _were_the_session_shorter(snapshot, origin, plan, settings, outcomes, seed=seed)
    led = _led_by_each(origin, plan, settings, outcomes, seed=seed)
    every = (*outcomes, *otherwise, *led)
    exact = all(outcome.verdict == every[0].verdict for outcome in every) and not _is_open(every)
    number = _typical(outcomes)
    typical = outcomes[number]
    if keeps_holdings:
        typical = _script(origin, plan, settings, seed, number, keeps_holdings=True).play()
    return Scenario(
        name=name,
        assignor=origin.assignor,
        generation_before=origin.generation if origin.generation_is_known else None,
        typical=typical,
        exact=exact,
        caveats=(*hangs_on_session(otherwise, SHORTEST_SESSION_MS), *caveats(origin, plan, settings, outcomes)),
        ranges=None if exact else _ranges(outcomes, (*otherwise, *led)),
        protocol=origin.protocol.value,
    )


def _allowing(origin: Origin, plan: Plan) -> BrokerSettings:
    """The broker's settings. It lets in members with the session timeout they have, unless its limits are given."""
    settings = BrokerSettings.from_overrides(plan.broker_settings(origin.group_id))
    if origin.protocol is GroupProtocol.CONSUMER:
        return _as_consumers_have_it(settings, origin, plan)
    session_ms, lowest, highest = origin.session_timeout_ms, MIN_SESSION, MAX_SESSION
    if lowest not in plan.settings and session_ms < settings.group_min_session_timeout_ms:
        settings = replace(settings, group_min_session_timeout_ms=session_ms)
    if highest not in plan.settings and session_ms > settings.group_max_session_timeout_ms:
        settings = replace(settings, group_max_session_timeout_ms=session_ms)
    return settings


def _as_consumers_have_it(settings: BrokerSettings, origin: Origin, plan: Plan) -> BrokerSettings:
    """In a consumer group it is the broker that says how long a session is, and how often members heartbeat."""
    interval_ms = plan.heartbeat_interval_ms or settings.group_consumer_heartbeat_interval_ms
    return replace(
        settings,
        group_consumer_session_timeout_ms=origin.session_timeout_ms,
        group_consumer_min_session_timeout_ms=min(
            origin.session_timeout_ms, settings.group_consumer_min_session_timeout_ms
        ),
        group_consumer_max_session_timeout_ms=max(
            origin.session_timeout_ms, settings.group_consumer_max_session_timeout_ms
        ),
        group_consumer_heartbeat_interval_ms=interval_ms,
        group_consumer_min_heartbeat_interval_ms=min(interval_ms, settings.group_consumer_min_heartbeat_interval_ms),
        group_consumer_max_heartbeat_interval_ms=max(interval_ms, settings.group_consumer_max_heartbeat_interval_ms),
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
    first = _script(origin, plan, settings, seed, 0).play()
    if _is_certain(origin, plan, first):
        return (first,)
    cost = first.requests * (1 + len(origin.seats) / _MEMBERS_PER_COST)
    affordable = max(_FEWEST_DRAWS, round(_BUDGET / max(cost, 1)))
    rest = range(1, min(draws, affordable))
    return (first, *(_script(origin, plan, settings, seed, draw).play() for draw in rest))


def _script(
    origin: Origin, plan: Plan, settings: BrokerSettings, seed: int, draw: int, *, keeps_holdings: bool = False
) -> Script:
    """A draw by its number: played again it comes out the same. The first is of the group and broker as described."""
    name = f"{seed}/{draw}"
    if draw:
        origin = _shuffled(origin, name, becomes_consumer=plan.migrate)
        if _has_no_delay(plan, draw):
            settings = replace(settings, group_initial_rebalance_delay_ms=0)
    return Script(origin, plan, settings, name, keeps_holdings=keeps_holdings)


def _shuffled(origin: Origin, seed: str, *, becomes_consumer: bool) -> Origin:
    """Members whose ids fall into one bucket of the leader's hash map are visited in the order in which they joined (in
    consumer groups: mostly in that of another hash map, which never shrinks), and topics in consumer groups in one that
    hangs on their ids and on the past: where that is not known, each draw has its own."""
    chance = random.Random(seed + "/order")  # noqa: S311  (a simulation)
    if origin.listing_capacity is None:
        origin = replace(origin, seats=tuple(chance.sample(origin.seats, len(origin.seats))))
        if origin.protocol is GroupProtocol.CONSUMER:
            origin = replace(origin, listing_capacity=len(origin.seats) << chance.randrange(_SIZES_ONCE))
    if becomes_consumer or origin.protocol is GroupProtocol.CONSUMER:
        origin = replace(origin, seats=tuple(_in_some_order(seat, chance) for seat in origin.seats))
    made_up = {name: chance.randbytes(16) for name in origin.topics if name not in origin.topic_ids}
    return replace(origin, topic_ids={**made_up, **origin.topic_ids}) if made_up else origin


def _in_some_order(seat: Seat, chance: random.Random) -> Seat:
    """Only where two topics or partitions share a bucket does the order count in which they are written."""
    if seat.listed is not None:
        return seat
    owned = [(topic, numbers) for topic, numbers in seat.owned.items() if numbers]
    chance.shuffle(owned)
    return replace(seat, listed={topic: chance.sample(numbers, len(numbers)) for topic, numbers in owned})


def _has_no_delay(plan: Plan, draw: int) -> bool:
    """Where nobody says how long the first rebalance of an empty group waits, every fourth draw is of a broker on which
    it does not wait at all, as is usual in development."""
    return INITIAL_DELAY not in plan.settings and draw % 4 == 0


def _were_the_session_shorter(
    snapshot: GroupSnapshot, origin: Origin, plan: Plan, settings: BrokerSettings, outcomes: Sequence[Outcome], *,
    seed: int,
) -> Sequence[Outcome]:  # fmt: skip
    """No Kafka API tells the session timeout of a classic group. Where it was assumed, a few draws with the shortest
    that a broker allows by default show whether the outcome hangs on it; none are returned where it does not."""
    is_said = snapshot.session_timeout_ms is not None or plan.what_if.session_timeout_ms is not None
    if is_said or not plan.bounce or origin.protocol is GroupProtocol.CONSUMER:
        return ()
    short = replace(origin, session_timeout_ms=SHORTEST_SESSION_MS)
    played = _play(short, plan, settings, draws=_FEWEST_DRAWS, seed=seed)
    seen = {outcome.verdict for outcome in outcomes}
    return () if all(outcome.verdict in seen for outcome in played) else played


def _led_by_each(
    origin: Origin, plan: Plan, settings: BrokerSettings, outcomes: Sequence[Outcome], *, seed: int
) -> Sequence[Outcome]:
    """No Kafka API tells who leads a group. Where members of both libraries may, a draw led by each shows whether the
    outcome hangs on it, however rare one of them is; none are returned where it does not."""
    libraries = {seat.library or Library.JAVA for seat in origin.seats}
    nobody_leads = origin.protocol is GroupProtocol.CONSUMER
    if nobody_leads or len(libraries) == 1 or not any(outcome.rebalances for outcome in outcomes):
        return ()
    played = [Script(origin, plan, settings, f"{seed}/led", led_by=library).play() for library in Library]
    seen = {outcome.verdict for outcome in outcomes}
    return () if all(outcome.verdict in seen for outcome in played) else played


def _is_certain(origin: Origin, plan: Plan, outcome: Outcome) -> bool:
    """Static members that are all back well within their session: the coordinator answers each with what it had, and
    nobody else hears of it. No draw can differ."""
    usual_ms = CONSUMER_INTERVAL_MS if origin.protocol is GroupProtocol.CONSUMER else None
    interval_ms = plan.heartbeat_interval_ms or usual_ms or usual_interval_ms(origin.session_timeout_ms)
    slack_ms = interval_ms + max(habits.start[1] for habits in HABITS.values()) + _SPARE_MS
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


def _ranges(outcomes: Sequence[Outcome], otherwise: Sequence[Outcome]) -> Ranges:
    """otherwise: draws that stretch a range without a say in what is typical."""

    def over(value: Callable[[Outcome], int]) -> Range:
        values, stretched = [value(outcome) for outcome in outcomes], [value(outcome) for outcome in otherwise]
        return Range(min=min(values + stretched), median=median_low(values), max=max(values + stretched))

    return Ranges(
        generations=over(lambda outcome: outcome.generations),
        rebalances=over(lambda outcome: outcome.rebalances),
        moved_partitions=over(lambda outcome: outcome.moved_partitions),
        stopped_partition_ms=over(lambda outcome: outcome.stopped_partition_ms),
        draws=len(outcomes) + len(otherwise),
    )
