"""What a plan for Connect workers does to the groups of their sink connectors.

Each task of a sink connector is a consumer in the group of the connector. It stops and starts when the play of the
workers says so, and the coordinator engine plays how the group reacts."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from statistics import median_low
from typing import Final

from kgm.frameworks.connect import CONNECTOR, SINK_GROUP, Work
from kgm.model.assignment import moves
from kgm.model.errors import ConditionNotMet, KgmError
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.connect.group import MAX_DELAY, connect_group_of, work_of
from kgm.simulation.connect.play import QUICK, QUICK_IN_ONE, SLOW, TaskChange, edge_plays, usual_play
from kgm.simulation.draws.shuffle import shuffled
from kgm.simulation.framework_play import Pace
from kgm.simulation.plan.bounce_plan import Plan, Stop
from kgm.simulation.play.draw import Draw
from kgm.simulation.play.holdings import Holding
from kgm.simulation.play.plan_runner import PlanRunner
from kgm.simulation.play.timing import (
    EXTREME_TIMINGS,
    NOTICED,
    QUICKNESS,
    DrawTiming,
    QuickBeforeNoticed,
    Quickest,
    Slowest,
    UsualTiming,
)
from kgm.simulation.play.world import START_MS
from kgm.simulation.report.prediction import Range, SinkForecast, UnownedPartition
from kgm.simulation.simulation import Simulation
from kgm.text.wording import some

_DRAWS: Final = 60
_FEWEST_DRAWS: Final = 5
#: The members of all groups cost time in each draw, so there are fewer draws if there are many members.
_MEMBERS_OF_ALL_DRAWS: Final = 2_000
#: The time from its assignment until a task reads a partition: it first asks for its position in each partition
#: (WorkerSinkTask).
_OPEN_MS: Final = (5, 500)
#: There are too few members to gain anything from bulk play.
_NEVER_IN_BULK: Final = sys.maxsize
_TIMINGS: Final = (*EXTREME_TIMINGS, *NOTICED)
_EDGE_TIMINGS: Final[Mapping[Pace, type[DrawTiming]]] = {
    QUICK: Quickest, QUICK_IN_ONE: QuickBeforeNoticed, SLOW: Slowest
}  # fmt: skip
#: One in this many draws plays rare timings.
_RARE_EVERY: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkGroup:
    """The group of a sink connector. consumers: by task, the identity of its member. settings: the broker's, as far as
    they are known. caveats: what is not known about the group."""

    snapshot: GroupSnapshot
    consumers: Mapping[Work, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()

    @property
    def connector(self) -> str:
        return self.snapshot.group_id.removeprefix(SINK_GROUP)


def simulate_sinks(
    workers: GroupSnapshot, plan: Plan, sinks: Sequence[SinkGroup], *, draws: int, seed: int,
    is_out_of_time: Callable[[], bool],
) -> tuple[tuple[SinkForecast, ...], tuple[ConditionNotMet, ...]]:  # fmt: skip
    """What is predicted for each group, and why others are not predicted. The plan is for the workers, which are played
    as in `simulate_connect`. Raises what `connect_group_of` raises."""
    if not sinks:
        return (), ()
    affordable = _MEMBERS_OF_ALL_DRAWS // sum(len(sink.snapshot.members) for sink in sinks)
    fewer = min(draws, _DRAWS, max(affordable, _FEWEST_DRAWS))
    played = [*_played_workers(workers, plan, fewer, seed, is_out_of_time)]
    found, missing = [], []
    for sink in sinks:
        try:
            found.append(_forecast(workers, plan, sink, played, seed, is_out_of_time))
        except KgmError as error:
            group_id = sink.snapshot.group_id
            text = f"the sink group {group_id} is not part of the prediction: {error.message}"
            missing.append(ConditionNotMet(text, group_id=group_id))
    return tuple(found), tuple(missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlayedWorkers:
    """What the workers' tasks did in one draw. timing: of the consumers. pace: a draw that has one only shows how far
    things can go."""

    changes: Sequence[TaskChange]
    timing: type[DrawTiming]
    pace: Pace | None


def _played_workers(
    workers: GroupSnapshot, plan: Plan, draws: int, seed: int, is_out_of_time: Callable[[], bool]
) -> Iterator[_PlayedWorkers]:  # fmt: skip
    """The usual draws first, at least one."""
    group = connect_group_of(workers, plan)
    for number in range(draws):
        if number and is_out_of_time():
            return
        play = usual_play(group, plan, f"{seed}/{number}")
        play.play()
        yield _PlayedWorkers(changes=play.tasks.changes, timing=_timing(number), pace=None)
    for play in edge_plays(group, plan, str(seed)):
        if is_out_of_time():
            return
        play.play()
        assert play.pace is not None
        yield _PlayedWorkers(changes=play.tasks.changes, timing=_EDGE_TIMINGS[play.pace], pace=play.pace)


def _forecast(
    workers: GroupSnapshot, plan: Plan, sink: SinkGroup, of_workers: Sequence[_PlayedWorkers], seed: int,
    is_out_of_time: Callable[[], bool],
) -> SinkForecast:  # fmt: skip
    simulation = _simulation(plan, sink, seed)
    played: list[_PlayedSink] = []
    for number, one in enumerate(of_workers):
        if played and is_out_of_time():
            break
        runner = _SinkRunner(simulation, sink.consumers, one, f"{seed}/{number}")
        played.append(runner.played())
    usual = sum(one.pace is None for one in of_workers)
    stopping = [
        task for member in workers.members if member.identity in plan.named
        for task in work_of(member) if task in sink.consumers
    ]  # fmt: skip

    def over(value: Callable[[_PlayedSink], int]) -> Range:
        return _range([value(one) for one in played], usual)

    return SinkForecast(
        group_id=sink.snapshot.group_id,
        connector=sink.connector,
        tasks=len(sink.consumers),
        stopping_tasks=tuple(f"{name}-{number}" for name, number in sorted(stopping)),
        rebalances=over(lambda one: one.draw.rebalances),
        generations=over(lambda one: one.draw.generations),
        moved_partitions=over(lambda one: one.moved),
        handovers=over(lambda one: one.draw.handovers),
        stopped_partition_ms=over(lambda one: sum(gap.total_ms for gap in one.gaps.values())),
        unowned_partitions=tuple(_unowned(played, usual)),
        draws=len(played),
        caveats=tuple(_caveats(workers, sink, simulation, played)),
    )


def _simulation(plan: Plan, sink: SinkGroup, seed: int) -> Simulation:
    """The simulation of the group as it is, on a broker with the settings of the plan."""
    settings = {name: value for name, value in plan.settings.items() if name != MAX_DELAY}
    as_it_is = Plan(
        bounce=tuple(sink.consumers.values()), settings={**sink.settings, **settings}, kafka_version=plan.kafka_version,
        other_versions=plan.other_versions, stop=plan.stop,
    )  # fmt: skip
    return Simulation.of(sink.snapshot, as_it_is, seed)


def _timing(number: int) -> type[DrawTiming]:
    if not number:
        return UsualTiming
    return DrawTiming if number % _RARE_EVERY else _TIMINGS[number // _RARE_EVERY % len(_TIMINGS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gap:
    """How long a partition was without a consumer, in total and at a stretch, and until when (None: forever); in ms."""

    total_ms: int = 0
    longest_ms: int = 0
    until_ms: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlayedSink:
    """moved: how many partitions have another task in the end. gaps: by topic and partition."""

    draw: Draw
    moved: int
    gaps: Mapping[tuple[str, int], _Gap]


class _SinkRunner(PlanRunner):
    """One draw: tasks stop and start when the play of the workers says so."""

    def __init__(
        self, simulation: Simulation, consumers: Mapping[Work, str], of_workers: _PlayedWorkers, name: str
    ) -> None:  # fmt: skip
        group = shuffled(simulation.group, name, becomes_consumer=False)
        super().__init__(
            group, simulation.plan, simulation.settings, name, keeps_holdings=True, timing=of_workers.timing,
            bulk_from=_NEVER_IN_BULK, cache=simulation.cache,
        )  # fmt: skip
        self._pace, self._open_chance = of_workers.pace, random.Random(f"{name}/open")  # noqa: S311
        self._changes = [
            (change, self.by_identity[consumers[change.task]])
            for change in sorted(of_workers.changes, key=attrgetter("at_ms"))
            if change.task in consumers
        ]

    def played(self) -> _PlayedSink:
        """Plays the draw and returns its outcome."""
        world = self.world
        self._load_group()
        batch_ms = -1
        for change, member in self._changes:
            if change.at_ms != batch_ms:
                batch_ms = change.at_ms
                world.timing.begin_batch()
            self._pass_time(max(START_MS + change.at_ms + world.timing.stop_ms() - world.now_ms, 0))
            if change.starts and not member.is_up:
                self._restart(member)
            elif member.is_up and not change.starts:
                self._end(member, Stop.CRASH if change.is_killed else Stop.CLEAN)
        draw = self._draw(became_stable=self._until_stable(with_lingering=True))
        after = {member.spec.identity: member.owned for member in self.members}
        return _PlayedSink(
            draw=draw, moved=len(moves(self.group.assignment, after)), gaps=self._gaps(draw.holdings, draw.took_ms)
        )

    def _gaps(self, holdings: Sequence[Holding], end_ms: int) -> dict[tuple[str, int], _Gap]:
        """holdings: sorted by partition and time. Those of one partition may overlap."""
        opens_ms: dict[tuple[str, int], int] = {}
        found: dict[tuple[str, int], _Gap] = {}
        for place, held in groupby(holdings, key=lambda one: (one.topic, one.partition)):
            gaps, owned_ms = [], 0
            for one in held:
                from_ms = one.from_ms
                if from_ms:  # not held since before the plan
                    from_ms += opens_ms.setdefault((one.owner, from_ms), self._open_ms())
                if from_ms > one.to_ms and one.to_ms != end_ms:
                    continue  # it had to join again before it could read
                if from_ms > owned_ms:
                    gaps.append((owned_ms, from_ms))
                owned_ms = max(one.to_ms, from_ms, owned_ms)
            is_owned = owned_ms >= end_ms
            if not is_owned:
                gaps.append((owned_ms, end_ms))
            if gaps:
                spans = [to_ms - from_ms for from_ms, to_ms in gaps]
                until_ms = gaps[-1][1] if is_owned else None
                found[place] = _Gap(total_ms=sum(spans), longest_ms=max(spans), until_ms=until_ms)
        return found

    def _open_ms(self) -> int:
        """How long a task takes to start reading what it is assigned."""
        share = self._open_chance.random() ** QUICKNESS if self._pace is None else self._pace.steps
        least, most = _OPEN_MS
        return round(least + (most - least) * share)


def _range(values: Sequence[int], usual: int) -> Range:
    """usual: how many of the values, from the first, count toward the median."""
    return Range(min=min(values), median=median_low(values[:usual]), max=max(values))


def _unowned(played: Sequence[_PlayedSink], usual: int) -> Iterator[UnownedPartition]:
    """The partitions without a consumer, by topic and partition; without one forever if that is so in any draw."""
    for topic, partition in sorted({place for one in played for place in one.gaps}):
        gaps = [one.gaps.get((topic, partition), _Gap()) for one in played]
        until = [gap.until_ms for gap in gaps]
        ends = [until_ms for until_ms in until if until_ms is not None]
        yield UnownedPartition(
            topic=topic,
            partition=partition,
            longest_ms=_range([gap.longest_ms for gap in gaps], usual),
            until_ms=_range(ends, usual) if len(ends) == len(until) else None,
        )


def _caveats(
    workers: GroupSnapshot, sink: SinkGroup, simulation: Simulation, played: Sequence[_PlayedSink]
) -> Iterator[str]:
    """The caveats, the most important first."""
    if not all(one.draw.became_stable for one in played):
        yield "the group does not become stable in every draw"
    running = {task for member in workers.members for task in work_of(member) if task[0] == sink.connector}
    without = sorted(number for _, number in running - {(sink.connector, CONNECTOR), *sink.consumers})
    if without:
        names = some(f"{sink.connector}-{number}" for number in without)
        yield f"{names} run on a worker and have no consumer in the group now (failed, or just starting): not played"
    if workers.rebalance_delay_ms:
        yield "tasks that are held back now are not members yet: not played when they start"
    if simulation.group.unknown_assignor is not None:
        yield f"kgm does not know the assignor {simulation.group.unknown_assignor}: which partitions move is not known"
    yield from sink.caveats
    yield from simulation.group.caveats
