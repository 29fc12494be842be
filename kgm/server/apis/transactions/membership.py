"""What the transaction APIs, Produce and TxnOffsetCommit share: finding the right broker, and adding partitions."""

from collections.abc import Iterable

from kgm.coordinator.contract.outcome import Producer
from kgm.model.errors import ErrorCode
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest
from kgm.server.contract.transaction import TopicPartition

#: InitProducerId returns PRODUCER_FENCED from this version on, the other APIs from version 2 on (KIP-588).
INIT_FENCES_FROM = 4
FENCES_FROM = 2


def is_elsewhere(request: ClientRequest, cluster: EmbeddedCluster, transactional_id: str) -> bool:
    """Whether another broker coordinates the transactions of this id."""
    return cluster.nodes.transaction_coordinator(transactional_id) != request.node_id


def add_to_transaction(
    request: ClientRequest,
    cluster: EmbeddedCluster,
    transactional_id: str,
    producer: Producer,
    *,
    partitions: Iterable[TopicPartition] = (),
    offsets: Iterable[int] = (),
) -> ErrorCode:
    """Add partitions of user topics, or of `__consumer_offsets`, to a producer's transaction."""
    try:
        return cluster.transactions.add(transactional_id, producer, request.now, partitions=partitions, offsets=offsets)
    except OSError:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE


def fenced_error(error: ErrorCode, version: int, fences_from: int = FENCES_FROM) -> ErrorCode:
    """The error under its name in this version: INVALID_PRODUCER_EPOCH is the former name of PRODUCER_FENCED."""
    if error is ErrorCode.PRODUCER_FENCED and version < fences_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
