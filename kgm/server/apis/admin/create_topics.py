"""CreateTopics v2-7: create topics with a partition count, or with assignments, of which only the number counts.

Not implemented: topic configurations, which are ignored."""

from collections import Counter

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kgm.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kgm.server.apis.admin.topic_changes import RowError, room_error, set_storage_error
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.cluster.topics import is_legal_name
from kgm.server.contract.exchange import ClientRequest, Replies, Reply

_DEFAULT = -1


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, CreateTopicsRequest)
    times = Counter(topic.name for topic in message.topics)
    rows = []
    for topic in message.topics:
        count = len(topic.assignments) or (1 if topic.num_partitions == _DEFAULT else topic.num_partitions)
        error, text = _error(cluster, topic, count, repeated=times[topic.name] > 1)
        if error:
            rows.append(CreatableTopicResult(name=topic.name, error_code=error, error_message=text))
            continue
        rows.append(_created(cluster, topic.name, count))
        if not message.validate_only:
            cluster.topics.add(topic.name, count)
    created = [row for row in rows if not row.error_code and not message.validate_only]
    others: Replies = ()
    if created:
        try:
            cluster.save()
        except OSError as failure:
            for row in created:
                cluster.topics.remove(row.name)
                set_storage_error(row, failure)
        else:
            others = cluster.topics_changed(request.now)
    return (*others, Reply(request.ticket, CreateTopicsResponse(topics=rows)))


def _created(cluster: EmbeddedCluster, name: str, partitions: int) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=cluster.topics.next_id(name),
        error_message=None,
        num_partitions=partitions,
        replication_factor=len(cluster.nodes.ids),
    )


def _error(cluster: EmbeddedCluster, topic: CreatableTopic, partitions: int, *, repeated: bool) -> RowError:
    if repeated:
        return ErrorCode.INVALID_REQUEST, "Duplicate topic name."
    if not is_legal_name(topic.name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is not legal."
    if topic.name in cluster.topics:
        return ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists."
    if partitions < 1:
        return ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."
    brokers = len(cluster.nodes.ids)
    if topic.replication_factor != _DEFAULT and not 1 <= topic.replication_factor <= brokers:
        return ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor can be 1 to {brokers}."
    return room_error(cluster, topics=1, partitions=partitions)
