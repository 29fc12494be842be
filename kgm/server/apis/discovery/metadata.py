"""Metadata v0-13: brokers and topics. Returns all topics if none are named (v0: an empty list; later: null), otherwise
each named topic once. Not implemented: creating topics automatically.

The leaders of `__consumer_offsets` are the group coordinators."""

import zlib

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kgm.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kgm.server.apis.discovery.permissions import ALL_CLUSTER_OPERATIONS, ALL_TOPIC_OPERATIONS
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.cluster.nodes import Nodes
from kgm.server.cluster.topics import NO_ID, Topic, is_legal_name
from kgm.server.contract.exchange import ClientRequest, Replies, Reply
from kgm.server.contract.offsets_topic import OFFSETS_TOPIC
from kgm.server.logs.topic_log import LEADER_EPOCH

_NAME_NULLABLE_FROM = 12
_NULL_IS_ALL_FROM = 1
_NO_LEADER = -1


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, MetadataRequest)
    if message.topics is None or (request.version < _NULL_IS_ALL_FROM and not message.topics):
        rows = [_existing(cluster, topic) for topic in cluster.topics.all()]
    else:
        named = {(wanted.topic_id, wanted.name): wanted for wanted in message.topics}
        rows = [_named(cluster, wanted, request.version) for wanted in named.values()]
    ends = request.endpoints
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=ends.server_host, port=node.port or ends.server_port)
            for node in cluster.nodes.alive()
        ],
        cluster_id=cluster.cluster_id,
        controller_id=cluster.nodes.controller,
        topics=rows,
    )
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
    if message.include_topic_authorized_operations:
        for row in rows:
            if not row.error_code:
                row.topic_authorized_operations = ALL_TOPIC_OPERATIONS
    return (Reply(request.ticket, response),)


def _named(cluster: EmbeddedCluster, wanted: MetadataRequestTopic, version: int) -> MetadataResponseTopic:
    by_id = wanted.topic_id != NO_ID
    if by_id or wanted.name is None:
        topic = cluster.topics.by_id(wanted.topic_id)
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.INVALID_REQUEST
    else:
        topic = cluster.topics.by_name(wanted.name)
        legal = is_legal_name(wanted.name)
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    if topic is not None:
        return _existing(cluster, topic)
    name = wanted.name if wanted.name is not None or version >= _NAME_NULLABLE_FROM else ""
    return MetadataResponseTopic(name=name, topic_id=wanted.topic_id, error_code=error)


def _existing(cluster: EmbeddedCluster, topic: Topic) -> MetadataResponseTopic:
    if topic.name == OFFSETS_TOPIC:
        return _offsets_topic(cluster, topic)
    nodes = cluster.nodes
    start = zlib.crc32(topic.name.encode())
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[_partition(nodes, index, nodes.rotated(start + index)) for index in range(topic.partitions)],
    )


def _partition(nodes: Nodes, index: int, replicas: tuple[int, ...]) -> MetadataResponsePartition:
    in_sync = nodes.in_sync(replicas)
    return MetadataResponsePartition(
        partition_index=index,
        leader_id=in_sync[0],
        leader_epoch=LEADER_EPOCH,
        replica_nodes=list(replicas),
        isr_nodes=in_sync,
        offline_replicas=[node_id for node_id in replicas if node_id not in in_sync],
    )


def _offsets_topic(cluster: EmbeddedCluster, topic: Topic) -> MetadataResponseTopic:
    response = MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id, is_internal=True)
    for index in range(topic.partitions):
        partition = cluster.placement[index]
        if partition.leader is None or not cluster.nodes.in_sync(partition.replicas):
            row = MetadataResponsePartition(
                error_code=ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                replica_nodes=list(partition.replicas),
                offline_replicas=list(partition.replicas),
            )
        else:
            row = _partition(cluster.nodes, index, partition.replicas)
        row.leader_id = _NO_LEADER if partition.leader is None else partition.leader
        row.leader_epoch = partition.epoch
        response.partitions.append(row)
    return response
