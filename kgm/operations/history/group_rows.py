"""Questions that the rows of a single table answer: rebalances, tenures, owners, alarms and advice."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Protocol, TypeVar

from kgm.history.rows import AlarmRow, AnyRow, EventRow, OwnerRow, RebalanceRow, TenureRow, TimeoutAdviceRow
from kgm.operations.history.source import History
from kgm.operations.history.unconfirmed import unconfirmed_members
from kgm.text.names import NaturalKey, natural


class _OfGroup(Protocol):
    @property
    def group_id(self) -> str: ...


GroupRow = TypeVar("GroupRow", bound=_OfGroup)


def matching(rows: Iterable[GroupRow], pattern: str | None) -> list[GroupRow]:
    """Rows of groups whose id matches a glob pattern."""
    return [row for row in rows if pattern is None or fnmatchcase(row.group_id, pattern)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenuresAndEvents:
    """Who was in a group and what happened to it. tenures: by identity, oldest first. unconfirmed: the members at the
    end that may have left, because records after theirs are missing."""

    tenures: tuple[TenureRow, ...]
    events: tuple[EventRow, ...]
    rebalances: tuple[RebalanceRow, ...]
    unconfirmed: frozenset[str] = frozenset()


def tenures_and_events(history: History, group_id: str) -> TenuresAndEvents:
    """Who was a member of a group, and what happened to it. Raises NotFoundError for a group that does not exist."""
    tenures = sorted(history.rows(TenureRow, group_id), key=lambda row: (natural(row.seat or ""), row.from_offset))
    rows = TenuresAndEvents(
        tenures=tuple(tenures), events=tuple(history.rows(EventRow, group_id)),
        rebalances=tuple(history.rebalances(group_id)), unconfirmed=unconfirmed_members(history, group_id),
    )  # fmt: skip
    if not rows.tenures and not rows.rebalances and not rows.events:
        history.require_group(group_id)
    return rows


def owners(history: History, group_id: str) -> list[OwnerRow]:
    """Who owned each partition of a group: by topic and partition, oldest first. Raises NotFoundError for a group that
    does not exist."""
    rows = sorted(history.owners(history.filter(group_id)), key=_owner_order)
    if not rows:
        history.require_group(group_id)
    return rows


def _owner_order(row: OwnerRow) -> tuple[NaturalKey, bytes, int, int]:
    return natural(row.topic or ""), row.topic_id or b"", row.topic_partition, row.from_offset


def count_moves(rows: Sequence[OwnerRow]) -> int:
    """How often a partition passed to another identity. rows: of one partition, oldest first."""
    return sum(before.seat != after.seat for before, after in pairwise(rows))


def rebalances(history: History, group_id: str | None, match: str | None) -> list[RebalanceRow]:
    """Rebalances by time. Raises NotFoundError for a group that does not exist."""
    rows = history.rebalances(group_id)
    if group_id is not None and not rows:
        history.require_group(group_id)
    return matching(rows, match)


def alarms(history: History, group_id: str | None, match: str | None) -> list[AlarmRow]:
    """Alarms by group, oldest first. Raises NotFoundError for a group that does not exist."""
    return sorted(_rows(AlarmRow, history, group_id, match), key=lambda row: (natural(row.group_id), row.offset))


def timeout_advice(history: History, group_id: str | None, match: str | None) -> list[TimeoutAdviceRow]:
    """Timeout advice, starting with what would avoid the most rebalances. Raises NotFoundError for a group that does
    not exist."""
    rows = _rows(TimeoutAdviceRow, history, group_id, match)
    return sorted(rows, key=lambda row: (-(row.saved or 0), -(row.restarts or 0), natural(row.group_id)))


def _rows(cls: type[AnyRow], history: History, group_id: str | None, match: str | None) -> list[AnyRow]:
    rows = history.rows(cls, group_id)
    if group_id is not None and not rows:
        history.require_group(group_id)
    return [row for row in rows if match is None or fnmatchcase(getattr(row, "group_id", ""), match)]
