"""A plan for Connect workers, played once.

Rebalances are those of the classic protocol with dynamic members only: one begins with whoever joins or leaves, and
ends when all have joined. What is Connect's own: tasks run on meanwhile (except with the eager protocol); who has to
give something up joins again at once; and while lost work is held back, everybody joins again when that time is over.
Source: WorkerCoordinator and DistributedHerder of Kafka Connect 4.3."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kgm.frameworks.connect import CONNECTOR, Work
from kgm.frameworks.connect_assignors import LeaderState, as_joined, assign_eagerly, assign_incrementally
from kgm.simulation.connect.group import HEARTBEAT_MS, ConnectGroup
from kgm.simulation.plan.bounce_plan import Plan, Stop
from kgm.simulation.play.draw import Draw, TimelineEvent
from kgm.simulation.running_tasks import RunningTasks
from kgm.text.durations import show_duration
from kgm.text.wording import many

#: Spans in ms: from the stop of a process to its LeaveGroup, in which it stops its tasks; from the start of one to its
#: JoinGroup; until what has to be given up has stopped; from the last JoinGroup until all have the assignment.
_LEAVE_MS: Final = (20, 2_000)
_START_MS: Final = (1_500, 12_000)
_REVOKE_MS: Final = (5, 500)
_SYNC_MS: Final = (2, 60)
#: An operator removes who has crashed after so long.
_REMOVAL_MS: Final = (1_500, 8_000)
_STOP_SPREAD_MS: Final = 100
_INITIAL_DELAY: Final = "group.initial.rebalance.delay.ms"
_INITIAL_DELAY_MS: Final = 3_000
#: The leader's clock when a plan begins, which must be more than 0.
_CLOCK_MS: Final = 1_000_000
_MOST_EVENTS: Final = 100_000


@dataclass(slots=True, kw_only=True)
class _Member:
    """A member of the group. work: in the order in which it got it. asks: the number of the last rejoin that it has
    planned for later; older ones do not count any more. is_dead: its process has crashed."""

    member_id: str
    identity: str
    work: tuple[Work, ...] = ()
    has_joined: bool = True
    asks: int = 0
    is_dead: bool = False
    state: LeaderState = field(default_factory=LeaderState)


class ConnectPlay:
    """Plays once; `play` gives what came of it."""

    def __init__(self, group: ConnectGroup, plan: Plan, max_delay_ms: int, chance: random.Random) -> None:
        self._group, self._plan, self._max_delay_ms, self._chance = group, plan, max_delay_ms, chance
        self._interval_ms = plan.heartbeat_interval_ms or HEARTBEAT_MS
        self._now_ms, self._sequence, self._generation, self._requests = 0, 0, 1, 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._members = {
            # In which order a worker got its tasks is not known.
            one.identity: _Member(
                member_id=one.identity, identity=one.identity, work=(*chance.sample(one.work, len(one.work)),)
            )
            for one in group.workers
        }
        self._sessions_ms = {one.identity: one.session_ms for one in group.workers}
        self._leader = group.leader if group.leader in self._members else chance.choice([*self._members])
        self._is_stable, self._earliest_ms, self._emptied = True, 0, 0
        owners = {work: one.identity for one in group.workers for work in one.work}
        self._configured = frozenset(owners) | group.unassigned
        before = {work: owners[work] for work in _without_connectors(owners)}
        idle = [work for work in _without_connectors(self._configured) if work not in before]
        self._tasks: RunningTasks[Work] = RunningTasks(before, idle, place=lambda work: work, order=lambda work: work)
        self._timeline: list[TimelineEvent] = []
        self._new_since_ms: dict[str, int] = {}
        self._waits_ms: list[int] = []
        self._begin_with_leader()

    def play(self) -> Draw:
        """What came of the plan."""
        plan = self._plan
        for name in (*plan.scale_in, *plan.remove):
            self._in(self._chance.random() * _STOP_SPREAD_MS, partial(self._stop, name, returns=False))
        for number in range(plan.scale_out):
            after_ms = number * plan.scale_out_every_ms + self._some(_START_MS)
            self._in(after_ms, partial(self._new, f"new-{number + 1}"))
        pause_ms = 0
        if plan.rolling is not None:
            self._until_settled()
        for batch in plan.batches():
            for name in batch:
                wait_ms = pause_ms + self._chance.random() * _STOP_SPREAD_MS
                self._in(wait_ms, partial(self._stop, name, returns=True))
            self._until_settled()
            pause_ms = 0 if plan.rolling is None else plan.rolling.pause_ms
        self._until_settled()
        return self._result()

    # -- events

    def _in(self, after_ms: float, event: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (self._now_ms + round(after_ms), self._sequence, event))

    def _until_settled(self) -> None:
        """Until nothing is to happen any more: no delay lasts, nobody joins again."""
        while self._events and self._sequence < _MOST_EVENTS:
            self._now_ms, _, event = heapq.heappop(self._events)
            event()

    def _some(self, span_ms: tuple[int, int]) -> float:
        least, most = span_ms
        return least + (most - least) * self._chance.random()

    def _note(self, event: str, detail: str, member: str | None = None) -> None:
        self._timeline.append(TimelineEvent(at_ms=self._now_ms, event=event, detail=detail, member=member))

    # -- processes

    def _stop(self, identity: str, *, returns: bool) -> None:
        (member,) = [one for one in self._members.values() if one.identity == identity and not one.is_dead]
        member.is_dead = True
        if self._plan.stop is Stop.CLEAN:
            self._note("stop", "closes: it stops its tasks and leaves the group", identity)
            gone_ms = self._some(_LEAVE_MS)
        else:
            self._note("stop", "is killed: it stays a member until its session ends", identity)
            gone_ms = self._sessions_ms[identity] - self._interval_ms * self._chance.random()
            if self._plan.remove_first:
                gone_ms = min(gone_ms, self._some(_REMOVAL_MS))
        self._tasks.stop(member.work, self._now_ms)
        member.work = ()
        self._in(gone_ms, partial(self._leave, member))
        if returns:
            restart_ms = self._chance.choice(self._plan.restart_times_ms or (self._plan.restart_time_ms,))
            self._in(restart_ms, partial(self._note, "start", "starts again", identity))
            self._in(restart_ms + self._some(_START_MS), partial(self._join, identity))

    def _new(self, identity: str) -> None:
        self._note("start", "a new worker joins", identity)
        self._new_since_ms[identity] = self._now_ms
        self._join(identity)

    # -- the group

    def _join(self, identity: str) -> None:
        """A process without work joins, as a member that the group has not had."""
        self._requests += 1
        member_id = f"{identity}/{self._chance.getrandbits(64):016x}"
        self._members[member_id] = _Member(member_id=member_id, identity=identity)
        if len(self._members) == 1:
            self._leader = member_id
            delay = self._plan.settings.get(_INITIAL_DELAY, str(_INITIAL_DELAY_MS))
            self._earliest_ms = self._now_ms + int(delay)
            self._in(int(delay), self._complete)
        self._rebalance(member_id)

    def _leave(self, member: _Member) -> None:
        self._requests += 1
        is_closed = self._plan.stop is Stop.CLEAN
        self._note("leave" if is_closed else "expired", "is no member any more", member.identity)
        del self._members[member.member_id]
        if member.member_id == self._leader and self._members:
            self._leader = self._chance.choice([*self._members])
            self._note("leader", "leads from now on, without memory", self._members[self._leader].identity)
        if self._members:
            self._rebalance(None)
        else:  # Kafka counts that as a generation, too
            self._is_stable = True
            self._emptied += 1
            self._generation += 1

    def _rejoin(self, member: _Member, number: int) -> None:
        if member.asks == number and self._members.get(member.member_id) is member:
            self._rebalance(member.member_id)

    def _rebalance(self, joins: str | None) -> None:
        """A rebalance begins, unless there is one. joins: who knows of it already; the others learn it with their next
        heartbeat."""
        if self._is_stable:
            self._is_stable = False
            for member in self._members.values():
                member.has_joined = False
                if member.member_id != joins and not member.is_dead:
                    self._in(self._interval_ms * self._chance.random(), partial(self._notice, member))
        if joins is not None:
            self._notice(self._members[joins])
        else:
            self._complete()

    def _notice(self, member: _Member) -> None:
        if self._is_stable or self._members.get(member.member_id) is not member or member.is_dead:
            return
        member.has_joined = True
        self._requests += 2
        if self._group.is_eager:
            self._tasks.stop(member.work, self._now_ms)
            member.work = ()
        self._complete()

    def _complete(self) -> None:
        """The rebalance ends once all have joined: the leader assigns."""
        alive = [one for one in self._members.values() if one.has_joined]
        if self._is_stable or not alive or len(alive) < len(self._members) or self._now_ms < self._earliest_ms:
            return
        self._is_stable = True
        self._generation += 1
        leader = self._members[self._leader]
        if self._group.is_eager:
            shares = assign_eagerly(self._configured, self._members)
            for member in self._members.values():
                self._tasks.start(_without_connectors(shares[member.member_id]), member.identity, self._now_ms)
                member.work = shares[member.member_id]
            self._note("assigned", "all connectors and tasks are assigned again")
            return
        running = {one.member_id: as_joined(one.work) for one in self._members.values()}
        made, leader.state = assign_incrementally(
            leader.state, self._configured, running,
            now_ms=_CLOCK_MS + self._now_ms, max_delay_ms=self._max_delay_ms, last_generation=self._generation - 1,
            generation=self._generation,
        )  # fmt: skip
        started, stopped = 0, 0
        sync_ms = round(self._some(_SYNC_MS))
        for member in self._members.values():
            given, taken = made.assigned[member.member_id], made.revoked[member.member_id]
            started, stopped = started + len(given), stopped + len(taken)
            self._tasks.stop(taken, self._now_ms + sync_ms)
            self._tasks.start(_without_connectors(given), member.identity, self._now_ms + sync_ms)
            member.work = (*given, *(one for one in member.work if one not in {*taken}))
            member.asks += 1
            if taken:
                self._ask(member, sync_ms + self._some(_REVOKE_MS))
            elif made.delay_ms:
                self._ask(member, sync_ms + made.delay_ms)
            if any(number != CONNECTOR for _, number in member.work) and member.identity in self._new_since_ms:
                self._waits_ms.append(self._now_ms - self._new_since_ms.pop(member.identity))
        self._note("assigned", self._in_words(started, stopped, made.delay_ms))

    def _ask(self, member: _Member, after_ms: float) -> None:
        self._in(after_ms, partial(self._rejoin, member, member.asks))

    def _in_words(self, started: int, stopped: int, delay_ms: int) -> str:
        parts = [f"{many(len(self._members), 'worker')}"]
        parts += [f"{started} connectors and tasks begin"] if started else []
        parts += [f"{stopped} are taken away, so those workers join again"] if stopped else []
        idle = self._tasks.idle
        if delay_ms:
            parts.append(f"{many(idle, 'task')} stay unassigned for {show_duration(delay_ms)}")
        return ", ".join(parts)

    def _begin_with_leader(self) -> None:
        """What the leader remembers of the rebalance before the plan, and what is still to come of it."""
        group, leader = self._group, self._members[self._leader]
        running = frozenset(work for worker in group.workers for work in worker.work)
        leader.state = LeaderState(
            assigned=running | group.unassigned,
            waiting_since_empty=tuple(one.identity for one in group.workers if not one.work and group.delay_ms),
            scheduled_ms=_CLOCK_MS + group.delay_ms if group.delay_ms else 0,
            delay_ms=group.delay_ms,
            generation=self._generation,
            members=frozenset(self._members),
        )
        if group.delay_ms:
            for member in self._members.values():
                self._ask(member, group.delay_ms + self._some(_SYNC_MS))

    def _result(self) -> Draw:
        self._now_ms = self._timeline[-1].at_ms if self._timeline else 0  # what came after it made no difference
        self._note("stable" if self._members else "empty", f"the group has {many(len(self._members), 'worker')}")
        final = {
            one.identity: self._tasks.as_partitions(_without_connectors(one.work)) for one in self._members.values()
        }
        return Draw(
            generations=self._generation - 1,
            rebalances=self._generation - 1 - self._emptied,
            moves=self._tasks.moves,
            handovers=self._tasks.handovers,
            stopped_partition_ms=self._tasks.stopped_ms(self._now_ms),
            fenced=(),
            refused_joins=0,
            final_assignment=final,
            timeline=tuple(sorted(self._timeline, key=lambda event: event.at_ms)),
            became_stable=not self._events and (self._is_stable),
            has_random_ids=True,
            was_empty=self._emptied > 0,
            took_ms=self._now_ms,
            requests=self._requests,
            cost=self._requests,
            newcomers_wait_ms=max(self._waits_ms, default=None),
            fewest_consumed=self._tasks.fewest,
        )


def _without_connectors(work: Iterable[Work]) -> list[Work]:
    """Connectors themselves are not counted."""
    return [one for one in work if one[1] != CONNECTOR]
