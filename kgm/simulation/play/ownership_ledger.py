"""Who consumes which partition, over virtual time: what moved, how often, and how long nobody consumed it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kgm.model.assignment import Assignment, Partitions, moves, owners
from kgm.simulation.report.holdings import Holdings
from kgm.simulation.report.report import TimedMove


@dataclass(slots=True)
class _Row:
    """One partition. consumers: members that consume it now, two of them when a fenced one has not noticed yet.

    idle_since_ms: since when nobody does. changed_ms: when somebody else took it over, or the last one let go."""

    consumers: set[str]
    last: str | None
    idle_since_ms: float
    changed_ms: float
    stopped_ms: float = 0.0


class Ledger:
    """Consumers are named by identity; times are in ms, counted as the caller likes.

    A partition that never was anybody's does not count as stopped. holdings: also who held what when, if asked for."""

    def __init__(
        self, topics: Mapping[str, int], assignment: Assignment, now_ms: float, *, keeps_holdings: bool = False
    ) -> None:
        self._before = assignment
        self.holdings = Holdings(assignment, now_ms) if keeps_holdings else None
        self._start_ms = now_ms
        self.handovers = 0
        held = owners(assignment)
        self._rows = {
            topic: [
                _Row(set() if (owner := held.get((topic, number))) is None else {owner}, owner, now_ms, now_ms)
                for number in range(count)
            ]
            for topic, count in topics.items()
        }

    def take(self, identity: str, partitions: Partitions, now_ms: float) -> None:
        """A member begins to consume."""
        if self.holdings is not None:
            self.holdings.take(identity, partitions, now_ms)
        for row in self._of(partitions):
            if not row.consumers and row.last is not None:
                row.stopped_ms += now_ms - row.idle_since_ms
            if row.last != identity:
                self.handovers += row.last is not None
                row.last = identity
                row.changed_ms = now_ms
            row.consumers.add(identity)

    def drop(self, identity: str, partitions: Partitions, now_ms: float) -> None:
        """A member does not consume any more."""
        if self.holdings is not None:
            self.holdings.drop(identity, partitions, now_ms)
        for row in self._of(partitions):
            if identity in row.consumers:
                row.consumers.remove(identity)
                if not row.consumers:
                    row.idle_since_ms = now_ms

    def stopped_ms(self, now_ms: float) -> int:
        """The time nobody consumed them, added up over the partitions, until now."""
        rows = [row for rows in self._rows.values() for row in rows]
        idle = sum(now_ms - row.idle_since_ms for row in rows if not row.consumers and row.last is not None)
        return round(idle + sum(row.stopped_ms for row in rows))

    def moves(self, after: Assignment) -> tuple[TimedMove, ...]:
        """What has another owner than in the beginning."""
        return tuple(
            TimedMove(
                topic=move.topic,
                partition=move.partition,
                owner_before=move.owner_before,
                owner_after=move.owner_after,
                at_ms=self._changed_at(move.topic, move.partition, gone=move.owner_after is None),
            )
            for move in moves(self._before, after)
        )

    def _changed_at(self, topic: str, partition: int, *, gone: bool) -> int:
        rows = self._rows.get(topic, ())
        if partition >= len(rows):
            return 0
        row = rows[partition]
        return round((row.idle_since_ms if gone else row.changed_ms) - self._start_ms)

    def _of(self, partitions: Partitions) -> Iterable[_Row]:
        found: list[_Row] = []
        for topic, numbers in partitions.items():
            rows = self._rows.get(topic)
            if rows is not None:
                count = len(rows)
                found += [rows[number] for number in numbers if number < count]
        return found
