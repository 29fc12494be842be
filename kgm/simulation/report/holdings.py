"""Who held which partition, from when to when: what a report draws as bars."""

from collections.abc import Mapping
from dataclasses import dataclass

from kgm.model.assignment import Assignment, Partitions


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Holding:
    """A partition that one member consumed, in ms since the start of the plan. Two of one partition overlap while a
    fenced member has not noticed yet that it was replaced; between two of them nobody consumed it."""

    topic: str
    partition: int
    from_ms: int
    to_ms: int
    owner: str


class Holdings:
    """Times handed in are those of the caller's clock."""

    def __init__(self, before: Assignment, now_ms: float) -> None:
        self._start_ms = now_ms
        self._since: dict[tuple[str, int, str], float] = {}
        self._ended: list[Holding] = []
        for owner, partitions in before.items():
            self.take(owner, partitions, now_ms)

    def take(self, owner: str, partitions: Partitions, now_ms: float) -> None:
        """A member begins to consume; what it consumes already it goes on with."""
        for place in _places(owner, partitions):
            self._since.setdefault(place, now_ms)

    def drop(self, owner: str, partitions: Partitions, now_ms: float) -> None:
        """A member does not consume any more."""
        for place in _places(owner, partitions):
            since = self._since.pop(place, None)
            if since is not None:
                self._ended.append(self._holding(place, since, now_ms))

    def until(self, now_ms: float, topics: Mapping[str, int]) -> tuple[Holding, ...]:
        """All of the partitions that these topics have, by topic, partition and time. What is held still is held until
        now, be it since now; otherwise, what began and ended within one millisecond is left out."""
        held = [self._holding(place, since, now_ms) for place, since in self._since.items()]
        ended = [each for each in self._ended if each.from_ms < each.to_ms]
        return tuple(sorted(each for each in (*ended, *held) if each.partition < topics.get(each.topic, 0)))

    def _holding(self, place: tuple[str, int, str], since_ms: float, now_ms: float) -> Holding:
        topic, partition, owner = place
        return Holding(
            topic=topic, partition=partition, owner=owner,
            from_ms=round(since_ms - self._start_ms), to_ms=round(now_ms - self._start_ms),
        )  # fmt: skip


def _places(owner: str, partitions: Partitions) -> list[tuple[str, int, str]]:
    return [(topic, number, owner) for topic, numbers in partitions.items() for number in numbers]
