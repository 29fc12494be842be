"""A group's days: a row of `gold_group_day` for each UTC day on which the group has records."""

from dataclasses import dataclass, field
from typing import Protocol

from kgm.history.row_parts import CauseCount, GroupKey
from kgm.history.row_tables import RowCollector
from kgm.history.rows import GroupDayRow, RebalanceRow

DAY_MS = 86_400_000


@dataclass(slots=True, kw_only=True)
class DayTotals:
    """One day. causes: how many rebalances had each cause; sizes: how often the group had each number of members;
    unbounded: how many rebalances were `is_unbounded`."""

    rebalances: int = 0
    lost_rounds: int = 0
    absorbed: int = 0
    stopped_partition_ms_min: int = 0
    stopped_partition_ms_max: int = 0
    unbounded: int = 0
    moved: int = 0
    joined: int = 0
    left: int = 0
    replaced: int = 0
    causes: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)


class DailyTotals:
    """The days of a group that are still open: the last two, and those that later records may change. What arrives for
    a closed day counts for the oldest open one. days: by their first millisecond."""

    def __init__(self, rows: RowCollector, group: GroupKey, days: dict[str, DayTotals]) -> None:
        self.rows, self.group = rows, group
        self.days = {int(day): totals for day, totals in days.items()}

    def state(self) -> dict[str, DayTotals]:
        """The state for the next run."""
        return {str(day): totals for day, totals in self.days.items()}

    def of(self, timestamp: int) -> DayTotals:
        """The totals for the day of a timestamp; the caller adds to them."""
        day = timestamp - timestamp % DAY_MS
        if self.days:
            day = max(day, min(self.days))
        return self.days.setdefault(day, DayTotals())

    def add_members(self, timestamp: int, count: int) -> None:
        """The group had this many members at this time."""
        sizes = self.of(timestamp).sizes
        sizes[str(count)] = sizes.get(str(count), 0) + 1

    def add_rebalance(self, row: RebalanceRow) -> None:
        """Add a rebalance that was explained."""
        day = self.of(row.timestamp)
        day.causes[row.cause] = day.causes.get(row.cause, 0) + 1
        day.rebalances += 1
        day.lost_rounds += row.lost_rounds or 0
        day.moved += row.moved or 0
        day.joined += row.joined or 0
        day.left += row.left or 0
        day.replaced += row.replaced or 0
        day.stopped_partition_ms_min += row.stopped_partition_ms_min or 0
        day.stopped_partition_ms_max += row.stopped_partition_ms_max or 0
        day.unbounded += is_unbounded(row)

    def stopped(self, before: RebalanceRow, after: RebalanceRow) -> None:
        """Later records showed how long a rebalance stopped the group at most."""
        day = self.of(before.timestamp)
        day.stopped_partition_ms_max += (after.stopped_partition_ms_max or 0) - (before.stopped_partition_ms_max or 0)
        day.unbounded += is_unbounded(after) - is_unbounded(before)

    def add_absorbed(self, timestamp: int, count: int) -> None:
        """Add bounces that caused no rebalance."""
        day = self.of(timestamp)
        day.absorbed += count
        day.replaced += count

    def recount(self, timestamp: int, before: str, after: str) -> None:
        """A rebalance on the day of this timestamp turned out to have another cause."""
        day = self.days.get(timestamp - timestamp % DAY_MS)
        if day is not None and day.causes.get(before):
            day.causes[before] -= 1
            day.causes[after] = day.causes.get(after, 0) + 1

    def close(self, open_since: int | None) -> None:
        """Put the days before the last two that end before open_since, the earliest time that can still change."""
        newest = max(self.days, default=0)
        before = newest - DAY_MS if open_since is None else min(newest - DAY_MS, open_since - open_since % DAY_MS)
        for day in [day for day in self.days if day < before]:
            self._put(day, self.days.pop(day))

    def finish(self) -> None:
        """Put every day that is still open."""
        for day, totals in self.days.items():
            self._put(day, totals)

    def _put(self, day: int, totals: DayTotals) -> None:
        sizes = sorted((int(size), count) for size, count in totals.sizes.items())
        self.rows.put(
            GroupDayRow(
                **self.group.columns, day=day, rebalances=totals.rebalances, lost_rounds=totals.lost_rounds,
                absorbed=totals.absorbed, stopped_partition_ms_min=totals.stopped_partition_ms_min,
                stopped_partition_ms_max=None if totals.unbounded else totals.stopped_partition_ms_max,
                moved=totals.moved, joined=totals.joined, left=totals.left, replaced=totals.replaced,
                causes=tuple(CauseCount(cause=cause, count=n) for cause, n in sorted(totals.causes.items()) if n),
                members_p50=_median(sizes), members_max=sizes[-1][0] if sizes else None,
            )
        )  # fmt: skip


class _Stopped(Protocol):
    @property
    def stopped_partition_ms_max(self) -> int | None: ...
    @property
    def members_after(self) -> int | None: ...


def is_unbounded(row: _Stopped) -> bool:
    """Whether nothing shows how long a rebalance stopped the group at most. One that leaves it empty stops nobody."""
    return row.stopped_partition_ms_max is None and row.members_after != 0


def _median(sizes: list[tuple[int, int]]) -> int | None:
    seen, half = 0, sum(count for _, count in sizes) / 2
    for size, count in sizes:
        seen += count
        if seen >= half:
            return size
    return None
