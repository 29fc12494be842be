"""A plan for Connect workers, played once.

Rebalances are those of the classic protocol with dynamic members only: one begins when a worker joins or leaves, and
ends when all have joined. Specific to Connect: tasks keep running meanwhile (except with the eager protocol); a worker
that has to give something up joins again immediately, and one whose SyncGroup arrives after that is told to join again
too, before it learns what it had to give up; and while lost work is held back, all workers join again when that time is
over. Source: WorkerCoordinator and DistributedHerder of Kafka Connect 4.3."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Final

from kgm.frameworks.connect import CONNECTOR, Work
from kgm.frameworks.connect_assignors import LeaderState, as_joined, assign_eagerly, assign_incrementally
from kgm.simulation.connect.group import HEARTBEAT_MS, ConnectGroup, delays_of
from kgm.simulation.framework_play import FrameworkPlay, Pace, RunningTasks
from kgm.simulation.plan.bounce_plan import Plan, Stop
from kgm.simulation.play.draw import Draw
from kgm.text.durations import show_duration
from kgm.text.wording import many

#: Spans in ms: from the stop of a process to its LeaveGroup, during which it stops its tasks; from the start of a
#: process to its JoinGroup, for a new process or for a worker in a JVM that is already running (several workers in
#: one); until what has to be given up has stopped; from the last JoinGroup until all have the assignment.
_LEAVE_MS: Final = (20, 2_000)
_START_MS: Final = (1_500, 12_000)
_WARM_START_MS: Final = (200, 1_500)
_REVOKE_MS: Final = (5, 500)
_SYNC_MS: Final = (2, 60)
#: How long it takes an operator to remove a crashed worker.
_REMOVAL_MS: Final = (1_500, 8_000)
_STOP_SPREAD_MS: Final = 100
#: The leader's clock when a plan begins, which must be more than 0.
_CLOCK_MS: Final = 1_000_000
_MOST_EVENTS: Final = 100_000
_EDGE_PLAYS: Final = 2
#: Everything as quick as it can be; the same, with most of it in one rebalance; and everything as slow as it can be.
QUICK: Final = Pace(steps=0.0, notices=0.0)
QUICK_IN_ONE: Final = Pace(steps=0.0, notices=0.5)
SLOW: Final = Pace(steps=1.0, notices=1.0)
#: The share of draws in which workers start in a JVM that is already running.
_WARM_SHARE: Final = 0.4


@dataclass(slots=True, kw_only=True)
class _Member:
    """A member of the group. work: in the order in which it got it. asks: the number of the latest rejoin that it has
    scheduled; earlier ones no longer count. is_dead: its process has crashed."""

    member_id: str
    identity: str
    work: tuple[Work, ...] = ()
    has_joined: bool = True
    asks: int = 0
    is_dead: bool = False
    state: LeaderState = field(default_factory=LeaderState)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChange:
    """A task starts or stops, in ms since the start of the plan. is_killed: its process ends without leaving the
    group."""

    at_ms: int
    task: Work
    starts: bool
    is_killed: bool = False


class RecordedTasks(RunningTasks[Work]):
    """Where tasks run, and every start and stop."""

    def __init__(self, before: Mapping[Work, str], idle: Iterable[Work]) -> None:
        super().__init__(before, idle, place=lambda work: work, order=lambda work: work)
        self.changes: list[TaskChange] = []

    def stop(self, tasks: Iterable[Work], at_ms: int, *, is_killed: bool = False) -> None:
        stopping = [task for task in tasks if self.runs(task)]
        self.changes += [TaskChange(at_ms=at_ms, task=task, starts=False, is_killed=is_killed) for task in stopping]
        super().stop(stopping, at_ms)

    def start(self, tasks: Iterable[Work], identity: str, at_ms: int) -> None:
        starting = [*tasks]
        self.changes += [TaskChange(at_ms=at_ms, task=task, starts=True) for task in starting if not self.runs(task)]
        super().start(starting, identity, at_ms)


def usual_play(group: ConnectGroup, plan: Plan, name: str) -> ConnectPlay:
    """A play with the usual delay, not played yet, like those below. name: the seed; the same name gives the same
    play."""
    return ConnectPlay(group, plan, delays_of(plan.settings)[0], random.Random(name))  # noqa: S311


def edge_plays(group: ConnectGroup, plan: Plan, name: str) -> Iterator[ConnectPlay]:
    """A few plays at each of the paces above, with each delay that the workers may have, without and with revocations
    that do not reach a worker. They do not show what is usual, only how far the results can go."""
    paces = (QUICK, QUICK_IN_ONE, SLOW)
    for misses, delay_ms, pace, number in product(
        (False, True), delays_of(plan.settings), paces, range(_EDGE_PLAYS)
    ):  # fmt: skip
        chance = random.Random(f"{name}/{delay_ms}/{pace}/{number}")  # noqa: S311
        yield ConnectPlay(group, plan, delay_ms, chance, pace=pace, misses=misses)


class ConnectPlay(FrameworkPlay[_Member, Work]):
    """Plays once; `play` returns the outcome, and `tasks.changes` holds what the tasks did. misses: whether one worker
    misses each round in which several have to give something up, which otherwise is left to the times."""

    tasks: RecordedTasks

    def __init__(
        self, group: ConnectGroup, plan: Plan, max_delay_ms: int, chance: random.Random, *, pace: Pace | None = None,
        misses: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(plan, chance, HEARTBEAT_MS, pace=pace)
        self._group, self._max_delay_ms, self._misses = group, max_delay_ms, misses
        self._start_ms = _WARM_START_MS if self.share() < _WARM_SHARE else _START_MS
        self.members = {
            # The order in which a worker got its tasks is not known.
            one.identity: _Member(
                member_id=one.identity, identity=one.identity, work=(*chance.sample(one.work, len(one.work)),)
            )
            for one in group.workers
        }
        self._sessions_ms = {one.identity: one.session_ms for one in group.workers}
        self.leader = group.leader if group.leader in self.members else chance.choice([*self.members])
        owners = {work: one.identity for one in group.workers for work in one.work}
        self._configured = frozenset(owners) | group.unassigned
        before = {work: owners[work] for work in _without_connectors(owners)}
        idle = [work for work in _without_connectors(self._configured) if work not in before]
        self.tasks = RecordedTasks(before, idle)
        self._begin_with_leader()

    def play(self) -> Draw:
        """Plays the plan and returns its outcome."""
        plan = self.plan
        for name in (*plan.scale_in, *plan.remove):
            self.later(self.share() * _STOP_SPREAD_MS, partial(self._stop, name, returns=False))
        for number in range(plan.scale_out):
            after_ms = number * plan.scale_out_every_ms + self.some(self._start_ms)
            self.later(after_ms, partial(self._new, f"new-{number + 1}"))
        pause_ms = 0
        if plan.rolling is not None:
            self._until_settled()
        for batch in plan.batches():
            for name in batch:
                wait_ms = pause_ms + self.share() * _STOP_SPREAD_MS
                self.later(wait_ms, partial(self._stop, name, returns=True))
            self._until_settled()
            pause_ms = 0 if plan.rolling is None else plan.rolling.pause_ms
        self._until_settled()
        return self._result()

    # -- events

    def _until_settled(self) -> None:
        """Runs until nothing is left to happen: no delay is pending, and no worker is about to join again."""
        while self.events and self.sequence < _MOST_EVENTS:
            self.next_event()

    # -- processes

    def _stop(self, identity: str, *, returns: bool) -> None:
        (member,) = [one for one in self.members.values() if one.identity == identity and not one.is_dead]
        member.is_dead = True
        restart_ms: float = self.chance.choice(self.plan.restart_times_ms or (self.plan.restart_time_ms,))
        if self.plan.stop is not Stop.CRASH:
            self.note("stop", "closes: it stops its tasks and leaves the group", identity)
            gone_ms = self.some(_LEAVE_MS)
            restart_ms = max(restart_ms, gone_ms)  # not before the process has ended
        else:
            self.note("stop", "is killed: it stays a member until its session ends", identity)
            gone_ms = self._sessions_ms[identity] - self.interval_ms * (1 - self.share())
            if self.plan.remove_first:
                gone_ms = min(gone_ms, self.some(_REMOVAL_MS))
        self.tasks.stop(member.work, self.now_ms, is_killed=self.plan.stop is Stop.CRASH)
        member.work = ()
        self.later(gone_ms, partial(self._leave, member))
        if returns:
            self.later(restart_ms, partial(self.note, "start", "starts again", identity))
            self.later(restart_ms + self.some(self._start_ms), partial(self._join, identity))

    def _new(self, identity: str) -> None:
        self.note("start", "a new worker joins", identity)
        self.begins_new(identity)
        self._join(identity)

    # -- the group

    def _join(self, identity: str) -> None:
        """A process without work joins as a new member."""
        self.requests += 1
        member_id = f"{identity}/{self.chance.getrandbits(64):016x}"
        member = _Member(member_id=member_id, identity=identity)
        self.enter(member)
        self.rebalance(member)

    def _leave(self, member: _Member) -> None:
        self.requests += 1
        is_closed = self.plan.stop is not Stop.CRASH
        self.note("leave" if is_closed else "expired", "is no longer a member", member.identity)
        if not self.drop(member):
            return
        if member.member_id == self.leader:
            self.leader = self.chance.choice([*self.members])
            self.note("leader", "becomes leader, without its predecessor's state", self.members[self.leader].identity)
        self.rebalance(None)

    def _rejoin(self, member: _Member, number: int) -> None:
        if member.asks == number and self.members.get(member.member_id) is member:
            self.rebalance(member)

    def rejoined(self, member: _Member) -> None:
        if self._group.is_eager:
            self.tasks.stop(member.work, self.now_ms)
            member.work = ()

    def assign(self) -> None:
        leader = self.members[self.leader]
        if self._group.is_eager:
            shares = assign_eagerly(self._configured, self.members)
            for member in self.members.values():
                self.tasks.start(_without_connectors(shares[member.member_id]), member.identity, self.now_ms)
                member.work = shares[member.member_id]
            self.note("assigned", "all connectors and tasks are assigned again")
            return
        running = {one.member_id: as_joined(one.work) for one in self.members.values()}
        made, leader.state = assign_incrementally(
            leader.state, self._configured, running,
            now_ms=_CLOCK_MS + self.now_ms, max_delay_ms=self._max_delay_ms, last_generation=self.generation - 1,
            generation=self.generation,
        )  # fmt: skip
        started, stopped = 0, 0
        synced_ms, given_up_ms = self._times_of({name for name, taken in made.revoked.items() if taken})
        rejoined_ms = min(given_up_ms.values(), default=math.inf)
        for name, member in self.members.items():
            given, taken, sync_ms = made.assigned[name], made.revoked[name], synced_ms[name]
            member.asks += 1
            if sync_ms > rejoined_ms and member is not leader:  # REBALANCE_IN_PROGRESS: it rejoins with what it had
                self._ask(member, sync_ms)
                continue
            started, stopped = started + len(given), stopped + len(taken)
            self.tasks.stop(taken, self.now_ms + sync_ms)
            self.tasks.start(_without_connectors(given), member.identity, self.now_ms + sync_ms)
            member.work = (*given, *(one for one in member.work if one not in {*taken}))
            if taken:
                self._ask(member, given_up_ms[name])
            elif made.delay_ms:
                self._ask(member, sync_ms + made.delay_ms)
            if any(number != CONNECTOR for _, number in member.work):
                self.has_work(member.identity)
        self.note("assigned", self._in_words(started, stopped, made.delay_ms))

    def _times_of(self, losing: set[str]) -> tuple[dict[str, int], dict[str, float]]:
        """For each member id, after how long the SyncGroup of the worker arrives; for those of `losing`, which have to
        give something up, when they have."""
        synced_ms = {name: round(self.some(_SYNC_MS)) for name in self.members}
        given_up_ms = {name: synced_ms[name] + self.some(_REVOKE_MS) for name in synced_ms if name in losing}
        if self._misses and len(losing) > 1:
            # The leader's own SyncGroup brings the assignments.
            late = self.chance.choice([name for name in given_up_ms if name != self.leader])
            del given_up_ms[late]
            synced_ms[late] = round(min(given_up_ms.values()) + self.some(_SYNC_MS))
        return synced_ms, given_up_ms

    def _ask(self, member: _Member, after_ms: float) -> None:
        self.later(after_ms, partial(self._rejoin, member, member.asks))

    def _in_words(self, started: int, stopped: int, delay_ms: int) -> str:
        parts = [f"{many(len(self.members), 'worker')}"]
        parts += [f"{started} connectors and tasks start"] if started else []
        parts += [f"{stopped} are taken away, so those workers join again"] if stopped else []
        idle = self.tasks.idle
        if delay_ms:
            parts.append(f"{many(idle, 'task')} stay unassigned for {show_duration(delay_ms)}")
        return ", ".join(parts)

    def _begin_with_leader(self) -> None:
        """Sets up what the leader remembers of the rebalance before the plan, and what that rebalance still has
        pending."""
        group, leader = self._group, self.members[self.leader]
        running = frozenset(work for worker in group.workers for work in worker.work)
        leader.state = LeaderState(
            assigned=running | group.unassigned,
            waiting_since_empty=tuple(one.identity for one in group.workers if not one.work and group.delay_ms),
            scheduled_ms=_CLOCK_MS + group.delay_ms if group.delay_ms else 0,
            delay_ms=group.delay_ms,
            generation=self.generation,
            members=frozenset(self.members),
        )
        if group.delay_ms:
            for member in self.members.values():
                self._ask(member, group.delay_ms + self.some(_SYNC_MS))

    def _result(self) -> Draw:
        self.now_ms = self.timeline[-1].at_ms if self.timeline else 0  # later events made no difference
        final = {one.identity: _without_connectors(one.work) for one in self.members.values()}
        return self.result(f"the group has {many(len(self.members), 'worker')}", final)


def _without_connectors(work: Iterable[Work]) -> list[Work]:
    """Drops the connectors themselves, which are not counted."""
    return [one for one in work if one[1] != CONNECTOR]
