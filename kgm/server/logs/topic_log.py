"""A small log of records in memory, so that real producers and consumers have something to send and read.

Record batches (format v2, KIP-98) are kept as they came; only the base offset and the leader epoch, which the batch's
checksum does not cover, are written into them. No compaction."""

import struct
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kgm.model.errors import DecodeError, ErrorCode
from kgm.records.batch import CONTROL, MAGIC, MAGIC_AT, TRANSACTIONAL, parse_batch
from kgm.records.batch import Batch as RecordBatch

_BASE_OFFSET = struct.Struct(">q")
_EPOCH_AT = 12
_EPOCH = struct.Struct(">i")
LEADER_EPOCH = 0
#: As many as a producer may have in flight (Kafka: ProducerStateEntry); and the producers of a partition remembered.
_REMEMBERED_BATCHES = 5
_REMEMBERED_PRODUCERS = 1_000


@dataclass(frozen=True, slots=True)
class Batch:
    """One record batch at its place in the log. Offsets are inclusive; the timestamp is the latest of its records."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    data: bytes
    attributes: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


class Aborted(NamedTuple):
    """A transaction that was aborted: its first record, and its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class PartitionLog:
    """The batches of one partition, oldest first."""

    batches: list[Batch] = field(default_factory=list)
    start_offset: int = 0
    end_offset: int = 0
    size: int = 0
    open: dict[int, int] = field(default_factory=dict)
    """The first offset of each producer's open transaction."""
    aborted: list[Aborted] = field(default_factory=list)
    """Transactions that were aborted, in the order of their markers."""
    recent: dict[int, deque[tuple[int, int, int, int]]] = field(default_factory=dict)
    """Of each idempotent producer the last batches: epoch, first and last sequence number, first offset."""

    @property
    def stable_offset(self) -> int:
        """Below it every transaction has ended (Kafka: last stable offset)."""
        return min(self.open.values(), default=self.end_offset)

    def placed(self, batches: list[Batch]) -> list[Batch]:
        """The batches with the offsets that they get when they are added."""
        found = []
        offset = self.end_offset
        for batch in batches:
            data = bytearray(batch.data)
            _BASE_OFFSET.pack_into(data, 0, offset)
            _EPOCH.pack_into(data, _EPOCH_AT, LEADER_EPOCH)
            last = offset + batch.last_offset - batch.base_offset
            found.append(replace(batch, base_offset=offset, last_offset=last, data=bytes(data)))
            offset = last + 1
        return found

    def add(self, batches: list[Batch]) -> None:
        """Add batches that have their offsets."""
        for batch in batches:
            self.batches.append(batch)
            self.end_offset = batch.last_offset + 1
            self.size += len(batch.data)
            if batch.producer_id >= 0 and batch.base_sequence >= 0:
                self._remember(batch)
            if batch.attributes & CONTROL:
                self._end_transaction(batch)
            elif batch.attributes & TRANSACTIONAL:
                self.open.setdefault(batch.producer_id, batch.base_offset)

    def _remember(self, batch: Batch) -> None:
        last = batch.base_sequence + batch.last_offset - batch.base_offset
        known = self.recent.pop(batch.producer_id, None)
        if known is None:
            known = deque(maxlen=_REMEMBERED_BATCHES)
            if len(self.recent) >= _REMEMBERED_PRODUCERS:
                self.recent.pop(next(iter(self.recent)))
        known.append((batch.producer_epoch, batch.base_sequence, last, batch.base_offset))
        self.recent[batch.producer_id] = known

    def offset_of_same(self, batch: Batch) -> int | None:
        """Where an idempotent producer's batch is already, which has sent it again (KIP-98)."""
        last = batch.base_sequence + batch.last_offset - batch.base_offset
        same = (batch.producer_epoch, batch.base_sequence, last)
        return next((row[3] for row in self.recent.get(batch.producer_id, ()) if row[:3] == same), None)

    def _end_transaction(self, batch: Batch) -> None:
        marker = parse_batch(batch.data).marker
        first = self.open.pop(batch.producer_id, None)
        if first is not None and marker is not None and not marker.commit:
            self.aborted.append(Aborted(batch.producer_id, first, batch.last_offset))

    def aborted_in(self, start: int, end: int) -> list[Aborted]:
        """The aborted transactions with records from `start` on and below `end`."""
        return [one for one in self.aborted if one.last_offset >= start and one.first_offset < end]

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool, below: int | None = None) -> bytes:
        """Whole batches from the one that holds `offset` on, within `max_bytes`; `at_least_one` whatever its size; none
        that begins at the offset `below` or behind."""
        found: list[bytes] = []
        size = 0
        at = bisect_left(self.batches, offset, key=lambda batch: batch.last_offset)
        for batch in self.batches[at:]:
            if below is not None and batch.base_offset >= below:
                break
            if size + len(batch.data) > max_bytes and (found or not at_least_one):
                break
            found.append(batch.data)
            size += len(batch.data)
        return b"".join(found)

    def readable(self, offset: int, max_bytes: int, *, below: int | None = None) -> int:
        """How many bytes there are behind `offset` and `below` another, counted up to `max_bytes`."""
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
        """Forget the first batch; returns its size."""
        gone = self.batches.pop(0)
        self.start_offset = gone.last_offset + 1
        self.size -= len(gone.data)
        if self.aborted:
            self.aborted = [one for one in self.aborted if one.last_offset >= self.start_offset]
        return len(gone.data)

    def offset_at(self, timestamp: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first batch with a record at or after a time in ms: exact to a batch only."""
        found = next((batch for batch in self.batches if batch.max_timestamp >= timestamp), None)
        return None if found is None else (found.max_timestamp, found.base_offset)


class Logs:
    """The logs of all partitions, made when they are first written to, within two bounds in bytes."""

    def __init__(self, *, topic_max_bytes: int, total_max_bytes: int) -> None:
        self._topics: dict[str, dict[int, PartitionLog]] = {}
        self._sizes: dict[str, int] = {}
        self._topic_max_bytes = topic_max_bytes
        self._total_max_bytes = total_max_bytes
        self.total_bytes = 0
        self.is_dirty = False

    def flush(self) -> None:
        """There is nothing to wait for."""

    def get(self, topic: str, partition: int) -> PartitionLog:
        """The log for reading; an empty one if nothing was written."""
        return self._topics.get(topic, {}).get(partition) or PartitionLog()

    def append(self, topic: str, partition: int, batches: list[Batch]) -> int:
        """Append and make room, at the cost of this topic's largest partitions; returns the first offset.

        Raises OSError, and nothing is appended, where the records are kept on a disk that will not do it."""
        log = self._topics.setdefault(topic, {}).setdefault(partition, PartitionLog())
        first = log.end_offset
        placed = log.placed(batches)
        self._store(topic, partition, placed)
        log.add(placed)
        self._grow(topic, sum(len(batch.data) for batch in placed))
        return first

    def delete(self, topic: str) -> None:
        """Forget all partitions of a topic. Raises OSError."""
        self._topics.pop(topic, None)
        self.total_bytes -= self._sizes.pop(topic, 0)

    def _store(self, topic: str, partition: int, batches: list[Batch]) -> None:
        """Keep the batches somewhere else too."""

    def _dropped(self, topic: str, partition: int, start_offset: int) -> None:
        """Records below an offset are not there any more."""

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


def kept(batch: RecordBatch, *, at: int) -> Batch:
    """What is kept of a batch, at an offset."""
    return Batch(
        at,
        at + batch.last_offset_delta,
        batch.max_timestamp,
        batch.data,
        batch.attributes,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
    )


def parse_batches(data: bytes | None, *, transactional: bool = False) -> list[Batch] | ErrorCode:
    """The batches in the records of a Produce request, offsets counted from 0 in each; or why they are refused."""
    if not data:
        return ErrorCode.INVALID_RECORD
    found = []
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
        found.append(kept(batch, at=0))
        at += len(batch.data)
    return found
