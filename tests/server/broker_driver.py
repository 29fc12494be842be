"""A broker without sockets, and a clock that is set by hand."""

import itertools
from typing import Any

from kgm.coordinator.settings import BrokerSettings
from kgm.protocol.apis import API, response_class
from kgm.protocol.struct import Message
from kgm.protocol.wire import decode_response, encode_request
from kgm.server.broker import Broker
from kgm.server.exchange import Answer, Event, Peer
from kgm.server.limits import Limits

PEER = Peer(client_host="/192.0.2.7", host="192.0.2.1", port=9092)


class Driver:
    """Sends frames and keeps the events by ticket."""

    def __init__(self, topics: dict[str, int] | None = None, *, limits: Limits | None = None, **settings: int) -> None:
        values = {"group_initial_rebalance_delay_ms": 0, **settings}
        self.now = 1_000_000
        self.broker = Broker(
            topics={"t": 3} if topics is None else topics,
            settings=BrokerSettings(**values),
            limits=limits,
            now=self.now,
        )
        self.events: dict[int, Event] = {}
        self._tickets = itertools.count(1)
        self._asked: dict[int, tuple[type[Message], int]] = {}

    def frame(self, frame: bytes) -> int:
        """Send bytes; returns the ticket."""
        ticket = next(self._tickets)
        self._keep(self.broker.receive(frame, ticket=ticket, peer=PEER, now=self.now))
        return ticket

    def send(self, message: Message, *, version: int | None = None, client_id: str | None = "c") -> int:
        at = API[message.API_KEY].max_version if version is None else version
        ticket = self.frame(encode_request(message, version=at, correlation_id=77, client_id=client_id))
        self._asked[ticket] = (response_class(message.API_KEY), at)
        return ticket

    def answer(self, ticket: int) -> Any:
        event = self.events[ticket]
        assert isinstance(event, Answer), event
        cls, version = self._asked[ticket]
        correlation_id, message = decode_response(cls, event.frame, version=version)
        assert correlation_id == 77
        return message

    def ask(self, message: Message, *, version: int | None = None, client_id: str | None = "c") -> Any:
        return self.answer(self.send(message, version=version, client_id=client_id))

    def advance(self, ms: int) -> None:
        self.now += ms
        self._keep(self.broker.advance(self.now))

    def _keep(self, events: tuple[Event, ...]) -> None:
        for event in events:
            assert event.ticket not in self.events, "answered twice"
            self.events[event.ticket] = event
