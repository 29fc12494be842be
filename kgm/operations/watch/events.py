"""What happens to a watched group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kgm.model.assignment import Move
from kgm.model.snapshot import GroupSnapshot
from kgm.text.wording import state_text


class EventKind(StrEnum):
    """The kinds of events; the values appear in JSON."""

    WATCHING = "watching"
    ABSENT = "absent"
    GONE = "gone"
    UNREACHABLE = "unreachable"
    REACHABLE = "reachable"
    NOTE = "note"
    JOINED = "joined"
    LEFT = "left"
    REPLACED = "replaced"
    AWAY = "away"
    BACK = "back"
    SUBSCRIPTION = "subscription"
    MOVED = "moved"
    GENERATION = "generation"
    EPOCH = "epoch"
    COORDINATOR = "coordinator"
    LAG = "lag"
    # Values of the group, named as in a snapshot.
    TYPE = "type"
    STATE = "state"
    ASSIGNOR = "assignor"
    SESSION_TIMEOUT = "session_timeout_ms"
    REBALANCE_TIMEOUT = "rebalance_timeout_ms"
    # How a watch ends.
    STABLE = "stable"
    BREACH = "breach"
    ENDED = "ended"


#: Events that do not interrupt a quiet period.
HARMLESS: Final = frozenset({
    EventKind.LAG, EventKind.COORDINATOR, EventKind.REACHABLE, EventKind.WATCHING, EventKind.NOTE, EventKind.STABLE,
    EventKind.BREACH, EventKind.ENDED,
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvent:
    """One event. at_ms: when it was seen; written_at_ms: when the coordinator recorded it, if its log has that.

    before, after: the old and the new value."""

    at_ms: int
    group_id: str
    kind: EventKind
    text: str
    written_at_ms: int | None = None
    identity: str | None = None
    member_id: str | None = None
    member_id_before: str | None = None
    before: str | int | None = None
    after: str | int | None = None
    moves: tuple[Move, ...] = ()


def watching_text(group: GroupSnapshot) -> str:
    """The group when the watch begins: `classic  Stable  range  generation 4  2 members, 2 static  lag 0`."""
    epoch = None if group.assignment_epoch is None else f"epoch {group.assignment_epoch}"
    return state_text(group, epoch) + ("" if group.lag is None else f"  lag {group.lag}")
