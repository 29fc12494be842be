"""The log of one partition of `__consumer_offsets`: the interface, and the in-memory log.

Both kinds hold the same record batches. A shard is loaded from them when its partition moves to another broker, and
consumers fetch them."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Protocol

from kgm.coordinator.contract.outcome import Millis, Producer
from kgm.coordinator.loading import Loader, ReplayTarget
from kgm.records.batch import Batch, Marker, ProducerInfo, marker_batch, new_batch, parse_batch
from kgm.records.compaction import compacted
from kgm.records.record import Record, encode_record
from kgm.server.logs.topic_log import PartitionLog, ReadableLog

#: A log in memory is compacted once this many bytes have been written since the last compaction, and at least as many
#: as that compaction left.
COMPACTION_BYTES = 1024 * 1024


class ShardLog(Protocol):
    """What a shard needs from its log. All methods but `close` raise OSError if the disk fails."""

    leader_epoch: int
    """The leader epoch of the partition; written into every batch."""
    held_bytes: int
    """An upper bound for the bytes of batches in memory that open transactions keep from being compacted. It does not
    go down when one of several open transactions ends, until `measure_held` is called."""

    @property
    def is_durable(self) -> bool:
        """Whether appended records have to be flushed before a response may depend on them."""

    @property
    def records(self) -> ReadableLog:
        """The log as consumers read it."""

    def append(self, records: Sequence[Record], *, now: Millis, producer: Producer | None) -> None:
        """Append the records as one batch, all or nothing."""

    def append_marker(self, producer: Producer, *, commit: bool, now: Millis) -> None:
        """End the producer's transaction in this partition."""

    def measure_held(self) -> int:
        """Measure `held_bytes` and return it."""

    def flush(self) -> None:
        """Return once everything appended would survive a power failure."""

    def replay(self, into: ReplayTarget) -> Iterator[None]:
        """Replay everything, one piece of bounded size for each `next`. Nothing may be appended meanwhile. Raises
        KgmError and OSError."""

    def compact(self, now: Millis) -> None:
        """Compact the log if that is worthwhile. Raises KgmError and OSError."""

    def close(self) -> None:
        """Close the log: nothing is appended or read after this. Raises nothing."""


def replayed(batches: Iterable[Batch], into: ReplayTarget) -> Generator[None, None, list[tuple[int, str]]]:
    """Replay a log, yielding after each batch and, at the end, after each group. Returns `Loader.unreadable`."""
    loader = Loader(into)
    for batch in batches:
        loader.replay(batch)
        yield
    yield from loader.finish()
    return loader.unreadable


class MemoryShardLog:
    """The batches written since the last compaction, and those that compaction left: the log is compacted as it grows.
    Tombstones and markers disappear in the second compaction, so that the size after compaction is bounded by the state
    of the groups."""

    is_durable = False

    def __init__(self, compaction_bytes: int = COMPACTION_BYTES) -> None:
        self._compaction_bytes = compaction_bytes
        self.leader_epoch = 0
        self.records = PartitionLog()
        self._dirty_bytes = self.held_bytes = 0

    def append(self, records: Sequence[Record], *, now: Millis, producer: Producer | None) -> None:
        if records:
            data = new_batch(
                [encode_record(record) for record in records],
                base_offset=self.records.end_offset,
                timestamp_ms=now,
                leader_epoch=self.leader_epoch,
                producer=None if producer is None else ProducerInfo(*producer),
            )
            self._add(data, now)

    def append_marker(self, producer: Producer, *, commit: bool, now: Millis) -> None:
        data = marker_batch(
            ProducerInfo(*producer),
            Marker(commit, 0),
            base_offset=self.records.end_offset,
            timestamp_ms=now,
            leader_epoch=self.leader_epoch,
        )
        self._add(data, now)

    def _add(self, data: bytes, now: Millis) -> None:
        self.records.add([parse_batch(data)])
        self._dirty_bytes += len(data)
        self.held_bytes = self.held_bytes + len(data) if self.records.transactions.open else 0
        if self._dirty_bytes >= self._compaction_bytes and 2 * self._dirty_bytes >= self.records.size:
            left, end = compacted(self.records.batches, self.records.transactions, now_ms=now, delete_retention_ms=0)
            self.records.replace_below(end, [parse_batch(batch) for batch in left])
            self._dirty_bytes = 0

    def measure_held(self) -> int:
        self.held_bytes = self.records.size_from(self.records.stable_offset)
        return self.held_bytes

    def flush(self) -> None:
        """There is nothing to flush."""

    def replay(self, into: ReplayTarget) -> Iterator[None]:
        yield from replayed(self.records.batches, into)

    def compact(self, now: Millis) -> None:
        """Nothing to do: the log is compacted as it grows."""

    def close(self) -> None:
        """Nothing to do: the log stays readable."""
