"""A partition of `__consumer_offsets` in memory: what Kafka's compacted log would keep of it, and nothing else.

It is what a shard is loaded from when its partition moves to another broker of the same process. The latest record of
each key is kept with its place in the order of writing, and records of transactions until their marker is written."""

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Protocol

from kgm.coordinator.contract.outcome import Millis, Producer
from kgm.coordinator.loading import Replayed
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.record import Record, encode_record

#: Records that a replay hands over before it lets others have a turn.
PIECE = 10


class ShardLog(Protocol):
    """What a shard needs of the log of its partition. All raise OSError when the disk will not do it."""

    @property
    def is_durable(self) -> bool:
        """Whether what is appended has to be flushed before it is told to anybody."""

    @property
    def size(self) -> int:
        """Bytes on disk."""

    def append(self, records: Sequence[Record], *, now: Millis, producer: Producer | None) -> None:
        """Append one batch, of all records or none."""

    def append_marker(self, producer: Producer, *, commit: bool, now: Millis) -> None:
        """End the producer's transaction in this partition."""

    def flush(self) -> None:
        """Return when everything appended would survive a power failure."""

    def replay(self, into: Replayed) -> Iterator[None]:
        """Replay everything, a piece of bounded size each time that the next one is asked for. Nothing may be appended
        meanwhile. Raises KgmError and OSError."""

    def tidy(self, now: Millis) -> None:
        """Compact if it is worth it."""

    def close(self) -> None:
        """Nothing is appended or read any more. Raises nothing."""


_Key = tuple[str | int | bytes, ...]
#: (place in the order of writing, record, who wrote it in a transaction)
_Row = tuple[int, Record, Producer | None]


def _key_of(record: Record) -> _Key:
    """What compaction compares; cheaper than the bytes of the key."""
    match record.key:
        case OffsetCommitKey(group=group, topic=topic, partition=partition):
            return group, topic, partition
        case GroupMetadataKey(group=group):
            return (group,)
        case _:
            return (encode_record(record)[0],)


class MemoryLog:
    """Records by key, with their place in the order of writing."""

    is_durable = False
    size = 0

    def __init__(self) -> None:
        self._written = 0
        self._latest: dict[_Key, _Row] = {}
        self._pending: dict[int, list[_Row]] = {}

    def append(self, records: Sequence[Record], *, now: Millis, producer: Producer | None) -> None:  # noqa: ARG002
        for record in records:
            self._written += 1
            if producer is not None:
                self._pending.setdefault(producer[0], []).append((self._written, record, Producer(*producer)))
                continue
            key = _key_of(record)
            if record.value is not None:
                self._latest[key] = self._written, record, None
                continue
            self._latest.pop(key, None)
            if self._pending:
                self._forget_pending(key)

    def _forget_pending(self, key: _Key) -> None:
        """A tombstone takes with it what is pending for its key (Kafka: OffsetMetadataManager.replay)."""
        for producer_id, rows in self._pending.items():
            self._pending[producer_id] = [row for row in rows if _key_of(row[1]) != key]

    def append_marker(self, producer: Producer, *, commit: bool, now: Millis) -> None:  # noqa: ARG002
        """On a commit the pending records count, where none was written after them. They keep their place: it is the
        newest record that counts, not the one whose transaction ended last."""
        last = {_key_of(row[1]): row for row in self._pending.pop(producer[0], ())}
        for key, (place, record, _) in last.items():
            if commit and (key not in self._latest or self._latest[key][0] < place):
                self._latest[key] = place, record, None

    def flush(self) -> None:
        """There is nothing to wait for."""

    def replay(self, into: Replayed) -> Iterator[None]:
        rows = sorted(chain(self._latest.values(), *self._pending.values()), key=itemgetter(0))
        for count, (_, record, producer) in enumerate(rows, 1):
            into.replay(record, producer)
            if count % PIECE == 0:
                yield

    def tidy(self, now: Millis) -> None:
        """It is always tidy."""

    def close(self) -> None:
        """It stays readable."""
