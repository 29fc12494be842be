"""How long kgm waits for the process of a removed member to join again, by its client library.

This is how an operator learns that the process was running: `--guard-window`, which may be short because the operator
vouches for a member, does not shorten it."""

from __future__ import annotations

from typing import Final

from kgm.clients.table import CLIENTS, possible_libraries
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.protocol.subscription import PROTOCOL_TYPE
from kgm.simulation.plan.client_library import Library
from kgm.simulation.plan.starting_group import library_of
from kgm.simulation.play.client_profiles import PROFILES

#: A member learns of its removal with its next heartbeat, by default 3 s (classic) or 5 s (KIP-848) after the last one;
#: and 1 s more.
RETURN_MS: Final = {"classic": 4_000, "consumer": 6_000}


def longest_return_ms(group: GroupSnapshot, member: MemberSnapshot) -> int:
    """How long the slowest of the libraries that a member may run on takes to join again, in ms. group: with the
    library that the operator has stated."""
    protocol = member.protocol or group.type
    until_told_ms = RETURN_MS.get(protocol, 0)
    # Members of other kinds, such as workers of Connect, run on none of the libraries that are late.
    if not until_told_ms or group.protocol_type not in (None, PROTOCOL_TYPE):
        return until_told_ms
    names = possible_libraries(library_of(group, member), is_static=member.group_instance_id is not None)
    can_be_there = [name for name in names if protocol == "classic" or CLIENTS[name].member_ids]
    return until_told_ms + round(max((PROFILES[Library(name)].late_to_return_ms for name in can_be_there), default=0.0))
