"""The transactions in a log of record batches (KIP-98): which are open, and which were aborted.

Kafka: ProducerStateManager, TransactionIndex."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from kgm.records.batch import Batch

T = TypeVar("T")


class AbortedTransaction(NamedTuple):
    """An aborted transaction: the offset of its first record, and that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class TransactionEnd(NamedTuple):
    """The end of a transaction. at_ms: when its marker was written, in ms since the epoch by the leader's clock."""

    at_ms: int
    is_committed: bool


@dataclass(slots=True)
class PendingItems(Generic[T]):
    """What was found in the transactional batches of a log, until their markers are seen: by producer id alone, as the
    group coordinator has it, because a marker may have a newer producer epoch (KIP-890)."""

    pending: dict[int, list[T]] = field(default_factory=dict)

    def add(self, batch: Batch, item: T) -> None:
        """Keep an item of a transactional batch."""
        self.pending.setdefault(batch.producer_id, []).append(item)

    def end(self, batch: Batch) -> tuple[TransactionEnd, list[T]] | None:
        """How a control batch ends its producer's transaction, and the items in it; None if it ends none. Raises
        DecodeError."""
        marker = batch.marker
        if marker is None:
            return None
        return TransactionEnd(batch.max_timestamp, marker.commit), self.pending.pop(batch.producer_id, [])

    def copy(self) -> PendingItems[T]:
        return PendingItems({producer_id: [*items] for producer_id, items in self.pending.items()})


@dataclass(slots=True)
class LogTransactions:
    """The transactions seen in a log. open: the first offset of each producer's open transaction."""

    open: dict[int, int] = field(default_factory=dict)
    _aborted: dict[int, list[AbortedTransaction]] = field(default_factory=dict)

    def see(self, batch: Batch) -> None:
        """Take note of the next batch of the log. Raises DecodeError for a marker that cannot be read."""
        if batch.is_control:
            marker = batch.marker
            first = None if marker is None else self.open.pop(batch.producer_id, None)
            if first is not None and marker is not None and not marker.commit:
                ended = AbortedTransaction(batch.producer_id, first, batch.last_offset)
                self._aborted.setdefault(batch.producer_id, []).append(ended)
        elif batch.transactional:
            self.open.setdefault(batch.producer_id, batch.base_offset)

    def stable_offset(self, end_offset: int) -> int:
        """The offset below which every transaction has ended (Kafka: last stable offset). end_offset: of the log."""
        return min(self.open.values(), default=end_offset)

    def is_aborted(self, batch: Batch) -> bool:
        """Whether a data batch belongs to an aborted transaction that was seen in the log."""
        rows: Sequence[AbortedTransaction] = self._aborted.get(batch.producer_id, ()) if batch.transactional else ()
        at = bisect_left(rows, batch.base_offset, key=lambda row: row.last_offset)
        return at < len(rows) and rows[at].first_offset <= batch.base_offset

    def aborted_in(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records at or after `start` and below `end`, sorted by where they end."""
        every = (row for rows in self._aborted.values() for row in rows)
        within = [row for row in every if row.last_offset >= start and row.first_offset < end]
        return sorted(within, key=lambda row: row.last_offset)

    def forget_below(self, offset: int) -> None:
        """Forget aborted transactions that end below an offset, since no records of them are left there."""
        left = {key: [row for row in rows if row.last_offset >= offset] for key, rows in self._aborted.items()}
        self._aborted = {key: rows for key, rows in left.items() if rows}
