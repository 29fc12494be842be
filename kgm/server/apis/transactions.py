"""The APIs of the transaction coordinator on one broker: InitProducerId v0-5, AddPartitionsToTxn v0-5, AddOffsetsToTxn
v0-4, EndTxn v0-5; and the check that stands before TxnOffsetCommit. Kafka: KafkaApis.

Every broker has all transactions; the one that a transactional id hashes to answers for it."""

from collections.abc import Callable

from kgm.coordinator.contract.error_responses import txn_commit_refusal
from kgm.coordinator.contract.outcome import Producer
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kgm.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
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
from kgm.protocol.messages.end_txn_request import EndTxnRequest
from kgm.protocol.messages.end_txn_response import EndTxnResponse
from kgm.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kgm.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kgm.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kgm.server.cluster.nodes import Nodes, Placement, place_of
from kgm.server.cluster.topics import Topics
from kgm.server.cluster.transaction_coordinator import TopicPartition, Transactions
from kgm.server.contract.exchange import Call, Reply, Response, Ticket

#: Kafka's `transaction.state.log.num.partitions`.
PLACES = 50
_FENCED_FROM = {"init": 4, "other": 2}
_BATCHED_FROM = 4
_BUMPS_FROM = 5
_ADDS_BY_ITSELF_FROM = {"produce": 12, "offsets": 5}
_ABORTABLE_FROM = {"produce": 11, "offsets": 4}
_NO_PRODUCER_ID = -1


def coordinator_of(nodes: Nodes, transactional_id: str) -> int | None:
    """The broker that answers for a transactional id."""
    return nodes.leader(nodes.in_turn(place_of(transactional_id, PLACES)))


def verify_produce(
    transactions: Transactions, transactional_id: str, producer: Producer, at: TopicPartition, call: Call
) -> ErrorCode:
    """Whether a producer may write to a partition (AddPartitionsToTxnManager). New ones need not add it first."""
    if call.version >= _ADDS_BY_ITSELF_FROM["produce"]:
        error = _added(transactions, transactional_id, producer, call, partitions=[at])
    else:
        error = transactions.takes_part(transactional_id, producer, at=at)
    if error is ErrorCode.INVALID_TXN_STATE and call.version >= _ABORTABLE_FROM["produce"]:
        return ErrorCode.TRANSACTION_ABORTABLE
    return ErrorCode.NOT_ENOUGH_REPLICAS if error is ErrorCode.CONCURRENT_TRANSACTIONS else error  # to be tried again


def _added(
    transactions: Transactions,
    transactional_id: str,
    producer: Producer,
    call: Call,
    partitions: list[TopicPartition] | None = None,
    offsets: list[int] | None = None,
) -> ErrorCode:
    try:
        return transactions.add(
            transactional_id, producer, call.now, partitions=partitions or (), offsets=offsets or ()
        )
    except OSError:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE


class TransactionApis:
    """What one broker answers about transactions.

    hold: notes a ticket whose reply rests on the log of transactions."""

    def __init__(
        self,
        node_id: int,
        nodes: Nodes,
        topics: Topics,
        placement: Placement,
        transactions: Transactions,
        *,
        new_producer_id: Callable[[], int],
        hold: Callable[[Ticket], None],
    ) -> None:
        self._node_id = node_id
        self._nodes = nodes
        self._topics = topics
        self._placement = placement
        self._transactions = transactions
        self._new_producer_id = new_producer_id
        self._hold = hold

    def _elsewhere(self, transactional_id: str) -> bool:
        return coordinator_of(self._nodes, transactional_id) != self._node_id

    # -- InitProducerId v0-5

    def init_producer_id(self, call: Call) -> Response:
        """A new id for an idempotent producer; for a transactional one its id with a new epoch."""
        message = call.message
        assert isinstance(message, InitProducerIdRequest)
        transactional_id = message.transactional_id
        if transactional_id is None:
            response = InitProducerIdResponse(producer_id=self._new_producer_id(), producer_epoch=0)
        elif self._elsewhere(transactional_id):
            response = InitProducerIdResponse(error_code=ErrorCode.NOT_COORDINATOR)
        else:
            response = self._init(message, transactional_id, call)
        return (Reply(call.ticket, response),)

    def _init(self, message: InitProducerIdRequest, transactional_id: str, call: Call) -> InitProducerIdResponse:
        said = Producer(message.producer_id, message.producer_epoch)
        try:
            found = self._transactions.init(transactional_id, message.transaction_timeout_ms, said)
        except OSError:
            found = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._hold(call.ticket)
        if isinstance(found, ErrorCode):
            return InitProducerIdResponse(error_code=_fenced(found, call.version, "init"))
        return InitProducerIdResponse(producer_id=found.producer_id, producer_epoch=found.epoch)

    # -- AddPartitionsToTxn v0-5

    def add_partitions(self, call: Call) -> Response:
        """One transaction until v3. From v4 on brokers ask, for several, and may only want to know."""
        message = call.message
        assert isinstance(message, AddPartitionsToTxnRequest)
        if call.version < _BATCHED_FROM:
            one = AddPartitionsToTxnTransaction(
                transactional_id=message.v3_and_below_transactional_id,
                producer_id=message.v3_and_below_producer_id,
                producer_epoch=message.v3_and_below_producer_epoch,
                topics=message.v3_and_below_topics,
            )
            response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=self._add(one, call))
        else:
            rows = [
                AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=self._add(one, call))
                for one in message.transactions
            ]
            response = AddPartitionsToTxnResponse(results_by_transaction=rows)
        return (Reply(call.ticket, response),)

    def _add(self, one: AddPartitionsToTxnTransaction, call: Call) -> list[AddPartitionsToTxnTopicResult]:
        """All partitions are added, or none: the others are not tried then."""
        wanted = [(topic.name, partition) for topic in one.topics for partition in topic.partitions]
        unknown = {at for at in wanted if not 0 <= at[1] < self._topics.get(at[0], 0)}
        producer = Producer(one.producer_id, one.producer_epoch)
        if self._elsewhere(one.transactional_id):
            error = ErrorCode.NOT_COORDINATOR
        elif unknown:
            error = ErrorCode.OPERATION_NOT_ATTEMPTED
        elif one.verify_only:
            errors = [self._transactions.takes_part(one.transactional_id, producer, at=at) for at in wanted]
            error = next((found for found in errors if found), ErrorCode.NONE)
        else:
            error = _added(self._transactions, one.transactional_id, producer, call, partitions=wanted)
            self._hold(call.ticket)
        error = _fenced(error, call.version, "other")
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
            for topic in one.topics
        ]

    # -- AddOffsetsToTxn v0-4

    def add_offsets(self, call: Call) -> Response:
        """The group's partition of `__consumer_offsets` takes part."""
        message = call.message
        assert isinstance(message, AddOffsetsToTxnRequest)
        error = ErrorCode.NOT_COORDINATOR
        if not self._elsewhere(message.transactional_id):
            producer = Producer(message.producer_id, message.producer_epoch)
            partition = self._placement.of_group(message.group_id)
            error = _added(self._transactions, message.transactional_id, producer, call, offsets=[partition])
            self._hold(call.ticket)
        return (Reply(call.ticket, AddOffsetsToTxnResponse(error_code=_fenced(error, call.version, "other"))),)

    # -- TxnOffsetCommit v0-5

    def refuse_commit(self, call: Call) -> Response:
        """What stands in the way of a TxnOffsetCommit; nothing, if it may go to the group."""
        message = call.message
        assert isinstance(message, TxnOffsetCommitRequest)
        if message.producer_id == _NO_PRODUCER_ID or not message.group_id:
            return ()
        producer = Producer(message.producer_id, message.producer_epoch)
        partition = self._placement.of_group(message.group_id)
        if call.version >= _ADDS_BY_ITSELF_FROM["offsets"]:
            error = _added(self._transactions, message.transactional_id, producer, call, offsets=[partition])
        else:
            error = self._transactions.takes_part(message.transactional_id, producer, offsets=partition)
        if error is ErrorCode.NONE:
            return ()
        if error is ErrorCode.INVALID_TXN_STATE and call.version >= _ABORTABLE_FROM["offsets"]:
            error = ErrorCode.TRANSACTION_ABORTABLE
        if error is ErrorCode.CONCURRENT_TRANSACTIONS:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # to be tried again
        if error is ErrorCode.PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        return (Reply(call.ticket, txn_commit_refusal(message, error, call.version)),)

    # -- EndTxn v0-5

    def end(self, call: Call) -> Response:
        """Commit or abort. The answer says that it will be so; the markers follow."""
        message = call.message
        assert isinstance(message, EndTxnRequest)
        if self._elsewhere(message.transactional_id):
            return (Reply(call.ticket, EndTxnResponse(error_code=ErrorCode.NOT_COORDINATOR)),)
        bump = call.version >= _BUMPS_FROM
        producer = Producer(message.producer_id, message.producer_epoch)
        try:
            found = self._transactions.end(message.transactional_id, producer, commit=message.committed, bump=bump)
        except OSError:
            found = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._hold(call.ticket)
        response = EndTxnResponse()
        if isinstance(found, ErrorCode):
            response.error_code = _fenced(found, call.version, "other")
        elif bump:
            response.producer_id, response.producer_epoch = found.producer_id, found.epoch
        return (Reply(call.ticket, response),)


def _fenced(error: ErrorCode, version: int, api: str) -> ErrorCode:
    """Older clients know PRODUCER_FENCED under another name."""
    if error is ErrorCode.PRODUCER_FENCED and version < _FENCED_FROM[api]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
