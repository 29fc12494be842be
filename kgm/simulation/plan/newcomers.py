"""What new members of a scale-out are called: nobody knows, but most fleets count."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kgm.model.errors import UsageError
from kgm.simulation.plan.starting_group import Origin, Seat

_COUNTED = re.compile(r"(.*?)(\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomers:
    """Seats of members to come. guessed: their names or kinds follow no pattern, and were drawn."""

    seats: tuple[Seat, ...]
    guessed: bool


def newcomers(origin: Origin, count: int, chance: random.Random, registered: Sequence[str] = ()) -> Newcomers:
    """`app-4` after `app-1` to `app-3`, as a StatefulSet counts; a random name where the ids show no such pattern.

    registered: instance ids that are to come; the first new members have those that are not there yet. Others are
    static or dynamic as the members are, by share in a mixed group, and otherwise like one that is there.
    Raises UsageError for a group without members: nobody knows what new ones would subscribe to."""
    if not count:
        return Newcomers(seats=(), guessed=False)
    if not origin.seats:
        raise UsageError(
            f"group {origin.group_id} has no members: what new ones would subscribe to is not known",
            hint="make a group up: --members N --topic NAME:PARTITIONS",
        )
    there = {seat.group_instance_id for seat in origin.seats}
    called = [name for name in registered if name not in there][:count]
    if called:
        others = newcomers(origin, count - len(called), chance)
        named = tuple(_static(chance.choice(origin.seats), name, chance) for name in called)
        return replace(others, seats=named + others.seats)
    static = [seat for seat in origin.seats if seat.group_instance_id is not None]
    dynamic = [seat for seat in origin.seats if seat.group_instance_id is None]
    come_static = sum(chance.random() * len(origin.seats) < len(static) for _ in range(count))
    next_names = _next_names([str(seat.group_instance_id) for seat in static], come_static)
    unlike = len({frozenset(seat.topics) for seat in origin.seats}) > 1
    seats = [
        _static(chance.choice(static), None if next_names is None else next_names[number], chance)
        for number in range(come_static)
    ]
    seats += _dynamic(dynamic, count - come_static, chance)
    mixed = bool(static and dynamic)
    return Newcomers(seats=tuple(seats), guessed=mixed or unlike or (bool(static) and next_names is None))


def _static(like: Seat, name: str | None, chance: random.Random) -> Seat:
    name = name or _random_like(str(like.group_instance_id), chance)
    return replace(like, identity=name, member_id="", group_instance_id=name, owned={})


def _dynamic(peers: Sequence[Seat], count: int, chance: random.Random) -> list[Seat]:
    """Their client ids, which begin their member ids, are one and the same, or count on, or may be any."""
    client_ids = [seat.client_id for seat in peers]
    named = client_ids[:1] * count if len(set(client_ids)) == 1 else _next_names(client_ids, count)
    seats = []
    for number in range(count):
        like = chance.choice(peers)
        name = _random_like(like.client_id, chance) if named is None else named[number]
        seats.append(replace(like, identity=f"new-{number + 1}", member_id="", client_id=name, owned={}))
    return seats


def _next_names(names: list[str], count: int) -> list[str] | None:
    """The names that follow, if all are one prefix and a number."""
    found = [_COUNTED.fullmatch(name) for name in names]
    prefixes = {match[1] for match in found if match is not None}
    if None in found or len(prefixes) != 1:
        return None
    digits = [match[2] for match in found if match is not None]
    padded = len({len(text) for text in digits}) == 1 and any(text.startswith("0") for text in digits)
    width = len(digits[0]) if padded else 0
    highest = max(map(int, digits))
    prefix = prefixes.pop()
    return [f"{prefix}{highest + 1 + number:0{width}}" for number in range(count)]


def _random_like(name: str, chance: random.Random) -> str:
    """A name that may sort anywhere among its peers."""
    return f"{name[: chance.randint(0, len(name))]}{chance.getrandbits(40):010x}"
