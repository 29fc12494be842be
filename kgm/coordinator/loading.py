"""Rebuilds a coordinator from the batches of its log (Kafka: CoordinatorLoaderImpl).

Records of a transaction are pending until its marker: they count when it says COMMIT and are void when it says ABORT.
Record types and versions that are not known are counted and otherwise left alone; so is a record that cannot be read.
(Kafka's loader skips unknown types too, and gives up on the rest.)

A log has many records of one classic group, and each of them is the whole group. Only the last one is decoded, at the
end; nothing that comes between makes a difference, but a tombstone, at which the one before it is forgotten."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from kgm.model.errors import DecodeError
from kgm.records.batch import Batch, RawRecord
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.record import Record, decode_record

_GROUP_METADATA = GroupMetadataKey.API_KEY.to_bytes(2, "big")


class Replayed(Protocol):
    """What a log is replayed into: a `Coordinator`, mostly."""

    def replay(self, record: Record, producer: tuple[int, int] | None = None) -> None: ...

    def replay_end_transaction(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """What was in a log. types: records by record type, tombstones too. unreadable: (offset, what is wrong) of each
    record that was left out. next_offset: behind the last one; 0 for an empty log."""

    batches: int
    records: int
    types: Mapping[int, int]
    markers: int
    unreadable: tuple[tuple[int, str], ...]
    next_offset: int


class Loader:
    """Loads one log in pieces: `replay` each batch, in order, then go through `finish`; the caller then says `loaded`
    to the engine. What the engine says of its groups means nothing before."""

    def __init__(self, engine: Replayed) -> None:
        self._engine = engine
        self._groups: dict[bytes, RawRecord] = {}
        self._kinds: dict[bytes, int] = {}
        self._unreadable: list[tuple[int, str]] = []
        self._batches = self._markers = self._next_offset = 0

    def replay(self, batch: Batch) -> None:
        """Raises DecodeError for a batch whose records cannot be told apart, which no checksum lets through unless
        whoever wrote it was wrong."""
        self._batches += 1
        self._next_offset = batch.last_offset + 1
        if batch.is_control:
            marker = batch.marker
            if marker is not None:
                self._markers += 1
                self._engine.replay_end_transaction(batch.producer_id, batch.producer_epoch, commit=marker.commit)
            return
        producer = (batch.producer_id, batch.producer_epoch) if batch.transactional else None
        kinds = self._kinds
        for row in batch.records:
            key = row.key or b""
            kind = key[:2]
            kinds[kind] = kinds.get(kind, 0) + 1
            if kind == _GROUP_METADATA:
                self._groups.pop(key, None)
                if row.value is not None:
                    self._groups[key] = row
                    continue
            self._apply(row, producer)

    def finish(self) -> Iterator[None]:
        """Decode what was put off, in pieces."""
        while self._groups:
            self._apply(self._groups.pop(next(iter(self._groups))), None)
            yield

    @property
    def report(self) -> LoadReport:
        types: Counter[int] = Counter()
        for kind, count in self._kinds.items():
            types[int.from_bytes(kind, "big", signed=True)] += count
        return LoadReport(
            batches=self._batches,
            records=sum(self._kinds.values()),
            types=dict(types),
            markers=self._markers,
            unreadable=tuple(sorted(self._unreadable)),
            next_offset=self._next_offset,
        )

    def _apply(self, row: RawRecord, producer: tuple[int, int] | None) -> None:
        try:
            record = decode_record(row.key or b"", row.value)
        except DecodeError as error:
            self._unreadable.append((row.offset, error.message))
        else:
            self._engine.replay(record, producer)


def replay_into(engine: Replayed, batches: Iterable[Batch]) -> LoadReport:
    """Load a whole log at once. Raises DecodeError as `Loader.replay` does."""
    loader = Loader(engine)
    for batch in batches:
        loader.replay(batch)
    for _ in loader.finish():
        pass
    return loader.report
