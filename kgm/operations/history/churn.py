"""Which groups rebalance most, and which members cause it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from kgm.history.facts.daily_totals import is_unbounded
from kgm.history.row_parts import CauseCount, Who
from kgm.history.rows import RebalanceRow, TableRow
from kgm.operations.history.gaps import incomplete_groups
from kgm.operations.history.group_rows import matching
from kgm.operations.history.source import History, in_order

_HOUR_MS, _LEAST_MS = 3_600_000, 60_000
#: Causes that no member is responsible for: the second half of a rebalance.
_WITHOUT_CULPRIT = frozenset({"cooperative-round", "probing", "delay-ended"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnRebalance(TableRow):
    """The columns of a rebalance that are used here."""

    table: ClassVar[str] = "gold_rebalance"
    partition: int
    offset: int
    timestamp: int
    group_id: str
    group_type: str
    cause: str
    who: tuple[Who, ...]
    moved: int | None
    lost_rounds: int | None
    members_after: int | None
    stopped_partition_ms_min: int | None
    stopped_partition_ms_max: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restart(TableRow):
    table: ClassVar[str] = "gold_restart"
    timestamp: int
    group_id: str
    absorbed: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChurn:
    """How much a group rebalances. per_hour: from its first rebalance to its last; None if that time is too short to be
    meaningful. stopped_partition_ms: time without a consumer, summed over partitions, as far as the log bounds it; the
    maximum is None if it gives none for one of the rebalances. absorbed: how many restarts of static members caused no
    rebalance."""

    group_id: str
    group_type: str | None
    rebalances: int
    per_hour: float | None
    first_ms: int | None
    last_ms: int | None
    causes: tuple[CauseCount, ...]
    lost_rounds: int
    moved: int
    stopped_partition_ms_min: int | None
    stopped_partition_ms_max: int | None
    absorbed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """A member that was involved in rebalances of a group. who: its instance id; for dynamic members on one host their
    client id, because each start gets a new member id."""

    group_id: str
    who: str
    client_host: str | None
    rebalances: int
    causes: tuple[CauseCount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn:
    """The ranking. groups: most rebalances first; culprits: likewise. total: the number of groups before the limit.
    incomplete: the groups in which a gap may hide rebalances, by id."""

    groups: tuple[GroupChurn, ...]
    culprits: tuple[Culprit, ...]
    total: int
    incomplete: tuple[str, ...] = ()


def rank_churn(history: History, *, match: str | None = None, limit: int | None = None) -> Churn:
    """Rank the groups whose id matches a pattern. limit: the maximum number of groups returned."""
    # Explaining rebalances with brokers' logs needs all columns.
    rows: _Rows = (
        matching(history.rebalances(), match) if history.broker_logs else matching(_rebalances(history), match)
    )
    restarts = matching(history.rows(_Restart), match)
    groups = _groups(rows, restarts)
    shown = groups if limit is None else groups[:limit]
    names = {each.group_id for each in shown}
    return Churn(
        groups=tuple(shown), culprits=tuple(each for each in _culprits(rows) if each.group_id in names),
        total=len(groups), incomplete=tuple(incomplete_groups(history, match=match)),
    )  # fmt: skip


def _rebalances(history: History) -> list[ChurnRebalance]:
    return in_order(history.rows(ChurnRebalance))


_Rows = Sequence[RebalanceRow | ChurnRebalance]


def _groups(rows: _Rows, restarts: Iterable[_Restart]) -> list[GroupChurn]:
    absorbed = Counter(row.group_id for row in restarts if row.absorbed)
    by_group: dict[str, list[RebalanceRow | ChurnRebalance]] = {}
    for row in rows:
        by_group.setdefault(row.group_id, []).append(row)
    groups = [_group(group, by_group.get(group, []), absorbed[group]) for group in {*by_group, *absorbed}]
    return sorted(groups, key=lambda each: (-each.rebalances, -each.lost_rounds, each.group_id))


def _group(group_id: str, rows: _Rows, absorbed: int) -> GroupChurn:
    times = [row.timestamp for row in rows]
    first, last = min(times, default=None), max(times, default=None)
    length = 0 if first is None or last is None else last - first
    return GroupChurn(
        group_id=group_id, group_type=rows[0].group_type if rows else None, rebalances=len(rows),
        per_hour=round((len(rows) - 1) * _HOUR_MS / length, 3) if length >= _LEAST_MS else None,
        first_ms=first, last_ms=last, causes=_counts(Counter(row.cause for row in rows)),
        lost_rounds=sum(row.lost_rounds or 0 for row in rows), moved=sum(row.moved or 0 for row in rows),
        stopped_partition_ms_min=_sum(row.stopped_partition_ms_min for row in rows),
        stopped_partition_ms_max=None if any(map(is_unbounded, rows)) else _sum(
            row.stopped_partition_ms_max for row in rows
        ),
        absorbed=absorbed,
    )  # fmt: skip


def _counts(counts: Counter[str]) -> tuple[CauseCount, ...]:
    return tuple(CauseCount(cause=cause, count=count) for cause, count in counts.most_common())


def _sum(values: Iterable[int | None]) -> int | None:
    """The sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _culprits(rows: _Rows) -> list[Culprit]:
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for row in rows:
        if row.cause in _WITHOUT_CULPRIT:
            continue
        # A dynamic member gets a new id with every start; its client id and host stay the same.
        named = {
            (each.seat, "") if each.seat != each.member_id else (each.client_id or "", each.client_host or "")
            for each in row.who
        }
        for who, host in named:
            counts.setdefault((row.group_id, who or "?", host), Counter())[row.cause] += 1
    culprits = [
        Culprit(group_id=group_id, who=who, client_host=host or None, rebalances=causes.total(), causes=_counts(causes))
        for (group_id, who, host), causes in counts.items()
    ]
    return sorted(culprits, key=lambda each: (-each.rebalances, each.group_id, each.who))
