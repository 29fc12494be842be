"""What happens to a watched group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kgm.model.assignment import Move


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
