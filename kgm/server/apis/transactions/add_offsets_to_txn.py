"""AddOffsetsToTxn v0-4: add a group's partition of `__consumer_offsets` to a transaction."""

from kgm.coordinator.contract.outcome import Producer
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kgm.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from kgm.server.apis.transactions.membership import add_to_transaction, fenced_error, is_elsewhere
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, AddOffsetsToTxnRequest)
    error = ErrorCode.NOT_COORDINATOR
    if not is_elsewhere(request, cluster, message.transactional_id):
        producer = Producer(message.producer_id, message.producer_epoch)
        partition = cluster.placement.partition_for(message.group_id)
        error = add_to_transaction(request, cluster, message.transactional_id, producer, offsets=(partition,))
        cluster.depends_on_transaction_log(request.ticket)
    return (Reply(request.ticket, AddOffsetsToTxnResponse(error_code=fenced_error(error, request.version))),)
