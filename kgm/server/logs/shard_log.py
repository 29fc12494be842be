"""The log of one partition of `__consumer_offsets`: the interface, and the log in memory.

A shard is loaded from the log in memory when its partition moves to another broker of the same process. So that log
keeps what Kafka's compacted log would keep, and nothing else: the latest record of each key with its position in the
order of writing, and of a transaction the same until its marker is written."""

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Protocol

from kgm.coordinator.contract.outcome import Millis, Producer
from kgm.coordinator.loading import ReplayTarget
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.record import Record, encode_record

#: How many records a replay hands over before it yields.
PIECE = 10


class ShardLog(Protocol):
    """What a shard needs of its log. All methods but `close` raise OSError when the disk fails."""

    @property
    def is_durable(self) -> bool:
        """Whether what is appended has to be flushed before a response may depend on it."""

    @property
    def size(self) -> int:
        """Bytes on disk."""

    def append(self, records: Sequence[Record], *, now: Millis, producer: Producer | None) -> None:
        """Append one batch, of all records or none."""

    def append_marker(self, producer: Producer, *, commit: bool, now: Millis) -> None:
        """End the producer's transaction in this partition."""

    def flush(self) -> None:
        """Return when everything that was appended would survive a power failure."""

    def replay(self, into: ReplayTarget) -> Iterator[None]:
        """Replay everything, a piece of bounded size for each `next`. Nothing may be appended meanwhile. Raises
        KgmError and OSError."""

    def compact(self, now: Millis) -> None:
        """Compact if it is worth it. Raises KgmError and OSError."""

    def close(self) -> None:
        """Nothing is appended or read any more. Raises nothing."""


_Key = tuple[str | int | bytes, ...]
#: (position in the order of writing, record, the producer if it belongs to a transaction)
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


class MemoryShardLog:
    """The latest record of each key."""

    is_durable = False
    size = 0

    def __init__(self) -> None:
        self._written = 0
        self._latest: dict[_Key, _Row] = {}
        self._pending: dict[int, dict[_Key, _Row]] = {}

    def append(self, records: Sequence[Record], *, now: Millis, producer: Producer | None) -> None:  # noqa: ARG002
        for record in records:
            self._written += 1
            key = _key_of(record)
            if producer is not None:
                self._pending.setdefault(producer[0], {})[key] = self._written, record, Producer(*producer)
                continue
            if record.value is not None:
                self._latest[key] = self._written, record, None
                continue
            self._latest.pop(key, None)
            if self._pending:
                self._drop_pending(key)

    def _drop_pending(self, key: _Key) -> None:
        """A tombstone also removes what is pending for its key (Kafka: OffsetMetadataManager.replay)."""
        for rows in self._pending.values():
            rows.pop(key, None)

    def append_marker(self, producer: Producer, *, commit: bool, now: Millis) -> None:  # noqa: ARG002
        """After a commit the pending records are the latest of their keys, unless a later one was written meanwhile:
        what counts is the order of writing, not the order in which transactions ended."""
        for key, (position, record, _) in self._pending.pop(producer[0], {}).items():
            if commit and (key not in self._latest or self._latest[key][0] < position):
                self._latest[key] = position, record, None

    def flush(self) -> None:
        """There is nothing to flush."""

    def replay(self, into: ReplayTarget) -> Iterator[None]:
        pending = (rows.values() for rows in self._pending.values())
        rows = sorted(chain(self._latest.values(), *pending), key=itemgetter(0))
        for count, (_, record, producer) in enumerate(rows, 1):
            into.replay(record, producer)
            if count % PIECE == 0:
                yield

    def compact(self, now: Millis) -> None:
        """It is always compact."""

    def close(self) -> None:
        """It stays readable."""
