"""Fetch v4-18: answers immediately if there are enough records or an error; otherwise waits for records, at most
max_wait_ms.

Not implemented: fetch sessions. Every Fetch is a full one; session id 0 in the response tells the client so."""

from dataclasses import dataclass

from kgm.model.errors import ErrorCode, KgmError
from kgm.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kgm.protocol.messages.fetch_response import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from kgm.server.apis.records.isolation import end_for
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.cluster.topics import Topic, has_partition
from kgm.server.contract.exchange import ClientRequest, Millis, Replies, Reply, Ticket
from kgm.server.contract.transaction import TopicPartition

#: The longest time that a Fetch waits, even if it asks for more.
MAX_WAIT_MS = 60_000
_BY_TOPIC_ID_FROM = 13
_FULL_FETCH_EPOCHS = (-1, 0)
_NO_OFFSET = -1
_NO_DEADLINE = Millis(0)


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, FetchRequest)
    if message.session_epoch not in _FULL_FETCH_EPOCHS:
        return (Reply(request.ticket, FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)),)
    fetch = _Fetch(cluster=cluster, message=message, request=request)
    wait_ms = min(message.max_wait_ms, MAX_WAIT_MS)
    if wait_ms <= 0 or fetch.is_complete():
        return (fetch.reply(),)
    fetch.deadline = Millis(request.now + wait_ms)
    fetch.partitions = fetch.existing_partitions()
    cluster.records.wait(fetch)
    return ()


@dataclass(slots=True, kw_only=True)
class _Fetch:
    """One Fetch. deadline, partitions: set if it has to wait."""

    cluster: EmbeddedCluster
    message: FetchRequest
    request: ClientRequest
    deadline: Millis = _NO_DEADLINE
    partitions: frozenset[TopicPartition] = frozenset()

    @property
    def ticket(self) -> Ticket:
        return self.request.ticket

    def existing_partitions(self) -> frozenset[TopicPartition]:
        """The partitions of topics that exist."""
        return frozenset(
            (topic.name, part.partition)
            for row in self.message.topics
            if (topic := self._topic(row)) is not None
            for part in row.partitions
        )

    def _topic(self, row: FetchTopic) -> Topic | None:
        topics = self.cluster.topics
        return topics.by_id(row.topic_id) if self.request.version >= _BY_TOPIC_ID_FROM else topics.by_name(row.topic)

    def is_complete(self) -> bool:
        """Whether min_bytes are available, or a partition has an error."""
        if not self.message.topics:
            return True
        missing = self.message.min_bytes
        for row in self.message.topics:
            topic = self._topic(row)
            for part in row.partitions:
                if self._error(topic, part):
                    return True
                assert topic is not None
                log = self.cluster.log(topic.name, part.partition)
                most = min(part.partition_max_bytes, self.cluster.limits.fetch_max_bytes)
                try:
                    missing -= log.readable(part.fetch_offset, most, below=end_for(self.message.isolation_level, log))
                except (KgmError, OSError):
                    return True
                if missing <= 0:
                    return True
        return False

    def _error(self, topic: Topic | None, part: FetchPartition) -> ErrorCode:
        if topic is None:
            by_id = self.request.version >= _BY_TOPIC_ID_FROM
            return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not has_partition(topic, part.partition):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        epoch = part.current_leader_epoch
        if error := self.cluster.refusal_at(topic.name, part.partition, self.request.node_id, epoch):
            return error
        log = self.cluster.log(topic.name, part.partition)
        within = log.start_offset <= part.fetch_offset <= log.end_offset
        return ErrorCode.NONE if within else ErrorCode.OFFSET_OUT_OF_RANGE

    def reply(self) -> Reply:
        """The response with the records available now."""
        room = min(self.message.max_bytes, self.cluster.limits.fetch_max_bytes)
        response = FetchResponse()
        is_empty = True
        for row in self.message.topics:
            topic = self._topic(row)
            answer = FetchableTopicResponse(topic=row.topic, topic_id=row.topic_id)
            for part in row.partitions:
                data = self._read(topic, part, room=room, at_least_one=is_empty)
                size = len(data.records or b"")
                room -= size
                is_empty = is_empty and size == 0
                answer.partitions.append(data)
            response.responses.append(answer)
        return Reply(self.ticket, response)

    def _read(self, topic: Topic | None, part: FetchPartition, *, room: int, at_least_one: bool) -> PartitionData:
        error = self._error(topic, part)
        if topic is None or (error and error is not ErrorCode.OFFSET_OUT_OF_RANGE):
            return PartitionData(partition_index=part.partition, error_code=error, high_watermark=_NO_OFFSET)
        log = self.cluster.log(topic.name, part.partition)
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
            below = end_for(self.message.isolation_level, log)
            try:
                data.records = log.read(part.fetch_offset, most, at_least_one=at_least_one, below=below)
            except (KgmError, OSError):
                data.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                return data
            if below is not None:
                data.aborted_transactions = [
                    AbortedTransaction(producer_id=row.producer_id, first_offset=row.first_offset)
                    for row in log.transactions.aborted_in(part.fetch_offset, below)
                ]
        return data
