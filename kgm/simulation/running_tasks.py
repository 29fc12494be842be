"""Where the tasks of an application (Kafka Streams, Kafka Connect) run while a plan is played, and for how long they do
not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from kgm.model.assignment import Partitions
from kgm.simulation.play.draw import TimedMove

T = TypeVar("T")


class RunningTasks(Generic[T]):
    """before: who runs each task when the plan begins. idle: tasks that nobody runs then. place: the topic and
    partition that a task counts as. order: its sort key. The time to restore the state of a task is not counted."""

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
        """How many run nowhere."""
        return len(self._since_ms)

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
        """The time of all tasks together that nobody ran them."""
        return self._stopped_ms + sum(max(end_ms - since_ms, 0) for since_ms in self._since_ms.values())

    @property
    def moves(self) -> tuple[TimedMove, ...]:
        """What somebody else runs in the end."""
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
