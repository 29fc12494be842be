"""What a history shows last, but from before records went missing: whether it is still so is not known.

See `HistoryOrigin.unconfirmed_until`. A group, a member or an offset counts as confirmed if a later record is about
it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kgm.history.causes.verdict import GroupEventKind
from kgm.history.reconstruct.classic_snapshots import SnapshotKind
from kgm.history.rows import CommitRow, TableRow
from kgm.operations.history.source import History


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record(TableRow):
    partition: int
    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot(_Record):
    table: ClassVar[str] = "silver_snapshot"
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event(_Record):
    table: ClassVar[str] = "gold_event"
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Epoch(_Record):
    table: ClassVar[str] = "silver_group_epoch"


@dataclass(frozen=True, slots=True, kw_only=True)
class _MemberChange(_Record):
    table: ClassVar[str] = "silver_member_change"


@dataclass(frozen=True, slots=True, kw_only=True)
class _MemberState(_Record):
    table: ClassVar[str] = "silver_member_state"
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rebalance(_Record):
    table: ClassVar[str] = "gold_rebalance"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tenure(TableRow):
    table: ClassVar[str] = "silver_seat"
    partition: int
    group_type: str
    member_id: str
    from_offset: int
    to_offset: int | None


def last_confirmed(history: History, group_id: str) -> int | None:
    """The time of a group's last record, in ms since 1970, if nothing shows that the group still exists at the end of
    the requested time: the records that deleted it may be missing."""
    limits = history.tables.origin.unconfirmed_until
    if not limits:
        return None
    last: _Record | None = None
    for row in _records(history, group_id):
        if row.offset >= limits.get(row.partition, 0):
            return None
        last = row if last is None or row.offset > last.offset else last
    commit = None if last is not None and _is_removal(last) else _last_commit(history, group_id)
    if commit is not None and commit.offset >= limits.get(commit.partition, 0):
        return None
    newest = max((row for row in (last, commit) if row is not None), key=lambda row: row.offset, default=None)
    if newest is None or _is_removal(newest):
        return None
    is_later = history.until_ms is not None and newest.timestamp >= history.until_ms
    return None if is_later else newest.timestamp


def _last_commit(history: History, group_id: str) -> _Record | None:
    """The last commit or tombstone. By far the largest table: no object is made of each row."""
    names = ("partition", "offset", "timestamp")
    table = history.tables.table(CommitRow.table, history.all_times(group_id), names)
    if not len(table):
        return None
    at = int(table.column("offset").to_numpy().argmax())
    partition, offset, timestamp = (table.column(name)[at].as_py() for name in names)
    return _Record(partition=partition, offset=offset, timestamp=timestamp)


def _records(history: History, group_id: str) -> Iterator[_Record]:
    wanted = history.all_times(group_id)
    for cls in (_Snapshot, _Epoch, _MemberChange, _MemberState, _Event, _Rebalance):
        yield from history.tables.rows(cls, wanted)


def _is_removal(row: _Record) -> bool:
    """Whether it deletes the group."""
    is_tombstone = isinstance(row, _Snapshot) and row.kind == SnapshotKind.TOMBSTONE
    return is_tombstone or (isinstance(row, _Event) and row.event == GroupEventKind.REMOVED)


def unconfirmed_members(history: History, group_id: str) -> frozenset[str]:
    """The members at the end of the history that may have left: their records are from before others went missing."""
    limits = history.tables.origin.unconfirmed_until
    if not limits:
        return frozenset()
    wanted = history.all_times(group_id)
    open_tenures = [row for row in history.tables.rows(_Tenure, wanted) if row.to_offset is None]
    if last_confirmed(history, group_id) is not None:
        return frozenset(row.member_id for row in open_tenures)
    epochs = history.tables.rows(_Epoch, wanted)
    if all(row.offset < limits.get(row.partition, 0) for row in epochs):
        return frozenset()  # Each departure raises the epoch, and the last record of that is never removed.
    heard = {row.member_id: row.from_offset for row in open_tenures}
    for row in history.tables.rows(_MemberState, wanted):
        if row.member_id in heard:
            heard[row.member_id] = max(heard[row.member_id], row.offset)
    return frozenset(
        row.member_id
        for row in open_tenures
        if row.group_type == "consumer" and heard[row.member_id] < limits.get(row.partition, 0)
    )
