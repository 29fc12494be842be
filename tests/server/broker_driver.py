"""A broker without sockets, on a clock that is set by hand."""

import itertools
from typing import Any

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.protocol.apis import API, response_class
from kgm.protocol.struct import Message
from kgm.protocol.wire import decode_response, encode_request
from kgm.server.broker import brokers_of
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ConnectionEvent, Endpoints, ResponseFrame
from kgm.server.contract.limits import Limits
from kgm.server.logs.storage import Storage

ENDPOINTS = Endpoints(client_host="/192.0.2.7", server_host="192.0.2.1", server_port=9092)


class Driver:
    """Sends frames and records the events by ticket."""

    def __init__(
        self,
        topics: dict[str, int] | None = None,
        *,
        limits: Limits | None = None,
        brokers: int = 1,
        storage: Storage | None = None,
        **settings: int,
    ) -> None:
        values = {"group_initial_rebalance_delay_ms": 0, **settings}
        self.now = 1_000_000
        self.warnings: list[str] = []
        self.cluster = EmbeddedCluster(
            topics={"t": 3} if topics is None else topics,
            settings=BrokerSettings(**values),
            limits=limits,
            brokers=brokers,
            storage=storage,
            now=self.now,
            warn=self.warnings.append,
        )
        self.brokers = brokers_of(self.cluster)
        self.broker = self.brokers[1]
        self.events: dict[int, ConnectionEvent] = {}
        self._tickets = itertools.count(1)
        self._asked: dict[int, tuple[type[Message], int]] = {}

    def frame(self, frame: bytes, *, to: int = 1) -> int:
        """Send bytes to a broker; returns the ticket."""
        ticket = next(self._tickets)
        self._keep(self.brokers[to].receive(frame, ticket=ticket, endpoints=ENDPOINTS, now=self.now))
        return ticket

    def send(self, message: Message, *, version: int | None = None, client_id: str | None = "c", to: int = 1) -> int:
        at = API[message.API_KEY].max_version if version is None else version
        ticket = self.frame(encode_request(message, version=at, correlation_id=77, client_id=client_id), to=to)
        self._asked[ticket] = (response_class(message.API_KEY), at)
        return ticket

    def answer(self, ticket: int) -> Any:
        event = self.events[ticket]
        assert isinstance(event, ResponseFrame), event
        cls, version = self._asked[ticket]
        correlation_id, message = decode_response(cls, event.frame, version=version)
        assert correlation_id == 77
        return message

    def ask(self, message: Message, *, version: int | None = None, client_id: str | None = "c", to: int = 1) -> Any:
        return self.answer(self.send(message, version=version, client_id=client_id, to=to))

    def advance(self, ms: int) -> None:
        self.now += ms
        self._keep(self.cluster.advance(self.now))

    def move(self, partition: int, leader: int) -> None:
        self._keep(self.cluster.move_coordinator(partition, leader, self.now))

    def stop(self, node_id: int) -> None:
        self._keep(self.cluster.stop_broker(node_id, self.now))

    def start(self, node_id: int) -> None:
        self._keep(self.cluster.start_broker(node_id, self.now))

    def load(self) -> None:
        """Load everything there is to load."""
        while self.cluster.is_loading:
            self._keep(self.cluster.load_piece(self.now))

    def flush(self) -> None:
        self._keep(self.cluster.flush(self.now))

    def _keep(self, events: tuple[ConnectionEvent, ...]) -> None:
        for event in events:
            assert event.ticket not in self.events, "answered twice"
            self.events[event.ticket] = event
