"""Processes of Kafka Streams that stop and start while a plan is played, each with all its threads; what their group
makes of it depends on the protocol."""

from __future__ import annotations

import heapq
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final

from kgm.simulation.plan.bounce_plan import Plan
from kgm.simulation.play.draw import Draw, TimelineEvent
from kgm.simulation.streams.group import StreamsFleet, StreamsThread

#: Spans in ms: from the stop of a process until none of its threads runs a task; from the start of one until it joins,
#: and from the first of its threads to the last.
_STOP_MS: Final = (5, 300)
_START_MS: Final = (300, 4_000)
_TOGETHER_MS: Final = (2, 200)


@dataclass(slots=True, kw_only=True)
class PlayedProcess:
    process_id: str


class ProcessesPlay(ABC):
    """Plays once; `play` gives what came of it. keeps_disk: whether a process that restarts has its id still."""

    def __init__(self, group: StreamsFleet, plan: Plan, chance: random.Random, *, keeps_disk: bool) -> None:
        self._group, self._plan, self._chance, self._keeps_disk = group, plan, chance, keeps_disk
        self._now_ms, self._sequence = 0, 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._processes = {one.process: PlayedProcess(process_id=one.process) for one in group.threads}
        self._threads = {one.identity: one for one in group.threads}
        self._timeline: list[TimelineEvent] = []
        self._new_since_ms: dict[str, int] = {}
        self._waits_ms: list[int] = []

    def play(self) -> Draw:
        """What came of the plan."""
        plan = self._plan
        self._stop_all((*plan.scale_in, *plan.remove), returns=False)
        for number in range(plan.scale_out):
            self._add(number)
        if plan.rolling is not None:
            self._until_settled()
        for batch in plan.batches():
            self._stop_all(batch, returns=True)
            self._until_settled()
            if plan.rolling is not None:
                self._now_ms += plan.rolling.pause_ms
        self._until_settled()
        return self._result()

    def _in(self, after_ms: float, event: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (self._now_ms + round(after_ms), self._sequence, event))

    def _some(self, span_ms: tuple[int, int]) -> float:
        least, most = span_ms
        return least + (most - least) * self._chance.random()

    def _note(self, event: str, detail: str, member: str | None = None) -> None:
        self._timeline.append(TimelineEvent(at_ms=self._now_ms, event=event, detail=detail, member=member))

    def _stop_all(self, names: Iterable[str], *, returns: bool) -> None:
        """Threads of one process stop, and start again, together."""
        threads = [self._threads[name] for name in names]
        restart_ms = self._chance.choice(self._plan.restart_times_ms or (self._plan.restart_time_ms,))
        for _, some in groupby(sorted(threads, key=lambda one: one.process), key=lambda one: one.process):
            whole = [*some]
            stop_ms = self._some(_STOP_MS)
            start_ms = restart_ms + self._some(_START_MS)
            for thread in whole:
                self._in(stop_ms * self._chance.random(), partial(self._stop, thread.identity))
            if returns:
                self._in(start_ms, partial(self._start, [thread.identity for thread in whole]))

    def _start(self, names: list[str]) -> None:
        """A process starts again: the one that it was if its disk has its state still, and another one otherwise."""
        old = next(one.process for one in self._group.threads if one.identity in names)
        process = self._processes[old]
        if not self._keeps_disk:
            process = self._processes[old] = self._new_process()
        for name in names:
            self._note("start", "starts again", name)
            self._in(self._some(_TOGETHER_MS), partial(self._join, name, process, self._threads[name]))

    def _new_process(self) -> PlayedProcess:
        return PlayedProcess(process_id=f"{self._chance.getrandbits(128):032x}")

    def _add(self, number: int) -> None:
        """A new thread, with as many others in its process as most processes have."""
        size, pattern = self._group.usual_threads, self._group.threads[0]
        key = f"new-{number // size + 1}"
        if key not in self._processes:
            self._processes[key] = self._new_process()
        name = f"{key}-{number % size + 1}"
        after_ms = (number // size) * self._plan.scale_out_every_ms + self._some(_START_MS)
        self._new_since_ms[name] = self._now_ms
        self._in(after_ms, partial(self._join, name, self._processes[key], pattern))

    # -- the group

    @abstractmethod
    def _until_settled(self) -> None:
        """Until nothing is to happen any more."""

    @abstractmethod
    def _stop(self, identity: str) -> None:
        """A thread stops."""

    @abstractmethod
    def _join(self, identity: str, process: PlayedProcess, like: StreamsThread) -> None:
        """A thread joins without tasks."""

    @abstractmethod
    def _result(self) -> Draw: ...
