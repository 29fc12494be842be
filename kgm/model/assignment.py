"""Who owns what, and what moves between two assignments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: Partitions by topic.
Partitions = Mapping[str, Sequence[int]]
#: Partitions by owner (a member id or an identity), then by topic.
Assignment = Mapping[str, Partitions]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Move:
    """One partition whose owner is another than before. None: nobody owned it, or nobody owns it now."""

    topic: str
    partition: int
    owner_before: str | None
    owner_after: str | None


def owners(assignment: Assignment) -> dict[tuple[str, int], str]:
    """The owner of each (topic, partition). An assignment with two owners of one partition keeps the last by name."""
    return {
        (topic, partition): owner
        for owner in sorted(assignment)
        for topic, partitions in assignment[owner].items()
        for partition in partitions
    }


def moves(before: Assignment, after: Assignment) -> tuple[Move, ...]:
    """What changes hands between two assignments, by topic and partition."""
    old, new = owners(before), owners(after)
    changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    return tuple(
        Move(topic=t, partition=p, owner_before=old.get((t, p)), owner_after=new.get((t, p))) for t, p in changed
    )


def less(partitions: Partitions, others: Partitions) -> dict[str, tuple[int, ...]]:
    """Those of `partitions` that are not among `others`; topics of which none is left are left out."""
    left: dict[str, tuple[int, ...]] = {}
    for topic, numbers in partitions.items():
        gone = others.get(topic)
        kept = tuple(sorted(set(numbers).difference(gone))) if gone else tuple(numbers)
        if kept:
            left[topic] = kept
    return left


def count(partitions: Partitions) -> int:
    """How many partitions."""
    return sum(map(len, partitions.values()))


def as_ranges(partitions: Iterable[int]) -> str:
    """`0-2,5` for [0, 1, 2, 5]: how people read partitions."""
    runs: list[list[int]] = []
    for partition in sorted(partitions):
        if runs and partition == runs[-1][1] + 1:
            runs[-1][1] = partition
        else:
            runs.append([partition, partition])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
