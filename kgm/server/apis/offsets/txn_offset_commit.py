"""TxnOffsetCommit v0-5: the group's coordinator answers, if the transaction coordinator lets the producer write.

Stricter than Kafka: a request is refused if it would create more groups, or leave more offsets, than the server
allows."""

from kgm.coordinator.contract.error_responses import refusal, txn_commit_refusal
from kgm.coordinator.contract.outcome import Producer, Request
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kgm.protocol.struct import Message
from kgm.server.apis.routing import ask_coordinator, refuse_commit, refuse_new_group, refuse_offsets
from kgm.server.apis.transactions.membership import add_to_transaction
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply

_ADDS_PARTITION_FROM = 5
_ABORTABLE_FROM = 4
_NO_PRODUCER_ID = -1


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    return (
        _refuse_producer(request, cluster)
        or refuse_new_group(request, cluster)
        or refuse_offsets(request, cluster)
        or ask_coordinator(request, cluster, unavailable=_unavailable)
    )


def _refuse_producer(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    """The refusal if the producer is not allowed to write offsets of this group; empty if it is."""
    message = request.message
    assert isinstance(message, TxnOffsetCommitRequest)
    if message.producer_id == _NO_PRODUCER_ID or not message.group_id:
        return ()
    producer = Producer(message.producer_id, message.producer_epoch)
    partition = cluster.placement.partition_for(message.group_id)
    if request.version >= _ADDS_PARTITION_FROM:
        error = add_to_transaction(request, cluster, message.transactional_id, producer, offsets=(partition,))
    else:
        error = cluster.transactions.verify(message.transactional_id, producer, offsets=partition)
    match error:
        case ErrorCode.NONE:
            return ()
        case ErrorCode.INVALID_TXN_STATE if request.version >= _ABORTABLE_FROM:
            error = ErrorCode.TRANSACTION_ABORTABLE
        case ErrorCode.CONCURRENT_TRANSACTIONS:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # which makes the producer retry
        case ErrorCode.PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        case _:
            pass
    return (Reply(request.ticket, txn_commit_refusal(message, error, request.version)),)


def _unavailable(group_request: Request, error: ErrorCode, cluster: EmbeddedCluster) -> Message:
    message = group_request.message
    assert isinstance(message, TxnOffsetCommitRequest)
    return (
        refuse_commit(group_request, error, cluster)
        if message.group_id
        else refusal(group_request, ErrorCode.INVALID_GROUP_ID)
    )
