"""The timeouts of members: the ones that are known, or what is assumed."""

from collections.abc import Sequence

from kgm.clients.table import CLIENTS
from kgm.model.errors import UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.text.wording import many

#: Defaults of Kafka's clients.
SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 300_000


def usual_timeouts(snapshot: GroupSnapshot) -> tuple[int, int]:
    """(session timeout, rebalance timeout): the defaults of the libraries of a classic group; if they differ, the
    shortest session timeout and the longest rebalance timeout."""
    libraries = {None if one.client_library is None else one.client_library.name for one in snapshot.members}
    if snapshot.type != "classic" or not libraries or not libraries <= CLIENTS.keys():
        return SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS
    known = [CLIENTS[name] for name in libraries if name is not None]
    return min(one.session_timeout_ms for one in known), max(one.rebalance_timeout_ms for one in known)


def timeouts_of(
    supposed: int | None, seen: Sequence[int | None], default: int, what: str, caveats: list[str]
) -> list[int]:  # fmt: skip
    """The timeout of each member: the one from the what-if, or the observed one, or the default."""
    if supposed is not None:
        return [supposed] * len(seen)
    known = [ms for ms in seen if ms is not None]
    if min(known, default=1) < 1:
        raise UsageError(f"the {what} timeout in the snapshot is {min(known)}; the minimum is 1")
    if len(known) < len(seen):
        assumed = f"{default // 1000} s is assumed (set it with --{what}-timeout)"
        of = f" of {many(len(seen) - len(known), 'member')}" if known else ""
        caveats.append(f"the {what} timeout{of} is not in the snapshot: {assumed}")
    return [default if ms is None else ms for ms in seen]
