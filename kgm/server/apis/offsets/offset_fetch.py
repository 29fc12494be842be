"""OffsetFetch v1-10: the coordinator of each group answers for it; topics that do not exist are refused without asking
it.

Stricter than Kafka: a request for all offsets of many groups is refused if that is too many offsets."""

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kgm.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kgm.server.apis.offsets.topic_ids import BY_NAME, BY_TOPIC_ID_FROM, put_ids, put_names
from kgm.server.apis.routing import ask_coordinator, ask_coordinators
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.cluster.topics import Topics
from kgm.server.contract.exchange import ClientRequest, CloseConnection, Replies, Reply

_SEVERAL_GROUPS_FROM = 8


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, OffsetFetchRequest)
    if request.version < _SEVERAL_GROUPS_FROM:
        return ask_coordinator(request, cluster)
    rows = sum(_count_offsets(group.group_id, request, cluster) for group in message.groups if group.topics is None)
    if rows > cluster.limits.max_items:
        return (CloseConnection(request.ticket, f"OffsetFetch asks for {rows} rows"),)
    if request.version < BY_TOPIC_ID_FROM:
        return _ask(request, cluster, request.version)
    refused = [_put_names(group, cluster.topics) for group in message.groups]
    replies = _ask(request, cluster, BY_NAME)
    for reply in replies:
        if reply.ticket == request.ticket:
            assert isinstance(reply.message, OffsetFetchResponse)
            for group, more in zip(reply.message.groups, refused, strict=True):
                _put_ids(group, more, cluster.topics)
    return replies


def _ask(request: ClientRequest, cluster: EmbeddedCluster, version: int) -> tuple[Reply, ...]:
    return ask_coordinators(
        request,
        cluster,
        request_field="groups",
        response_field="groups",
        group_id_of=lambda group: str(group.group_id),
        version=version,
    )


def _count_offsets(group_id: str, request: ClientRequest, cluster: EmbeddedCluster) -> int:
    engine = cluster.shards.of(group_id, request.now).engine
    return 0 if engine is None else len(engine.offsets.of(group_id))


def _put_names(group: OffsetFetchRequestGroup, topics: Topics) -> list[OffsetFetchResponseTopics]:
    """Set the names of the topics in a request; returns the error rows for those that do not exist."""
    if group.topics is None:
        return []
    group.topics, refused = put_names(group.topics, topics, _refuse_topic)
    return refused


def _refuse_topic(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    rows = [
        OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=rows)


def _put_ids(group: OffsetFetchResponseGroup, refused: list[OffsetFetchResponseTopics], topics: Topics) -> None:
    if group.error_code:  # without topics, as in Kafka
        return
    group.topics = [row for row in group.topics if row.name in topics]  # a topic that does not exist has no id
    put_ids(group.topics, topics)
    group.topics += refused
