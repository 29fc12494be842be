"""What a plan for Connect workers does to the groups of their sink connectors.

Each task of a sink connector is a consumer in the group of the connector. It stops and starts when the workers' play
says so, and the group does on the coordinator engine what groups do then."""

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
from kgm.model.errors import KgmError
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.connect.group import MAX_DELAY, connect_group_of, delays_of, work_of
from kgm.simulation.connect.play import ConnectPlay, TaskChange
from kgm.simulation.draws.shuffle import shuffled
from kgm.simulation.plan.bounce_plan import Plan, Stop
from kgm.simulation.play.draw import Draw
from kgm.simulation.play.holdings import Holding
from kgm.simulation.play.plan_runner import PlanRunner
from kgm.simulation.play.timing import EXTREME_TIMINGS, NOTICED, DrawTiming, UsualTiming
from kgm.simulation.play.world import START_MS
from kgm.simulation.report.prediction import Range, SinkForecast, UnownedPartition
from kgm.simulation.simulation import Simulation
from kgm.text.wording import some

#: So many draws with the usual delay, and with another one if it is not known.
_DRAWS: Final = 60
_OTHER_DRAWS: Final = 4
_FEWEST_DRAWS: Final = 5
#: Members of all groups cost time in each draw, so that there are fewer draws of many.
_MEMBERS_OF_ALL_DRAWS: Final = 2_000
#: The members are too few to gain anything.
_NEVER_IN_BULK: Final = sys.maxsize
_TIMINGS: Final = (*EXTREME_TIMINGS, *NOTICED)
#: Every so many draws things happen as they rarely do.
_RARE_EVERY: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkGroup:
    """The group of a sink connector. consumers: the identity of the member that each task is. settings: of its broker,
    as far as they are known. caveats: what is not known of it."""

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
) -> tuple[tuple[SinkForecast, ...], tuple[str, ...]]:  # fmt: skip
    """What is predicted of each group, and why others are not. The plan is of the workers, who are played as in
    `simulate_connect`. Raises what `connect_group_of` raises."""
    if not sinks:
        return (), ()
    affordable = _MEMBERS_OF_ALL_DRAWS // sum(len(sink.snapshot.members) for sink in sinks)
    played = _played_workers(workers, plan, min(draws, _DRAWS, max(affordable, _FEWEST_DRAWS)), seed)
    found, missing = [], []
    for sink in sinks:
        try:
            found.append(_forecast(workers, plan, sink, played, seed, is_out_of_time))
        except KgmError as error:
            missing.append(f"the sink group {sink.snapshot.group_id} is not part of the prediction: {error.message}")
    return tuple(found), tuple(missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlayedWorkers:
    """usual, others: what tasks did in each draw with the usual delay, and in those with another one."""

    usual: tuple[Sequence[TaskChange], ...]
    others: tuple[Sequence[TaskChange], ...]


def _played_workers(workers: GroupSnapshot, plan: Plan, draws: int, seed: int) -> _PlayedWorkers:
    group, (usual_ms, *others_ms) = connect_group_of(workers, plan), delays_of(plan.settings)

    def changes(delay_ms: int, name: str) -> Sequence[TaskChange]:
        play = ConnectPlay(group, plan, delay_ms, random.Random(name))  # noqa: S311  (the same each time)
        play.play()
        return play.tasks.changes

    return _PlayedWorkers(
        usual=tuple(changes(usual_ms, f"{seed}/{number}") for number in range(draws)),
        others=tuple(
            changes(delay_ms, f"{seed}/{delay_ms}/{number}") for delay_ms in others_ms for number in range(_OTHER_DRAWS)
        ),
    )


def _forecast(
    workers: GroupSnapshot, plan: Plan, sink: SinkGroup, of_workers: _PlayedWorkers, seed: int,
    is_out_of_time: Callable[[], bool],
) -> SinkForecast:  # fmt: skip
    simulation = _simulation(plan, sink, seed)
    played: list[_PlayedSink] = []
    for number, changes in enumerate((*of_workers.usual, *of_workers.others)):
        if played and is_out_of_time():
            break
        runner = _SinkRunner(simulation, sink.consumers, changes, f"{seed}/{number}", _timing(number))
        played.append(runner.played())
    stopping = [
        task for member in workers.members if member.identity in plan.named
        for task in work_of(member) if task in sink.consumers
    ]  # fmt: skip

    def over(value: Callable[[_PlayedSink], int]) -> Range:
        return _range([value(one) for one in played], len(of_workers.usual))

    return SinkForecast(
        group_id=sink.snapshot.group_id,
        connector=sink.connector,
        tasks=len(sink.consumers),
        stopping=tuple(f"{name}-{number}" for name, number in sorted(stopping)),
        rebalances=over(lambda one: one.draw.rebalances),
        generations=over(lambda one: one.draw.generations),
        moved_partitions=over(lambda one: one.moved),
        handovers=over(lambda one: one.draw.handovers),
        stopped_partition_ms=over(lambda one: one.draw.stopped_partition_ms),
        unowned=tuple(_unowned(played, len(of_workers.usual))),
        draws=len(played),
        caveats=tuple(_caveats(workers, sink, simulation, played)),
    )


def _simulation(plan: Plan, sink: SinkGroup, seed: int) -> Simulation:
    """The group as it is, on a broker with the settings of the plan."""
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
class _PlayedSink:
    """moved: partitions with another task in the end. gaps: how long each partition was without a consumer at most, and
    until when, None for ever; in ms."""

    draw: Draw
    moved: int
    gaps: Mapping[tuple[str, int], tuple[int, int | None]]


class _SinkRunner(PlanRunner):
    """One draw: tasks stop and start when the workers' play says so."""

    def __init__(
        self, simulation: Simulation, consumers: Mapping[Work, str], changes: Sequence[TaskChange], name: str,
        timing: type[DrawTiming],
    ) -> None:  # fmt: skip
        group = shuffled(simulation.group, name, becomes_consumer=False)
        super().__init__(
            group, simulation.plan, simulation.settings, name, keeps_holdings=True, timing=timing,
            bulk_from=_NEVER_IN_BULK, cache=simulation.cache,
        )  # fmt: skip
        self._changes = [
            (change, self.by_identity[consumers[change.task]])
            for change in sorted(changes, key=attrgetter("at_ms"))
            if change.task in consumers
        ]

    def played(self) -> _PlayedSink:
        """What came of it."""
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
            draw=draw, moved=len(moves(self.group.assignment, after)), gaps=_gaps(draw.holdings, draw.took_ms)
        )


def _gaps(holdings: Sequence[Holding], end_ms: int) -> dict[tuple[str, int], tuple[int, int | None]]:
    """holdings: sorted by partition and time. Those of one partition may overlap."""
    found: dict[tuple[str, int], tuple[int, int | None]] = {}
    for place, held in groupby(holdings, key=lambda one: (one.topic, one.partition)):
        owned_ms, longest_ms, until_ms = 0, 0, None
        for one in held:
            if one.from_ms > owned_ms:
                longest_ms, until_ms = max(longest_ms, one.from_ms - owned_ms), one.from_ms
            owned_ms = max(one.to_ms, owned_ms)
        if owned_ms < end_ms:
            longest_ms, until_ms = max(longest_ms, end_ms - owned_ms), None
        if longest_ms:
            found[place] = longest_ms, until_ms
    return found


def _range(values: Sequence[int], usual: int) -> Range:
    """usual: how many of them, from the first, count for what is typical."""
    return Range(min=min(values), median=median_low(values[:usual]), max=max(values))


def _unowned(played: Sequence[_PlayedSink], usual: int) -> Iterator[UnownedPartition]:
    """By topic and partition; for ever, if that is so in one draw."""
    for topic, partition in sorted({place for one in played for place in one.gaps}):
        longest = [one.gaps.get((topic, partition), (0, 0)) for one in played]
        until = [until_ms for _, until_ms in longest]
        ends = [until_ms for until_ms in until if until_ms is not None]
        yield UnownedPartition(
            topic=topic,
            partition=partition,
            longest_ms=_range([longest_ms for longest_ms, _ in longest], usual),
            until_ms=_range(ends, usual) if len(ends) == len(until) else None,
        )


def _caveats(
    workers: GroupSnapshot, sink: SinkGroup, simulation: Simulation, played: Sequence[_PlayedSink]
) -> Iterator[str]:
    """The most important first."""
    if not all(one.draw.became_stable for one in played):
        yield "the group does not become stable in each draw"
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
