"""Runs several things at the same time, in threads that nobody waits for after the deadline.

Plain daemon threads: `concurrent.futures` joins its threads at exit, even one that hangs in a name resolver."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from kgm.client.transport.deadline import Deadline
from kgm.model.errors import KgmError, UnreachableError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def run_parallel(tasks: Mapping[K, Callable[[], T]], deadline: Deadline, what: str) -> dict[K, T | KgmError]:
    """Each task's result, or the KgmError that it raised; a task that does not finish in time is an error too."""
    if len(tasks) == 1:  # no thread in the usual case of one broker
        ((key, task),) = tasks.items()
        return {key: _result_of(task)}
    results: SimpleQueue[tuple[K, T | KgmError | BaseException]] = SimpleQueue()
    for key, task in tasks.items():
        _start(_putting_result(key, task, results))
    finished: dict[K, T | KgmError] = {}
    while len(finished) < len(tasks):
        try:
            key, result = results.get(timeout=deadline.remaining() + 0.05)
        except Empty:
            break
        finished[key] = _raise_unexpected(result)
    late = UnreachableError(f"{what}: no answer within the time allowed ({deadline.budget_ms} ms)")
    return {key: finished.get(key, late) for key in tasks}


def first_of(
    tasks: Sequence[Callable[[], T]], deadline: Deadline, *, stagger: float, discard: Callable[[T], None]
) -> T | list[KgmError]:
    """The first success; each further task starts `stagger` seconds after the previous one, or when that one has
    failed.

    Successes that come too late are passed to `discard`. If none succeeds, all failures, in the order in which they
    came."""
    race = _Race(discard)
    failures: list[KgmError] = []
    started = 0
    try:
        while len(failures) < len(tasks):
            if started < len(tasks):
                _start(race.runner(tasks[started]))
                started += 1
            wait = deadline.remaining() + 0.05 if started == len(tasks) else min(stagger, deadline.remaining())
            try:
                outcome = race.results.get(timeout=wait)
            except Empty:
                if deadline.expired:
                    break
                continue
            result: T | KgmError = _raise_unexpected(outcome)
            if not isinstance(result, KgmError):
                return result
            failures.append(result)
    finally:
        race.end()
    return failures


def finish_by(deadline: Deadline, function: Callable[[], None]) -> None:
    """Run a function in a thread and wait until it ends, but not past the deadline. It must not raise."""
    _start(function).join(deadline.remaining())


def _start(function: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


def _result_of(task: Callable[[], T]) -> T | KgmError:
    try:
        return task()
    except KgmError as error:
        return error


def _putting_result(
    key: K, task: Callable[[], T], results: SimpleQueue[tuple[K, T | KgmError | BaseException]]
) -> Callable[[], None]:
    def put() -> None:
        try:
            results.put((key, task()))
        except BaseException as error:  # noqa: BLE001  (handed to the waiting thread)
            results.put((key, error))

    return put


class _Race:
    """The results of tasks that race; after `end`, every success is discarded."""

    def __init__(self, discard: Callable[[Any], None]) -> None:
        self.results: SimpleQueue[Any] = SimpleQueue()
        self._discard = discard
        self._lock = threading.Lock()
        self._ended = False

    def runner(self, task: Callable[[], Any]) -> Callable[[], None]:
        """The function that a thread runs for a task."""

        def run() -> None:
            try:
                result = task()
            except BaseException as error:  # noqa: BLE001  (handed to the waiting thread)
                self.results.put(error)
                return
            with self._lock:
                if not self._ended:
                    self.results.put(result)
                    return
            self._discard(result)

        return run

    def end(self) -> None:
        with self._lock:
            self._ended = True
        while not self.results.empty():
            late = self.results.get()
            if not isinstance(late, BaseException):
                self._discard(late)


def _raise_unexpected(result: T | KgmError | BaseException) -> T | KgmError:
    """Return a KgmError as a result; raise anything else that was raised, because it is a bug."""
    if isinstance(result, BaseException) and not isinstance(result, KgmError):
        raise result
    return result
