"""A time in which the coordinator's log could not be read: meanwhile, descriptions show what happens, and afterwards
the log tells all of it again, and what they have missed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kgm.model.snapshot import GroupSnapshot
from kgm.operations.watch.events import EventKind, GroupEvent

#: Events that descriptions and the log both tell.
_TOLD_TWICE: Final = frozenset({
    EventKind.JOINED, EventKind.LEFT, EventKind.REPLACED, EventKind.SUBSCRIPTION, EventKind.MOVED
})  # fmt: skip
#: An event without what only one of the two knows, such as the partitions that a member had owned.
_Told: TypeAlias = tuple[EventKind, str | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """What was known at the end of the log: records that follow it are counted from here."""

    members: GroupSnapshot | None
    owners: GroupSnapshot | None
    consumers: Mapping[tuple[str, int], str]
    handovers: int


@dataclass(slots=True, kw_only=True)
class LogGap:
    """before: where the log continues once it can be read; None once it has. told: what descriptions have shown."""

    before: LogState | None
    told: list[_Told] = field(default_factory=list)

    def tell(self, events: Iterable[GroupEvent]) -> None:
        self.told += [_told(event) for event in events if event.kind in _TOLD_TWICE]

    def untold(self, events: Iterable[GroupEvent]) -> list[GroupEvent]:
        """The events that have not been told; each one that has been is left out once."""
        new = []
        for event in events:
            if event.kind in _TOLD_TWICE and _told(event) in self.told:
                self.told.remove(_told(event))
            else:
                new.append(event)
        return new


def _told(event: GroupEvent) -> _Told:
    return event.kind, event.identity, event.text if event.member_id is None else event.member_id
