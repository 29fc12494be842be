"""ListOffsets v1-11: offsets by timestamp, exact to the record, or to the batch if its records cannot be decoded.

Not implemented: tiered storage."""

from enum import IntEnum

from kgm.model.errors import DecodeError, ErrorCode, KgmError
from kgm.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from kgm.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kgm.records.batch import NO_TIMESTAMP, Batch
from kgm.server.apis.records.isolation import end_for
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply
from kgm.server.logs.topic_log import ReadableLog

_LEADER_EPOCH_FROM = 4


class OffsetTime(IntEnum):
    """The special timestamps, which are not a time in ms (Kafka: ListOffsetsRequest)."""

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
                _partition(request, cluster, topic.name, part, message.isolation_level) for part in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return (Reply(request.ticket, ListOffsetsResponse(topics=rows)),)


def _partition(
    request: ClientRequest, cluster: EmbeddedCluster, topic: str, part: ListOffsetsPartition, isolation_level: int
) -> ListOffsetsPartitionResponse:
    index = part.partition_index
    row = ListOffsetsPartitionResponse(partition_index=index)
    if not 0 <= index < cluster.topics.get(topic, 0):
        row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return row
    row.error_code = cluster.refusal_at(topic, index, request.node_id, part.current_leader_epoch)
    if row.error_code:
        return row
    log = cluster.log(topic, index)
    try:
        found = _position(log, part.timestamp, end_for(isolation_level, log), cluster.leader_epoch(topic, index))
    except (KgmError, OSError):
        row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return row
    if found is not None:
        row.timestamp, row.offset, epoch = found
        row.leader_epoch = epoch if request.version >= _LEADER_EPOCH_FROM else row.leader_epoch
    return row


def _position(log: ReadableLog, timestamp: int, below: int | None, epoch: int) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch), or None if there is no such record. epoch: the leader epoch of the
    partition."""
    match timestamp:
        case OffsetTime.LATEST:
            return NO_TIMESTAMP, log.end_offset if below is None else below, epoch
        case OffsetTime.EARLIEST | OffsetTime.EARLIEST_LOCAL:
            first = log.first_epoch
            return NO_TIMESTAMP, log.start_offset, epoch if first is None else first
        case OffsetTime.MAX_TIMESTAMP:
            batch = log.latest_batch()
            return None if batch is None else _first_record(batch, batch.max_timestamp)
        case _ if timestamp < 0:  # tiered storage
            return None
        case _:
            batch = log.batch_at(timestamp)
            return None if batch is None else _first_record(batch, timestamp)


def _first_record(batch: Batch, timestamp: int) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch) of the first record in a batch at or after a timestamp (Kafka:
    FileRecords.searchForTimestamp)."""
    try:
        found = next((row for row in batch.records if row.timestamp >= timestamp), None)
    except DecodeError:
        found = None
    if found is None:
        return batch.max_timestamp, batch.base_offset, batch.leader_epoch
    return found.timestamp, found.offset, batch.leader_epoch
