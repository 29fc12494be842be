"""The coordinator of one shard: dispatch of requests, alarms and records. STUB, being filled in."""

from collections.abc import Callable, Mapping

from kgm.coordinator.outcome import Millis, Outcome, Request, Ticket, TimerKey
from kgm.coordinator.settings import BrokerSettings
from kgm.records.record import Record


class Coordinator:
    """A group coordinator. Not safe for threads: one event at a time."""

    def __init__(
        self,
        *,
        settings: BrokerSettings | None = None,
        new_member_id: Callable[[str], str],
        topics: Mapping[str, int] | None = None,
    ) -> None:
        raise NotImplementedError

    def handle(self, request: Request, *, ticket: Ticket, now: Millis) -> Outcome:
        raise NotImplementedError

    def expire(self, key: TimerKey, *, now: Millis) -> Outcome:
        raise NotImplementedError

    def replay(self, record: Record) -> None:
        raise NotImplementedError

    def loaded(self, *, now: Millis) -> Outcome:
        raise NotImplementedError

    def fork(self) -> "Coordinator":
        raise NotImplementedError
