"""Which groups of a history have a gap: compaction removed records, so rebalances may be missing that have no row.

A rebalance has a row only if records from before it are left. Where a group has none after a gap, no row says that
anything is missing, so each record says it itself: see `SnapshotRow.contiguous` and `GroupEpochRow.complete`."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import ClassVar

from kgm.history.rows import TableRow
from kgm.operations.history.source import History


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupRecord(TableRow):
    partition: int
    offset: int
    timestamp: int
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot(_GroupRecord):
    table: ClassVar[str] = "silver_snapshot"
    contiguous: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Epoch(_GroupRecord):
    table: ClassVar[str] = "silver_group_epoch"
    epoch: int
    assignment_epoch: int | None
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rebalance(_GroupRecord):
    table: ClassVar[str] = "gold_rebalance"
    from_generation: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _MemberState(TableRow):
    table: ClassVar[str] = "silver_member_state"
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gap:
    """before: the time of the group's last record before the gap, in ms; None if there is none. after: of the first one
    after it."""

    group_id: str
    before: int | None
    after: int


def incomplete_groups(history: History, group_id: str | None = None, match: str | None = None) -> dict[str, int]:
    """The groups in which a gap may hide what happened within the requested time, by id, and from when on nothing is
    missing, in ms since 1970. group_id: only this one; match: only those whose id matches the pattern."""
    found: dict[str, int] = {}
    for gap in _gaps(history, group_id):
        starts_late = history.until_ms is not None and gap.before is not None and gap.before >= history.until_ms
        ends_early = history.since_ms is not None and gap.after < history.since_ms
        if not starts_late and not ends_early and (match is None or fnmatchcase(gap.group_id, match)):
            found[gap.group_id] = max(gap.after, found.get(gap.group_id, gap.after))
    return dict(sorted(found.items()))


def _gaps(history: History, group_id: str | None) -> Iterator[_Gap]:
    wanted = history.all_times(group_id)
    rebalances = history.tables.rows(_Rebalance, wanted)
    contiguous = {(row.partition, row.offset): row.complete for row in rebalances}
    steps: list[tuple[_GroupRecord, bool]] = [
        # A lower generation is that of a new group with this id; the end of the previous one is gone.
        *(
            (row, row.contiguous is not False and contiguous.get((row.partition, row.offset), True))
            for row in history.tables.rows(_Snapshot, wanted)
        ),
        *_epoch_steps(history.tables.rows(_Epoch, wanted), rebalances),
    ]
    by_group: dict[str, list[tuple[_GroupRecord, bool]]] = {}
    for row, is_known in steps:
        by_group.setdefault(row.group_id, []).append((row, is_known))
    for name, of_group in by_group.items():
        ordered = sorted(of_group, key=lambda each: each[0].offset)
        if not ordered[0][1]:
            yield _Gap(group_id=name, before=None, after=ordered[0][0].timestamp)
        for (before, _), (row, is_known) in pairwise(ordered):
            if not is_known:
                yield _Gap(group_id=name, before=before.timestamp, after=row.timestamp)
    yield from _before_tombstones(history, group_id, by_group)


def _epoch_steps(epochs: Iterable[_Epoch], rebalances: Iterable[_Rebalance]) -> Iterator[tuple[_Epoch, bool]]:
    """Whether nothing is missing before each epoch. From the first gap on, no epoch is complete from the group's
    beginning; what is complete is the step to the rebalance that it is a part of, or will be."""
    of_group: dict[str, list[_Rebalance]] = {}
    for rebalance in sorted(rebalances, key=lambda row: row.offset):
        of_group.setdefault(rebalance.group_id, []).append(rebalance)
    offsets = {name: [row.offset for row in rows] for name, rows in of_group.items()}
    seen: set[str] = set()
    begun: set[tuple[str, int]] = set()
    for row in sorted(epochs, key=lambda row: row.offset):
        is_waiting = row.assignment_epoch is None and row.group_id in seen
        seen.add(row.group_id)
        ends = of_group.get(row.group_id, [])
        place = bisect_left(offsets.get(row.group_id, []), row.offset)
        part = ends[place] if place < len(ends) else None
        if part is None or part.from_generation >= row.epoch:
            yield row, row.complete or is_waiting
        else:  # a gap in a rebalance is before its first epoch that is left
            yield row, row.complete or part.complete or (row.group_id, part.offset) in begun
            begun.add((row.group_id, part.offset))


def _before_tombstones(history: History, group_id: str | None, with_epochs: Collection[str]) -> Iterator[_Gap]:
    """The gaps of consumer groups of which only the tombstones of members are left, and none of their epochs."""
    table = history.tables.table(_MemberState.table, history.all_times(group_id), ["group_id"])
    for name in table.column("group_id").unique().to_pylist():
        if name not in with_epochs:
            rows = history.tables.rows(_MemberState, history.all_times(name))
            yield _Gap(group_id=name, before=None, after=max(row.timestamp for row in rows))
