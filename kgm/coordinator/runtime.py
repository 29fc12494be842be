"""Executes outcomes: append records, replay them, move timers, hand out replies; and fires the timers that are due.

The server drives it with the real clock, the simulation with a virtual one. Time goes forward only."""

import heapq
from collections.abc import Sequence
from typing import Protocol

from kgm.coordinator.engine import Coordinator
from kgm.coordinator.outcome import Millis, Outcome, Producer, Reply, Request, SetTimer, Ticket, TimerKey
from kgm.model.errors import ErrorCode, KgmError
from kgm.records.record import Record

#: Superseded entries may outnumber live timers this many times before they are swept out.
_SLACK = 4
_SMALL = 64


class Append(Protocol):
    """Writes records to a log, all of them or none; into a transactional batch when a producer is given, which happens
    for TxnOffsetCommit only."""

    def __call__(self, records: Sequence[Record], producer: Producer | None = None, /) -> None: ...


class AppendError(KgmError):
    """Raised by an `append` function: none of the records is in the log, because of this error of Kafka's."""

    code = "APPEND"

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(f"records could not be appended: {error.name}", kafka_error=error)
        self.error = error


class Runtime:
    """Drives a `Coordinator`.

    append: writes records to a log, all of them or none. It says that it could not by raising AppendError, or OSError,
    which counts as KAFKA_STORAGE_ERROR; clients are then told the error that a broker tells them."""

    def __init__(self, engine: Coordinator, *, append: Append | None = None) -> None:
        self.engine = engine
        self._append = append
        self._sequence = 0
        # An index of engine.deadlines. Entries that are not the latest of their key, or do not agree with the engine,
        # have been moved or cancelled.
        self._heap: list[tuple[Millis, int, TimerKey]] = []
        self._latest: dict[TimerKey, int] = {}
        for key, deadline in engine.deadlines.items():
            self._push(key, deadline)

    def submit(self, request: Request, *, ticket: Ticket, now: Millis) -> tuple[Reply, ...]:
        """Handle a request, after the timers that are due. The replies may be to other tickets, and to this one
        there need not be one yet."""
        before = self.advance(now)
        return before + self._execute(self.engine.handle(request, ticket=ticket, now=now), now)

    def advance(self, now: Millis) -> tuple[Reply, ...]:
        """Fire every timer due at `now` or before, each at its own deadline: by deadline, and those of one deadline in
        the order in which they were set. Timers that these set are fired too if they are due."""
        replies: tuple[Reply, ...] = ()
        while (timer := self.next_timer()) is not None and timer.deadline_ms <= now:
            replies += self.fire(timer)
        return replies

    def fire(self, timer: SetTimer) -> tuple[Reply, ...]:
        """Fire one timer at its deadline, whatever else is due; nothing happens if it has been moved or cancelled."""
        return self._execute(self.engine.expire(timer.key, now=timer.deadline_ms), timer.deadline_ms)

    def next_deadline(self) -> Millis | None:
        """When the next timer fires; None if none is set."""
        timer = self.next_timer()
        return None if timer is None else timer.deadline_ms

    def next_timer(self) -> SetTimer | None:
        """The timer that fires next; None if none is set."""
        while self._heap:
            deadline, sequence, key = self._heap[0]
            if self._latest.get(key) == sequence and self.engine.deadline(key) == deadline:
                return SetTimer(key, deadline)
            heapq.heappop(self._heap)
        return None

    def load(self, records: Sequence[Record], *, now: Millis) -> tuple[Reply, ...]:
        """Rebuild the state from a log without transactions, and arm the timers."""
        for record in records:
            self.engine.replay(record)
        return self.loaded(now=now)

    def loaded(self, *, now: Millis) -> tuple[Reply, ...]:
        """Arm the timers, after the caller has replayed a log: records with their producers, and markers
        (`engine.replay`, `engine.replay_end_transaction`)."""
        return self._execute(self.engine.loaded(now=now), now)

    def unload(self, *, now: Millis) -> tuple[Reply, ...]:
        """Send whoever waits to another broker."""
        return self._execute(self.engine.unloaded(now=now), now)

    def fork(self) -> "Runtime":
        """An independent copy for what-if questions: its records go nowhere."""
        return Runtime(self.engine.fork())

    def _execute(self, outcome: Outcome, now: Millis) -> tuple[Reply, ...]:
        if outcome.records:
            outcome = self._log(outcome, now)
        for timer in outcome.timers:
            if isinstance(timer, SetTimer):
                self._push(timer.key, timer.deadline_ms)
            else:
                self._latest.pop(timer.key, None)
        return outcome.replies

    def _log(self, outcome: Outcome, now: Millis) -> Outcome:
        """The outcome once its records are in the log, or what takes its place if they are not."""
        try:
            if self._append is not None:
                if outcome.producer is None:
                    self._append(outcome.records)
                else:
                    self._append(outcome.records, outcome.producer)
        except AppendError as failure:
            return self.engine.abort(failure.error, now=now)
        except OSError:
            return self.engine.abort(ErrorCode.KAFKA_STORAGE_ERROR, now=now)
        for record in outcome.records:
            self.engine.replay(record, outcome.producer)
        return outcome

    def _push(self, key: TimerKey, deadline: Millis) -> None:
        self._sequence += 1
        self._latest[key] = self._sequence
        heapq.heappush(self._heap, (deadline, self._sequence, key))
        if len(self._heap) > _SLACK * len(self._latest) + _SMALL:
            # Heartbeats move timers much more often than timers fire.
            self._heap = [entry for entry in self._heap if self._latest.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)
