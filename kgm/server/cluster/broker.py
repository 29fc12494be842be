"""Frames in, events out: one broker without its sockets.

Like the coordinator it never waits, reads no clock, and raises nothing: what it cannot read ends in a `Hangup`. Every
frame that is received gets exactly one event with its ticket, at once or from a later call, unless it is forgotten.
Tickets are the cluster's: an event may be for a ticket of another broker, and an answer to one of this may come from
there."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kgm.model.errors import DecodeError, ErrorCode
from kgm.protocol import codec
from kgm.protocol.apis import API, ApiKey, request_class
from kgm.protocol.messages.api_versions_request import ApiVersionsRequest
from kgm.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kgm.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kgm.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kgm.protocol.struct import Message, Struct
from kgm.protocol.wire import RequestHeader, decode_request_header, encode_response
from kgm.server.apis.configs import Configs
from kgm.server.apis.groups import Groups
from kgm.server.apis.log_dirs import LogDirs
from kgm.server.apis.metadata import Metadata
from kgm.server.apis.topic_admin import TopicAdmin
from kgm.server.apis.transactions import TransactionApis
from kgm.server.contract.exchange import Answer, Call, Event, Hangup, Millis, Peer, Reply, Response, Ticket

if TYPE_CHECKING:
    from kgm.server.cluster.cluster import EmbeddedCluster

Handler = Callable[[Call], Response]
#: What Kafka accepts as the name and version of a client's software (ApiVersionsRequest, KIP-511).
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_FROM = 3
#: The feature that consumer groups (KIP-848) come with.
_GROUP_VERSION = "group.version"
#: No version at all.
_NOT_SERVED: tuple[int, int, type[Message]] = (0, -1, Message)


class Broker:
    """What one broker of a cluster answers."""

    def __init__(self, node_id: int, cluster: "EmbeddedCluster") -> None:
        self.node_id = node_id
        self.cluster = cluster
        self.limits = cluster.limits
        self._handlers = self._table(cluster)
        # The versions of each API, and the class of its requests.
        self._served = {key: (API[key].min_version, API[key].max_version, request_class(key)) for key in self._handlers}

    def _table(self, cluster: "EmbeddedCluster") -> dict[int, Handler]:
        """Everything that is served, each in all versions that kgm speaks."""
        metadata = Metadata(cluster.cluster_id, cluster.nodes, cluster.topics, cluster.placement)
        admin = self._admin(cluster)
        configs = self._configs(cluster)
        log_dirs = LogDirs(cluster.storage.where, cluster.topics, len(cluster.placement), cluster.size_of)
        groups, data = Groups(self.node_id, cluster.shards, cluster.topics, cluster.limits), cluster.data
        transactions = TransactionApis(
            self.node_id,
            cluster.nodes,
            cluster.topics,
            cluster.placement,
            cluster.transactions,
            new_producer_id=cluster.new_producer_id,
            hold=cluster.hold_for_transactions,
        )

        def ending(handler: Handler) -> Handler:
            """What may end a transaction, whose markers follow at once if nothing has to be flushed before."""
            return lambda call: (*handler(call), *cluster.end_transactions(call.now))

        return {
            ApiKey.PRODUCE: data.produce,
            ApiKey.FETCH: data.fetch,
            ApiKey.LIST_OFFSETS: data.list_offsets,
            ApiKey.METADATA: metadata.metadata,
            ApiKey.OFFSET_COMMIT: groups.commit,
            ApiKey.OFFSET_FETCH: groups.fetch,
            ApiKey.FIND_COORDINATOR: metadata.find_coordinator,
            ApiKey.JOIN_GROUP: groups.create,
            ApiKey.HEARTBEAT: groups.submit,
            ApiKey.LEAVE_GROUP: groups.submit,
            ApiKey.SYNC_GROUP: groups.submit,
            ApiKey.DESCRIBE_GROUPS: groups.describe,
            ApiKey.LIST_GROUPS: groups.list_groups,
            ApiKey.SASL_HANDSHAKE: _sasl_handshake,
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.CREATE_TOPICS: admin.create_topics,
            ApiKey.DELETE_TOPICS: admin.delete_topics,
            ApiKey.INIT_PRODUCER_ID: ending(transactions.init_producer_id),
            ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets,
            ApiKey.END_TXN: ending(transactions.end),
            ApiKey.TXN_OFFSET_COMMIT: lambda call: transactions.refuse_commit(call) or groups.create(call),
            ApiKey.DESCRIBE_CONFIGS: configs.describe,
            ApiKey.DESCRIBE_LOG_DIRS: log_dirs.describe,
            ApiKey.CREATE_PARTITIONS: admin.create_partitions,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.alter,
            ApiKey.SASL_AUTHENTICATE: _sasl_authenticate,
            ApiKey.DELETE_GROUPS: groups.delete,
            ApiKey.ELECT_LEADERS: admin.elect_leaders,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: admin.alter_reassignments,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: admin.list_reassignments,
            ApiKey.OFFSET_DELETE: groups.submit,
            ApiKey.DESCRIBE_CLUSTER: metadata.describe_cluster,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.create,
            ApiKey.CONSUMER_GROUP_DESCRIBE: groups.consumer_group_describe,
        }

    @staticmethod
    def _admin(cluster: "EmbeddedCluster") -> TopicAdmin:
        return TopicAdmin(
            cluster.topics,
            cluster.limits,
            cluster.placement,
            follow=cluster.follow,
            save=cluster.save,
            changed=cluster.shards.topics_changed,
            empty=cluster.data.empty,
        )

    def _configs(self, cluster: "EmbeddedCluster") -> Configs:
        return Configs(
            self.node_id,
            cluster.shards.settings,
            cluster.topics,
            cluster.limits,
            cluster.group_configs,
            save=cluster.save,
            configure=cluster.shards.configure,
        )

    def receive(self, frame: bytes, *, ticket: Ticket, peer: Peer, now: Millis) -> tuple[Event, ...]:
        """A frame came in. Its event, and those of others that it set free; its own may come later."""
        try:
            header = decode_request_header(frame)
        except DecodeError as error:
            return (Hangup(ticket, error.message),)
        key, version = header.api_key, header.version
        lowest, highest, cls = self._served.get(key, _NOT_SERVED)
        if not lowest <= version <= highest:
            return (self._refuse(header, ticket),)
        try:
            message = codec.decode(cls, frame, version, offset=header.body_at, allow_trailing=True)
        except DecodeError as error:
            return (Hangup(ticket, error.message),)
        if (items := count_items(message)) > self.limits.max_items:
            return (Hangup(ticket, f"{type(message).__name__} with {items} entries"),)
        cluster = self.cluster
        overdue = cluster.advance(now)
        call = Call(message, version, header.client_id, peer, ticket, now)
        cluster.outbox.owe(call, header.correlation_id)
        return overdue + cluster.answer(self._handlers[key](call))

    # -- inside

    def _refuse(self, header: RequestHeader, ticket: Ticket) -> Event:
        """What Kafka does with an API or version it does not have: hang up; but ApiVersions is answered in the layout
        of version 0, so that the client can ask again in a version that both speak (KIP-511)."""
        if header.api_key not in self._handlers:
            return Hangup(ticket, f"API key {header.api_key} is not served")
        if header.api_key != ApiKey.API_VERSIONS:
            return Hangup(ticket, f"{API[header.api_key].name} version {header.version} is not served")
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_range_of(ApiKey.API_VERSIONS)]
        )
        return Answer(ticket, encode_response(response, version=0, correlation_id=header.correlation_id))

    def _api_versions(self, call: Call) -> Response:
        message = call.message
        assert isinstance(message, ApiVersionsRequest)
        has_groups = self.cluster.shards.settings.has_consumer_protocol
        finalized = FinalizedFeatureKey(name=_GROUP_VERSION, min_version_level=1, max_version_level=1)
        response = ApiVersionsResponse(
            api_keys=[_range_of(key) for key in sorted(self._handlers)],
            supported_features=[SupportedFeatureKey(name=_GROUP_VERSION, min_version=0, max_version=1)],
            finalized_features_epoch=0,
            finalized_features=[finalized] if has_groups else [],
        )
        names = (message.client_software_name, message.client_software_version)
        if call.version >= _SOFTWARE_FROM and not all(_SOFTWARE.fullmatch(name) for name in names):
            response = ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        return (Reply(call.ticket, response),)


def _sasl_handshake(call: Call) -> Response:
    """Refused as on a PLAINTEXT listener of Kafka."""
    return (Reply(call.ticket, SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)),)


def _sasl_authenticate(call: Call) -> Response:
    response = SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="This listener has no authentication."
    )
    return (Reply(call.ticket, response),)


def _range_of(key: int) -> ApiVersion:
    """As a broker of 4.x, it lists Produce from v0 on, which it does not have: older librdkafka takes the lowest
    version for a sign of which compression there is (ApiKeys.PRODUCE_API_VERSIONS_RESPONSE_MIN_VERSION)."""
    info = API[key]
    lowest = 0 if key == ApiKey.PRODUCE else info.min_version
    return ApiVersion(api_key=key, min_version=lowest, max_version=info.max_version)


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
