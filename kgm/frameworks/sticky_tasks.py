"""Where the tasks of a Kafka Streams application go with its sticky assignor, which an application has only if it names
it (`task.assignor.class`): tasks stay where they were as long as that is balanced, and no task has to wait for a copy
to catch up.

Source: StickyTaskAssignor of Kafka Streams 4.3. In Kafka the order in which standby tasks are distributed differs from
process to process; here it is the order of the tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kgm.frameworks.streams import in_order, task_key
from kgm.frameworks.streams_assignors import StreamsProcess, TaskPlacement
from kgm.java.hash_map import grown_capacity, spread
from kgm.java.hash_set import copied_order
from kgm.java.strings import INT_MASK, string_hash
from kgm.java.uuids import uuid_hash

_PRIME: Final = 31  # Objects.hash


def place_stickily(
    processes: Mapping[str, StreamsProcess], tasks: Collection[str], stateful: Collection[str], standbys: int
) -> TaskPlacement:
    """processes: by id, in the order in which they were put into a map, with what each had before. stateful: the ones
    among `tasks` that have state. standbys: `num.standby.replicas`."""
    made = _Sticky(processes, tasks)
    made.place_active()
    made.place_standbys(in_order(stateful), standbys)
    return TaskPlacement(
        active={name: frozenset(some) for name, some in made.active.items()},
        standby={name: frozenset(made.held[name] - some) for name, some in made.active.items()},
        is_final=True,
    )


class _Sticky:
    """names: the processes in the order of Java's maps. held: the active and standby tasks of each."""

    def __init__(self, processes: Mapping[str, StreamsProcess], tasks: Collection[str]) -> None:
        table = grown_capacity(len(processes))
        self.names = sorted(processes, key=lambda name: _bucket(_process_hash(name), table))
        self.processes, self.tasks = processes, {*tasks}
        self.active: dict[str, set[str]] = {name: set() for name in self.names}
        self.held: dict[str, set[str]] = {name: set() for name in self.names}
        self.had_active = {task: name for name in self.names for task in in_order(processes[name].had_active)}
        self.pairs: set[frozenset[str]] = set()
        self.most_pairs = len(self.tasks) * (len(self.tasks) - 1) // 2

    def place_active(self) -> None:
        """First to the process that ran the task, then to one that has a copy, as long as there is room; the rest where
        they fit best."""
        share = len(self.tasks) // sum(process.threads for process in self.processes.values())
        left = self.tasks.copy()
        table = grown_capacity(len(self.had_active))
        for task in sorted(self.had_active, key=lambda task: _bucket(_task_hash(task), table)):
            if task in self.tasks and self._has_room(self.had_active[task], share):
                self._place(task, self.had_active[task])
                left.remove(task)
        for task in copied_order(self._in_map(), _task_hash):
            with_copy = (name for name in self._with_copy(task) if self._has_room(name, share))
            if task in left and (name := next(with_copy, None)) is not None:
                self._place(task, name)
                left.remove(task)
        for task in in_order(left):
            self._place(task, self._best(task, self.names))

    def place_standbys(self, stateful: Iterable[str], standbys: int) -> None:
        for task in stateful:
            for _ in range(standbys):
                free = [name for name in self.names if task not in self.held[name]]
                if not free:
                    break
                self._place(task, self._best(task, free), is_active=False)

    def _place(self, task: str, name: str, *, is_active: bool = True) -> None:
        self.pairs |= {frozenset((task, other)) for other in self.held[name]}
        self.held[name].add(task)
        if is_active:
            self.active[name].add(task)

    def _in_map(self) -> list[str]:
        """All tasks, in the order of the map that they come from."""
        table = grown_capacity(len(self.tasks))
        return sorted(in_order(self.tasks), key=lambda task: _bucket(_task_hash(task), table))

    def _with_copy(self, task: str) -> list[str]:
        """The processes that had a standby task."""
        return [name for name in self.names if task in self.processes[name].had_standby]

    def _has_room(self, name: str, share: int) -> bool:
        return len(self.active[name]) < self.processes[name].threads * share

    def _best(self, task: str, names: Collection[str]) -> str:
        """The process that had the task, or else one that has a copy of it, unless it is too full; otherwise the least
        loaded one."""
        with_copy = [name for name in self._with_copy(task) if name in names]
        before = self.had_active.get(task)
        if before not in names:
            before = self._least_loaded(task, with_copy) if with_copy else None
        if before is None or len(names) == 1:
            return self._least_loaded(task, names)
        if not self._is_too_full(before):
            return before
        other = self._least_loaded(task, with_copy) if with_copy else None
        return self._least_loaded(task, names) if other is None or self._is_too_full(other) else other

    def _least_loaded(self, task: str, names: Collection[str]) -> str:
        """A process without tasks; otherwise the least loaded one on which the task would get a new neighbor; otherwise
        the least loaded one."""
        for name in names:
            if not self.held[name]:
                return name
        are_all_seen = len(self.pairs) == self.most_pairs
        fresh = [
            name for name in names
            if not are_all_seen and any(frozenset((task, other)) not in self.pairs for other in self.held[name])
        ]  # fmt: skip
        return min(fresh or names, key=self._load)

    def _load(self, name: str) -> float:
        return len(self.held[name]) / self.processes[name].threads

    def _is_too_full(self, name: str) -> bool:
        load = self._load(name)
        return load >= 1 and any(self._load(other) < load for other in self.names)


def _bucket(value: int, table: int) -> int:
    return spread(value) & (table - 1)


def _task_hash(task: str) -> int:
    """TaskId.hashCode as an unsigned number."""
    topology, subtopology, partition = task_key(task)
    value = (_PRIME + subtopology) * _PRIME + partition
    return (value * _PRIME + string_hash(topology)) & INT_MASK


def _process_hash(process_id: str) -> int:
    return uuid_hash(bytes.fromhex(process_id.replace("-", "")))
