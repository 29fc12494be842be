"""What the plays of Kafka Streams and of Connect have in common: a virtual clock, a classic group that rebalances,
where its tasks run meanwhile, and the outcome.

A rebalance begins when a member joins or leaves; members learn of it with their next heartbeat, and it ends when all
have joined. What a member runs is up to the framework, which decides it when all have joined (`assign`)."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from kgm.model.assignment import Partitions
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.plan.bounce_plan import Plan
from kgm.simulation.play.draw import Draw, TimedMove, TimelineEvent
from kgm.simulation.report.prediction import Prediction
from kgm.simulation.report.ranges import ranges_of, stopped_range_ms, typical_of

_INITIAL_DELAY: Final = "group.initial.rebalance.delay.ms"
#: Kafka's default of that setting.
INITIAL_DELAY_MS: Final = 3_000
_MOST_DRAWS: Final = 60


class FrameworkMember(Protocol):
    """has_joined: the rebalance in progress. is_dead: its process has stopped."""

    member_id: str
    identity: str
    has_joined: bool
    is_dead: bool


M = TypeVar("M", bound=FrameworkMember)
T = TypeVar("T")


class RunningTasks(Generic[T]):
    """before: who runs each task when the plan begins. idle: tasks that no member runs at that time. place: the topic
    and partition that a task counts as. order: its sort key. The time to restore the state of a task is not counted."""

    def __init__(
        self,
        before: Mapping[T, str],
        idle: Iterable[T] = (),
        *,
        place: Callable[[T], tuple[str, int]],
        order: Callable[[T], Any],
    ) -> None:
        self._place, self._order = place, order
        self._before, self._owner, self._last = dict(before), dict(before), dict(before)
        self._since_ms: dict[T, int] = dict.fromkeys(idle, 0)
        self._moved_at_ms: dict[T, int] = {}
        self._stopped_ms, self.handovers, self.fewest = 0, 0, len(self._owner)

    @property
    def idle(self) -> int:
        """How many tasks run nowhere."""
        return len(self._since_ms)

    def runs(self, task: T) -> bool:
        return task in self._owner

    def stop(self, tasks: Iterable[T], at_ms: int) -> None:
        for task in tasks:
            if self._owner.pop(task, None) is not None:
                self._since_ms[task] = self._moved_at_ms[task] = at_ms
        self.fewest = min(self.fewest, len(self._owner))

    def start(self, tasks: Iterable[T], identity: str, at_ms: int) -> None:
        for task in tasks:
            if self._owner.get(task) == identity:
                continue
            self._owner[task] = identity
            self._stopped_ms += at_ms - self._since_ms.pop(task, at_ms)
            self._moved_at_ms[task] = at_ms
            self.handovers += self._last.get(task, identity) != identity
            self._last[task] = identity

    def stopped_ms(self, end_ms: int) -> int:
        """The total time, over all tasks, during which no member ran them."""
        return self._stopped_ms + sum(max(end_ms - since_ms, 0) for since_ms in self._since_ms.values())

    @property
    def moves(self) -> tuple[TimedMove, ...]:
        """The tasks that another member runs in the end."""
        moved = []
        for task in sorted({*self._before, *self._owner}, key=self._order):
            before, after = self._before.get(task), self._owner.get(task)
            if before != after:
                topic, partition = self._place(task)
                at_ms = self._moved_at_ms[task]
                moved.append(
                    TimedMove(topic=topic, partition=partition, owner_before=before, owner_after=after, at_ms=at_ms)
                )
        return tuple(moved)

    def as_partitions(self, tasks: Iterable[T]) -> Partitions:
        """The tasks as the partitions that they count as."""
        found: dict[str, list[int]] = {}
        for task in sorted(tasks, key=self._order):
            topic, partition = self._place(task)
            found.setdefault(topic, []).append(partition)
        return {topic: tuple(partitions) for topic, partitions in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long everything takes, as a share of its span from 0 (as soon as possible) to 1 (as late as possible), and
    the share of its heartbeat interval after which a member learns of a rebalance. In random draws all of them are
    seldom at one end."""

    steps: float
    notices: float


class TimedPlay(Generic[T]):
    """A plan on a virtual clock. tasks: where they run. pace: None: random."""

    tasks: RunningTasks[T]

    def __init__(self, plan: Plan, chance: random.Random, pace: Pace | None = None) -> None:
        self.plan, self.chance, self.pace = plan, chance, pace
        self.now_ms, self.sequence, self.requests = 0, 0, 0
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.timeline: list[TimelineEvent] = []
        self._new_since_ms: dict[str, int] = {}
        self._waits_ms: list[int] = []

    def later(self, after_ms: float, event: Callable[[], None]) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (self.now_ms + round(after_ms), self.sequence, event))

    def next_event(self) -> None:
        self.now_ms, _, event = heapq.heappop(self.events)
        event()

    def share(self) -> float:
        """The share of a span that passes until something happens."""
        return self.chance.random() if self.pace is None else self.pace.steps

    def some(self, span_ms: tuple[int, int]) -> float:
        least, most = span_ms
        return least + (most - least) * self.share()

    def note(self, event: str, detail: str, member: str | None = None) -> None:
        self.timeline.append(TimelineEvent(at_ms=self.now_ms, event=event, detail=detail, member=member))

    def begins_new(self, identity: str) -> None:
        """From now on a new member waits for its first task."""
        self._new_since_ms[identity] = self.now_ms

    def has_work(self, identity: str) -> None:
        if identity in self._new_since_ms:
            self._waits_ms.append(self.now_ms - self._new_since_ms.pop(identity))

    def came_of_it(
        self, final: Mapping[str, Iterable[T]], *, generations: int, rebalances: int, is_stable: bool, was_empty: bool
    ) -> Draw:
        """final: the tasks of each identity."""
        return Draw(
            generations=generations,
            rebalances=rebalances,
            moves=self.tasks.moves,
            handovers=self.tasks.handovers,
            stopped_partition_ms=self.tasks.stopped_ms(self.now_ms),
            fenced=(),
            refused_joins=0,
            final_assignment={identity: self.tasks.as_partitions(tasks) for identity, tasks in final.items()},
            timeline=tuple(sorted(self.timeline, key=lambda event: event.at_ms)),
            became_stable=is_stable,
            has_random_ids=True,
            was_empty=was_empty,
            took_ms=self.now_ms,
            requests=self.requests,
            cost=self.requests,
            newcomers_wait_ms=max(self._waits_ms, default=None),
            fewest_consumed=self.tasks.fewest,
        )


class FrameworkPlay(TimedPlay[T], Generic[M, T]):
    """A classic group. members: by member id."""

    members: dict[str, M]
    leader: str

    def __init__(
        self, plan: Plan, chance: random.Random, heartbeat_ms: int, *, pace: Pace | None = None
    ) -> None:  # fmt: skip
        super().__init__(plan, chance, pace)
        self.interval_ms = plan.heartbeat_interval_ms or heartbeat_ms
        self.generation, self.emptied = 1, 0
        self.is_stable, self._earliest_ms = True, 0

    # -- what the framework implements

    def begun(self) -> None:
        """A rebalance has begun."""

    def rejoined(self, member: M) -> None:
        """A member joins the rebalance."""

    def assign(self) -> None:
        """All have joined: the leader assigns."""
        raise NotImplementedError

    # -- the group

    def enter(self, member: M) -> None:
        """A member joins. The first one leads, and the broker waits for others."""
        self.members[member.member_id] = member
        if len(self.members) == 1:
            self.leader = member.member_id
            delay_ms = int(self.plan.settings.get(_INITIAL_DELAY, INITIAL_DELAY_MS))
            self._earliest_ms = self.now_ms + delay_ms
            self.later(delay_ms, self._complete)

    def drop(self, member: M) -> bool:
        """A member leaves the group. Returns whether others are left; in Kafka an empty group is a generation of its
        own."""
        del self.members[member.member_id]
        if not self.members:
            self.is_stable = True
            self.emptied += 1
            self.generation += 1
        return bool(self.members)

    def rebalance(self, joins: M | None) -> None:
        """A rebalance begins, unless one is in progress. joins: a member that already knows about it."""
        if self.is_stable:
            self.is_stable = False
            for member in self.members.values():
                member.has_joined = False
                if member is not joins and not member.is_dead:
                    share = self.chance.random() if self.pace is None else self.pace.notices
                    self.later(self.interval_ms * share, partial(self._notice, member))
            self.begun()
        if joins is not None:
            self._notice(joins)
        else:
            self._complete()

    def _notice(self, member: M) -> None:
        if self.is_stable or self.members.get(member.member_id) is not member or member.is_dead:
            return
        member.has_joined = True
        self.requests += 2
        self.rejoined(member)
        self._complete()

    def _complete(self) -> None:
        waits = any(not member.has_joined for member in self.members.values())
        if self.is_stable or waits or not self.members or self.now_ms < self._earliest_ms:
            return
        self.is_stable = True
        self.generation += 1
        self.assign()

    # -- the outcome

    def result(self, detail: str, final: Mapping[str, Iterable[T]]) -> Draw:
        """detail: a description of the group. final: the tasks of each identity."""
        self.note("stable" if self.members else "empty", detail)
        return self.came_of_it(
            final,
            generations=self.generation - 1,
            rebalances=self.generation - 1 - self.emptied,
            is_stable=self.is_stable and not self.events,
            was_empty=self.emptied > 0,
        )


def played_often(draws: int, play: Callable[[int], Draw], is_out_of_time: Callable[[], bool]) -> list[Draw]:
    """play: plays the draw with this number. There is at least one draw, and at most 60, because more would add
    nothing."""
    drawn = [play(0)]
    for number in range(1, min(draws, _MOST_DRAWS)):
        if is_out_of_time():
            break
        drawn.append(play(number))
    return drawn


def prediction_of(
    snapshot: GroupSnapshot, name: str, assignor: str, drawn: Sequence[Draw], others: Sequence[Draw],
    caveats: Iterable[str], *, protocol: str = "classic",
) -> Prediction:  # fmt: skip
    """Combines draws into a prediction, which is never exact. others: draws that suppose rare cases. protocol: as in
    `Prediction`."""
    return Prediction(
        name=name,
        assignor=assignor,
        generation_before=snapshot.generation if protocol == "classic" else snapshot.group_epoch,
        typical=drawn[typical_of(drawn)],
        exact=False,
        caveats=tuple(caveats),
        ranges=ranges_of(drawn, others),
        stopped_partition_range_ms=stopped_range_ms(drawn, others),
        protocol=protocol,
    )
