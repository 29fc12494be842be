"""Executes outcomes: appends records and replays them, changes timers, returns replies; and fires timers that are due.

The server drives it with the real clock, the simulation with a virtual one. Time only moves forward."""

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from kgm.coordinator.contract.outcome import (
    Millis,
    NewTopic,
    Outcome,
    Producer,
    Reply,
    Request,
    SetTimer,
    Ticket,
    TimerKey,
    runs_of,
)
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.engine import Coordinator
from kgm.model.errors import ErrorCode, KgmError
from kgm.records.record import Record

#: Superseded entries may outnumber live timers this many times before they are removed.
_SLACK = 4
_SMALL = 64


class Append(Protocol):
    """Appends records to a log, all of them or none; in a transactional batch if there is a producer, which is only the
    case for TxnOffsetCommit."""

    def __call__(self, records: Sequence[Record], producer: Producer | None = None, /) -> None: ...


class AppendError(KgmError):
    """Raised by an `append` function: none of the records is in the log, because of this error."""

    code = "APPEND"

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(f"records could not be appended: {error.name}", kafka_error=error)
        self.error = error


class Runtime:
    """Drives a `Coordinator`.

    append: appends records to a log, all of them or none. If that fails, it raises AppendError, or OSError, which
    counts as KAFKA_STORAGE_ERROR; clients then get the error that a broker returns. has_real_clock: a timer that fires
    late fires at the current time, as on a broker, and not at its deadline: after a minute without CPU there is nothing
    to catch up on. create_topics: called with the topics that a streams group needs; it must not call back."""

    def __init__(
        self,
        engine: Coordinator,
        *,
        append: Append | None = None,
        has_real_clock: bool = False,
        create_topics: Callable[[Sequence[NewTopic]], None] | None = None,
    ) -> None:
        self.engine = engine
        self._append = append
        self._create_topics = create_topics
        self._has_real_clock = has_real_clock
        self._sequence = 0
        # An index of engine.deadlines: every timer has an entry at or before its deadline. Heartbeats move timers much
        # more often than timers fire, so an entry is moved only when it reaches the top.
        self._heap: list[tuple[Millis, int, TimerKey]] = []
        self._entries: dict[TimerKey, Millis] = {}
        # When each timer was last set: if deadlines are equal, the timer that was set first fires first.
        self._turns: dict[TimerKey, int] = {}
        for key, deadline in engine.deadlines.items():
            self._index(key, deadline)

    def handle(self, request: Request, *, ticket: Ticket, now: Millis) -> tuple[Reply, ...]:
        """Handle a request, after firing the timers that are due. There may be replies to other tickets, and there may
        be no reply to this one yet."""
        heap = self._heap
        before = self.advance(now) if heap and heap[0][0] <= now else ()
        return before + self._execute(self.engine.handle(request, ticket=ticket, now=now), now)

    def advance(self, now: Millis) -> tuple[Reply, ...]:
        """Fire every timer due at `now` or before, each at its own deadline (with a real clock: at `now`), ordered by
        deadline, then by when they were set. Timers that are set meanwhile also fire if they are due."""
        replies: tuple[Reply, ...] = ()
        while (timer := self.next_timer()) is not None and timer.deadline_ms <= now:
            replies += self._expire(timer.key, now) if self._has_real_clock else self.fire(timer)
        return replies

    def fire(self, timer: SetTimer) -> tuple[Reply, ...]:
        """Fire one timer at its deadline, regardless of what else is due. Nothing happens if it was moved or
        cancelled."""
        return self._expire(timer.key, timer.deadline_ms)

    def _expire(self, key: TimerKey, now: Millis) -> tuple[Reply, ...]:
        return self._execute(self.engine.expire(key, now=now), now)

    def quiet_until(self) -> float:
        """A time before which no timer fires; cheaper than `next_deadline`."""
        return self._heap[0][0] if self._heap else math.inf

    def next_deadline(self) -> Millis | None:
        """When the next timer fires; None if none is set."""
        timer = self.next_timer()
        return None if timer is None else timer.deadline_ms

    def next_timer(self) -> SetTimer | None:
        """The timer that fires next; None if none is set."""
        heap, deadlines = self._heap, self.engine.deadlines
        while heap:
            deadline, turn, key = heap[0]
            moved_to = deadlines.get(key)
            if moved_to == deadline and self._turns[key] == turn:
                return SetTimer(key, deadline)
            if moved_to is None or self._entries.get(key) != deadline:
                heapq.heappop(heap)
                if moved_to is None:
                    self._entries.pop(key, None)
            else:
                heapq.heapreplace(heap, (moved_to, self._turns[key], key))
                self._entries[key] = moved_to
        return None

    def load(self, records: Sequence[Record], *, now: Millis) -> tuple[Reply, ...]:
        """Rebuild the state from a log without transactions, and set the timers."""
        for record in records:
            self.engine.replay(record)
        return self.loaded(now=now)

    def loaded(self, *, now: Millis, group_ids: Iterable[str] | None = None) -> tuple[Reply, ...]:
        """Set the timers, after the caller has replayed a log: records with their producers, and markers
        (`engine.replay`, `engine.replay_end_transaction`). group_ids: only these groups, see `engine.loaded`."""
        return self._execute(self.engine.loaded(now=now, group_ids=group_ids), now)

    def topics_changed(self, image: TopicImage | None = None, *, now: Millis) -> tuple[Reply, ...]:
        """Topics have changed (`engine.topics_changed`); timers that are due fire first."""
        return self.advance(now) + self._execute(self.engine.topics_changed(image, now=now), now)

    def disconnected(self, ticket: Ticket, *, now: Millis) -> tuple[Reply, ...]:
        """The connection of a request that waits for its reply was closed."""
        return self._execute(self.engine.disconnected(ticket, now=now), now)

    def unload(self, *, now: Millis) -> tuple[Reply, ...]:
        """Answer all parked requests with NOT_COORDINATOR."""
        return self._execute(self.engine.unloaded(now=now), now)

    def fork(self) -> "Runtime":
        """An independent copy, for what-if questions. Its records are not appended to a log."""
        return Runtime(self.engine.fork())

    def suspend_timers(self, keys: Sequence[TimerKey]) -> None:
        """Remove timers without cancelling what they are for. The caller sets them again (`resume_timers`)."""
        self.engine.suspend_timers(keys)
        for key in keys:
            self._turns.pop(key, None)

    def resume_timers(self, timers: Iterable[tuple[TimerKey, Millis, int]]) -> None:
        """Set timers with the turns reserved for them (`reserve_turns`)."""
        for key, deadline, turn in timers:
            self.engine.resume_timer(key, deadline)
            self._index(key, deadline, turn)

    def reserve_turns(self, count: int) -> int:
        """Reserve `count` turns and return the first. A turn says when a timer counts as set: if deadlines are equal,
        the timer with the earlier turn fires first."""
        first = self._sequence + 1
        self._sequence += count
        return first

    def turn_of(self, key: TimerKey) -> int:
        """The turn in which a timer was set."""
        return self._turns[key]

    def _execute(self, outcome: Outcome, now: Millis) -> tuple[Reply, ...]:
        if outcome.records:
            outcome = self._log(outcome, now)
        for timer in outcome.timers:
            if isinstance(timer, SetTimer):
                self._index(timer.key, timer.deadline_ms)
            else:
                self._turns.pop(timer.key, None)
        if outcome.new_topics and self._create_topics is not None:
            self._create_topics(outcome.new_topics)
        if len(self._heap) > _SLACK * len(self._turns) + _SMALL:
            self._sweep()
        return outcome.replies

    def _log(self, outcome: Outcome, now: Millis) -> Outcome:
        """The outcome, after its records were appended and replayed; or the one that replaces it if they were not."""
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
        for run in runs_of(outcome.records):
            self.engine.replay(run, outcome.producer)
        return outcome

    def _index(self, key: TimerKey, deadline: Millis, turn: int | None = None) -> None:
        if turn is None:
            self._sequence = turn = self._sequence + 1
        self._turns[key] = turn
        entry = self._entries.get(key)
        if entry is None or deadline < entry:
            self._entries[key] = deadline
            heapq.heappush(self._heap, (deadline, turn, key))

    def _sweep(self) -> None:
        """Remove the entries of cancelled timers."""
        self._entries = dict(self.engine.deadlines)
        self._heap = [(deadline, self._turns[key], key) for key, deadline in self._entries.items()]
        heapq.heapify(self._heap)
