"""Frames in, events out: the broker without its sockets.

Like the coordinator it never waits, reads no clock, and raises nothing: what it cannot read ends in a `Hangup`. Every
frame that is received gets exactly one event with its ticket, at once or from a later call, unless it is forgotten."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kgm.coordinator.engine import Coordinator
from kgm.coordinator.settings import BrokerSettings
from kgm.model.errors import DecodeError, EncodeError, ErrorCode
from kgm.protocol import codec
from kgm.protocol.apis import API, ApiKey, request_class
from kgm.protocol.messages.api_versions_request import ApiVersionsRequest
from kgm.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kgm.protocol.struct import Struct
from kgm.protocol.wire import RequestHeader, decode_request_header, encode_response
from kgm.server.cluster import Cluster
from kgm.server.data import Data
from kgm.server.exchange import Answer, Call, Event, Hangup, Millis, Peer, Reply, Response, Ticket
from kgm.server.groups import Groups
from kgm.server.limits import Limits
from kgm.server.topics import Topics

Handler = Callable[[Call], Response]
#: What Kafka accepts as the name and version of a client's software (ApiVersionsRequest, KIP-511).
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_FROM = 3


@dataclass(frozen=True, slots=True)
class _Owed:
    """What is needed to encode a response when it comes."""

    version: int
    correlation_id: int


class Broker:
    """One broker of one cluster: topics with their records, and the coordinator of all groups."""

    def __init__(
        self,
        *,
        topics: Mapping[str, int],
        settings: BrokerSettings | None = None,
        limits: Limits | None = None,
        now: Millis,
    ) -> None:
        self.limits = Limits() if limits is None else limits
        self.topics = Topics(topics)
        self._data = Data(self.topics, self.limits)
        self._groups = Groups(
            settings=BrokerSettings() if settings is None else settings,
            topics=self.topics,
            limits=self.limits,
            now=now,
        )
        self._handlers = self._table(Cluster(self.topics, self.limits))
        self._requests = {key: request_class(key) for key in self._handlers}
        self._owed: dict[Ticket, _Owed] = {}

    def _table(self, cluster: Cluster) -> dict[int, Handler]:
        """Everything that is served, each in all versions that kgm speaks."""
        groups, data = self._groups, self._data
        return {
            ApiKey.PRODUCE: data.produce,
            ApiKey.FETCH: data.fetch,
            ApiKey.LIST_OFFSETS: data.list_offsets,
            ApiKey.METADATA: cluster.metadata,
            ApiKey.OFFSET_COMMIT: groups.commit,
            ApiKey.OFFSET_FETCH: groups.fetch,
            ApiKey.FIND_COORDINATOR: cluster.find_coordinator,
            ApiKey.JOIN_GROUP: groups.join,
            ApiKey.HEARTBEAT: groups.submit,
            ApiKey.LEAVE_GROUP: groups.submit,
            ApiKey.SYNC_GROUP: groups.submit,
            ApiKey.DESCRIBE_GROUPS: groups.describe,
            ApiKey.LIST_GROUPS: groups.submit,
            ApiKey.SASL_HANDSHAKE: cluster.sasl_handshake,
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.CREATE_TOPICS: cluster.create_topics,
            ApiKey.INIT_PRODUCER_ID: cluster.init_producer_id,
            ApiKey.SASL_AUTHENTICATE: cluster.sasl_authenticate,
            ApiKey.DELETE_GROUPS: groups.submit,
            ApiKey.OFFSET_DELETE: groups.submit,
            ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
            ApiKey.CONSUMER_GROUP_DESCRIBE: groups.submit,
        }

    @property
    def coordinator(self) -> Coordinator:
        """The engine; only to be looked at."""
        return self._groups.coordinator

    # -- events

    def receive(self, frame: bytes, *, ticket: Ticket, peer: Peer, now: Millis) -> tuple[Event, ...]:
        """A frame came in. Its event, and those of others that it set free; its own may come later."""
        try:
            header = decode_request_header(frame)
        except DecodeError as error:
            return (Hangup(ticket, error.message),)
        refusal = self._check_version(header, ticket)
        if refusal is not None:
            return (refusal,)
        try:
            message = codec.decode(
                self._requests[header.api_key], frame, header.version, offset=header.body_at, allow_trailing=True
            )
        except DecodeError as error:
            return (Hangup(ticket, error.message),)
        if (items := count_items(message)) > self.limits.max_items:
            return (Hangup(ticket, f"{type(message).__name__} with {items} entries"),)
        overdue = self.advance(now)
        self._owed[ticket] = _Owed(header.version, header.correlation_id)
        call = Call(
            message=message, version=header.version, client_id=header.client_id, peer=peer, ticket=ticket, now=now
        )
        return overdue + self._events(self._handlers[header.api_key](call))

    def advance(self, now: Millis) -> tuple[Event, ...]:
        """Do what is due by now."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return ()
        return self._events((*self._groups.runtime.advance(now), *self._data.advance(now)))

    def next_deadline(self) -> Millis | None:
        """When `advance` has something to do, if nothing happens before."""
        group, data = self._groups.runtime.next_deadline(), self._data.next_deadline()
        if group is None or data is None:
            return data if group is None else group
        return min(group, data)

    def forget(self, ticket: Ticket) -> None:
        """The connection is gone; whatever answers the ticket later leads to no event."""
        self._owed.pop(ticket, None)
        self._data.forget(ticket)

    # -- inside

    def _check_version(self, header: RequestHeader, ticket: Ticket) -> Event | None:
        """What Kafka does with an API or version it does not have: hang up; but ApiVersions is answered in the layout
        of version 0, so that the client can ask again in a version that both speak (KIP-511)."""
        if header.api_key not in self._handlers:
            return Hangup(ticket, f"API key {header.api_key} is not served")
        info = API[header.api_key]
        if info.min_version <= header.version <= info.max_version:
            return None
        if header.api_key != ApiKey.API_VERSIONS:
            return Hangup(ticket, f"{info.name} version {header.version} is not served")
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_range_of(ApiKey.API_VERSIONS)]
        )
        return Answer(ticket, encode_response(response, version=0, correlation_id=header.correlation_id))

    def _api_versions(self, call: Call) -> Response:
        message = call.message
        assert isinstance(message, ApiVersionsRequest)
        response = ApiVersionsResponse(api_keys=[_range_of(key) for key in sorted(self._handlers)])
        names = (message.client_software_name, message.client_software_version)
        if call.version >= _SOFTWARE_FROM and not all(_SOFTWARE.fullmatch(name) for name in names):
            response = ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        return (Reply(call.ticket, response),)

    def _events(self, response: Response) -> tuple[Event, ...]:
        """Encode what is owed; what nobody waits for any more is dropped."""
        events: list[Event] = []
        for item in response:
            owed = self._owed.pop(item.ticket, None)
            if owed is not None:
                events.append(self._encode(item, owed) if isinstance(item, Reply) else item)
        return tuple(events)

    @staticmethod
    def _encode(reply: Reply, owed: _Owed) -> Event:
        try:
            frame = encode_response(reply.message, version=owed.version, correlation_id=owed.correlation_id)
        except EncodeError as error:
            return Hangup(reply.ticket, error.message)
        return Answer(reply.ticket, frame)


def _range_of(key: int) -> ApiVersion:
    info = API[key]
    return ApiVersion(api_key=key, min_version=info.min_version, max_version=info.max_version)


#: The array fields of a struct's class, and whether their elements may hold arrays themselves.
_arrays: dict[type[Struct], tuple[tuple[str, bool], ...]] = {}


def _arrays_of(cls: type[Struct]) -> tuple[tuple[str, bool], ...]:
    found = _arrays.get(cls)
    if found is None:
        arrays = [(row[0], row[1].removeprefix("[]")) for row in cls.FIELDS if row[1].startswith("[]")]
        found = _arrays[cls] = tuple((name, element[0].isupper()) for name, element in arrays)
    return found


def count_items(message: Struct) -> int:
    """How many array elements a message holds, over all levels."""
    total = 0
    for name, has_structs in _arrays_of(type(message)):
        elements = getattr(message, name) or ()
        total += len(elements)
        if has_structs:
            total += sum(map(count_items, elements))
    return total
