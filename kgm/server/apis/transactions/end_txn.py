"""EndTxn v0-5: commit or abort a transaction. The response confirms the decision; the markers follow."""

from kgm.coordinator.contract.outcome import Producer
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.end_txn_request import EndTxnRequest
from kgm.protocol.messages.end_txn_response import EndTxnResponse
from kgm.server.apis.transactions.membership import fenced_error, is_elsewhere
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply

_BUMPS_EPOCH_FROM = 5


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, EndTxnRequest)
    if is_elsewhere(request, cluster, message.transactional_id):
        response = EndTxnResponse(error_code=ErrorCode.NOT_COORDINATOR)
    else:
        response = _end(request, cluster, message)
    # The markers are written immediately if nothing has to be flushed first.
    return (Reply(request.ticket, response), *cluster.end_transactions(request.now))


def _end(request: ClientRequest, cluster: EmbeddedCluster, message: EndTxnRequest) -> EndTxnResponse:
    bump = request.version >= _BUMPS_EPOCH_FROM
    producer = Producer(message.producer_id, message.producer_epoch)
    try:
        result = cluster.transactions.end(message.transactional_id, producer, commit=message.committed, bump=bump)
    except OSError:
        result = ErrorCode.COORDINATOR_NOT_AVAILABLE
    cluster.depends_on_transaction_log(request.ticket)
    if isinstance(result, ErrorCode):
        return EndTxnResponse(error_code=fenced_error(result, request.version))
    return EndTxnResponse(producer_id=result.producer_id, producer_epoch=result.epoch) if bump else EndTxnResponse()
