"""Which member of a streams group (KIP-1071) gets which tasks: the coordinator's sticky assignor.

Active tasks come first: a task stays where it ran, or else goes where it was a standby task, as long as that member has
less than its share. The rest are assigned in the order of subtopologies, each to the least loaded member of the least
loaded process. Next come the standby tasks of stateful subtopologies, as many as `num.standby.replicas`, but never two
copies of a task in one process. Kafka 4.3 does not assign warm-up tasks.

Ties are broken by the order of Java's hash maps and of its priority queue. Source: StickyTaskAssignor and ProcessState
(org.apache.kafka.coordinator.group.streams.assignor)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kgm.java.hash_map import map_order, sized_map_order
from kgm.java.priority_queue import PriorityQueue
from kgm.java.strings import utf16_key

#: Tasks: partitions by subtopology.
Tasks = Mapping[str, Collection[int]]
#: A subtopology and a partition.
_Task = tuple[str, int]


class TaskMember(NamedTuple):
    """A member with its process and its last target assignment."""

    member_id: str
    process_id: str
    active: Tasks
    standby: Tasks


class TasksOfSubtopology(NamedTuple):
    """How many tasks a subtopology has. is_stateful: it has a changelog, so its tasks may have standby tasks."""

    subtopology_id: str
    tasks: int
    is_stateful: bool


class MemberTasks(NamedTuple):
    """The tasks of a member: partitions by subtopology, both in order."""

    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]


def assign_tasks(
    members: Sequence[TaskMember], subtopologies: Sequence[TasksOfSubtopology], standbys: int
) -> dict[str, MemberTasks]:
    """The tasks of each member, by member id. members: at least one, in the order of the broker's hash map.
    standbys: `num.standby.replicas`."""
    made = _Assignment(members, subtopologies, standbys)
    made.place_active([(row.subtopology_id, at) for row in subtopologies for at in range(row.tasks)])
    if standbys > 0:
        made.place_standbys(
            [(row.subtopology_id, at) for row in subtopologies if row.is_stateful for at in range(row.tasks)]
        )
    return {
        thread.member_id: MemberTasks(_by_subtopology(thread.active), _by_subtopology(thread.standby))
        for thread in made.threads
    }


def _by_subtopology(tasks: Iterable[_Task]) -> dict[str, tuple[int, ...]]:
    rows: dict[str, list[int]] = {}
    for subtopology, partition in sorted(tasks, key=_by_name):
        rows.setdefault(subtopology, []).append(partition)
    return {subtopology: tuple(partitions) for subtopology, partitions in rows.items()}


def _by_name(task: _Task) -> tuple[bytes, int]:
    return utf16_key(task[0]), task[1]


def _by_partition(task: _Task) -> tuple[int, bytes]:
    return task[1], utf16_key(task[0])


class _Thread:
    """A member during the assignment."""

    __slots__ = ("active", "member_id", "process", "standby")

    def __init__(self, member_id: str, process: "_Process") -> None:
        self.member_id, self.process = member_id, process
        self.active: list[_Task] = []
        self.standby: list[_Task] = []

    @property
    def count(self) -> int:
        return len(self.active) + len(self.standby)


class _Process:
    """A process during the assignment. load: tasks per member."""

    __slots__ = ("_by_load", "_count", "tasks", "threads")

    def __init__(self) -> None:
        self.threads: list[_Thread] = []
        self.tasks: set[_Task] = set()
        self._count = 0
        self._by_load: PriorityQueue[tuple[int, _Thread]] | None = None

    @property
    def load(self) -> float:
        return self._count / len(self.threads)

    def give(self, thread: _Thread, task: _Task, *, is_active: bool) -> int:
        """Give a task to a member. Returns how many tasks the member then has."""
        self._by_load = None
        return self._add(thread, task, is_active=is_active)

    def give_to_least_loaded(self, task: _Task, *, is_active: bool) -> int:
        if self._by_load is None:
            order = map_order([thread.member_id for thread in self.threads])
            rows = ((self.threads[at].count, self.threads[at]) for at in order)
            self._by_load = PriorityQueue(lambda row: row[0], rows)
        _, thread = self._by_load.poll()
        count = self._add(thread, task, is_active=is_active)
        self._by_load.add((count, thread))
        return count

    def _add(self, thread: _Thread, task: _Task, *, is_active: bool) -> int:
        self.tasks.add(task)
        self._count += 1
        (thread.active if is_active else thread.standby).append(task)
        return thread.count


class _Share:
    """How many tasks a member may have: the remaining tasks divided by the remaining members, rounded up. Members that
    have their share no longer count, and neither do their tasks."""

    __slots__ = ("each", "members", "tasks")

    def __init__(self, tasks: int, members: int) -> None:
        self.tasks, self.members = tasks, members
        self._divide()

    def _divide(self) -> None:
        self.each = -(-self.tasks // self.members) if self.members else 0

    def count(self, tasks: int) -> None:
        """A member now has this many tasks."""
        if tasks == self.each:
            self.members -= 1
            self.tasks -= tasks
            self._divide()


class _Assignment:
    def __init__(
        self, members: Sequence[TaskMember], subtopologies: Sequence[TasksOfSubtopology], standbys: int
    ) -> None:
        processes: dict[str, _Process] = {}
        self.threads: list[_Thread] = []
        self.standbys = standbys
        self.had_active: dict[_Task, _Thread] = {}
        self.had_standby: dict[_Task, list[_Thread]] = {}
        for member in members:
            process = processes.setdefault(member.process_id, _Process())
            thread = _Thread(member.member_id, process)
            process.threads.append(thread)
            self.threads.append(thread)
            for subtopology, partitions in member.active.items():
                self.had_active.update({(subtopology, partition): thread for partition in partitions})
            for subtopology, partitions in member.standby.items():
                for partition in partitions:
                    self.had_standby.setdefault((subtopology, partition), []).append(thread)
        names = [*processes]
        self.processes = [processes[names[at]] for at in sized_map_order(names, len(members))]
        active = sum(row.tasks for row in subtopologies)
        copies = sum(row.tasks * standbys for row in subtopologies if row.is_stateful)
        self.active_share = _Share(active, len(members))
        self.share = _Share(active + copies, len(members))

    def place_active(self, tasks: Iterable[_Task]) -> None:
        left = sorted(tasks, key=_by_partition)
        left = [task for task in left if not self._continue(task, self.had_active.get(task))]
        left = [task for task in left if not self._continue(task, self._least_loaded(self.had_standby.get(task, ())))]
        by_load = self._by_load()
        for task in sorted(left, key=_by_name):
            process = by_load.poll()
            self._count_active(process.give_to_least_loaded(task, is_active=True))
            by_load.add(process)

    def _by_load(self) -> "PriorityQueue[_Process]":
        return PriorityQueue(lambda process: process.load, self.processes)

    def _continue(self, task: _Task, thread: _Thread | None) -> bool:
        """Give an active task to a member that had a copy of it, if the member has less than its share."""
        if thread is None or thread.count >= self.active_share.each:
            return False
        self._count_active(thread.process.give(thread, task, is_active=True))
        return True

    def _count_active(self, tasks: int) -> None:
        self.active_share.count(tasks)
        self.share.count(tasks)

    def _least_loaded(self, threads: Sequence[_Thread], task: _Task | None = None) -> _Thread | None:
        """One of the members that had a standby task: the first one, or a less loaded one in a less loaded process.
        task: skip processes that already have this task; if the first member's process has it, the result is None, as
        in Kafka."""
        if not threads or (task is not None and task in threads[0].process.tasks):
            return None
        best = threads[0]
        for thread in threads[1:]:
            if (
                thread.process.load < best.process.load
                and (task is None or task not in thread.process.tasks)
                and thread.count < best.count
            ):
                best = thread
        return best

    def place_standbys(self, tasks: Iterable[_Task]) -> None:
        left: list[tuple[_Task, int]] = []
        for task in sorted(tasks, key=_by_partition, reverse=True):
            for placed in range(self.standbys):
                if not self._place_where_it_was(task):
                    left.append((task, self.standbys - placed))
                    break
        by_load = self._by_load()
        for task, copies in sorted(left, key=lambda row: _by_name(row[0]), reverse=True):
            for _ in range(copies):
                if not self._place_standby(task, by_load):
                    break

    def _place_where_it_was(self, task: _Task) -> bool:
        """Give a standby task to the member that had the active task, or to one that had a standby task."""
        thread = self.had_active.get(task)
        if thread is None or task in thread.process.tasks or thread.count >= self.share.each:
            thread = self._least_loaded(self.had_standby.get(task, ()), task)
            if thread is None or thread.count >= self.share.each:
                return False
        self.share.count(thread.process.give(thread, task, is_active=False))
        return True

    def _place_standby(self, task: _Task, by_load: "PriorityQueue[_Process]") -> bool:
        """Give a standby task to the least loaded process that does not have the task. False if all have it."""
        full: list[_Process] = []
        found = False
        while not found and len(by_load):
            process = by_load.poll()
            if task not in process.tasks:
                self.share.count(process.give_to_least_loaded(task, is_active=False))
                found = True
            full.append(process)
        for process in reversed(full):
            by_load.add(process)
        return found
