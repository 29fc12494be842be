"""Rebuilds a coordinator from the batches of its log (Kafka: CoordinatorLoaderImpl).

Records of a transaction are pending until its marker: they count when it says COMMIT and are void when it says ABORT.
Record types and versions that are not known are counted and otherwise left alone; so is a record that cannot be read.
(Kafka's loader skips unknown types too, and gives up on the rest.)"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kgm.model.errors import DecodeError
from kgm.records.batch import Batch
from kgm.records.record import Record, decode_record


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


def replay_into(engine: Replayed, batches: Iterable[Batch]) -> LoadReport:
    """Replay every batch, in order; the caller then says `loaded`. Raises DecodeError for a batch whose records
    cannot be told apart, which no checksum lets through unless whoever wrote it was wrong."""
    types: Counter[int] = Counter()
    unreadable: list[tuple[int, str]] = []
    seen = records = markers = next_offset = 0
    for batch in batches:
        seen += 1
        next_offset = batch.last_offset + 1
        if batch.is_control:
            marker = batch.marker
            if marker is not None:
                markers += 1
                engine.replay_end_transaction(batch.producer_id, batch.producer_epoch, commit=marker.commit)
            continue
        producer = (batch.producer_id, batch.producer_epoch) if batch.transactional else None
        for row in batch.records:
            records += 1
            try:
                record = decode_record(row.key or b"", row.value)
            except DecodeError as error:
                unreadable.append((row.offset, error.message))
                types[int.from_bytes((row.key or b"")[:2], "big", signed=True)] += 1
                continue
            types[record.key.API_KEY] += 1
            engine.replay(record, producer)
    return LoadReport(
        batches=seen, records=records, types=dict(types), markers=markers, unreadable=tuple(unreadable),
        next_offset=next_offset,
    )  # fmt: skip
