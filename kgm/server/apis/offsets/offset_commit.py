"""OffsetCommit v2-10: the group's coordinator answers; partitions of topics that do not exist are refused without
asking it.

Stricter than Kafka: a request is refused if it would create more groups, or leave more offsets, than the server
allows."""

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from kgm.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kgm.server.apis.offsets.topic_ids import BY_NAME, BY_TOPIC_ID_FROM, put_ids, put_names
from kgm.server.apis.routing import (
    ask_coordinator,
    coordinator_request,
    refuse_commit,
    refuse_new_group,
    refuse_offsets,
)
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    if refused := refuse_new_group(request, cluster) or refuse_offsets(request, cluster):
        return refused
    if request.version >= BY_TOPIC_ID_FROM:
        return _commit_by_topic_id(request, cluster)
    return ask_coordinator(request, cluster, unavailable=refuse_commit)


def _commit_by_topic_id(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, OffsetCommitRequest)
    message.topics, refused = put_names(message.topics, cluster.topics, _refuse_topic)
    group_request = coordinator_request(request, version=BY_NAME)
    replies = ask_coordinator(request, cluster, unavailable=refuse_commit, group_request=group_request)
    for reply in replies:
        if reply.ticket == request.ticket:
            assert isinstance(reply.message, OffsetCommitResponse)
            put_ids(reply.message.topics, cluster.topics)
            reply.message.topics += refused
    return replies


def _refuse_topic(topic: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic:
    rows = [
        OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
        for row in topic.partitions
    ]
    return OffsetCommitResponseTopic(topic_id=topic.topic_id, partitions=rows)
