"""AddPartitionsToTxn v0-5: add partitions of user topics to a transaction. From v4 on, brokers send it too, for several
transactions, and sometimes only to verify."""

from kgm.coordinator.contract.outcome import Producer
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from kgm.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kgm.server.apis.transactions.membership import add_to_transaction, fenced_error, is_elsewhere
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply

_SEVERAL_FROM = 4


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, AddPartitionsToTxnRequest)
    if request.version < _SEVERAL_FROM:
        single = AddPartitionsToTxnTransaction(
            transactional_id=message.v3_and_below_transactional_id,
            producer_id=message.v3_and_below_producer_id,
            producer_epoch=message.v3_and_below_producer_epoch,
            topics=message.v3_and_below_topics,
        )
        response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_add(request, cluster, single))
    else:
        rows = [
            AddPartitionsToTxnResult(transactional_id=row.transactional_id, topic_results=_add(request, cluster, row))
            for row in message.transactions
        ]
        response = AddPartitionsToTxnResponse(results_by_transaction=rows)
    return (Reply(request.ticket, response),)


def _add(
    request: ClientRequest, cluster: EmbeddedCluster, transaction: AddPartitionsToTxnTransaction
) -> list[AddPartitionsToTxnTopicResult]:
    """Add all partitions or none: if some do not exist, the others get OPERATION_NOT_ATTEMPTED."""
    wanted = [(topic.name, partition) for topic in transaction.topics for partition in topic.partitions]
    topics = cluster.topics
    unknown = {at for at in wanted if topics.is_internal(at[0]) or not 0 <= at[1] < topics.get(at[0], 0)}
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    transactional_id = transaction.transactional_id
    if is_elsewhere(request, cluster, transactional_id):
        error = ErrorCode.NOT_COORDINATOR
    elif unknown:
        error = ErrorCode.OPERATION_NOT_ATTEMPTED
    elif transaction.verify_only:
        errors = [cluster.transactions.verify(transactional_id, producer, at=at) for at in wanted]
        error = next((error for error in errors if error), ErrorCode.NONE)
    else:
        error = add_to_transaction(request, cluster, transactional_id, producer, partitions=wanted)
        cluster.depends_on_transaction_log(request.ticket)
    error = fenced_error(error, request.version)
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    if (topic.name, index) in unknown
                    else error,
                )
                for index in topic.partitions
            ],
        )
        for topic in transaction.topics
    ]
