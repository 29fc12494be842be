"""The records of user topics, in memory: small logs, so that real producers and consumers have something to send and
read.

Record batches (format v2, KIP-98) are stored as they were sent, except for the base offset and the leader epoch, which
the checksum of a batch does not cover. There is no compaction."""

import struct
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from kgm.model.errors import DecodeError, ErrorCode
from kgm.records.batch import CONTROL, MAGIC, MAGIC_AT, TRANSACTIONAL, Batch, parse_batch
from kgm.records.transactions import LogTransactions

_BASE_OFFSET = struct.Struct(">q")
_EPOCH_AT = 12
_EPOCH = struct.Struct(">i")
LEADER_EPOCH = 0
#: How many batches are remembered per producer: as many as it can have in flight (Kafka: ProducerStateEntry). And for
#: how many producers of a partition.
_REMEMBERED_BATCHES = 5
_REMEMBERED_PRODUCERS = 1_000


class ReadableLog(Protocol):
    """A partition as consumers read it: a `PartitionLog`, or a `LogReader` of files, whose methods raise OSError and
    DecodeError."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def transactions(self) -> LogTransactions: ...

    @property
    def stable_offset(self) -> int: ...

    @property
    def first_epoch(self) -> int | None:
        """The leader epoch of the first batch; None if there is none."""

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool, below: int | None = None) -> bytes:
        """Whole batches of at most `max_bytes`, starting with the one that contains `offset`, up to the first one that
        begins at `below` or later. at_least_one: the first batch is returned whatever its size."""

    def readable(self, offset: int, max_bytes: int, *, below: int | None = None) -> int:
        """The number of bytes from `offset` on that are below the offset `below`, counted up to `max_bytes`."""

    def batch_at(self, timestamp: int) -> Batch | None:
        """The first batch with a record at or after a time in ms."""

    def latest_batch(self) -> Batch | None:
        """The first batch with the latest record."""


@dataclass(slots=True)
class PartitionLog:
    """The batches of one partition, oldest first."""

    batches: list[Batch] = field(default_factory=list)
    start_offset: int = 0
    end_offset: int = 0
    size: int = 0
    transactions: LogTransactions = field(default_factory=LogTransactions)
    recent: dict[int, deque[tuple[int, int, int, int]]] = field(default_factory=dict)
    """The last batches of each idempotent producer: epoch, first and last sequence number, base offset."""

    @property
    def stable_offset(self) -> int:
        """The offset below which every transaction has ended (Kafka: last stable offset)."""
        return self.transactions.stable_offset(self.end_offset)

    @property
    def first_epoch(self) -> int | None:
        return self.batches[0].leader_epoch if self.batches else None

    def with_offsets(self, batches: list[Batch]) -> list[Batch]:
        """Copies of the batches with the offsets that they will have when they are added."""
        numbered = []
        offset = self.end_offset
        for batch in batches:
            data = bytearray(batch.data)
            _BASE_OFFSET.pack_into(data, 0, offset)
            _EPOCH.pack_into(data, _EPOCH_AT, LEADER_EPOCH)
            numbered.append(batch._replace(base_offset=offset, leader_epoch=LEADER_EPOCH, data=bytes(data)))
            offset += batch.last_offset_delta + 1
        return numbered

    def add(self, batches: list[Batch]) -> None:
        """Add batches that already have their offsets."""
        for batch in batches:
            self.batches.append(batch)
            self.end_offset = batch.last_offset + 1
            self.size += len(batch.data)
            if batch.producer_id >= 0 and batch.base_sequence >= 0:
                self._remember(batch)
            self.transactions.see(batch)

    def _remember(self, batch: Batch) -> None:
        last = batch.base_sequence + batch.last_offset_delta
        known = self.recent.pop(batch.producer_id, None)
        if known is None:
            known = deque(maxlen=_REMEMBERED_BATCHES)
            if len(self.recent) >= _REMEMBERED_PRODUCERS:
                self.recent.pop(next(iter(self.recent)))
        known.append((batch.producer_epoch, batch.base_sequence, last, batch.base_offset))
        self.recent[batch.producer_id] = known

    def offset_of_duplicate(self, batch: Batch) -> int | None:
        """The base offset of a batch that an idempotent producer has sent before (KIP-98); None if it is new."""
        last = batch.base_sequence + batch.last_offset_delta
        same = (batch.producer_epoch, batch.base_sequence, last)
        return next((row[3] for row in self.recent.get(batch.producer_id, ()) if row[:3] == same), None)

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool, below: int | None = None) -> bytes:
        parts: list[bytes] = []
        size = 0
        at = bisect_left(self.batches, offset, key=lambda batch: batch.last_offset)
        for batch in self.batches[at:]:
            if below is not None and batch.base_offset >= below:
                break
            if size + len(batch.data) > max_bytes and (parts or not at_least_one):
                break
            parts.append(batch.data)
            size += len(batch.data)
        return b"".join(parts)

    def readable(self, offset: int, max_bytes: int, *, below: int | None = None) -> int:
        at = bisect_left(self.batches, offset, key=lambda batch: batch.last_offset)
        size = 0
        for batch in self.batches[at:]:
            if below is not None and batch.base_offset >= below:
                break
            size += len(batch.data)
            if size >= max_bytes:
                break
        return size

    def drop_oldest(self) -> int:
        """Delete the first batch; returns its size."""
        gone = self.batches.pop(0)
        self.start_offset = gone.last_offset + 1
        self.size -= len(gone.data)
        self.transactions.forget_below(self.start_offset)
        return len(gone.data)

    def size_from(self, offset: int) -> int:
        """How many bytes the batches from an offset on take."""
        return sum(
            len(batch.data)
            for batch in self.batches[bisect_left(self.batches, offset, key=lambda one: one.last_offset) :]
        )

    def replace_below(self, offset: int, batches: list[Batch]) -> None:
        """Replace the batches below an offset with what compaction left of them."""
        at = bisect_left(self.batches, offset, key=lambda batch: batch.last_offset)
        self.batches[:at] = batches
        self.size = sum(len(batch.data) for batch in self.batches)
        self.transactions.forget_below(offset)

    def batch_at(self, timestamp: int) -> Batch | None:
        return next((batch for batch in self.batches if batch.max_timestamp >= timestamp), None)

    def latest_batch(self) -> Batch | None:
        return max(self.batches, key=lambda batch: batch.max_timestamp, default=None)


class TopicLogs:
    """The logs of all partitions, created by the first write, within two bounds in bytes."""

    def __init__(self, *, topic_max_bytes: int, total_max_bytes: int) -> None:
        self._topics: dict[str, dict[int, PartitionLog]] = {}
        self._sizes: dict[str, int] = {}
        self._topic_max_bytes = topic_max_bytes
        self._total_max_bytes = total_max_bytes
        self.total_bytes = 0
        self.is_dirty = False

    def flush(self) -> None:
        """There is nothing to flush."""

    def get(self, topic: str, partition: int) -> PartitionLog:
        """The log, for reading; an empty one if nothing was written."""
        return self._topics.get(topic, {}).get(partition) or PartitionLog()

    def append(self, topic: str, partition: int, batches: list[Batch]) -> int:
        """Append batches, and drop the oldest batches of this topic's largest partitions if a bound is exceeded;
        returns the first offset.

        Raises OSError if the disk fails; nothing is appended then."""
        log = self._topics.setdefault(topic, {}).setdefault(partition, PartitionLog())
        first = log.end_offset
        numbered = log.with_offsets(batches)
        self._store(topic, partition, numbered)
        log.add(numbered)
        self._grow(topic, sum(len(batch.data) for batch in numbered))
        return first

    def delete(self, topic: str) -> None:
        """Delete all partitions of a topic. Raises OSError."""
        self._topics.pop(topic, None)
        self.total_bytes -= self._sizes.pop(topic, 0)

    def _store(self, topic: str, partition: int, batches: list[Batch]) -> None:
        """Called before batches are added, for subclasses that store them elsewhere too."""

    def _dropped(self, topic: str, partition: int, start_offset: int) -> None:
        """Called after records below an offset were dropped."""

    def _grow(self, topic: str, added: int) -> None:
        self._sizes[topic] = self._sizes.get(topic, 0) + added
        self.total_bytes += added
        while self._sizes[topic] > self._topic_max_bytes or self.total_bytes > self._total_max_bytes:
            partition, largest = max(self._topics[topic].items(), key=lambda item: item[1].size)
            if not largest.batches:
                break
            freed = largest.drop_oldest()
            self._sizes[topic] -= freed
            self.total_bytes -= freed
            self._dropped(topic, partition, largest.start_offset)


def parse_batches(data: bytes | None, *, transactional: bool = False) -> list[Batch] | ErrorCode:
    """The batches in the records of a Produce request, or the error if the request is refused."""
    if not data:
        return ErrorCode.INVALID_RECORD
    batches = []
    at = 0
    while at < len(data):
        if len(data) - at > MAGIC_AT and data[at + MAGIC_AT] != MAGIC:
            return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        try:
            batch = parse_batch(data, at)
        except DecodeError:
            return ErrorCode.CORRUPT_MESSAGE
        if batch.attributes & CONTROL or (batch.attributes & TRANSACTIONAL and not transactional):
            return ErrorCode.INVALID_RECORD
        if not 1 <= batch.record_count == batch.last_offset_delta + 1:
            return ErrorCode.CORRUPT_MESSAGE
        batches.append(batch)
        at += len(batch.data)
    return batches
