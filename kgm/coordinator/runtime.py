"""Executes outcomes: append, replay, timers, replies. STUB, being filled in."""

from collections.abc import Callable, Sequence

from kgm.coordinator.engine import Coordinator
from kgm.coordinator.outcome import Millis, Reply, Request, Ticket
from kgm.records.record import Record


class Runtime:
    """Drives a `Coordinator`; `append` writes records to a log, all of them or none."""

    def __init__(self, engine: Coordinator, *, append: Callable[[Sequence[Record]], None] | None = None) -> None:
        raise NotImplementedError

    def submit(self, request: Request, *, ticket: Ticket, now: Millis) -> tuple[Reply, ...]:
        raise NotImplementedError

    def advance(self, now: Millis) -> tuple[Reply, ...]:
        raise NotImplementedError

    def next_deadline(self) -> Millis | None:
        raise NotImplementedError
