"""CreatePartitions v0-3: add partitions to topics. Only the number of assignments counts, not the brokers in them."""

from collections import Counter

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kgm.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kgm.server.apis.admin.topic_changes import INTERNAL_TOPIC, RowError, room_error, set_storage_error
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, CreatePartitionsRequest)
    times = Counter(topic.name for topic in message.topics)
    response = CreatePartitionsResponse()
    before: dict[str, int] = {}
    for topic in message.topics:
        error, text = _error(cluster, topic, repeated=times[topic.name] > 1)
        row = CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=text)
        response.results.append(row)
        if not error and not message.validate_only:
            before[topic.name] = cluster.topics[topic.name]
            cluster.topics.resize(topic.name, topic.count)
    others: Replies = ()
    try:
        if before:
            cluster.save()
            others = cluster.topics_changed(request.now)
    except OSError as failure:
        for row in response.results:
            if row.name in before:
                cluster.topics.resize(row.name, before[row.name])
                set_storage_error(row, failure)
    return (*others, Reply(request.ticket, response))


def _error(cluster: EmbeddedCluster, wanted: CreatePartitionsTopic, *, repeated: bool) -> RowError:
    if repeated:
        return ErrorCode.INVALID_REQUEST, "Duplicate topic name."
    topic = cluster.topics.by_name(wanted.name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    if cluster.topics.is_internal(topic.name):
        return INTERNAL_TOPIC
    more = wanted.count - topic.partitions
    if more <= 0:
        return ErrorCode.INVALID_PARTITIONS, f"Topic currently has {topic.partitions} partition(s)."
    if wanted.assignments is not None and len(wanted.assignments) != more:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Give assignments for {more} new partition(s), or none."
    return room_error(cluster, partitions=more)
