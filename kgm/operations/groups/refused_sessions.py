"""Members of a classic group whose session timeout the broker does not allow any more. They stay while the group is
stable; when it rebalances, their JoinGroup is refused, and they lose what they own (GroupCoordinator.handleJoinGroup,
GroupCoordinatorService.joinGroup)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kgm.model.snapshot import MemberSnapshot
from kgm.text.durations import show_duration

#: The broker's limits of the session timeouts of classic members.
MIN_SESSION: Final = "group.min.session.timeout.ms"
MAX_SESSION: Final = "group.max.session.timeout.ms"


def refused_members(
    members: Iterable[MemberSnapshot], sessions_ms: Mapping[str, int], lowest_ms: int | None, longest_ms: int | None
) -> list[MemberSnapshot]:
    """Those that a broker with these limits, in ms, refuses when they join again. sessions_ms: session timeouts by
    member id. What is not known (missing, or None) refuses nobody."""
    return [
        member
        for member in members
        if (session_ms := sessions_ms.get(member.member_id)) is not None
        and ((lowest_ms is not None and session_ms < lowest_ms) or (longest_ms is not None and session_ms > longest_ms))
    ]


def limits_text(lowest_ms: int | None, longest_ms: int | None) -> str:
    """The limits in words, without those that are not known."""
    limits = [("at least", MIN_SESSION, lowest_ms), ("at most", MAX_SESSION, longest_ms)]
    texts = [f"{which} {show_duration(ms)} ({name})" for which, name, ms in limits if ms is not None]
    return f"the broker allows session timeouts of {' and '.join(texts)}"


def sessions_text(members: Iterable[MemberSnapshot], sessions_ms: Mapping[str, int]) -> str:
    """The different session timeouts of these members, shortest first: `30s, 45s`."""
    return ", ".join(map(show_duration, sorted({sessions_ms[member.member_id] for member in members})))
