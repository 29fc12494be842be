"""What new members of a scale-out are called: nobody knows, but most fleets count."""

import random
import re
from dataclasses import dataclass, replace

from kgm.model.errors import UsageError
from kgm.simulation.origin import Origin, Seat

_COUNTED = re.compile(r"(.*?)(\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomers:
    """Seats of members to come. guessed: instance ids follow no pattern, and were drawn."""

    seats: tuple[Seat, ...]
    guessed: bool


def newcomers(origin: Origin, count: int, chance: random.Random) -> Newcomers:
    """`app-4` after `app-1` to `app-3`, as a StatefulSet counts; a random name where the ids show no such pattern.

    They are static if most members are, and otherwise like a member that is there. Raises UsageError for a group
    without members: nobody knows what new ones would subscribe to."""
    if not count:
        return Newcomers(seats=(), guessed=False)
    if not origin.seats:
        raise UsageError(
            f"group {origin.group_id} has no members: what new ones would subscribe to is not known",
            hint="make a group up: --members N --topic NAME:PARTITIONS",
        )
    static = [seat for seat in origin.seats if seat.group_instance_id is not None]
    is_static = 2 * len(static) > len(origin.seats)
    peers = static if is_static else [seat for seat in origin.seats if seat.group_instance_id is None]
    names = [seat.group_instance_id if is_static else seat.client_id for seat in peers]
    shared = len(set(names)) == 1 and not is_static
    counted = None if shared else _next_names([str(name) for name in names], count)
    seats = []
    for number in range(count):
        like = peers[-1] if counted is not None or shared else chance.choice(peers)
        name = counted[number] if counted is not None else like.client_id if shared else _random_like(like, chance)
        seats.append(
            replace(
                like,
                identity=f"new-{number + 1}" if not is_static else name,
                member_id="",
                group_instance_id=name if is_static else None,
                client_id=like.client_id if is_static else name,
                owned={},
            )
        )
    return Newcomers(seats=tuple(seats), guessed=is_static and counted is None)


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


def _random_like(seat: Seat, chance: random.Random) -> str:
    """A name that may sort anywhere among its peers."""
    base = seat.group_instance_id or seat.client_id
    return f"{base[: chance.randint(0, len(base))]}{chance.getrandbits(40):010x}"
