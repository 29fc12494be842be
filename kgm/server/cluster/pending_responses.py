"""Requests that have no response yet, and responses that wait for the log to be flushed."""

from collections.abc import Callable, Collection

from kgm.model.errors import EncodeError
from kgm.protocol.wire import encode_response
from kgm.server.contract.exchange import (
    ClientRequest,
    CloseConnection,
    ConnectionEvent,
    NoResponse,
    Replies,
    Reply,
    ResponseFrame,
    Ticket,
)


class PendingResponses:
    """Turns replies into events. Each request gets one, unless its connection is closed first."""

    def __init__(self) -> None:
        self._requests: dict[Ticket, ClientRequest] = {}
        self._held: list[Reply | NoResponse | CloseConnection] = []

    def expect(self, request: ClientRequest) -> None:
        """A request was received."""
        self._requests[request.ticket] = request

    def disconnected(self, ticket: Ticket) -> None:
        """The connection of a request is closed, so a reply to it no longer makes an event."""
        self._requests.pop(ticket, None)

    def hold(self, replies: Replies) -> None:
        """Keep replies until `release`."""
        self._held += replies

    def release(
        self, lost: Collection[Ticket], refuse: Callable[[ClientRequest], Reply | CloseConnection]
    ) -> tuple[ConnectionEvent, ...]:
        """The events for the replies that were held. lost: requests whose records may be lost, which are refused
        instead."""
        held, self._held = self._held, []
        if lost:
            refused = {ticket: refuse(self._requests[ticket]) for ticket in lost if ticket in self._requests}
            held = [refused.get(reply.ticket, reply) for reply in held]
        return self.events(tuple(held))

    def events(self, replies: Replies) -> tuple[ConnectionEvent, ...]:
        """Encode the replies to requests that still wait for one; drop the others."""
        events: list[ConnectionEvent] = []
        for reply in replies:
            ticket = reply.ticket
            request = self._requests.pop(ticket, None)
            if request is None:
                continue
            if not isinstance(reply, Reply):
                events.append(reply)
                continue
            events.append(response_event(reply, request.version, request.correlation_id))
        return tuple(events)


def response_event(reply: Reply, version: int, correlation_id: int) -> ConnectionEvent:
    """The encoded reply to a request of this version and correlation id."""
    try:
        frame = encode_response(reply.message, version=version, correlation_id=correlation_id)
    except EncodeError as error:
        return CloseConnection(reply.ticket, error.message)
    return ResponseFrame(reply.ticket, frame)
