"""What is played in each draw: a group, a plan in terms of its members' identities, and the settings of the broker."""

import contextlib
import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kgm.assignors.unsupported_groups import refuse_to_migrate
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.java.scala_map import scala_map_capacity
from kgm.model.errors import NotFoundError, RefusedError, TimedOutError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.draws import budget
from kgm.simulation.draws.executor import HERE, DrawExecutor
from kgm.simulation.draws.shuffle import shuffled
from kgm.simulation.draws.task import DrawTask
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan, with_versions_of
from kgm.simulation.plan.client_library import usual_heartbeat_interval_ms
from kgm.simulation.plan.expressions import without_lasting_expressions
from kgm.simulation.plan.played_settings import broker_settings_of
from kgm.simulation.plan.settled import has_room_for_restarts, only_loses_one
from kgm.simulation.plan.starting_group import StartingGroup, starting_group_of
from kgm.simulation.play.client_profiles import LONGEST_START_MS
from kgm.simulation.play.draw import Draw
from kgm.simulation.play.leader import DrawCache
from kgm.simulation.play.plan_runner import PlanRunner
from kgm.simulation.play.timing import EXTREME_STARTS, EXTREME_TIMINGS, NOTICED, DrawTiming, UsualTiming
from kgm.simulation.report.caveats import INITIAL_DELAY
from kgm.simulation.report.ranges import has_rare_extreme
from kgm.text.names import did_you_mean, in_order

SEED = 1
#: What all random draws together may cost by default, in addition to the fewest draws that mean anything. Directed and
#: rare draws are not included.
BUDGET_MS = 10_000
FEWEST_DRAWS = 3
#: If only times differ, the number of draws and the budget are divided by this.
_TIMED_SHARE = 5
#: A caller that asks for fewer draws has many groups. Then random draws end early, after 1 in `_SETTLED_SHARE`, if the
#: prediction is not exact in any case and the minimum and maximum of what is counted are not rare draws.
_MANY_DRAWS = 100
_SETTLED_SHARE = 4
#: What draws may cost, in multiples of the budget, if the first one was not like the others.
_MOST_BUDGETS = 2
#: If the group has not become stable in any of this many draws, it will not in others either.
_HOPELESS_DRAWS = 10
#: Directed draws are played in rounds, one round per this many random draws.
_DRAWS_PER_ROUND = 10
_MOST_ROUNDS = 8
#: The most additional draws for each random one, if extremes are rare.
_MOST_MORE = 2
#: In one of this many draws an empty group does not wait, if it is not known whether it does.
_NO_DELAY_EVERY = 4
#: Draws of groups with this many members cost too much for directed draws of what several processes do.
_NOT_SMALL = {GroupProtocol.CLASSIC: 24, GroupProtocol.CONSUMER: 60}
#: Time for the network, and for something that is unusually slow once.
_SPARE_MS = 350
#: With this many members it is no coincidence if they are listed in the order of a hash map.
_TELLING_MEMBERS = 8
#: The default time between two heartbeats in a consumer group.
CONSUMER_INTERVAL_MS = BrokerSettings().group_consumer_heartbeat_interval_ms


def never() -> bool:
    """`is_out_of_time` of a simulation without a time limit."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What is played in each draw: a group, a plan in terms of its members' identities, and the broker's settings.

    budget_ms, executor: as in `simulate`. cache: shared by draws, because what members send is the same in many of
    them."""

    group: StartingGroup
    plan: Plan
    settings: BrokerSettings
    seed: int
    is_out_of_time: Callable[[], bool] = never
    budget_ms: int | None = None
    executor: DrawExecutor = HERE
    cache: DrawCache = field(default_factory=DrawCache, repr=False, compare=False)

    @classmethod
    def of(cls, snapshot: GroupSnapshot, plan: Plan, seed: int = SEED) -> "Simulation":
        """Raises what `simulate` raises."""
        _refuse_strangers(snapshot, plan)
        if plan.migrate:
            refuse_to_migrate(snapshot)
        snapshot = snapshot.in_listed_order()
        group = starting_group_of(snapshot, plan.what_if)
        if plan.migrate and group.protocol is GroupProtocol.CONSUMER:
            raise UsageError(
                "the group already uses the consumer protocol", hint="--migrate is for groups of the classic protocol"
            )
        plan = with_versions_of(snapshot, _in_any_order(renamed(plan, snapshot, group)))
        group = without_lasting_expressions(group, plan)
        settings = broker_settings_of(group, plan)
        if settings.behavior.has_scala_maps:
            _refuse_consumer_protocol(group, plan)
            group = replace(group, listing_capacity=_scala_capacity(snapshot))
        _refuse_impossible_removal(group, plan, settings)
        return cls(group=group, plan=plan, settings=settings, seed=seed)

    def play(self, draws: int) -> Sequence[Draw]:
        """As many draws as requested; fewer if they are costly, if they differ only in times, or if the time is over.
        Raises TimedOutError if there is not enough time for one."""
        (first,) = self._played([DrawTask(number=0)])
        fewest, budget_ms = (FEWEST_DRAWS, BUDGET_MS) if self.budget_ms is None else (1, self.budget_ms)
        is_open = first.has_random_ids and draws < _MANY_DRAWS
        settled_from = max(FEWEST_DRAWS, draws // _SETTLED_SHARE)
        if self.differs_in_times_only(first):
            draws, budget_ms = min(draws, max(FEWEST_DRAWS, draws // _TIMED_SHARE)), budget_ms // _TIMED_SHARE
        most_cost = budget.affordable(budget_ms)
        affordable = max(fewest, round(most_cost / max(budget.cost_of([first]), 1)))
        drawn, spent = [first], budget.cost_of([first])
        tasks = [DrawTask(number=number) for number in range(1, min(draws, affordable))]
        with contextlib.suppress(TimedOutError), contextlib.closing(self._played(tasks)) as played:
            for draw in played:
                drawn.append(draw)
                spent += budget.cost_of([draw])
                is_costly = spent > _MOST_BUDGETS * most_cost and len(drawn) >= fewest
                is_hopeless = len(drawn) >= _HOPELESS_DRAWS and not any(draw.became_stable for draw in drawn)
                is_settled = is_open and len(drawn) >= settled_from and not has_rare_extreme(drawn)
                if is_costly or is_hopeless or is_settled:
                    break
        return tuple(drawn)

    def _played(self, tasks: Sequence[DrawTask]) -> Generator[Draw]:
        """The draws of these tasks, in order."""
        yield from self.executor.play(self, tasks, self.is_out_of_time)

    def is_certain(self, draw: Draw) -> bool:
        """Whether only times can differ from this draw, and no other member notices anything."""
        return self.is_quiet and not draw.generations

    def differs_in_times_only(self, draw: Draw) -> bool:
        """Whether other draws can differ from this one only in times."""
        is_once = draw.rebalances == draw.generations == 1 and draw.became_stable and not draw.follows_map_order
        return (is_once and self.only_loses_one) or self.is_certain(draw)

    @property
    def only_loses_one(self) -> bool:
        """Whether one member goes and, if the others are assigned once, that assignment decides who gets what."""
        within_ms = self._interval_ms(self.group.sessions_ms()[0]) + LONGEST_START_MS + _SPARE_MS
        return only_loses_one(self.group, self.plan, self.settings, notices_within_ms=round(within_ms))

    def _interval_ms(self, session_ms: int) -> int:
        """The longest heartbeat interval that members have if their session timeout is this."""
        usual_ms = CONSUMER_INTERVAL_MS if self.group.protocol is GroupProtocol.CONSUMER else None
        return self.plan.heartbeat_interval_ms or usual_ms or usual_heartbeat_interval_ms(session_ms)

    @property
    def consumed_partitions(self) -> int:
        """How many partitions have a consumer before the plan: those that are assigned and exist, each once."""
        topics = self.group.topics
        places = ((topic, n) for one in self.group.members for topic, numbers in one.owned.items() for n in numbers)
        return len({(topic, number) for topic, number in places if number < topics.get(topic, 0)})

    @property
    def is_quiet(self) -> bool:
        """Whether static members are all back well within their session, so that the coordinator answers each with its
        former assignment, and no other member notices, unless a library misbehaves."""
        group, plan = self.group, self.plan
        shortest_ms, _ = group.sessions_ms(plan.bounce)
        slack_ms = self._interval_ms(shortest_ms) + LONGEST_START_MS + _SPARE_MS
        return (
            group.all_static
            and has_room_for_restarts(group, self.settings)
            and not (plan.scale_in or plan.remove or plan.scale_out or plan.remove_first)
            and plan.longest_restart_ms + slack_ms < shortest_ms
        )

    def like(self, other: "Simulation") -> "Simulation":
        """The other simulation, with the executor and limits of this one."""
        return replace(other, is_out_of_time=self.is_out_of_time, budget_ms=self.budget_ms, executor=self.executor)

    def in_process(self, parent_pid: int) -> "Simulation":
        """A copy for a worker process of this parent, which ends when the parent does."""
        return replace(self, is_out_of_time=lambda: os.getppid() != parent_pid)

    def __reduce__(self) -> tuple[Any, ...]:
        """Sends only what determines a draw to another process."""
        return _unpickled, (self.group, self.plan, self.settings, self.seed)

    def play_task(self, task: DrawTask) -> Draw:
        """Raises TimedOutError."""
        runner = self.runner_of(task)
        try:
            return runner.play()
        finally:
            runner.dismantle()

    def runner(self, number: int, *, timing: type[DrawTiming] = DrawTiming) -> PlanRunner:
        """The runner of a random draw, by its number; optionally with a timing that predictions do not use."""
        return self._random_runner(number, timing)

    def runner_of(self, task: DrawTask) -> PlanRunner:
        """The runner of a draw, which is the same each time. Draw 0 takes the group and the broker as described, and
        processes that start as quickly as most, because it may be the only draw."""
        if task.led_by is not None:
            return PlanRunner(
                self.group, self.plan, self.settings, f"{self.seed}/led", led_by=task.led_by,
                is_out_of_time=self.is_out_of_time, cache=self.cache,
            )  # fmt: skip
        if task.is_deleted_when_empty:
            return PlanRunner(
                self.group, self.plan, self.settings, f"{self.seed}/deleted", timing=UsualTiming,
                is_out_of_time=self.is_out_of_time, is_deleted_when_empty=True, cache=self.cache,
            )  # fmt: skip
        if task.extreme is not None:
            name = f"{self.seed}/{task.extreme.__name__}/{task.number}"
            return self._shuffled_runner(name, task.extreme, has_no_delay=task.number % 2 == 0)
        return self._random_runner(task.number, DrawTiming, keeps_holdings=task.keeps_holdings)

    def _random_runner(self, number: int, timing: type[DrawTiming], *, keeps_holdings: bool = False) -> PlanRunner:
        name = f"{self.seed}/{number}"
        if number:
            return self._shuffled_runner(
                name, timing, has_no_delay=number % _NO_DELAY_EVERY == 0, keeps_holdings=keeps_holdings
            )
        return PlanRunner(
            self.group, self.plan, self.settings, name, keeps_holdings=keeps_holdings, timing=UsualTiming,
            is_out_of_time=self.is_out_of_time, cache=self.cache,
        )  # fmt: skip

    def _shuffled_runner(
        self, name: str, timing: type[DrawTiming], *, has_no_delay: bool, keeps_holdings: bool = False
    ) -> PlanRunner:
        """has_no_delay: whether the first rebalance of an empty group does not wait, as is usual in development, if the
        delay is not known."""
        settings = self.settings
        if has_no_delay and INITIAL_DELAY not in self.plan.settings:
            settings = replace(settings, group_initial_rebalance_delay_ms=0)
        return PlanRunner(
            shuffled(self.group, name, becomes_consumer=self.plan.migrate), self.plan, settings, name,
            keeps_holdings=keeps_holdings, timing=timing, is_out_of_time=self.is_out_of_time, cache=self.cache,
        )  # fmt: skip

    def play_rare(self, drawn: Sequence[Draw], extreme: Sequence[Draw]) -> list[Draw]:
        """More random draws, as long as the minimum or maximum of anything has been drawn only once, because values
        just beyond it are then about as likely. No draws for plans that are played in few draws."""
        more: list[Draw] = []
        most_cost = budget.affordable(BUDGET_MS if self.budget_ms is None else self.budget_ms)
        with contextlib.suppress(TimedOutError):
            while (
                _DRAWS_PER_ROUND <= len(drawn) > len(more) // _MOST_MORE
                and budget.cost_of((*drawn, *more)) < most_cost
                and has_rare_extreme((*drawn, *extreme, *more))
            ):
                first = len(drawn) + len(more)
                most = min(_DRAWS_PER_ROUND, len(drawn) * _MOST_MORE - len(more))
                for draw in self._played([DrawTask(number=first + number) for number in range(most)]):
                    more.append(draw)  # noqa: PERF402  (draws from before the end of the time count)
        return more

    def counts_as(self, drawn: Sequence[Draw], draws: int) -> int:
        """How many random draws these count as: at least a round, if there are fewer only because a rule says that they
        are enough. draws: the most that there could have been."""
        budget_ms = BUDGET_MS if self.budget_ms is None else self.budget_ms
        is_cheap = draws * budget.cost_of(drawn[:1]) <= budget.affordable(budget_ms)
        return max(len(drawn), min(draws, _DRAWS_PER_ROUND) if is_cheap else 0)

    def play_extreme(self, draws: int) -> list[Draw]:
        """Draws of what happens too rarely to show up in this many random ones."""
        rounds = min(draws // _DRAWS_PER_ROUND, _MOST_ROUNDS)
        extreme: list[Draw] = []
        starts = self.plan.bounce or self.plan.scale_out
        timings = [timing for timing in EXTREME_TIMINGS if starts or timing not in EXTREME_STARTS]
        tasks = [DrawTask(number=number, extreme=timing) for number in range(rounds) for timing in timings]
        if draws > 1 and self.is_small and self.may_be_noticed_in_between:
            tasks += [DrawTask(number=number, extreme=timing) for number in range(max(rounds, 1)) for timing in NOTICED]
        with contextlib.suppress(TimedOutError):
            for draw in self._played(tasks):
                extreme.append(draw)  # noqa: PERF402  (as above)
        return extreme

    @property
    def may_be_noticed_in_between(self) -> bool:
        """Whether other members may notice what one process does before another does the same: whether several
        processes, but not those of all members, stop or start at about the same time."""
        plan = self.plan
        together = max(map(len, plan.batches()), default=0)
        leavers = {member.identity for member in self.group.members if member.group_instance_id is None}
        removed = [identity for identity in plan.remove if identity in leavers]
        by_request = len(plan.remove) > len(removed)  # removed static members all go at the same time
        newcomers = min(plan.scale_out, 1) if plan.scale_out_every_ms else plan.scale_out
        others = len(plan.scale_in) + len(removed) + by_request + newcomers
        at_once = together + others if plan.rolling is None else max(together, others)
        return at_once > 1 and len(plan.bounce) < len(self.group.members)

    @property
    def is_small(self) -> bool:
        """Whether a draw is cheap."""
        return len(self.group.members) < _NOT_SMALL[self.group.protocol]

    def play_led(self) -> list[Draw]:
        """A draw led by each library. Raises TimedOutError."""
        return list(self._played([DrawTask(number=0, led_by=library) for library in self.assigners]))

    @property
    def assigners(self) -> list[str]:
        """The libraries whose assignors may run, depending on which member leads."""
        return sorted({member.assigner(self.group.assignor) for member in self.group.members})

    def play_deleted(self) -> list[Draw]:
        """A draw in which the broker deletes the group when it is empty. Raises TimedOutError."""
        return list(self._played([DrawTask(number=0, is_deleted_when_empty=True)]))


def _in_any_order(plan: Plan) -> Plan:
    """The plan with the members that stop together in one order, however an operator named or selected them: it says
    nothing about which of them stops first, and decides which random numbers each gets."""
    bounce = plan.bounce if plan.rolling is not None else tuple(in_order(plan.bounce))
    return replace(plan, bounce=bounce, scale_in=tuple(in_order(plan.scale_in)), remove=tuple(in_order(plan.remove)))


def _unpickled(group: StartingGroup, plan: Plan, settings: BrokerSettings, seed: int) -> Simulation:
    return Simulation(group=group, plan=plan, settings=settings, seed=seed)


def _refuse_consumer_protocol(group: StartingGroup, plan: Plan) -> None:
    if group.protocol is GroupProtocol.CONSUMER or plan.migrate:
        raise UsageError(
            f"brokers of Kafka {plan.kafka_version} have no groups of the consumer protocol (KIP-848)",
            hint="--kafka-version 4.0, or 3.9+new for a broker with the new coordinator",
        )


def _refuse_impossible_removal(group: StartingGroup, plan: Plan, settings: BrokerSettings) -> None:
    is_removed = bool(plan.remove) or plan.remove_first or plan.what_if.freed
    if is_removed and group.protocol is GroupProtocol.CONSUMER and not settings.behavior.removes_consumer_members:
        raise RefusedError(
            f"Kafka {settings.kafka_version} cannot remove members of consumer groups (KAFKA-18188; Kafka 4.0 can)",
            hint="wait until their sessions have ended",
            group_id=group.group_id,
        )


def _scala_capacity(snapshot: GroupSnapshot) -> int | None:
    """The number of buckets of the broker's hash map of members, if its order is that of Scala 2.13. Brokers are also
    built with Scala 2.12, which has another order. A few members may be in either order by chance, so they prove
    nothing."""
    if not snapshot.knows_listed_order or len(snapshot.members) < _TELLING_MEMBERS:
        return None
    return scala_map_capacity([member.member_id for member in snapshot.members])


def _refuse_strangers(snapshot: GroupSnapshot, plan: Plan) -> None:
    members = {member.identity for member in snapshot.members}
    strangers = [name for name in plan.named if name not in members]
    if strangers:
        similar = did_you_mean(strangers[0], members)
        raise NotFoundError(
            f"group {snapshot.group_id} has no member {', '.join(strangers)}",
            facts=(f"members: {', '.join(in_order(members)) or 'none'}", *([similar] if similar else [])),
            hint="an identity is a group instance id, or the member id of a dynamic member",
            group_id=snapshot.group_id,
        )


def renamed(plan: Plan, snapshot: GroupSnapshot, group: StartingGroup) -> Plan:
    """The plan with the identities of the starting group, where a what-if may have made static members dynamic or the
    reverse."""
    names = {
        member.identity: starting.identity for member, starting in zip(snapshot.members, group.members, strict=True)
    }
    return replace(
        plan,
        bounce=tuple(names[name] for name in plan.bounce),
        scale_in=tuple(names[name] for name in plan.scale_in),
        remove=tuple(names[name] for name in plan.remove),
        units=tuple(tuple(names[name] for name in unit) for unit in plan.units),
    )
