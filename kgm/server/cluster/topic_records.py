"""The records of user topics, and the Fetch requests that wait for more of them. Kafka: ReplicaManager."""

import heapq
from collections.abc import Mapping
from typing import Protocol

from kgm.coordinator.contract.outcome import Producer
from kgm.records.batch import Batch, Marker, ProducerInfo, marker_batch, parse_batch
from kgm.server.contract.exchange import Millis, Replies, Reply, Ticket
from kgm.server.contract.transaction import TopicPartition
from kgm.server.logs.topic_log import PartitionLog, TopicLogs

#: The heap of deadlines is rebuilt when it exceeds this many entries per waiting fetch, plus _SMALL. The excess entries
#: belong to fetches already answered.
_SLACK = 2
_SMALL = 1_000


class WaitingFetch(Protocol):
    """A Fetch that waits for more records (Kafka: DelayedFetch)."""

    @property
    def ticket(self) -> Ticket: ...

    @property
    def deadline(self) -> Millis:
        """When it is answered with whatever records there are."""

    @property
    def partitions(self) -> frozenset[TopicPartition]: ...

    def is_complete(self) -> bool:
        """Whether there are enough records now, or an error."""

    def reply(self) -> Reply: ...


class TopicRecords:
    """What Produce writes and Fetch reads."""

    def __init__(self, topics: Mapping[str, int], logs: TopicLogs) -> None:
        self._topics = topics
        self._logs = logs
        self._unflushed: set[Ticket] = set()
        self._waiting: dict[Ticket, WaitingFetch] = {}
        self._deadlines: list[tuple[Millis, Ticket]] = []

    def log(self, topic: str, partition: int) -> PartitionLog:
        """The log of a partition, for reading."""
        return self._logs.get(topic, partition)

    def append(self, topic: str, partition: int, batches: list[Batch]) -> int:
        """Append batches; returns the offset of the first. Raises OSError."""
        return self._logs.append(topic, partition, batches)

    def written(self, partitions: set[TopicPartition], ticket: Ticket) -> Replies:
        """A request has written to these partitions, or has resent what is already in them: its reply depends on their
        records. Returns the replies to the fetches that are complete now."""
        if partitions and self.is_dirty:
            self._unflushed.add(ticket)
        return self.wake(partitions)

    def end_transaction(self, at: TopicPartition, producer: Producer, *, commit: bool, now: Millis) -> Replies:
        """Write a marker, and wake the fetches that can read more because of it. Raises OSError."""
        if self._topics.get(at[0], 0) <= at[1]:
            return ()  # the topic was deleted in the meantime
        data = marker_batch(ProducerInfo(*producer), Marker(commit, 0), base_offset=0, timestamp_ms=now)
        self._logs.append(*at, [parse_batch(data)])
        return self.wake({at})

    def delete(self, topic: str, partitions: int) -> Replies:
        """Delete the records of a topic that no longer exists, and wake the fetches that wait for more of them. Raises
        OSError."""
        self._logs.delete(topic)
        return self.wake({(topic, partition) for partition in range(partitions)})

    # -- fetches that wait

    def wait(self, fetch: WaitingFetch) -> None:
        """Answer a Fetch when it is complete, or at its deadline."""
        self._waiting[fetch.ticket] = fetch
        heapq.heappush(self._deadlines, (fetch.deadline, fetch.ticket))

    def wake(self, changed: set[TopicPartition]) -> Replies:
        """Answer the fetches that are complete now that these partitions have changed."""
        if not changed:
            return ()
        ready = [
            fetch
            for fetch in self._waiting.values()
            if not fetch.partitions.isdisjoint(changed) and fetch.is_complete()
        ]
        return tuple(self._waiting.pop(fetch.ticket).reply() for fetch in ready)

    def advance(self, now: Millis) -> Replies:
        """Answer the fetches whose deadline has passed."""
        replies = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            replies.append(self._waiting.pop(heapq.heappop(self._deadlines)[1]).reply())
        return tuple(replies)

    def next_deadline(self) -> Millis | None:
        while self._deadlines and self._deadlines[0][1] not in self._waiting:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def disconnected(self, ticket: Ticket) -> None:
        """The connection of a request is closed. The deadline of a Fetch stays in the heap until it is due, or until
        too many such deadlines have accumulated."""
        self._waiting.pop(ticket, None)
        if len(self._deadlines) > _SLACK * len(self._waiting) + _SMALL:
            self._deadlines = [(fetch.deadline, fetch.ticket) for fetch in self._waiting.values()]
            heapq.heapify(self._deadlines)

    # -- logs

    @property
    def is_dirty(self) -> bool:
        """Whether there are records to flush."""
        return self._logs.is_dirty

    def flush(self) -> tuple[set[Ticket], bool]:
        """Make everything appended durable. Returns the tickets whose records may be lost, and whether everything was
        flushed."""
        unflushed, self._unflushed = self._unflushed, set()
        try:
            self._logs.flush()
        except OSError:
            return unflushed, False
        return set(), True
