"""A group's days: a row of `gold_group_day` for each UTC day with records of it."""

from kgm.history.rows import Row, Rows

DAY_MS = 86_400_000
_SUMS = (
    "rebalances", "lost_rounds", "absorbed", "stopped_partition_ms_min", "stopped_partition_ms_max", "moved",
    "joined", "left", "replaced",
)  # fmt: skip


class Days:
    """days: sums, causes and how often each number of members was seen, by day; those before the last but one are done,
    and what is told of them later counts for the oldest that is not."""

    def __init__(self, days: dict[str, Row] | None = None) -> None:
        self.days = days or {}

    def add(self, timestamp: int, *, cause: str | None = None, members: int | None = None, **sums: int | None) -> None:
        """Something happened at a time."""
        day = timestamp - timestamp % DAY_MS
        if self.days:
            day = max(day, min(map(int, self.days)))
        row = self.days.setdefault(str(day), {**dict.fromkeys(_SUMS, 0), "causes": {}, "sizes": {}})
        for name, value in sums.items():
            row[name] += value or 0
        if cause is not None:
            row["causes"][cause] = row["causes"].get(cause, 0) + 1
        if members is not None:
            row["sizes"][str(members)] = row["sizes"].get(str(members), 0) + 1

    def recount(self, timestamp: int, before: str, after: str) -> None:
        """A rebalance of a time has another cause than was thought."""
        row = self.days.get(str(timestamp - timestamp % DAY_MS))
        if row is not None and row["causes"].get(before):
            row["causes"][before] -= 1
            row["causes"][after] = row["causes"].get(after, 0) + 1

    def close(self, rows: Rows, base: Row, open_since: int | None) -> None:
        """Be done with days before the last but one, and before a time of which more may be told."""
        newest = max(map(int, self.days), default=0)
        before = newest - DAY_MS if open_since is None else min(newest - DAY_MS, open_since - open_since % DAY_MS)
        for day in [day for day in self.days if int(day) < before]:
            self._put(rows, base, day)
            del self.days[day]

    def put(self, rows: Rows, base: Row) -> None:
        """Put every day that is not done."""
        for day in self.days:
            self._put(rows, base, day)

    def _put(self, rows: Rows, base: Row, day: str) -> None:
        row = self.days[day]
        sizes = sorted((int(size), count) for size, count in row["sizes"].items())
        rows.put("gold_group_day", {
            **base, "day": int(day), **{name: row[name] for name in _SUMS},
            "causes": [{"cause": cause, "count": count} for cause, count in sorted(row["causes"].items()) if count],
            "members_p50": _median(sizes), "members_max": sizes[-1][0] if sizes else None,
        })  # fmt: skip


def _median(sizes: list[tuple[int, int]]) -> int | None:
    seen, half = 0, sum(count for _, count in sizes) / 2
    for size, count in sizes:
        seen += count
        if seen >= half:
            return size
    return None
