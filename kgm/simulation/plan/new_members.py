"""The members that a scale-out adds. Their names are not known, but most fleets number their members."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kgm.model.errors import UsageError
from kgm.simulation.plan.refusals import SYNTHETIC
from kgm.simulation.plan.starting_group import StartingGroup, StartingMember

_NUMBERED = re.compile(r"(.*?)(\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMembers:
    """guessed: whether their names, kinds or subscriptions follow no pattern and were therefore drawn at random."""

    members: tuple[StartingMember, ...]
    guessed: bool


def new_members(group: StartingGroup, count: int, chance: random.Random, registered: Sequence[str] = ()) -> NewMembers:
    """`app-4` after `app-1` to `app-3`, as a StatefulSet counts; a random name if the ids show no such pattern.

    registered: expected instance ids. The first new members get the ones that are not in the group yet. The others are
    static or dynamic in the same proportion as the members of the group, and otherwise like one of them. Raises
    UsageError for a group without members: what new ones would subscribe to is not known."""
    if not count:
        return NewMembers(members=(), guessed=False)
    if not group.members:
        raise UsageError(
            f"group {group.group_id} has no members: what new ones would subscribe to is not known",
            hint=f"simulate a synthetic group: {SYNTHETIC}",
        )
    existing = {member.group_instance_id for member in group.members}
    names = [name for name in registered if name not in existing][:count]
    if names:
        others = new_members(group, count - len(names), chance)
        named = tuple(_static(chance.choice(group.members), name, chance) for name in names)
        return replace(others, members=named + others.members)
    static = [member for member in group.members if member.group_instance_id is not None]
    dynamic = [member for member in group.members if member.group_instance_id is None]
    static_count = sum(chance.random() * len(group.members) < len(static) for _ in range(count))
    next_names = _next_names([str(member.group_instance_id) for member in static], static_count)
    subscriptions_differ = len({member.subscription for member in group.members}) > 1
    members = [
        _static(chance.choice(static), None if next_names is None else next_names[number], chance)
        for number in range(static_count)
    ]
    members += _dynamic(dynamic, count - static_count, chance)
    is_mixed = bool(static and dynamic)
    has_random_names = bool(static) and next_names is None
    return NewMembers(members=tuple(members), guessed=is_mixed or subscriptions_differ or has_random_names)


def _static(like: StartingMember, name: str | None, chance: random.Random) -> StartingMember:
    name = name or _random_like(str(like.group_instance_id), chance)
    return replace(like, identity=name, member_id="", group_instance_id=name, owned={})


def _dynamic(peers: Sequence[StartingMember], count: int, chance: random.Random) -> list[StartingMember]:
    """Their client ids, which their member ids begin with, are all the same, or continue a numbering, or are random."""
    client_ids = [member.client_id for member in peers]
    names = client_ids[:1] * count if len(set(client_ids)) == 1 else _next_names(client_ids, count)
    members = []
    for number in range(count):
        like = chance.choice(peers)
        name = _random_like(like.client_id, chance) if names is None else names[number]
        members.append(replace(like, identity=f"new-{number + 1}", member_id="", client_id=name, owned={}))
    return members


def _next_names(names: list[str], count: int) -> list[str] | None:
    """The names that come next if all names are one prefix and a number, otherwise None."""
    matches = [_NUMBERED.fullmatch(name) for name in names]
    prefixes = {match[1] for match in matches if match is not None}
    if None in matches or len(prefixes) != 1:
        return None
    digits = [match[2] for match in matches if match is not None]
    is_padded = len({len(text) for text in digits}) == 1 and any(text.startswith("0") for text in digits)
    width = len(digits[0]) if is_padded else 0
    highest = max(map(int, digits))
    prefix = prefixes.pop()
    return [f"{prefix}{highest + 1 + number:0{width}}" for number in range(count)]


def _random_like(name: str, chance: random.Random) -> str:
    """A random name that can sort anywhere among its peers."""
    return f"{name[: chance.randint(0, len(name))]}{chance.getrandbits(40):010x}"
