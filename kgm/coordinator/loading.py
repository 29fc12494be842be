"""Rebuilds a coordinator from the batches of its log (Kafka: CoordinatorLoaderImpl).

Records of a transaction are pending until its marker commits or aborts them. Records of unknown types and versions, and
records that cannot be read, are noted and skipped. (Kafka's loader skips unknown types too, and fails on the rest.)

Nearly every record of a log is superseded by a later one: a classic group is written in full each time, and an offset
is committed again and again. Such records are deferred until another record of their group arrives, or until the end,
and only the last one for each key is decoded. The result is the same as replaying every record, if all of them can be
read."""

from collections.abc import Iterator
from typing import Protocol

from kgm.model.errors import DecodeError
from kgm.protocol.struct import Message
from kgm.records.batch import CONTROL, TRANSACTIONAL, Batch, RawRecord
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record, decode_record
from kgm.records.record_types import RecordType


def _versions(value: type[Message]) -> frozenset[bytes]:
    """The first two bytes (the version) that values of a record type can have."""
    return frozenset(version.to_bytes(2, "big") for version in range(value.MIN_VERSION, value.MAX_VERSION + 1))


_OFFSET_COMMIT = RecordType.OFFSET_COMMIT.to_bytes(2, "big")
_GROUP_METADATA = RecordType.GROUP_METADATA.to_bytes(2, "big")
#: The records that can be deferred. A value of an unknown version cannot: it is skipped, and supersedes nothing.
_DEFERRABLE = {_OFFSET_COMMIT: _versions(OffsetCommitValue), _GROUP_METADATA: _versions(GroupMetadataValue)}
_NOTHING: frozenset[bytes] = frozenset()
#: In every key the record type is followed by the group id, prefixed with its two-byte length.
_GROUP_ID_AT = 4


class ReplayTarget(Protocol):
    """What a log is replayed into, such as a `Coordinator`."""

    def replay(self, record: Record, producer: tuple[int, int] | None = None) -> None: ...

    def replay_end_transaction(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None: ...


class Loader:
    """Loads a log in pieces: `replay` each batch, in order, and then iterate over `finish`. After that the caller calls
    the engine's `loaded`. Until then the engine's groups are incomplete."""

    def __init__(self, engine: ReplayTarget) -> None:
        self._engine = engine
        # Deferred: the last record of each classic group, and of each partition with a committed offset, by group.
        self._groups: dict[bytes, RawRecord] = {}
        self._commits: dict[bytes, dict[bytes, RawRecord]] = {}
        self._unreadable: list[tuple[int, str]] = []

    def replay(self, batch: Batch) -> None:
        """Raises DecodeError for a batch whose records cannot be separated. Such a batch has a correct checksum only if
        its writer was faulty."""
        if batch.attributes & CONTROL:
            marker = batch.marker
            if marker is not None:
                self._engine.replay_end_transaction(batch.producer_id, batch.producer_epoch, commit=marker.commit)
            return
        producer = (batch.producer_id, batch.producer_epoch) if batch.attributes & TRANSACTIONAL else None
        for row in batch.records:
            key = row.key or b""
            kind = key[:2]
            if producer is not None or row.value is None or row.value[:2] not in _DEFERRABLE.get(kind, _NOTHING):
                self._catch_up(key)
                self._apply(row, producer)
            elif kind == _GROUP_METADATA:
                self._groups[key] = row
            else:
                group = _group_of(key)
                commits = self._commits.get(group)
                if commits is None:
                    commits = self._commits[group] = {}
                commits[key] = row

    def finish(self) -> Iterator[None]:
        """Replay the deferred records, one group at a time."""
        commits, self._commits = self._commits, {}
        for rows in commits.values():
            for row in rows.values():
                self._apply(row, None)
            yield
        groups, self._groups = self._groups, {}
        for row in groups.values():
            self._apply(row, None)
            yield

    def _catch_up(self, key: bytes) -> None:
        """Replay the deferred records of a group before another record of it. The deferred record of the group itself
        waits for the next record of the group itself, since nothing else changes it."""
        for row in self._commits.pop(_group_of(key), {}).values():
            self._apply(row, None)
        if key[:2] == _GROUP_METADATA:
            deferred = self._groups.pop(key, None)
            if deferred is not None:
                self._apply(deferred, None)

    @property
    def unreadable(self) -> list[tuple[int, str]]:
        """(offset, reason) of each record that was skipped, in the order of the log."""
        return sorted(self._unreadable)

    def _apply(self, row: RawRecord, producer: tuple[int, int] | None) -> None:
        try:
            record = decode_record(row.key or b"", row.value)
        except DecodeError as error:
            self._unreadable.append((row.offset, error.message))
        else:
            self._engine.replay(record, producer)


def _group_of(key: bytes) -> bytes:
    return key[_GROUP_ID_AT : _GROUP_ID_AT + int.from_bytes(key[2:_GROUP_ID_AT], "big")]
