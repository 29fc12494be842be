"""One broker without its sockets: frames in, events out.

Like the coordinators, it never waits, reads no clock, and raises nothing: if it cannot read a frame, it closes the
connection. Every request received gets exactly one event with its ticket, from the same call or a later one, unless its
connection is closed first. A call may also return events for requests that wait on other brokers."""

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import DecodeError
from kgm.protocol import codec
from kgm.protocol.apis import API, ApiKey, request_class
from kgm.protocol.struct import Message, Struct
from kgm.protocol.wire import RequestHeader, decode_request_header, encode_response
from kgm.server.apis.connection.api_versions import unsupported_version
from kgm.server.apis.table import HANDLERS, Handler
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.cluster.pending_responses import response_event
from kgm.server.contract.exchange import (
    ClientRequest,
    CloseConnection,
    ConnectionEvent,
    Endpoints,
    Millis,
    Reply,
    ResponseFrame,
    Ticket,
)
from kgm.server.contract.served_versions import highest_version

#: (lowest version, highest version, request class) of an API that is not served: an empty version range.
_NOT_SERVED: tuple[int, int, type[Message]] = (0, -1, Message)
_SERVED = {int(key): (API[key].min_version, API[key].max_version, request_class(key)) for key in HANDLERS}


class EmbeddedBroker:
    """One of the brokers of a cluster."""

    def __init__(self, node_id: int, cluster: EmbeddedCluster) -> None:
        self.node_id = node_id
        self.cluster = cluster
        self._max_items = cluster.limits.max_items
        self._handlers: dict[int, Handler] = {int(key): handler for key, handler in HANDLERS.items()}
        self._served = {
            key: (lowest, highest_version(ApiKey(key), cluster.settings), cls)
            for key, (lowest, _, cls) in _SERVED.items()
        }

    def receive(
        self, frame: bytes, *, ticket: Ticket, endpoints: Endpoints, now: Millis
    ) -> tuple[ConnectionEvent, ...]:
        """Serve a frame. Returns the event for this frame, if there is one already, and for other requests that it
        completes."""
        try:
            header = decode_request_header(frame)
        except DecodeError as error:
            return (CloseConnection(ticket, error.message),)
        key, version = header.api_key, header.version
        lowest, highest, cls = self._served.get(key, _NOT_SERVED)
        if not lowest <= version <= highest:
            return (_refuse(header, ticket, self.cluster.settings),)
        try:
            message = codec.decode(cls, frame, version, offset=header.body_at, allow_trailing=True)
        except DecodeError as error:
            return (CloseConnection(ticket, error.message),)
        if (items := count_items(message)) > self._max_items:
            return (CloseConnection(ticket, f"{type(message).__name__} with {items} entries"),)
        cluster = self.cluster
        overdue = cluster.advance(now)
        request = ClientRequest(
            message, version, header.correlation_id, header.client_id, endpoints, self.node_id, ticket, now
        )
        replies = self._handlers[key](request, cluster)
        settled = not (cluster.is_dirty or cluster.shards.has_changed)
        if settled and len(replies) == 1 and type(reply := replies[0]) is Reply and reply.ticket == ticket:
            return (*overdue, response_event(reply, version, header.correlation_id))  # nothing else is pending
        cluster.pending.expect(request)
        return overdue + cluster.respond(replies)


def brokers_of(cluster: EmbeddedCluster) -> dict[int, EmbeddedBroker]:
    """All brokers of a cluster, by id."""
    return {node_id: EmbeddedBroker(node_id, cluster) for node_id in cluster.nodes.ids}


def _refuse(header: RequestHeader, ticket: Ticket, settings: BrokerSettings) -> ConnectionEvent:
    """The event for an API or a version that is not served. As in Kafka, the connection is closed, except for
    ApiVersions."""
    if header.api_key not in _SERVED:
        return CloseConnection(ticket, f"API key {header.api_key} is not supported")
    if header.api_key != ApiKey.API_VERSIONS:
        return CloseConnection(ticket, f"{API[header.api_key].name} version {header.version} is not supported")
    frame = encode_response(unsupported_version(settings), version=0, correlation_id=header.correlation_id)
    return ResponseFrame(ticket, frame)


#: By struct class: the names of its array fields, and whether the elements are structs, which can contain arrays.
_arrays: dict[type[Struct], tuple[tuple[str, bool], ...]] = {}


def _arrays_of(cls: type[Struct]) -> tuple[tuple[str, bool], ...]:
    arrays = _arrays.get(cls)
    if arrays is None:
        rows = [(row[0], row[1].removeprefix("[]")) for row in cls.FIELDS if row[1].startswith("[]")]
        arrays = _arrays[cls] = tuple((name, element[0].isupper()) for name, element in rows)
    return arrays


def count_items(message: Struct) -> int:
    """How many array elements a message has, at all levels."""
    total = 0
    for name, has_structs in _arrays_of(type(message)):
        elements = getattr(message, name) or ()
        total += len(elements)
        if has_structs:
            total += sum(map(count_items, elements))
    return total
