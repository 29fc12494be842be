"""The log of one partition of `__consumer_offsets`: the interface, and the log in memory.

Both hold the same record batches, from which a shard is loaded when its partition moves to another broker, and which
consumers fetch."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Protocol

from kgm.coordinator.contract.outcome import Millis, Producer
from kgm.coordinator.loading import Loader, LoadReport, ReplayTarget
from kgm.records.batch import Batch, Marker, ProducerInfo, marker_batch, new_batch, parse_batch
from kgm.records.compaction import compacted
from kgm.records.record import Record, encode_record
from kgm.server.logs.topic_log import PartitionLog, ReadableLog

#: A log in memory is compacted when so many bytes were written since the last time, and as many as were left then.
COMPACTION_BYTES = 1024 * 1024


class ShardLog(Protocol):
    """What a shard needs of its log. All methods but `close` raise OSError when the disk fails."""

    leader_epoch: int
    """Of the partition's leader; written into every batch."""
    held_bytes: int
    """What open transactions keep compaction from, in memory: at most so many bytes of batches. Only `measure_held`
    notices that one has ended while others were open."""

    @property
    def is_durable(self) -> bool:
        """Whether what is appended has to be flushed before a response may depend on it."""

    @property
    def records(self) -> ReadableLog:
        """What consumers read."""

    def append(self, records: Sequence[Record], *, now: Millis, producer: Producer | None) -> None:
        """Append one batch, of all records or none."""

    def append_marker(self, producer: Producer, *, commit: bool, now: Millis) -> None:
        """End the producer's transaction in this partition."""

    def measure_held(self) -> int:
        """`held_bytes` as it is."""

    def flush(self) -> None:
        """Return when everything that was appended would survive a power failure."""

    def replay(self, into: ReplayTarget) -> Iterator[None]:
        """Replay everything, a piece of bounded size for each `next`. Nothing may be appended meanwhile. Raises
        KgmError and OSError."""

    def compact(self, now: Millis) -> None:
        """Compact if it is worth it. Raises KgmError and OSError."""

    def close(self) -> None:
        """Nothing is appended or read any more. Raises nothing."""


def replayed(batches: Iterable[Batch], into: ReplayTarget) -> Generator[None, None, LoadReport]:
    """Replay a log. A piece is one batch; at the end, one group."""
    loader = Loader(into)
    for batch in batches:
        loader.replay(batch)
        yield
    yield from loader.finish()
    return loader.report


class MemoryShardLog:
    """The batches since the last compaction, and what that has left: it is compacted as it grows. Tombstones and
    markers go with the second compaction, so that what is left is bounded by the state of the groups."""

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
        """It is compacted as it grows."""

    def close(self) -> None:
        """It stays readable."""
