"""Produce, Fetch and ListOffsets: just enough of a log that real producers and consumers can move.

An idempotent producer's batch that comes again is answered with the offset that it has; gaps in its sequence are let
through. Not done: fetch sessions (every Fetch is a full one, which the answer's session id 0 tells the client), and
timestamps finer than a batch in ListOffsets. Kafka: ReplicaManager."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from kgm.coordinator.contract.outcome import Producer
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kgm.protocol.messages.fetch_response import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from kgm.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from kgm.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kgm.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kgm.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kgm.records.batch import Marker, ProducerInfo, marker_batch, parse_batch
from kgm.server.cluster.topics import Topic, Topics
from kgm.server.cluster.transaction_coordinator import TopicPartition
from kgm.server.contract.exchange import Call, Hangup, Millis, NoAnswer, Reply, Response, Ticket
from kgm.server.contract.limits import Limits
from kgm.server.logs.topic_log import LEADER_EPOCH, Batch, Logs, PartitionLog, kept, parse_batches

#: A Fetch waits no longer than this, whatever it asks for; it is answered with no records then.
LONGEST_WAIT_MS = 60_000
_BY_TOPIC_ID_FROM = 13
_FULL_FETCH_EPOCHS = (-1, 0)
_LEADER_EPOCH_FROM = 4
_NO_OFFSET = _NO_TIMESTAMP = -1
_READ_COMMITTED = 1

#: Whether a producer may write to a partition in its transaction: transactional id, producer, partition, the Produce.
Verify = Callable[[str, Producer, TopicPartition, Call], ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """A Fetch that waits for more records."""

    call: Call
    message: FetchRequest
    deadline: Millis
    partitions: frozenset[tuple[str, int]]


class Data:
    """The records of all topics and those who wait for more of them."""

    def __init__(self, topics: Topics, limits: Limits, logs: Logs, verify: Verify) -> None:
        self._topics = topics
        self._limits = limits
        self._logs = logs
        self._verify = verify
        self._unflushed: set[Ticket] = set()
        self._waiting: dict[Ticket, _Waiting] = {}
        self._deadlines: list[tuple[Millis, Ticket]] = []

    # -- Produce v3-13

    def produce(self, call: Call) -> Response:
        """Append, and wake those who wait for it. acks=0 gets no response, or loses its connection on an error."""
        message = call.message
        assert isinstance(message, ProduceRequest)
        written: set[tuple[str, int]] = set()
        rows = [self._produce_topic(message, data, call, written) for data in message.topic_data]
        response = ProduceResponse(responses=rows)
        if written and self.dirty:
            self._unflushed.add(call.ticket)
        woken = self._wake(written)
        if message.acks != 0:
            return (Reply(call.ticket, response), *woken)
        failed = next((part.error_code for row in rows for part in row.partition_responses if part.error_code), 0)
        if failed:
            return (Hangup(call.ticket, f"Produce with acks=0 failed: {ErrorCode(failed).name}"), *woken)
        return (NoAnswer(call.ticket), *woken)

    def _produce_topic(
        self, message: ProduceRequest, data: TopicProduceData, call: Call, written: set[TopicPartition]
    ) -> TopicProduceResponse:
        by_id = call.version >= _BY_TOPIC_ID_FROM
        topic = self._topics.identified(data.topic_id) if by_id else self._topics.named(data.name)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        rows = []
        for part in data.partition_data:
            error, parsed = self._check_produce(call, message, topic, part, unknown)
            row = PartitionProduceResponse(index=part.index, error_code=error, base_offset=_NO_OFFSET)
            if topic is not None and not error:
                self._append(topic.name, part.index, parsed, row)
                written.add((topic.name, part.index))
            rows.append(row)
        return TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=rows)

    def _append(self, topic: str, partition: int, parsed: list[Batch], row: PartitionProduceResponse) -> None:
        log = self._logs.get(topic, partition)
        if len(parsed) == 1 and (known := log.offset_of_same(parsed[0])) is not None:
            row.base_offset, row.log_start_offset = known, log.start_offset
            return
        try:
            row.base_offset = self._logs.append(topic, partition, parsed)
        except OSError as error:
            row.error_code, row.error_message = ErrorCode.KAFKA_STORAGE_ERROR, error.strerror
            return
        row.log_start_offset = self._logs.get(topic, partition).start_offset

    def _check_produce(
        self,
        call: Call,
        message: ProduceRequest,
        topic: Topic | None,
        part: PartitionProduceData,
        unknown: ErrorCode,
    ) -> tuple[ErrorCode, list[Batch]]:
        if message.acks not in (-1, 0, 1):
            return ErrorCode.INVALID_REQUIRED_ACKS, []
        if topic is None:
            return unknown, []
        partition, records = part.index, part.records
        if not topic.has(partition):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []
        transactional_id = message.transactional_id
        parsed = parse_batches(records, transactional=transactional_id is not None)
        if isinstance(parsed, ErrorCode):
            return parsed, []
        for batch in parsed if transactional_id is not None else ():
            assert transactional_id is not None
            producer = Producer(batch.producer_id, batch.producer_epoch)
            if error := self._verify(transactional_id, producer, (topic.name, partition), call):
                return error, []
        return ErrorCode.NONE, parsed

    def end_transaction(self, at: TopicPartition, producer: Producer, *, commit: bool, now: Millis) -> Response:
        """Write a marker, and wake those who wait for what it makes stable. Raises OSError."""
        if self._topics.get(at[0], 0) <= at[1]:
            return ()  # the topic was deleted meanwhile
        data = marker_batch(ProducerInfo(*producer), Marker(commit, 0), base_offset=0, timestamp_ms=now)
        self._logs.append(*at, [kept(parse_batch(data), at=0)])
        return self._wake({at})

    def empty(self, topic: str, partitions: int) -> Response:
        """The topic is deleted, with its records. Who waits for more of them is told. Raises OSError."""
        self._logs.delete(topic)
        return self._wake({(topic, partition) for partition in range(partitions)})

    # -- Fetch v4-18

    def fetch(self, call: Call) -> Response:
        """Answer at once when there is enough or something is wrong, else wait for more until max_wait_ms."""
        message = call.message
        assert isinstance(message, FetchRequest)
        if message.session_epoch not in _FULL_FETCH_EPOCHS:
            response = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return (Reply(call.ticket, response),)
        wait_ms = min(message.max_wait_ms, LONGEST_WAIT_MS)
        if wait_ms <= 0 or self._is_answerable(message, call.version):
            return (Reply(call.ticket, self._read(message, call.version)),)
        partitions = frozenset(
            (topic.name, part.partition)
            for row in message.topics
            if (topic := self._topic_of(row, call.version)) is not None
            for part in row.partitions
        )
        deadline = Millis(call.now + wait_ms)
        self._waiting[call.ticket] = _Waiting(call=call, message=message, deadline=deadline, partitions=partitions)
        heapq.heappush(self._deadlines, (deadline, call.ticket))
        return ()

    def _topic_of(self, row: FetchTopic, version: int) -> Topic | None:
        if version >= _BY_TOPIC_ID_FROM:
            return self._topics.identified(row.topic_id)
        return self._topics.named(row.topic)

    def _is_answerable(self, message: FetchRequest, version: int) -> bool:
        """Whether min_bytes are there, or some partition has an error to tell."""
        if not message.topics:
            return True
        missing = message.min_bytes
        for row in message.topics:
            topic = self._topic_of(row, version)
            for part in row.partitions:
                if self._fetch_error(topic, part, version):
                    return True
                assert topic is not None
                log = self._logs.get(topic.name, part.partition)
                most = min(part.partition_max_bytes, self._limits.fetch_max_bytes)
                missing -= log.readable(part.fetch_offset, most, below=_bound(log, message.isolation_level))
                if missing <= 0:
                    return True
        return False

    def _fetch_error(self, topic: Topic | None, part: FetchPartition, version: int) -> ErrorCode:
        if topic is None:
            by_id = version >= _BY_TOPIC_ID_FROM
            return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not topic.has(part.partition):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if part.current_leader_epoch > LEADER_EPOCH:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        log = self._logs.get(topic.name, part.partition)
        within = log.start_offset <= part.fetch_offset <= log.end_offset
        return ErrorCode.NONE if within else ErrorCode.OFFSET_OUT_OF_RANGE

    def _read(self, message: FetchRequest, version: int) -> FetchResponse:
        room = min(message.max_bytes, self._limits.fetch_max_bytes)
        response = FetchResponse()
        empty = True
        for row in message.topics:
            topic = self._topic_of(row, version)
            answer = FetchableTopicResponse(topic=row.topic, topic_id=row.topic_id)
            for part in row.partitions:
                data = self._read_partition(topic, part, message, version, room=room, at_least_one=empty)
                size = len(data.records or b"")
                room -= size
                empty = empty and size == 0
                answer.partitions.append(data)
            response.responses.append(answer)
        return response

    def _read_partition(
        self,
        topic: Topic | None,
        part: FetchPartition,
        message: FetchRequest,
        version: int,
        *,
        room: int,
        at_least_one: bool,
    ) -> PartitionData:
        error = self._fetch_error(topic, part, version)
        if topic is None or (error and error is not ErrorCode.OFFSET_OUT_OF_RANGE):
            return PartitionData(partition_index=part.partition, error_code=error, high_watermark=_NO_OFFSET)
        log = self._logs.get(topic.name, part.partition)
        data = PartitionData(
            partition_index=part.partition,
            error_code=error,
            high_watermark=log.end_offset,
            last_stable_offset=log.stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=None,
        )
        if not error:
            most = max(min(part.partition_max_bytes, room), 0)
            below = _bound(log, message.isolation_level)
            data.records = log.read(part.fetch_offset, most, at_least_one=at_least_one, below=below)
            if below is not None:
                data.aborted_transactions = [
                    AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
                    for one in log.aborted_in(part.fetch_offset, below)
                ]
        return data

    # -- what is not on the disk yet

    def size_of(self, topic: str, partition: int) -> int:
        return self._logs.get(topic, partition).size

    @property
    def dirty(self) -> bool:
        """Whether records have been appended that have to be flushed."""
        return self._logs.is_dirty

    def flush(self) -> tuple[set[Ticket], bool]:
        """Make durable what was appended. Returns the tickets whose records may be lost, and whether none are."""
        unflushed, self._unflushed = self._unflushed, set()
        try:
            self._logs.flush()
        except OSError:
            return unflushed, False
        return set(), True

    # -- those who wait

    def _wake(self, written: set[tuple[str, int]]) -> Response:
        """Answer the fetches that have enough now."""
        if not written:
            return ()
        ready = [
            waiting
            for waiting in self._waiting.values()
            if not waiting.partitions.isdisjoint(written) and self._is_answerable(waiting.message, waiting.call.version)
        ]
        return tuple(self._give_up(waiting.call.ticket) for waiting in ready)

    def _give_up(self, ticket: Ticket) -> Reply:
        """Answer a waiting Fetch with what there is."""
        waiting = self._waiting.pop(ticket)
        return Reply(ticket, self._read(waiting.message, waiting.call.version))

    def advance(self, now: Millis) -> Response:
        """Answer the fetches that have waited long enough."""
        replies = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            replies.append(self._give_up(heapq.heappop(self._deadlines)[1]))
        return tuple(replies)

    def next_deadline(self) -> Millis | None:
        while self._deadlines and self._deadlines[0][1] not in self._waiting:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def forget(self, ticket: Ticket) -> None:
        """The client is gone. Its alarm stays in the heap until it is at the top; a heap of the gone is rebuilt."""
        self._waiting.pop(ticket, None)
        if len(self._deadlines) > 2 * len(self._waiting) + 1_000:
            self._deadlines = [(waiting.deadline, waiting.call.ticket) for waiting in self._waiting.values()]
            heapq.heapify(self._deadlines)

    # -- ListOffsets v1-11

    def list_offsets(self, call: Call) -> Response:
        message = call.message
        assert isinstance(message, ListOffsetsRequest)
        rows = [
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[self._list_one(topic.name, part, message, call.version) for part in topic.partitions],
            )
            for topic in message.topics
        ]
        return (Reply(call.ticket, ListOffsetsResponse(topics=rows)),)

    def _list_one(
        self, name: str, part: ListOffsetsPartition, message: ListOffsetsRequest, version: int
    ) -> ListOffsetsPartitionResponse:
        row = ListOffsetsPartitionResponse(partition_index=part.partition_index)
        topic = self._topics.named(name)
        if topic is None or not topic.has(part.partition_index):
            row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return row
        log = self._logs.get(name, part.partition_index)
        found = _find(log, part.timestamp, _bound(log, message.isolation_level))
        if found is not None:
            row.timestamp, row.offset = found
            row.leader_epoch = LEADER_EPOCH if version >= _LEADER_EPOCH_FROM else row.leader_epoch
        return row


def _bound(log: PartitionLog, isolation_level: int) -> int | None:
    """How far a reader may read who wants nothing of open transactions; None: everything."""
    return log.stable_offset if isolation_level == _READ_COMMITTED else None


def _find(log: PartitionLog, timestamp: int, below: int | None) -> tuple[int, int] | None:
    """(timestamp, offset) for the special times of ListOffsets (ListOffsetsRequest) and for times in ms."""
    match timestamp:
        case -1:  # latest
            return _NO_TIMESTAMP, log.end_offset if below is None else below
        case -2 | -4:  # earliest, and earliest that is not in tiered storage
            return _NO_TIMESTAMP, log.start_offset
        case -3:  # the latest timestamp
            batch = max(log.batches, key=lambda batch: batch.max_timestamp, default=None)
            return None if batch is None else (batch.max_timestamp, batch.last_offset)
        case _ if timestamp < 0:  # tiered storage, of which there is none
            return None
        case _:
            return log.offset_at(timestamp)
