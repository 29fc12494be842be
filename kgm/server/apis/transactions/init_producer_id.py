"""InitProducerId v0-5: a new id for an idempotent producer, or the existing id with a new epoch for a transactional
producer.

Not implemented: two-phase commit (KIP-939)."""

from kgm.coordinator.contract.outcome import Producer
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kgm.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kgm.server.apis.transactions.membership import INIT_FENCES_FROM, fenced_error, is_elsewhere
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, InitProducerIdRequest)
    if message.transactional_id is None:
        response = InitProducerIdResponse(producer_id=cluster.new_producer_id(), producer_epoch=0)
    elif is_elsewhere(request, cluster, message.transactional_id):
        response = InitProducerIdResponse(error_code=ErrorCode.NOT_COORDINATOR)
    else:
        response = _init(request, cluster, message, message.transactional_id)
    # Transactions aborted here get their markers immediately if nothing has to be flushed first.
    return (Reply(request.ticket, response), *cluster.end_transactions(request.now))


def _init(
    request: ClientRequest, cluster: EmbeddedCluster, message: InitProducerIdRequest, transactional_id: str
) -> InitProducerIdResponse:
    current = Producer(message.producer_id, message.producer_epoch)
    try:
        result = cluster.transactions.init(transactional_id, message.transaction_timeout_ms, current)
    except OSError:
        result = ErrorCode.COORDINATOR_NOT_AVAILABLE
    cluster.depends_on_transaction_log(request.ticket)
    if isinstance(result, ErrorCode):
        return InitProducerIdResponse(error_code=fenced_error(result, request.version, INIT_FENCES_FROM))
    return InitProducerIdResponse(producer_id=result.producer_id, producer_epoch=result.epoch)
