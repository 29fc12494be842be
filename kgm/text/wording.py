"""Partitions, moves, counts and commands in the words that every command uses."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from kgm.model.assignment import Move, Partitions, as_ranges

#: The owner of a partition that has none, in text.
NO_CONSUMER = "no consumer"
_MOST_HANDOVERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
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


def many(count: int, noun: str) -> str:
    """`1 move`, `2 moves`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def typed(group_id: str) -> str:
    """A group id as an argument of a command that can be run: quoted for a shell, and never taken for an option."""
    return shlex.quote(group_id) if not group_id.startswith("-") else f"--group={shlex.quote(group_id)}"


def group_command(command: str, group_id: str, *words: str) -> str:
    """`kgm describe GROUP --offsets`: a command about a group that can be run as it is."""
    return " ".join(["kgm", command, typed(group_id), *map(shlex.quote, words)])


def partitions_text(partitions: Partitions) -> str:
    """`orders[0-2,5] users[1]`."""
    return " ".join(f"{topic}[{as_ranges(partitions[topic])}]" for topic in sorted(partitions) if partitions[topic])


def handovers(moves: Iterable[Move]) -> list[Handover]:
    """The moves, joined by topic and owners, in that order."""
    joined: dict[tuple[str, str | None, str | None], list[int]] = {}
    for move in moves:
        joined.setdefault((move.topic, move.owner_before, move.owner_after), []).append(move.partition)
    unsorted = [
        Handover(topic=topic, partitions=tuple(partitions), owner_before=before, owner_after=after)
        for (topic, before, after), partitions in joined.items()
    ]
    return sorted(
        unsorted, key=lambda one: (one.topic, one.owner_before or NO_CONSUMER, one.owner_after or NO_CONSUMER)
    )


def moves_text(moves: Iterable[Move]) -> str:
    """`orders[0-2] a -> b, users[1] a -> no consumer`: the first eight handovers."""
    texts = [f"{one.what} {one.owners}" for one in handovers(moves)]
    rest = len(texts) - _MOST_HANDOVERS
    return ", ".join(texts[:_MOST_HANDOVERS]) + (f", and {many(rest, 'more handover')}" if rest > 0 else "")
