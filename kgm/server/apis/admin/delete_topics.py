"""DeleteTopics v1-6: delete topics and their records. The records are deleted first, so a topic that was only partly
deleted is a topic without records."""

from collections import Counter

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kgm.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from kgm.server.apis.admin.topic_changes import INTERNAL_TOPIC, set_storage_error
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.cluster.topics import NO_ID, Topic
from kgm.server.contract.exchange import ClientRequest, Replies, Reply

_BY_ID_FROM = 6


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, DeleteTopicsRequest)
    wanted = message.topics
    if request.version < _BY_ID_FROM:
        wanted = [DeleteTopicState(name=name) for name in message.topic_names]
    times = Counter((state.name, state.topic_id) for state in wanted)
    pairs = [_row(cluster, state, repeated=times[state.name, state.topic_id] > 1) for state in wanted]
    others: Replies = ()
    deleted: list[tuple[DeletableTopicResult, Topic]] = []
    try:
        for row, topic in pairs:
            if topic is not None and cluster.topics.by_name(topic.name) is not topic:
                row.error_code, row.error_message = ErrorCode.INVALID_REQUEST, "The topic is given by name and by id."
            elif topic is not None:
                deleted.append((row, topic))
                cluster.topics.delete(topic.name)
                others += cluster.records.delete(topic.name, topic.partitions)
        if deleted:
            cluster.save()
            others += cluster.topics_changed(request.now)
    except OSError as failure:
        for row, topic in deleted:
            cluster.topics.undelete(topic)
            set_storage_error(row, failure)
    return (*others, Reply(request.ticket, DeleteTopicsResponse(responses=[row for row, _ in pairs])))


def _row(
    cluster: EmbeddedCluster, state: DeleteTopicState, *, repeated: bool
) -> tuple[DeletableTopicResult, Topic | None]:
    """The row of the response, and the topic to delete, or None if the row has an error."""
    by_id = state.name is None
    topic = cluster.topics.by_id(state.topic_id) if state.name is None else cluster.topics.by_name(state.name)
    row = DeletableTopicResult(name=state.name, topic_id=state.topic_id, error_message=None)
    if by_id == (state.topic_id == NO_ID):
        row.error_code, row.error_message = ErrorCode.INVALID_REQUEST, "A topic is given by its name or by its id."
    elif repeated:
        row.error_code, row.error_message = ErrorCode.INVALID_REQUEST, "Duplicate topic name."
    elif topic is None:
        row.error_code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        row.error_message = "The topic does not exist."
    elif cluster.topics.is_internal(topic.name):
        row.error_code, row.error_message = INTERNAL_TOPIC
    else:
        row.name, row.topic_id = topic.name, topic.topic_id
        return row, topic
    return row, None
