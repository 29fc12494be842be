"""Which process of a Kafka Streams application runs which task, and on which of its threads, as the leader of the group
computes it: pure functions.

Source: HighAvailabilityTaskAssignor with TaskMovement, DefaultStandbyTaskAssignor and
ClientTagAwareStandbyTaskAssignor, and StreamsPartitionAssignor.assignTasksToThreads, of Kafka Streams 4.3. The
strategies that weigh traffic between racks are not modelled (`rack.aware.assignment.strategy`); they are off unless
set."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final

from kgm.frameworks.streams import ACTIVE, in_order, task_key
from kgm.java.hash_map import order_of_hashes
from kgm.java.priority_queue import poll_order
from kgm.java.strings import string_hash
from kgm.java.uuids import uuid_key

#: An acceptable lag (`acceptable.recovery.lag`) that any lag is within.
UNBOUNDED_LAG: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsProcess:
    """One process as it joins. threads: how many. lags: by task with state, how many offsets its copy is behind (all of
    the task's offsets if it has no copy); ACTIVE if the task runs there. had_active, had_standby: the tasks that it
    ran, and the tasks that it had a copy of; the default assignor ignores them. tags: its `client.tag.*`."""

    threads: int
    lags: Mapping[str, int] = field(default_factory=dict)
    had_active: Collection[str] = ()
    had_standby: Collection[str] = ()
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsSettings:
    """Settings of the leader: `num.standby.replicas`, `max.warmup.replicas`, `acceptable.recovery.lag`, and
    `rack.aware.assignment.tags`, the tags in which copies of a task should differ. The defaults are Kafka's."""

    standbys: int = 0
    warmups: int = 2
    acceptable_lag: int = 10_000
    tags: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlacement:
    """Tasks by process id. standby: includes warm-up tasks. is_final: False if the leader will check again, after
    `probing.rebalance.interval.ms`, whether copies have caught up."""

    active: Mapping[str, frozenset[str]]
    standby: Mapping[str, frozenset[str]]
    is_final: bool


def place_highly_available(
    processes: Mapping[str, StreamsProcess], tasks: Collection[str], stateful: Collection[str],
    settings: StreamsSettings,
) -> TaskPlacement:  # fmt: skip
    """HighAvailabilityTaskAssignor, the default from Kafka 2.6 on. processes: by id, each with the lags of all
    `stateful` tasks, which are among `tasks`."""
    made = _Placing(processes, in_order(stateful), settings)
    made.spread_active()
    made.spread_standbys()
    is_final = not made.leave_active_where_caught_up() + made.leave_standbys_where_caught_up()
    made.spread_stateless(in_order({*tasks} - {*stateful}))
    return TaskPlacement(
        active={name: frozenset(one.active) for name, one in made.shares.items()},
        standby={name: frozenset(one.standby) for name, one in made.shares.items()},
        is_final=is_final,
    )


def tasks_of_threads(
    tasks: Collection[str], threads: Collection[str], had: Mapping[str, Collection[str]], lags: Mapping[str, int],
    loads: dict[str, int], *, is_stateful: bool = True,
) -> dict[str, list[str]]:  # fmt: skip
    """The tasks of one process by thread (member id). had: the tasks whose state each thread reported. lags: of the
    process. loads: how many tasks each thread has from earlier calls; this call adds to it. Active tasks with state
    come first, then standby tasks, then the others. Kafka deals out the last ones in the order of a heap; here they
    keep their own order."""
    names = sorted(threads)
    shares: dict[str, list[str]] = {name: [] for name in names}
    least = (len(tasks) + sum(loads.values())) // len(names)
    left = {*tasks}
    again: dict[str, str] = {}  # those for which their thread had no room at first
    if is_stateful:
        for name in names:
            room = least - loads.get(name, 0)
            for task in sorted(
                (one for one in had.get(name, ()) if one in lags), key=lambda one: (lags[one], task_key(one))
            ):
                if task in left and len(shares[name]) < room:
                    shares[name].append(task)
                    left.remove(task)
                elif task in left:
                    again[task] = name

    def size(name: str) -> int:
        return len(shares[name]) + loads.get(name, 0)

    unfilled = deque(name for name in names if size(name) < least) if tasks else deque()
    rest = deque(in_order(left))
    while unfilled:
        name = unfilled.popleft()
        shares[name].append(rest.popleft())
        if size(name) < least:
            unfilled.append(name)
    open_for_one = [name for name in names if size(name) == least] if rest else []
    for task in in_order(again):
        if again[task] in open_for_one and task in rest:
            shares[again[task]].append(task)
            open_for_one.remove(again[task])
            rest.remove(task)
    for task, name in zip(rest, open_for_one, strict=False):
        shares[name].append(task)
    for name in names:
        loads[name] = size(name)
    return shares


@dataclass(slots=True)
class _Share:
    threads: int
    active: set[str] = field(default_factory=set)
    standby: set[str] = field(default_factory=set)

    @property
    def count(self) -> int:
        return len(self.active) + len(self.standby)

    @property
    def load(self) -> float:
        return self.count / self.threads

    def has(self, task: str) -> bool:
        return task in self.active or task in self.standby


class _Placing:
    """The shares of all processes while they are being computed, by id in the order of Java's UUIDs."""

    def __init__(
        self, processes: Mapping[str, StreamsProcess], stateful: Sequence[str], settings: StreamsSettings
    ) -> None:
        self.place = {name: number for number, name in enumerate(sorted(processes, key=_java_order))}
        self.shares = {name: _Share(processes[name].threads) for name in self.place}
        self.stateful, self.settings, self.warmups_left = stateful, settings, settings.warmups
        self.lags = {name: processes[name].lags for name in self.place}
        self.tags = {name: processes[name].tags for name in self.place}
        self.caught_up = {
            task: [name for name in self.place if self._is_caught_up(self.lags[name][task])] for task in stateful
        }
        self.by_lag = {task: sorted(self.place, key=lambda name: self.lags[name][task]) for task in stateful}
        self.warming: set[tuple[str, str]] = set()

    def _is_caught_up(self, lag: int) -> bool:
        most = self.settings.acceptable_lag
        return lag == ACTIVE or most == UNBOUNDED_LAG or 0 <= lag <= most

    # -- where tasks would ideally be

    def spread_active(self) -> None:
        shares = [*self.shares.values()]
        for number, task in enumerate(self.stateful):
            shares[number % len(shares)].active.add(task)
        self._even_out([share.active for share in shares])

    def spread_standbys(self) -> None:
        if not self.settings.standbys:
            return
        missing = dict.fromkeys(self.stateful, self.settings.standbys)
        if self.settings.tags:
            missing = self._spread_by_tags()
        for task, count in missing.items():
            for _ in range(count):
                name = self._least_loaded(self._without(task))
                if name is None:
                    break
                self.shares[name].standby.add(task)
        names = [*self.shares]
        self._even_out(
            [share.standby for share in self.shares.values()],
            lambda source, destination: (
                not self.settings.tags or self.tags[names[source]].items() <= self.tags[names[destination]].items()
            ),
        )

    def _spread_by_tags(self) -> dict[str, int]:
        """Places copies on processes that differ in every tag from those that already have the task, as long as each
        tag has values left. Returns how many copies are still missing, in the order of Java's map of tasks."""
        values: dict[str, set[str]] = {}
        for tags in self.tags.values():
            for key, value in tags.items():
                values.setdefault(key, set()).add(value)
        missing = {}
        for task in self.stateful:
            last: str | None = next(name for name, share in self.shares.items() if task in share.active)
            used: dict[tuple[str, str], None] = {}
            for copies in range(self.settings.standbys):
                for key, value in self.tags[last or ""].items():
                    if key in self.settings.tags and len(values[key]) > copies + 1:
                        used[key, value] = None
                    elif key in self.settings.tags:
                        used = {one: None for one in used if one[0] != key}
                last = self._least_loaded(
                    name for name in self._without(task) if not used.keys() & self.tags[name].items()
                )
                if last is None:
                    missing[task] = self.settings.standbys - copies
                    break
                self.shares[last].standby.add(task)
        # Kafka starts with a map of all tasks and removes those that have all their copies.
        order = order_of_hashes([*map(_hash_code, self.stateful)])
        return {task: missing[task] for task in (self.stateful[place] for place in order) if task in missing}

    def _without(self, task: str) -> Iterable[str]:
        return (name for name, share in self.shares.items() if not share.has(task))

    def spread_stateless(self, tasks: Iterable[str]) -> None:
        for task in tasks:
            share = min(self.shares.values(), key=lambda one: len(one.active) / one.threads)
            share.active.add(task)

    def _even_out(
        self, kinds: Sequence[set[str]], may_move: Callable[[int, int], bool] = lambda _source, _destination: True
    ) -> None:
        """Moves tasks of one kind from each share to each other share as long as that evens out the loads."""
        shares, has_moved = [*self.shares.values()], True
        while has_moved:
            has_moved = False
            for source, destination in permutations(range(len(shares)), 2):
                if not _evens_out(shares[source], shares[destination]) or not may_move(source, destination):
                    continue
                for task in in_order(kinds[source]):
                    if not _evens_out(shares[source], shares[destination]):
                        break
                    if not shares[destination].has(task):
                        kinds[source].remove(task)
                        kinds[destination].add(task)
                        has_moved = True

    # -- where they can be for now

    def leave_active_where_caught_up(self) -> int:
        """Leaves each active task where it has caught up. Returns how many would be better off elsewhere, once their
        copy there has caught up."""
        every = ((name, task) for name, share in self.shares.items() for task in in_order(share.active))
        movements = self._movements(every)
        for name, task in movements:
            destination, caught_up = self.shares[name], self.caught_up[task]
            with_copy = [each for each in caught_up if task in self.shares[each].standby]
            source_name = self._least_loaded(with_copy) or self._least_loaded(caught_up) or self.by_lag[task][0]
            source = self.shares[source_name]
            destination.active.remove(task)
            if task in source.standby:
                source.standby.remove(task)
                destination.standby.add(task)
            elif self._may_warm_up():
                destination.standby.add(task)
                self.warming.add((name, task))
            source.active.add(task)
        return len(movements)

    def leave_standbys_where_caught_up(self) -> int:
        """The same for standby tasks."""
        every = ((name, task) for name, share in self.shares.items() for task in in_order(share.standby))
        moved = 0
        for name, task in self._movements(one for one in every if one not in self.warming):
            free = [each for each in self.caught_up[task] if not self.shares[each].has(task)]
            source_name = self._least_loaded(free)
            if source_name is None:
                before = self.by_lag[task][: self.by_lag[task].index(name)]
                source_name = next((each for each in before if not self.shares[each].has(task)), None)
            if source_name is None:
                continue
            moved += 1
            self.shares[source_name].standby.add(task)
            if not self._may_warm_up():
                self.shares[name].standby.remove(task)
        return moved

    def _movements(self, wanted: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """The (process, task) pairs whose process has not caught up while another process is further ahead, in the
        order in which they are handled."""
        found = [
            (name, task) for name, task in wanted
            if name not in self.caught_up[task] and self.lags[self.by_lag[task][0]][task] < self.lags[name][task]
        ]  # fmt: skip
        ranks = [(len(self.caught_up[task]), task_key(task)) for _, task in found]
        return [found[place] for place in poll_order(ranks)]

    def _may_warm_up(self) -> bool:
        self.warmups_left -= 1
        return self.warmups_left >= 0

    def _least_loaded(self, names: Iterable[str]) -> str | None:
        return min(names, key=lambda name: (self.shares[name].load, self.place[name]), default=None)


def _evens_out(source: _Share, destination: _Share) -> bool:
    """Whether one task less here and one more there evens out the loads."""
    skew = source.load - destination.load
    then = (source.count - 1) / source.threads - (destination.count + 1) / destination.threads
    return skew > 0 and 0 <= then < skew


def _hash_code(task: str) -> int:
    """TaskId.hashCode, unsigned."""
    name, subtopology, partition = task_key(task)
    value = 31 * (31 * (31 + subtopology) + partition) + (string_hash(name) if name else 0)
    return value & 0xFFFF_FFFF


def _java_order(process_id: str) -> tuple[int, int]:
    return uuid_key(bytes.fromhex(process_id.replace("-", "")))
