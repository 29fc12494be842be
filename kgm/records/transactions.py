"""The transactions in a log of record batches (KIP-98): which are open, and which were aborted.

Kafka: ProducerStateManager, TransactionIndex."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kgm.records.batch import Batch


class AbortedTransaction(NamedTuple):
    """An aborted transaction: the offset of its first record, and that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


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
