"""The APIs that describe the cluster, which is this one broker: Metadata, DescribeCluster, FindCoordinator,
CreateTopics, InitProducerId, and the refusal of SASL. Kafka: KafkaApis."""

import itertools
from collections import Counter

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kgm.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kgm.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kgm.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from kgm.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kgm.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kgm.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kgm.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kgm.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kgm.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kgm.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kgm.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kgm.server.exchange import Call, Reply, Response
from kgm.server.limits import Limits
from kgm.server.log import LEADER_EPOCH
from kgm.server.topics import NO_ID, Topic, Topics, is_legal_name

NODE_ID = 1
CLUSTER_ID = "kgm-embedded-cluster"
_NOT_ASKED = -(2**31)
#: Every right there is, as bit fields over AclOperation's codes; what a broker without an authorizer reports.
_ALL_TOPIC_OPERATIONS = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11
_ALL_CLUSTER_OPERATIONS = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12
_NAME_NULLABLE_FROM = 12
_NULL_IS_ALL_FROM = 1
_GROUP_KEY = 0
_MANY_KEYS_FROM = 4
_BROKERS = 1
_DEFAULT = -1


class Cluster:
    """One broker with the topics that it was given."""

    def __init__(self, topics: Topics, limits: Limits) -> None:
        self._topics = topics
        self._limits = limits
        self._producer_ids = itertools.count()

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
            brokers=[MetadataResponseBroker(node_id=NODE_ID, host=peer.host, port=peer.port)],
            cluster_id=CLUSTER_ID,
            controller_id=NODE_ID,
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
        name = wanted.name if wanted.name is not None or version >= _NAME_NULLABLE_FROM else ""
        return MetadataResponseTopic(name=name, topic_id=wanted.topic_id, error_code=refusal)

    def _known(self, topic: Topic, message: MetadataRequest) -> MetadataResponseTopic:
        row = MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=NODE_ID,
                    leader_epoch=LEADER_EPOCH,
                    replica_nodes=[NODE_ID],
                    isr_nodes=[NODE_ID],
                )
                for index in range(topic.partitions)
            ],
        )
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
            cluster_id=CLUSTER_ID,
            controller_id=NODE_ID,
            brokers=[DescribeClusterBroker(broker_id=NODE_ID, host=peer.host, port=peer.port)],
        )
        if message.include_cluster_authorized_operations:
            response.cluster_authorized_operations = _ALL_CLUSTER_OPERATIONS
        return (Reply(call.ticket, response),)

    # -- FindCoordinator v0-6

    def find_coordinator(self, call: Call) -> Response:
        """The coordinator of every group is this broker; transactions and share groups have none. INVALID_REQUEST
        makes clients give up at once, where COORDINATOR_NOT_AVAILABLE would have them ask for ever."""
        message = call.message
        assert isinstance(message, FindCoordinatorRequest)
        error, text = ErrorCode.NONE, ""
        if message.key_type != _GROUP_KEY:
            error = ErrorCode.INVALID_REQUEST
            text = "kgm serve coordinates consumer groups only, no transactions and no share groups."
        node, host, port = (NODE_ID, call.peer.host, call.peer.port) if not error else (-1, "", -1)
        if call.version < _MANY_KEYS_FROM:
            # Kafka words the success of v1 to v3, and leaves it empty from v4 on.
            single = FindCoordinatorResponse(
                error_code=error, error_message=text or "NONE", node_id=node, host=host, port=port
            )
            return (Reply(call.ticket, single),)
        rows = [
            Coordinator(key=key, node_id=node, host=host, port=port, error_code=error, error_message=text)
            for key in message.coordinator_keys
        ]
        return (Reply(call.ticket, FindCoordinatorResponse(coordinators=rows)),)

    # -- CreateTopics v2-7

    def create_topics(self, call: Call) -> Response:
        """Topics with a partition count; assignments are accepted by their number, configurations are ignored."""
        message = call.message
        assert isinstance(message, CreateTopicsRequest)
        times = Counter(topic.name for topic in message.topics)
        rows = [self._create(topic, times[topic.name] > 1, message.validate_only) for topic in message.topics]
        return (Reply(call.ticket, CreateTopicsResponse(topics=rows)),)

    def _create(self, wanted: CreatableTopic, repeated: bool, validate_only: bool) -> CreatableTopicResult:  # noqa: FBT001
        count = len(wanted.assignments) or (1 if wanted.num_partitions == _DEFAULT else wanted.num_partitions)
        error, text = self._creation_error(wanted, count, repeated=repeated)
        if error:
            return CreatableTopicResult(name=wanted.name, error_code=error, error_message=text)
        topic_id = NO_ID if validate_only else self._topics.add(wanted.name, count).topic_id
        return CreatableTopicResult(
            name=wanted.name, topic_id=topic_id, error_message=None, num_partitions=count, replication_factor=1
        )

    def _creation_error(self, wanted: CreatableTopic, count: int, *, repeated: bool) -> tuple[ErrorCode, str | None]:
        if repeated:
            return ErrorCode.INVALID_REQUEST, "Duplicate topic name."
        if not is_legal_name(wanted.name):
            return ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is not legal."
        if self._topics.named(wanted.name) is not None:
            return ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists."
        if count < 1:
            return ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."
        if wanted.replication_factor not in (_DEFAULT, 1):
            return ErrorCode.INVALID_REPLICATION_FACTOR, "There is one broker, so that the replication factor is 1."
        limits = self._limits
        if len(self._topics) >= limits.max_topics or self._topics.total_partitions + count > limits.max_partitions:
            most = f"{limits.max_topics} topics and {limits.max_partitions} partitions"
            return ErrorCode.POLICY_VIOLATION, f"kgm serve has room for {most}."
        return ErrorCode.NONE, None

    # -- InitProducerId v0-6, SaslHandshake v0-1, SaslAuthenticate v0-2

    def init_producer_id(self, call: Call) -> Response:
        """A new id for an idempotent producer; there are no transactions."""
        message = call.message
        assert isinstance(message, InitProducerIdRequest)
        if message.transactional_id is not None:
            refused = InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST)
            return (Reply(call.ticket, refused),)
        return (Reply(call.ticket, InitProducerIdResponse(producer_id=next(self._producer_ids), producer_epoch=0)),)

    def sasl_handshake(self, call: Call) -> Response:
        """Refused as on a PLAINTEXT listener of Kafka."""
        return (Reply(call.ticket, SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)),)

    def sasl_authenticate(self, call: Call) -> Response:
        response = SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="This listener has no authentication."
        )
        return (Reply(call.ticket, response),)
