"""What a member's client library implies about how the member left, and about a leader that rejoined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kgm.clients.recognition import recognise, recorded_evidence
from kgm.clients.table import CLIENTS, leaving_when_unsubscribed
from kgm.history.reconstruct.classic_snapshots import Snapshot
from kgm.model.client_library import JAVA, ClientLibrary
from kgm.protocol.subscription import PROTOCOL_TYPE

#: Libraries whose static members may leave when they are closed, though they usually do not: Java if configured to
#: (KIP-1092), franz-go if it still has to rejoin after a revocation.
_MAY_LEAVE: Final = frozenset((JAVA, "franz-go"))


def libraries_of(group_id: str, snapshot: Snapshot) -> Mapping[str, ClientLibrary]:
    """The library of each member, by identity; empty for a group that is not a consumer group."""
    if snapshot.protocol_type != PROTOCOL_TYPE:
        return {}
    evidence = [recorded_evidence(member.record) for member in snapshot.members.values()]
    return dict(zip(snapshot.members, recognise(group_id, snapshot.protocol, evidence).members, strict=True))


def leaves_when_closed(library: ClientLibrary | None, *, is_classic: bool) -> bool | None:
    """Whether a static member leaves when it is closed. None if it may or may not."""
    names = library.candidates if library is not None else ()
    if leaving_when_unsubscribed(library, is_classic=is_classic):
        return None
    if not names or not all(name in CLIENTS for name in names):
        return None
    leaving = {CLIENTS[name].leaves_when_static for name in names}
    return None if len(leaving) > 1 or not _MAY_LEAVE.isdisjoint(names) else leaving.pop()


def rejoins_after_restart(library: ClientLibrary, assignor: str | None) -> bool:
    """Whether the static leader of a group, once restarted, may recompute the assignment and start a rebalance."""
    return library.name in CLIENTS and assignor not in CLIENTS[library.name].silent_leaders
