"""Plays draws in this process, or, once that pays off, in as many processes as there are cores.

A draw depends only on its task, and draws are handed over in the order of the tasks, so it makes no difference which
process played them. A draw that a process cannot play, because of an error or because it was killed, is played in this
process."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from kgm.model.errors import TimedOutError
from kgm.simulation.draws.task import Playable

T = TypeVar("T")
R = TypeVar("R")
#: Processes are started when the remaining draws will take this much CPU, or when this much was already spent playing
#: in this process. Each costs about 0.3 s of CPU. No clock decides: more processes make a busy machine busier.
_WORTH_S = 1.0
_PATIENCE_S = 3.0
#: How often the time limit is checked while processes play.
_LOOK_S = 0.05
_MOST_PROCESSES = 64
_START = "import sys; sys.path[:] = {path!r}; from kgm.simulation.draws.worker import main; main({file}, {parent})"


class DrawExecutor(Protocol):
    """Plays draws of simulations, and the groups of a fleet."""

    def play(
        self, playable: Playable[T, R], tasks: Sequence[T], is_out_of_time: Callable[[], bool]
    ) -> Iterator[R]:  # fmt: skip
        """The results of these tasks, in order, each as soon as it is available. Raises what a play raises, and
        TimedOutError when the time is over."""


class _Here:
    """Plays everything in this process."""

    def play(
        self, playable: Playable[T, R], tasks: Sequence[T], is_out_of_time: Callable[[], bool]  # noqa: ARG002
    ) -> Iterator[R]:  # fmt: skip
        yield from map(playable.play_task, tasks)


HERE: DrawExecutor = _Here()


@dataclass(slots=True)
class _Process:
    """A started process. playing: the position of its task in the current round; None while it is idle. knows: the
    playable that it was sent last."""

    popen: subprocess.Popen[bytes]
    connection: Connection
    playing: int | None = None
    knows: Playable[Any, Any] | None = None

    def give(self, playable: Playable[T, R], place: int, task: T) -> None:
        if self.knows is not playable:
            self.connection.send(playable)
            self.knows = playable
        self.connection.send((place, task))
        self.playing = place

    def end(self) -> None:
        self.popen.kill()
        self.connection.close()
        self.popen.wait()


@dataclass(slots=True)
class _Round(Generic[T, R]):
    """The tasks of one call, and their results that are not handed over yet, by position. None: to be played in this
    process."""

    playable: Playable[T, R]
    tasks: Sequence[T]
    next_task: int
    played: dict[int, tuple[R] | None] = field(default_factory=dict)


class ParallelDrawExecutor:
    """Plays in up to `processes` processes, by default one for each core. A context manager: on exit the processes end
    immediately, whatever they are doing. They also end when this process is gone.

    on_draw: called with how many draws are done and how many the call has in total."""

    def __init__(
        self, processes: int | None = None, *, on_draw: Callable[[int, int], None] = lambda _done, _of: None,
        worth_s: float = _WORTH_S,
    ) -> None:  # fmt: skip
        self._most = min(cores() if processes is None else processes, _MOST_PROCESSES)
        self._on_draw = on_draw
        self._worth_s = worth_s
        self._played_s = 0.0
        self._last_s = 0.0
        self._processes: list[_Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        processes, self._processes = self._processes, []
        for process in processes:
            process.end()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The ids of the processes that are running."""
        return tuple(process.popen.pid for process in self._processes)

    def play(
        self, playable: Playable[T, R], tasks: Sequence[T], is_out_of_time: Callable[[], bool]
    ) -> Iterator[R]:  # fmt: skip
        """See `DrawExecutor`. If the caller stops early, the processes that are still playing are ended."""
        done = 0
        while done < len(tasks):
            if self._is_worth_it(len(tasks) - done):
                for draw in self._in_processes(playable, tasks, done, is_out_of_time):
                    done += 1
                    self._on_draw(done, len(tasks))
                    yield draw
                return
            began_s = time.thread_time()
            draw = playable.play_task(tasks[done])
            took_s = time.thread_time() - began_s
            if self._played_s:  # the first one pays for what is computed once
                self._last_s = took_s
            self._played_s += took_s
            done += 1
            self._on_draw(done, len(tasks))
            yield draw

    def _is_worth_it(self, left: int) -> bool:
        if self._most < 2 or left < 2 or not sys.executable:
            return False
        is_much = left * self._last_s >= self._worth_s or self._played_s >= _PATIENCE_S
        return bool(self._processes) or is_much

    def _in_processes(
        self, playable: Playable[T, R], tasks: Sequence[T], first: int, is_out_of_time: Callable[[], bool]
    ) -> Iterator[R]:  # fmt: skip
        at_work = _Round(playable, tasks, first)
        try:
            for place in range(first, len(tasks)):
                while place not in at_work.played:
                    if is_out_of_time():
                        raise TimedOutError("the time limit has passed", hint="allow more with --timeout")
                    self._go_on(at_work)
                played = at_work.played.pop(place)
                yield playable.play_task(tasks[place]) if played is None else played[0]
        finally:
            self._end_busy()

    def _go_on(self, at_work: _Round[T, R]) -> None:
        """Give every process something to do, and wait for one of them."""
        left = len(at_work.tasks) - at_work.next_task
        idle = [process for process in self._processes if process.playing is None]
        while len(idle) < left and len(self._processes) < self._most:
            started = _started()
            self._processes.append(started)
            idle.append(started)
        for process in idle[:left]:
            place, at_work.next_task = at_work.next_task, at_work.next_task + 1
            try:
                process.give(at_work.playable, place, at_work.tasks[place])
            except OSError:
                self._gone(process, at_work, place)
        busy = {process.connection: process for process in self._processes if process.playing is not None}
        for connection in wait(list(busy), _LOOK_S):
            process = busy[connection]  # type: ignore[index]
            assert process.playing is not None
            try:
                place, played = process.connection.recv()
            except (EOFError, OSError):
                self._gone(process, at_work, process.playing)
            else:
                process.playing = None
                at_work.played[place] = played

    def _gone(self, process: _Process, at_work: _Round[T, R], place: int) -> None:
        """A process has exited or was killed: its draw is played in this process."""
        self._processes.remove(process)
        process.end()
        at_work.played[place] = None

    def _end_busy(self) -> None:
        for process in [process for process in self._processes if process.playing is not None]:
            self._processes.remove(process)
            process.end()


def _started() -> _Process:
    ours, theirs = socket.socketpair()
    with theirs:
        code = _START.format(path=[*map(str, sys.path)], file=theirs.fileno(), parent=os.getpid())
        popen = subprocess.Popen(  # noqa: S603  (this same Python)
            [sys.executable, "-c", code], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    return _Process(popen, Connection(ours.detach()))


def cores() -> int:
    """How many cores this process can use: the minimum of the cores of the machine, its CPU affinity, and the quota of
    its control group (a container)."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = pathlib.Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        count = min(count, max(int(quota) // int(period), 1))  # quota "max" raises ValueError: there is no limit
    return count
