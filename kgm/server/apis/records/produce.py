"""Produce v3-13: appends record batches, and wakes the fetches that wait for them. With acks=0 there is no response; on
an error the connection is closed.

A batch that an idempotent producer sends again is answered with the offset it already has. Not implemented: detecting
gaps in a producer's sequence numbers; they are accepted."""

from kgm.coordinator.contract.outcome import Producer
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kgm.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kgm.records.batch import Batch
from kgm.server.apis.transactions.membership import add_to_transaction
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.cluster.topics import Topic, has_partition
from kgm.server.contract.exchange import ClientRequest, CloseConnection, NoResponse, Replies, Reply
from kgm.server.contract.transaction import TopicPartition
from kgm.server.logs.topic_log import parse_batches

_ACKS = (-1, 0, 1)
_NO_OFFSET = -1
_BY_TOPIC_ID_FROM = 13
_ADDS_PARTITION_FROM = 12
_ABORTABLE_FROM = 11


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, ProduceRequest)
    written: set[TopicPartition] = set()
    rows = [_produce_topic(request, cluster, message, data, written) for data in message.topic_data]
    woken = cluster.records.written(written, request.ticket)
    if message.acks != 0:
        return (Reply(request.ticket, ProduceResponse(responses=rows)), *woken)
    error = next((row.error_code for topic in rows for row in topic.partition_responses if row.error_code), 0)
    if error:
        return (CloseConnection(request.ticket, f"Produce with acks=0 failed: {ErrorCode(error).name}"), *woken)
    return (NoResponse(request.ticket), *woken)


def _produce_topic(
    request: ClientRequest,
    cluster: EmbeddedCluster,
    message: ProduceRequest,
    data: TopicProduceData,
    written: set[TopicPartition],
) -> TopicProduceResponse:
    by_id = request.version >= _BY_TOPIC_ID_FROM
    topic = cluster.topics.by_id(data.topic_id) if by_id else cluster.topics.by_name(data.name)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    rows = []
    for part in data.partition_data:
        error, batches = _check(request, cluster, message, topic, part, unknown)
        row = PartitionProduceResponse(index=part.index, error_code=error, base_offset=_NO_OFFSET)
        if topic is not None and not error:
            _append(cluster, topic.name, part.index, batches, row)
            written.add((topic.name, part.index))
        rows.append(row)
    return TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=rows)


def _append(
    cluster: EmbeddedCluster, topic: str, partition: int, batches: list[Batch], row: PartitionProduceResponse
) -> None:
    log = cluster.records.log(topic, partition)
    if len(batches) == 1 and (offset := log.offset_of_duplicate(batches[0])) is not None:
        row.base_offset, row.log_start_offset = offset, log.start_offset
        return
    try:
        row.base_offset = cluster.records.append(topic, partition, batches)
    except OSError as error:
        row.error_code, row.error_message = ErrorCode.KAFKA_STORAGE_ERROR, error.strerror
        return
    row.log_start_offset = cluster.records.log(topic, partition).start_offset


def _check(
    request: ClientRequest,
    cluster: EmbeddedCluster,
    message: ProduceRequest,
    topic: Topic | None,
    part: PartitionProduceData,
    unknown: ErrorCode,
) -> tuple[ErrorCode, list[Batch]]:
    """The batches to append to a partition, or the error if they are refused."""
    if message.acks not in _ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS, []
    if topic is None:
        return unknown, []
    if not has_partition(topic, part.index):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []
    if cluster.topics.is_internal(topic.name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION, []
    transactional_id = message.transactional_id
    batches = parse_batches(part.records, transactional=transactional_id is not None)
    if isinstance(batches, ErrorCode):
        return batches, []
    if transactional_id is not None:
        for batch in batches:
            producer = Producer(batch.producer_id, batch.producer_epoch)
            if error := _check_transaction(request, cluster, transactional_id, producer, (topic.name, part.index)):
                return error, []
    return ErrorCode.NONE, batches


def _check_transaction(
    request: ClientRequest,
    cluster: EmbeddedCluster,
    transactional_id: str,
    producer: Producer,
    at: TopicPartition,
) -> ErrorCode:
    """Whether a producer may write to a partition in its transaction (Kafka: AddPartitionsToTxnManager). From v12 on,
    the producer does not have to add the partition first (KIP-890)."""
    if request.version >= _ADDS_PARTITION_FROM:
        error = add_to_transaction(request, cluster, transactional_id, producer, partitions=[at])
    else:
        error = cluster.transactions.verify(transactional_id, producer, at=at)
    if error is ErrorCode.INVALID_TXN_STATE and request.version >= _ABORTABLE_FROM:
        return ErrorCode.TRANSACTION_ABORTABLE
    # NOT_ENOUGH_REPLICAS makes the producer retry.
    return ErrorCode.NOT_ENOUGH_REPLICAS if error is ErrorCode.CONCURRENT_TRANSACTIONS else error
