"""AlterPartitionReassignments v0-1: change the replicas of partitions of `__consumer_offsets`.

All brokers share one copy of everything, so a reassignment is complete by the time it is answered: a leader that is no
longer a replica hands over to the first in-sync replica. Null replicas cancel a reassignment in progress; there never
is one. Not implemented: partitions of user topics, which every broker serves."""

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from kgm.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kgm.server.apis.admin.topic_changes import NO_ERROR, RowError, set_storage_error
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply
from kgm.server.contract.offsets_topic import OFFSETS_TOPIC


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, AlterPartitionReassignmentsRequest)
    before: dict[int, tuple[int, ...]] = {}
    response = AlterPartitionReassignmentsResponse(error_message=None)
    for topic in message.topics:
        rows = []
        for part in topic.partitions:
            may_change_factor = message.allow_replication_factor_change
            error, text = _error(cluster, topic.name, part, may_change_factor=may_change_factor)
            if not error:
                assert part.replicas is not None
                before.setdefault(part.partition_index, cluster.placement[part.partition_index].replicas)
                cluster.placement.assign(part.partition_index, part.replicas)
            rows.append(
                ReassignablePartitionResponse(
                    partition_index=part.partition_index, error_code=error, error_message=text
                )
            )
        response.responses.append(ReassignableTopicResponse(name=topic.name, partitions=rows))
    try:
        if before:
            cluster.save()
    except OSError as failure:
        for partition, replicas in before.items():
            cluster.placement.assign(partition, replicas)
        failed = AlterPartitionReassignmentsResponse()
        set_storage_error(failed, failure)
        return (Reply(request.ticket, failed),)
    replies: Replies = ()
    for partition in before:
        if cluster.placement.elect(partition):
            replies += cluster.leader_changed(partition, request.now)
    return (*replies, Reply(request.ticket, response))


def _error(cluster: EmbeddedCluster, topic: str, part: ReassignablePartition, *, may_change_factor: bool) -> RowError:
    if topic != OFFSETS_TOPIC:
        if topic not in cluster.topics:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"kgm serve reassigns partitions of {OFFSETS_TOPIC} only."
    if part.partition_index not in cluster.placement:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    if part.replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
    nodes, wanted = cluster.nodes, part.replicas
    if not wanted or len(set(wanted)) < len(wanted) or any(node_id not in nodes for node_id in wanted):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Replicas must be different brokers of {list(nodes.ids)}."
    if not nodes.in_sync(wanted):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, "None of these brokers is running."
    if not may_change_factor and len(wanted) != len(cluster.placement[part.partition_index].replicas):
        return ErrorCode.INVALID_REPLICATION_FACTOR, "The number of replicas would change."
    return NO_ERROR
