"""Who consumed which partition, from when to when: the bars of a report."""

from collections.abc import Mapping
from dataclasses import dataclass

from kgm.model.assignment import Assignment, Partitions


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Holding:
    """A partition that one member consumed, with times in ms since the start of the plan, or of whatever else is shown.

    Two holdings of a partition overlap while a fenced member has not yet noticed that it was replaced; during a gap
    between two of them the partition had no consumer."""

    topic: str
    partition: int
    from_ms: int
    to_ms: int
    owner: str


class Holdings:
    """Collects holdings. The times passed in are on the caller's clock, in ms."""

    def __init__(self, before: Assignment, now_ms: float) -> None:
        self._start_ms = now_ms
        self._since: dict[tuple[str, int, str], float] = {}
        self._ended: list[Holding] = []
        for owner, partitions in before.items():
            self.take(owner, partitions, now_ms)

    def take(self, owner: str, partitions: Partitions, now_ms: float) -> None:
        """A member begins to consume. Nothing changes for partitions that it already consumes."""
        for key in _keys(owner, partitions):
            self._since.setdefault(key, now_ms)

    def drop(self, owner: str, partitions: Partitions, now_ms: float) -> None:
        """A member stops consuming."""
        for key in _keys(owner, partitions):
            since = self._since.pop(key, None)
            if since is not None:
                self._ended.append(self._holding(key, since, now_ms))

    def until(self, now_ms: float, topics: Mapping[str, int]) -> tuple[Holding, ...]:
        """All holdings of the partitions that these topics have, by topic, partition and time. A current one ends now,
        even if it also began now; other holdings of less than a millisecond are left out."""
        current = [self._holding(key, since, now_ms) for key, since in self._since.items()]
        ended = [each for each in self._ended if each.from_ms < each.to_ms]
        return tuple(sorted(each for each in (*ended, *current) if each.partition < topics.get(each.topic, 0)))

    def _holding(self, key: tuple[str, int, str], since_ms: float, now_ms: float) -> Holding:
        topic, partition, owner = key
        return Holding(
            topic=topic, partition=partition, owner=owner,
            from_ms=round(since_ms - self._start_ms), to_ms=round(now_ms - self._start_ms),
        )  # fmt: skip


def _keys(owner: str, partitions: Partitions) -> list[tuple[str, int, str]]:
    return [(topic, number, owner) for topic, numbers in partitions.items() for number in numbers]
