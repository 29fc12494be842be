"""Who consumed which partition: a row of `silver_owner` for as long as a seat keeps it.

A classic group's records tell who has what from the end of a rebalance on, and that the members had given up what they
did not keep when its join phase ended; the last commit before tells until when they consumed at the least."""

from collections.abc import Callable, Iterable, Mapping

from kgm.history.rows import Row, Rows

Place = tuple[str, int]


class Owners:
    """open_rows: of the partitions that have an owner. commits: of each partition the time of the first and the last
    commit, and their number, since its owner has it."""

    def __init__(self, open_rows: Iterable[Row] = (), commits: Iterable[tuple[str, int, list[int]]] = ()) -> None:
        self.open = {(row["place"], row["topic_partition"]): row for row in open_rows}
        self.commits = {(topic, partition): seen for topic, partition, seen in commits}

    def committed(self, place: Place, first: int, last: int, count: int) -> None:
        """Commits of a partition, all under its present owner."""
        seen = self.commits.get(place)
        if seen is None:
            self.commits[place] = [first, last, count]
        else:
            seen[1] = last
            seen[2] += count

    def last_commit(self, places: Iterable[Place]) -> int | None:
        """When one of the partitions was last committed."""
        return max((self.commits[place][1] for place in places if place in self.commits), default=None)

    def cadence(self, places: Iterable[Place]) -> int | None:
        """How far apart the commits of the partition were that was committed most often, on average in ms."""
        most = max((self.commits[place] for place in places if place in self.commits), key=_count, default=None)
        return None if most is None or most[2] < 3 else (most[1] - most[0]) // (most[2] - 1)

    def now(self, rows: Rows, owners: Mapping[Place, str], begun: Callable[[Place, str], Row], end: Row) -> None:
        """The partitions have these owners now, by seat. begun: makes the row that an owner begins with. end: the
        columns of those that end; a row goes on if the seat is the same."""
        for place in self.open.keys() - owners.keys():
            self._close(rows, place, end)
        for place, seat in owners.items():
            mine = self.open.get(place)
            if mine is not None and mine["seat"] == seat:
                continue
            if mine is not None:
                self._close(rows, place, end)
            self.open[place] = row = begun(place, seat)
            rows.put("silver_owner", row)

    def _close(self, rows: Rows, place: Place, end: Row) -> None:
        row = self.open.pop(place)
        seen = self.commits.pop(place, None)
        earliest = row["from_timestamp"] if seen is None else max(seen[1], row["from_timestamp"])
        row |= end
        row["to_earliest_timestamp"] = min(earliest, row["to_timestamp"])
        rows.put("silver_owner", row)


def _count(seen: list[int]) -> int:
    return seen[2]
