"""A group's newest rows of `gold_rebalance`, to which later records may add something.

A row is a rebalance that reached an assignment (`kgm.records.rebalances`). In a group with epochs, those since the last
target assignment wait for the next one, and are one row with it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from kgm.history.causes.verdict import RETURN_WITHIN_MS, SHOWN, Cause, Confidence, Verdict, weakest
from kgm.history.row_parts import GroupRecord
from kgm.history.row_tables import RowCollector
from kgm.history.rows import RebalanceRow

_MOST = 50


class RecentRebalances:
    """rows: the oldest first; waiting: those of the epochs that have no target assignment yet."""

    def __init__(
        self, collector: RowCollector, rows: list[RebalanceRow], waiting: Sequence[RebalanceRow] = ()
    ) -> None:  # fmt: skip
        self._collector, self.rows, self.waiting = collector, rows, list(waiting)

    def raised(self, row: RebalanceRow) -> None:
        """The epoch rose; it is part of the rebalance that the next target assignment completes."""
        self.waiting.append(row)

    def assigned(self, epoch: int) -> tuple[RebalanceRow | None, list[int]]:
        """The target assignment of an epoch was computed. Returns the rebalance, which is added, and the offsets of all
        records that raised the epoch since the last one; None if it has not risen."""
        rows = [row for row in self.waiting if row.to_generation <= epoch]
        if not rows:
            return None, []
        self.waiting = self.waiting[len(rows) :]
        row = _folded(rows)
        self.add(row)
        return row, [each.offset for each in rows]

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

        self.waiting = [noted(row) for row in self.waiting]
        self.update(noted)


def epoch_row(
    record: GroupRecord, verdict: Verdict, epochs: tuple[int, int], *, complete: bool, members: int | None,
    joined: int, left: int,
) -> RebalanceRow:  # fmt: skip
    """A group with epochs before its next target assignment. epochs: before and after; members: how many it has after,
    None if not known; joined, left: how many came and went."""
    return RebalanceRow(
        **record.columns, from_generation=epochs[0], to_generation=epochs[1], lost_rounds=0 if complete else None,
        moved=0, kept=0, complete=complete, cause=verdict.cause.value, confidence=verdict.confidence.value,
        also=tuple(each.value for each in verdict.also), who=verdict.who, evidence=verdict.evidence, source="log",
        inferred_cause=verdict.cause.value, inferred_confidence=verdict.confidence.value,
        members_before=None if members is None else members - joined + left, members_after=members, joined=joined,
        left=left, replaced=0,
        unowned_ms=0, stopped_partition_ms_min=0, stopped_partition_ms_max=0,
    )  # fmt: skip


def _folded(rows: Sequence[RebalanceRow]) -> RebalanceRow:
    """Epochs with one target assignment as one rebalance: that of the last epoch, with the causes of all."""
    first, last = rows[0], rows[-1]
    if len(rows) == 1:
        return last
    cause, also, sure = _causes(rows)
    is_complete = all(row.complete for row in rows)
    return replace(
        last, from_generation=first.from_generation, complete=is_complete,
        lost_rounds=0 if is_complete else None, cause=cause, also=also,
        confidence=sure.value, inferred_cause=cause, inferred_confidence=sure.value,
        who=tuple(dict.fromkeys(who for row in rows for who in row.who)), evidence=tuple(_evidence(rows)),
        members_before=first.members_before, joined=sum(row.joined or 0 for row in rows),
        left=sum(row.left or 0 for row in rows),
    )  # fmt: skip


def _causes(rows: Sequence[RebalanceRow]) -> tuple[str, tuple[str, ...], Confidence]:
    """(the cause, further causes, how certain they are together). Where records are missing, nothing is known."""
    if not all(row.complete for row in rows):
        return Cause.UNKNOWN.value, (), Confidence.UNKNOWN
    named = dict.fromkeys(cause for row in rows for cause in (row.cause, *row.also))
    if Cause.ALL_GONE.value == rows[-1].cause:
        named = {Cause.ALL_GONE.value: None, **named}
    known = [cause for cause in named if cause != Cause.UNKNOWN.value]
    if not known:
        return Cause.UNKNOWN.value, (), Confidence.UNKNOWN
    sure = weakest(*(Confidence(row.confidence) for row in rows if row.cause != Cause.UNKNOWN.value))
    if len(known) < len(named):  # one of the epochs rose for a reason that nothing shows
        return known[0], (*known[1:], Cause.UNKNOWN.value), weakest(sure, Confidence.POSSIBLE)
    return known[0], tuple(known[1:]), sure


def _evidence(rows: Iterable[RebalanceRow]) -> Iterable[str]:
    """Of each cause as many sentences as of the cause of one epoch."""
    told: dict[str, int] = {}
    lines: dict[str, None] = {}
    for row in rows:
        told[row.cause] = told.get(row.cause, 0) + len(row.evidence)
        if told[row.cause] <= max(SHOWN, len(row.evidence)):
            lines |= dict.fromkeys(row.evidence)
    return lines
