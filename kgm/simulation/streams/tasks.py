"""Where the active tasks of an application run while a plan is played, and for how long they do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kgm.frameworks.streams import in_order
from kgm.model.assignment import Partitions
from kgm.simulation.play.draw import TimedMove
from kgm.simulation.streams.group import StreamsThread, subtopology


class RunningTasks:
    """Owners are identities of threads. A task counts as a partition of a topic `subtopology-ID`, as in histories of
    streams groups. The time to restore its state is not counted."""

    def __init__(self, threads: Iterable[StreamsThread]) -> None:
        self._before = {task: thread.identity for thread in threads for task in thread.active}
        self._owner, self._last = dict(self._before), dict(self._before)
        self._since_ms: dict[str, int] = {}
        self._moved_at_ms: dict[str, int] = {}
        self._stopped_ms, self.handovers, self.fewest = 0, 0, len(self._owner)

    def stop(self, tasks: Iterable[str], at_ms: int) -> None:
        for task in tasks:
            if self._owner.pop(task, None) is not None:
                self._since_ms[task] = self._moved_at_ms[task] = at_ms
        self.fewest = min(self.fewest, len(self._owner))

    def start(self, tasks: Iterable[str], identity: str, at_ms: int) -> None:
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
        """What runs in another thread in the end."""
        return tuple(
            TimedMove(
                topic=topic_of(task),
                partition=number_of(task),
                owner_before=self._before.get(task),
                owner_after=self._owner.get(task),
                at_ms=self._moved_at_ms[task],
            )
            for task in in_order({*self._before, *self._owner})
            if self._before.get(task) != self._owner.get(task)
        )


def topic_of(task: str) -> str:
    return f"subtopology-{subtopology(task)}"


def number_of(task: str) -> int:
    return int(task.rpartition("_")[2])


def as_partitions(tasks: Iterable[str]) -> Partitions:
    found: dict[str, list[int]] = {}
    for task in in_order(tasks):
        found.setdefault(topic_of(task), []).append(number_of(task))
    made: Mapping[str, tuple[int, ...]] = {topic: tuple(numbers) for topic, numbers in found.items()}
    return made
