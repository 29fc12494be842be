"""Partitions, moves and counts in the words that every command uses."""

import shlex
from collections.abc import Iterable

from kgm.model.assignment import Move, Partitions, as_ranges

_MOST_HANDOVERS = 8


def many(count: int, noun: str) -> str:
    """`1 move`, `2 moves`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def typed(group_id: str) -> str:
    """A group's id as an argument of a command to be typed: quoted where a shell would take it apart."""
    return shlex.quote(group_id) if not group_id.startswith("-") else f"--group={shlex.quote(group_id)}"


def partitions_text(partitions: Partitions) -> str:
    """`orders[0-2,5] users[1]`."""
    return " ".join(f"{topic}[{as_ranges(partitions[topic])}]" for topic in sorted(partitions) if partitions[topic])


def moves_text(moves: Iterable[Move]) -> str:
    """`orders[0-2] a -> b, users[1] a -> nobody`: what goes from one owner to another, the first eight of them."""
    handovers: dict[tuple[str, str, str], list[int]] = {}
    for move in moves:
        key = (move.topic, move.owner_before or "nobody", move.owner_after or "nobody")
        handovers.setdefault(key, []).append(move.partition)
    texts = [f"{topic}[{as_ranges(handovers[topic, a, b])}] {a} -> {b}" for topic, a, b in sorted(handovers)]
    rest = len(texts) - _MOST_HANDOVERS
    return ", ".join(texts[:_MOST_HANDOVERS]) + (f", and {many(rest, 'more handover')}" if rest > 0 else "")
