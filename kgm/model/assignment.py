"""Who owns what, and what moves between two assignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Partitions by topic.
Partitions = Mapping[str, Sequence[int]]
#: Partitions by owner (a member id or an identity), then by topic.
Assignment = Mapping[str, Partitions]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Move:
    """A partition whose owner has changed. None: it had no owner, or has none now."""

    topic: str
    partition: int
    owner_before: str | None
    owner_after: str | None

    def to_json(self) -> dict[str, Any]:
        return {"topic": self.topic, "partition": self.partition, "from": self.owner_before, "to": self.owner_after}


def owners(assignment: Assignment) -> dict[tuple[str, int], str]:
    """The owner of each (topic, partition). If a partition has two owners, the last one by name counts."""
    return {
        (topic, partition): owner
        for owner in sorted(assignment)
        for topic, partitions in assignment[owner].items()
        for partition in partitions
    }


def moves(before: Assignment, after: Assignment) -> tuple[Move, ...]:
    """The partitions that move between two assignments, by topic and partition."""
    old, new = owners(before), owners(after)
    changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    return tuple(
        Move(topic=t, partition=p, owner_before=old.get((t, p)), owner_after=new.get((t, p))) for t, p in changed
    )


def less(partitions: Partitions, others: Partitions) -> dict[str, tuple[int, ...]]:
    """The partitions that are not among `others`; topics with no partitions left are dropped."""
    left: dict[str, tuple[int, ...]] = {}
    for topic, numbers in partitions.items():
        other = others.get(topic)
        rest = tuple(sorted(set(numbers).difference(other))) if other else tuple(numbers)
        if rest:
            left[topic] = rest
    return left


def count(partitions: Partitions) -> int:
    """The number of partitions, over all topics."""
    return sum(map(len, partitions.values()))


def as_ranges(partitions: Iterable[int]) -> str:
    """`0-2,5` for [0, 1, 2, 5]."""
    runs: list[list[int]] = []
    for partition in sorted(partitions):
        if runs and partition == runs[-1][1] + 1:
            runs[-1][1] = partition
        else:
            runs.append([partition, partition])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
