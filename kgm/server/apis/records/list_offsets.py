"""ListOffsets v1-11: offsets by time. They are exact to a batch: it is the batch's own offset and latest timestamp.

Not done: tiered storage."""

from enum import IntEnum

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from kgm.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kgm.server.apis.records.isolation import end_for
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply
from kgm.server.logs.topic_log import LEADER_EPOCH, PartitionLog

_LEADER_EPOCH_FROM = 4
_NO_TIMESTAMP = -1


class OffsetTime(IntEnum):
    """The timestamps that stand for something else than a time in ms (Kafka: ListOffsetsRequest)."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, ListOffsetsRequest)
    rows = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                _partition(request.version, cluster, topic.name, part, message.isolation_level)
                for part in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return (Reply(request.ticket, ListOffsetsResponse(topics=rows)),)


def _partition(
    version: int, cluster: EmbeddedCluster, topic: str, part: ListOffsetsPartition, isolation_level: int
) -> ListOffsetsPartitionResponse:
    row = ListOffsetsPartitionResponse(partition_index=part.partition_index)
    if not 0 <= part.partition_index < cluster.topics.get(topic, 0):
        row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return row
    log = cluster.records.log(topic, part.partition_index)
    position = _position(log, part.timestamp, end_for(isolation_level, log))
    if position is not None:
        row.timestamp, row.offset = position
        row.leader_epoch = LEADER_EPOCH if version >= _LEADER_EPOCH_FROM else row.leader_epoch
    return row


def _position(log: PartitionLog, timestamp: int, below: int | None) -> tuple[int, int] | None:
    """(timestamp, offset); None if there is none."""
    match timestamp:
        case OffsetTime.LATEST:
            return _NO_TIMESTAMP, log.end_offset if below is None else below
        case OffsetTime.EARLIEST | OffsetTime.EARLIEST_LOCAL:
            return _NO_TIMESTAMP, log.start_offset
        case OffsetTime.MAX_TIMESTAMP:
            batch = max(log.batches, key=lambda batch: batch.max_timestamp, default=None)
            return None if batch is None else (batch.max_timestamp, batch.last_offset)
        case _ if timestamp < 0:  # tiered storage
            return None
        case _:
            return log.offset_at(timestamp)
