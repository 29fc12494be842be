"""Moves joined by topic and owners, as people read them."""

from collections.abc import Iterable
from dataclasses import dataclass

from kgm.model.assignment import Move, as_ranges
from kgm.text.names import natural

#: What stands for the owner of a partition that has none.
NO_CONSUMER = "no consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMoves:
    """All partitions of one topic that go from one owner to another. None: no owner."""

    topic: str
    partitions: tuple[int, ...]
    owner_before: str | None
    owner_after: str | None

    @property
    def what(self) -> str:
        """`orders[0-2]`."""
        return f"{self.topic}[{as_ranges(self.partitions)}]"

    @property
    def owners(self) -> str:
        """`a -> no consumer`."""
        return f"{self.owner_before or NO_CONSUMER} -> {self.owner_after or NO_CONSUMER}"


def joined_moves(moves: Iterable[Move]) -> list[JoinedMoves]:
    """The moves, joined and sorted by topic and owners."""
    joined: dict[tuple[str, str | None, str | None], list[int]] = {}
    for move in moves:
        joined.setdefault((move.topic, move.owner_before, move.owner_after), []).append(move.partition)
    unsorted = [
        JoinedMoves(topic=topic, partitions=tuple(partitions), owner_before=before, owner_after=after)
        for (topic, before, after), partitions in joined.items()
    ]
    return sorted(
        unsorted,
        key=lambda one: [*map(natural, (one.topic, one.owner_before or NO_CONSUMER, one.owner_after or NO_CONSUMER))],
    )
