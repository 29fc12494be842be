"""A group as the embedded server's coordinator sees it, for tests with real clients."""

from __future__ import annotations

from typing import Any

from kgm.server.net.event_loop import WallClock
from tests.waiting import until


def group(server: Any, group_id: str = "g") -> Any:
    """The group that the coordinator has now, or None."""
    return server.inspect(lambda view: view.group(group_id))


def session_end_ms(view: Any, member_id: str) -> int:
    """When the coordinator will expire a member of a classic group that sends no further heartbeat, by its clock."""
    return next(member.session_deadline_ms for member in view.members if member.member_id == member_id)


def now_ms() -> int:
    """The time on the clock of embedded servers."""
    return WallClock().now()


def wait_heartbeats(server: Any, count: int = 5, group_id: str = "g") -> None:
    """Wait until each member of a classic group has sent `count` heartbeats in one generation: a member that wants to
    join again does so sooner. Each heartbeat moves the end of the member's session."""
    ends: dict[str, set[int]] = {}
    seen = None

    def heartbeats() -> int:
        nonlocal seen
        view = group(server, group_id)
        if (view.generation, view.state) != seen:
            seen = view.generation, view.state
            ends.clear()
        for member in view.members:
            ends.setdefault(member.member_id, set()).add(member.session_deadline_ms)
        return min(map(len, ends.values())) - 1

    until(heartbeats, "the members do not heartbeat", accept=lambda fewest: fewest >= count)
