"""Partitions, moves, counts and commands in the words that all commands share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kgm.model.assignment import Move, Partitions, as_ranges, count
from kgm.text.joined_moves import joined_moves
from kgm.text.names import in_order
from kgm.text.shell import shell_word

if TYPE_CHECKING:
    from kgm.model.snapshot import GroupSnapshot

_MOST_HANDOVERS = 8
_MOST_NAMES = 5


def many(number: int, noun: str) -> str:
    """`1 move`, `2 moves`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def in_words(name: str | None) -> str:
    """`session expiry` for `session-expiry`: names of causes, events and verdicts."""
    return "?" if name is None else name.replace("_", " ").replace("-", " ")


def some(names: Iterable[str]) -> str:
    """`a, b, c, d, e and 4 more`: the first five."""
    listed = list(names)
    rest = len(listed) - _MOST_NAMES
    return ", ".join(listed[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def typed(group_id: str) -> str:
    """A group id as an argument of a command that can be run: quoted for a shell, and never mistaken for an option or,
    if it is blank, for a variable that is not set."""
    is_plain = not group_id.startswith("-") and not group_id.isspace()
    return shell_word(group_id) if is_plain else f"--group={shell_word(group_id)}"


def group_command(command: str, group_id: str, *words: str) -> str:
    """`kgm describe GROUP --offsets`: a command about a group, ready to run."""
    return " ".join(["kgm", command, typed(group_id), *map(shell_word, words)])


def partitions_text(partitions: Partitions) -> str:
    """`orders[0-2,5] users[1]`."""
    return " ".join(f"{topic}[{as_ranges(partitions[topic])}]" for topic in in_order(partitions) if partitions[topic])


def grouped(pairs: Iterable[tuple[str, int]]) -> str:
    """`orders[0-2] users[1]` for (topic, partition) pairs."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(pairs):
        by_topic.setdefault(topic, []).append(partition)
    return partitions_text(by_topic)


def state_text(group: GroupSnapshot, epoch: str | None, *more: str | None) -> str:
    """`classic  Stable  range  generation 4  2 members, 2 static`. more: comes after the generation or the epoch."""
    generation = None if group.generation is None else f"generation {group.generation}"
    members = f"{many(len(group.members), 'member')}, {group.static_members} static"
    return "  ".join(filter(None, [group.type, group.state, group.assignor, epoch, generation, *more, members]))


def subscription_text(topics: Iterable[str], regex: str | None) -> str:
    """`orders,/users-.*/`."""
    return ",".join([*in_order(topics), *([f"/{regex}/"] if regex else ())])


def past_end_text(partitions: Partitions) -> str:
    """`1 committed offset is past the end: topic recreated or records lost`, for these partitions."""
    offsets = count(partitions)
    verb = "is" if offsets == 1 else "are"
    return f"{many(offsets, 'committed offset')} {verb} past the end: topic recreated or records lost"


def left_lag_text(lags: Mapping[str, int]) -> str:
    """The text for `GroupSnapshot.left_lag`."""
    return f"{sum(lags.values())} in topics that no member subscribes to: {some(sorted(lags))}"


def lost_text(lost: Mapping[tuple[str, int], int]) -> str:
    """`497 records were lost to retention before they were read: orders[3]`. lost: their number by partition."""
    number, partitions = sum(lost.values()), dict[str, list[int]]()
    for topic, partition in sorted(lost):
        partitions.setdefault(topic, []).append(partition)
    were = "was" if number == 1 else "were"
    return f"{many(number, 'record')} {were} lost to retention before they were read: {partitions_text(partitions)}"


def moves_text(moves: Iterable[Move]) -> str:
    """`orders[0-2] a -> b, users[1] a -> no consumer`: the first eight handovers."""
    texts = [f"{one.what} {one.owners}" for one in joined_moves(moves)]
    rest = len(texts) - _MOST_HANDOVERS
    return ", ".join(texts[:_MOST_HANDOVERS]) + (f", and {many(rest, 'more handover')}" if rest > 0 else "")
