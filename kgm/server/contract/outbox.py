"""Responses on their way out: what is needed to encode each, and those that wait for the log to be flushed."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from kgm.model.errors import EncodeError
from kgm.protocol.wire import encode_response
from kgm.server.contract.exchange import Answer, Call, Event, Hangup, NoAnswer, Reply, Response, Ticket


class _Owed(NamedTuple):
    correlation_id: int
    version: int
    call: Call


class Outbox:
    """Tickets that are owed an event. Each gets one, unless it is forgotten."""

    def __init__(self) -> None:
        self._owed: dict[Ticket, _Owed] = {}
        self._held: list[Reply | NoAnswer | Hangup] = []

    def owe(self, call: Call, correlation_id: int) -> None:
        self._owed[call.ticket] = _Owed(correlation_id, call.version, call)

    def forget(self, ticket: Ticket) -> None:
        """Whatever answers the ticket later leads to no event."""
        self._owed.pop(ticket, None)

    def hold(self, response: Response) -> None:
        """Keep for `release`."""
        self._held += response

    def release(self, void: Collection[Ticket], refuse: Callable[[Call], Reply | Hangup]) -> tuple[Event, ...]:
        """The events of what was held; a ticket that is void is refused instead of answered."""
        held, self._held = self._held, []
        if void:
            refused = {ticket: refuse(self._owed[ticket].call) for ticket in void if ticket in self._owed}
            held = [refused.get(item.ticket, item) for item in held]
        return self.events(tuple(held))

    def events(self, response: Response) -> tuple[Event, ...]:
        """Encode what is owed; what nobody waits for any more is dropped."""
        events: list[Event] = []
        for item in response:
            ticket = item.ticket
            owed = self._owed.pop(ticket, None)
            if owed is None:
                continue
            if not isinstance(item, Reply):
                events.append(item)
                continue
            try:
                frame = encode_response(item.message, version=owed.version, correlation_id=owed.correlation_id)
            except EncodeError as error:
                events.append(Hangup(ticket, error.message))
            else:
                events.append(Answer(ticket, frame))
        return tuple(events)
