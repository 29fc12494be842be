"""The APIs that say where things are: Metadata, DescribeCluster, FindCoordinator. Kafka: KafkaApis.

Brokers are told at the host on which the client reached this one, so that no name has to be configured. Any broker
serves any partition of a user topic, as all share one copy; Metadata spreads the leaders, which spreads the clients.
`__consumer_offsets` is described to who asks for it by name, with the coordinators as leaders; lists of all topics
leave it out, as its records are not served."""

import zlib

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kgm.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from kgm.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kgm.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kgm.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kgm.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kgm.server.apis.transactions import coordinator_of
from kgm.server.cluster.nodes import OFFSETS_TOPIC, Nodes, Placement
from kgm.server.cluster.topics import NO_ID, Topic, Topics, is_legal_name, topic_id
from kgm.server.contract.exchange import Call, Peer, Reply, Response
from kgm.server.logs.topic_log import LEADER_EPOCH

_OFFSETS_TOPIC_ID = topic_id(OFFSETS_TOPIC)
#: Every right there is, as bit fields over AclOperation's codes; what a broker without an authorizer reports.
_ALL_TOPIC_OPERATIONS = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11
_ALL_CLUSTER_OPERATIONS = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12
_NAME_NULLABLE_FROM = 12
_NULL_IS_ALL_FROM = 1
_GROUP_KEY = 0
_TRANSACTION_KEY = 1
_MANY_KEYS_FROM = 4
_BROKERS = 1
_NO_LEADER = -1


class Metadata:
    """What a broker tells of the cluster."""

    def __init__(self, cluster_id: str, nodes: Nodes, topics: Topics, placement: Placement) -> None:
        self._cluster_id = cluster_id
        self._nodes = nodes
        self._topics = topics
        self._placement = placement

    # -- Metadata v0-13

    def metadata(self, call: Call) -> Response:
        """All topics when none are named (v0: an empty list; later: null), otherwise each one named, once."""
        message = call.message
        assert isinstance(message, MetadataRequest)
        if message.topics is None or (call.version < _NULL_IS_ALL_FROM and not message.topics):
            rows = [self._known(topic, message) for topic in self._topics.all()]
        else:
            asked = {(wanted.topic_id, wanted.name): wanted for wanted in message.topics}
            rows = [self._metadata_row(wanted, message, call.version) for wanted in asked.values()]
        peer = call.peer
        response = MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node.node_id, host=peer.host, port=node.port or peer.port)
                for node in self._nodes.alive()
            ],
            cluster_id=self._cluster_id,
            controller_id=self._nodes.controller,
            topics=rows,
        )
        if message.include_cluster_authorized_operations:
            response.cluster_authorized_operations = _ALL_CLUSTER_OPERATIONS
        return (Reply(call.ticket, response),)

    def _metadata_row(
        self, wanted: MetadataRequestTopic, message: MetadataRequest, version: int
    ) -> MetadataResponseTopic:
        by_id = wanted.topic_id != NO_ID
        if by_id or wanted.name is None:
            topic = self._topics.identified(wanted.topic_id)
            refusal = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.INVALID_REQUEST
        else:
            topic = self._topics.named(wanted.name)
            legal = is_legal_name(wanted.name)
            refusal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
        if topic is not None:
            return self._known(topic, message)
        if wanted.name == OFFSETS_TOPIC or wanted.topic_id == _OFFSETS_TOPIC_ID:
            return self._offsets_topic(message)
        name = wanted.name if wanted.name is not None or version >= _NAME_NULLABLE_FROM else ""
        return MetadataResponseTopic(name=name, topic_id=wanted.topic_id, error_code=refusal)

    def _known(self, topic: Topic, message: MetadataRequest) -> MetadataResponseTopic:
        turn = zlib.crc32(topic.name.encode())
        row = MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[self._partition(index, self._nodes.in_turn(turn + index)) for index in range(topic.partitions)],
        )
        if message.include_topic_authorized_operations:
            row.topic_authorized_operations = _ALL_TOPIC_OPERATIONS
        return row

    def _partition(self, index: int, replicas: tuple[int, ...]) -> MetadataResponsePartition:
        living = self._nodes.living(replicas)
        return MetadataResponsePartition(
            partition_index=index,
            leader_id=living[0],
            leader_epoch=LEADER_EPOCH,
            replica_nodes=list(replicas),
            isr_nodes=living,
            offline_replicas=[node_id for node_id in replicas if node_id not in living],
        )

    def _offsets_topic(self, message: MetadataRequest) -> MetadataResponseTopic:
        row = MetadataResponseTopic(name=OFFSETS_TOPIC, topic_id=topic_id(OFFSETS_TOPIC), is_internal=True)
        for index in range(len(self._placement)):
            place = self._placement[index]
            part = self._partition(index, place.replicas) if self._nodes.living(place.replicas) else None
            if part is None or place.leader is None:
                part = MetadataResponsePartition(
                    error_code=ErrorCode.LEADER_NOT_AVAILABLE,
                    partition_index=index,
                    replica_nodes=list(place.replicas),
                    offline_replicas=list(place.replicas),
                )
            part.leader_id = _NO_LEADER if place.leader is None else place.leader
            part.leader_epoch = place.epoch
            row.partitions.append(part)
        if message.include_topic_authorized_operations:
            row.topic_authorized_operations = _ALL_TOPIC_OPERATIONS
        return row

    # -- DescribeCluster v0-2

    def describe_cluster(self, call: Call) -> Response:
        message = call.message
        assert isinstance(message, DescribeClusterRequest)
        if message.endpoint_type != _BROKERS:
            response = DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="This is a broker, not a controller.",
                endpoint_type=_BROKERS,
            )
            return (Reply(call.ticket, response),)
        peer = call.peer
        response = DescribeClusterResponse(
            cluster_id=self._cluster_id,
            controller_id=self._nodes.controller,
            brokers=[
                DescribeClusterBroker(broker_id=node.node_id, host=peer.host, port=node.port or peer.port)
                for node in self._nodes.alive()
            ],
        )
        if message.include_cluster_authorized_operations:
            response.cluster_authorized_operations = _ALL_CLUSTER_OPERATIONS
        return (Reply(call.ticket, response),)

    # -- FindCoordinator v0-6

    def find_coordinator(self, call: Call) -> Response:
        """The leader of the group's partition of `__consumer_offsets`; for a transactional id the broker that it hashes
        to. Share groups have none: INVALID_REQUEST makes clients give up at once, where COORDINATOR_NOT_AVAILABLE would
        have them ask for ever."""
        message = call.message
        assert isinstance(message, FindCoordinatorRequest)
        if call.version >= _MANY_KEYS_FROM:
            rows = [self._coordinator(message.key_type, key, call.peer) for key in message.coordinator_keys]
            return (Reply(call.ticket, FindCoordinatorResponse(coordinators=rows)),)
        row = self._coordinator(message.key_type, message.key, call.peer)
        single = FindCoordinatorResponse(
            error_code=row.error_code,
            # Kafka words the success of v1 to v3, and leaves it empty from v4 on.
            error_message=row.error_message or "NONE",
            node_id=row.node_id,
            host=row.host,
            port=row.port,
        )
        return (Reply(call.ticket, single),)

    def _coordinator(self, key_type: int, key: str, peer: Peer) -> Coordinator:
        if key_type == _GROUP_KEY:
            leader = self._placement[self._placement.of_group(key)].leader
        elif key_type == _TRANSACTION_KEY:
            leader = coordinator_of(self._nodes, key)
        else:
            return _nobody(key, ErrorCode.INVALID_REQUEST, "kgm serve coordinates no share groups.")
        if leader is None:
            return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
        return Coordinator(
            key=key, node_id=leader, host=peer.host, port=self._nodes[leader].port or peer.port, error_message=""
        )


def _nobody(key: str, error: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=text)
