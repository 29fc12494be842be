"""Processes of Kafka Streams that stop and start while a plan is played, each with all its threads; how their group
reacts depends on the protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import Final, Generic, TypeVar

from kgm.simulation.framework_play import TimedPlay
from kgm.simulation.streams.group import StreamsFleet, StreamsThread

#: Spans in ms: from the stop of a process until none of its threads runs a task; from the start of one until it joins,
#: and from the first of its threads to the last.
_STOP_MS: Final = (5, 300)
_START_MS: Final = (300, 4_000)
_TOGETHER_MS: Final = (2, 200)

#: What a play knows of a process.
P = TypeVar("P")


class ProcessesPlay(TimedPlay[str], ABC, Generic[P]):
    """A part of a play, which calls `have_processes` before it plays."""

    def have_processes(self, group: StreamsFleet, processes: Mapping[str, P], *, keeps_disk: bool) -> None:
        """processes: by process id. keeps_disk: whether a process that restarts still has its id."""
        self._group, self._keeps_disk = group, keeps_disk
        self._processes = dict(processes)
        self._threads = {one.identity: one for one in group.threads}

    def play_plan(self) -> None:
        plan = self.plan
        self._stop_all((*plan.scale_in, *plan.remove), returns=False)
        for number in range(plan.scale_out):
            self._add(number)
        if plan.rolling is not None:
            self._until_settled()
        for batch in plan.batches():
            self._stop_all(batch, returns=True)
            self._until_settled()
            if plan.rolling is not None:
                self.now_ms += plan.rolling.pause_ms
        self._until_settled()

    def _stop_all(self, names: Iterable[str], *, returns: bool) -> None:
        """The threads of one process stop together, and start again together."""
        threads = [self._threads[name] for name in names]
        restart_ms = self.chance.choice(self.plan.restart_times_ms or (self.plan.restart_time_ms,))
        for _, some in groupby(sorted(threads, key=lambda one: one.process), key=lambda one: one.process):
            whole = [*some]
            stop_ms = self.some(_STOP_MS)
            start_ms = restart_ms + self.some(_START_MS)
            for thread in whole:
                self.later(stop_ms * self.chance.random(), partial(self._stop, thread.identity))
            if returns:
                self.later(start_ms, partial(self._start, [thread.identity for thread in whole]))

    def _start(self, names: list[str]) -> None:
        """A process starts again: as the same one if its disk still has its state, and as another one otherwise."""
        old = next(one.process for one in self._group.threads if one.identity in names)
        process = self._processes[old]
        if not self._keeps_disk:
            process = self._processes[old] = self._new_process(process)
        for name in names:
            self.note("start", "starts again", name)
            after_ms = self.chance.uniform(*_TOGETHER_MS)  # the order of threads is random at any pace
            self.later(after_ms, partial(self._join, name, process, self._threads[name]))

    def _new_id(self) -> str:
        return f"{self.chance.getrandbits(128):032x}"

    def _add(self, number: int) -> None:
        """A new thread, with as many others in its process as most processes have."""
        size, pattern = self._group.usual_threads, self._group.threads[0]
        key = f"new-{number // size + 1}"
        if key not in self._processes:
            self._processes[key] = self._new_process(None)
        name = f"{key}-{number % size + 1}"
        after_ms = (number // size) * self.plan.scale_out_every_ms + self.some(_START_MS)
        self.begins_new(name)
        self.later(after_ms, partial(self._join, name, self._processes[key], pattern))

    # -- the group

    @abstractmethod
    def _until_settled(self) -> None:
        """Runs until nothing is left to happen."""

    @abstractmethod
    def _new_process(self, old: P | None) -> P:
        """A process with a new id. old: the one that it replaces."""

    @abstractmethod
    def _stop(self, identity: str) -> None:
        """A thread stops."""

    @abstractmethod
    def _join(self, identity: str, process: P, like: StreamsThread) -> None:
        """A thread joins without tasks."""
