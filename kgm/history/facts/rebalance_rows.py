"""A group's newest rows of `gold_rebalance`, to which later records may add something."""

from collections.abc import Callable
from dataclasses import replace

from kgm.history.causes.verdict import RETURN_WITHIN_MS, Cause, Confidence, weakest
from kgm.history.row_tables import RowCollector
from kgm.history.rows import RebalanceRow

_MOST = 50


class RecentRebalances:
    """rows: the oldest first."""

    def __init__(self, collector: RowCollector, rows: list[RebalanceRow]) -> None:
        self._collector, self.rows = collector, rows

    def add(self, row: RebalanceRow) -> None:
        """Add the next rebalance; drop those to which nothing more can be added."""
        since = row.timestamp - RETURN_WITHIN_MS
        self.rows = [each for each in self.rows[-_MOST:] if each.timestamp > since]
        self.rows.append(row)
        self._collector.put(row)

    def update(self, change: Callable[[RebalanceRow], RebalanceRow]) -> None:
        """Change each row; a row that stays the same object is not put again."""
        for number, row in enumerate(self.rows):
            new = change(row)
            if new is not row:
                self.rows[number] = new
                self._collector.put(new)

    def came_back(self, offset: int | None, line: str, sure: Confidence) -> None:
        """A member that left in the rebalance at this offset came back later, as `line` says: it was a bounce."""

        def noted(row: RebalanceRow) -> RebalanceRow:
            if row.offset != offset or Cause.BOUNCE.value in (row.cause, *row.also):
                return row
            together = weakest(Confidence(row.confidence), sure).value
            return replace(
                row, also=(*row.also, Cause.BOUNCE.value), evidence=(*row.evidence, line), confidence=together,
                inferred_confidence=together,
            )  # fmt: skip

        self.update(noted)
