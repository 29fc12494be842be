"""What a history shows last, but from before records went missing: whether it is still so is not known.

See `HistoryOrigin.unconfirmed_until`. A group, a member or an offset counts as confirmed if a later record is about
it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

from kgm.history.causes.verdict import GroupEventKind
from kgm.history.reconstruct.classic_snapshots import SnapshotKind
from kgm.history.rows import (
    CommitRow,
    EventRow,
    GroupEpochRow,
    MemberChangeRow,
    MemberStateRow,
    RebalanceRow,
    SnapshotRow,
    TableRow,
    TenureRow,
)
from kgm.operations.history.source import History

#: The tables with a row for each of a group's records, apart from commits, and where a row says that it deletes the
#: group: in which column, and how.
_RECORDS: Final[dict[type[TableRow], tuple[str, str] | None]] = {
    SnapshotRow: ("kind", SnapshotKind.TOMBSTONE),
    GroupEpochRow: None,
    MemberChangeRow: None,
    MemberStateRow: None,
    EventRow: ("event", GroupEventKind.REMOVED),
    RebalanceRow: None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """A record of a group. is_removal: whether it deletes the group."""

    partition: int
    offset: int
    timestamp: int
    is_removal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _MemberState(TableRow):
    """The columns of a member's state that show when it was heard of."""

    table: ClassVar[str] = MemberStateRow.table
    offset: int
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tenure(TableRow):
    """The columns of a tenure that show whether it has ended."""

    table: ClassVar[str] = TenureRow.table
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
    last = _newest(_last(history, group_id, table) for table in _RECORDS)
    if last is None or not (last.is_removal or last.offset >= limits.get(last.partition, 0)):
        last = _newest([last, _last(history, group_id, CommitRow)])
    if last is None or last.is_removal or last.offset >= limits.get(last.partition, 0):
        return None
    is_later = history.until_ms is not None and last.timestamp >= history.until_ms
    return None if is_later else last.timestamp


def _newest(records: Iterable[_Record | None]) -> _Record | None:
    return max((one for one in records if one is not None), key=lambda one: one.offset, default=None)


def _last(history: History, group_id: str, cls: type[TableRow]) -> _Record | None:
    """The last record of a group that has a row in the table; all records of a group are in one partition. A table can
    be large: no object is made of each row."""
    removal = _RECORDS.get(cls)
    names = ("partition", "offset", "timestamp", *(() if removal is None else removal[:1]))
    table = history.tables.table(cls.table, history.all_times(group_id), names)
    if not len(table):
        return None
    at = int(table.column("offset").to_numpy().argmax())
    partition, offset, timestamp, *what = (table.column(name)[at].as_py() for name in names)
    is_removal = removal is not None and what == [removal[1]]
    return _Record(partition=partition, offset=offset, timestamp=timestamp, is_removal=is_removal)


def unconfirmed_members(history: History, group_id: str) -> frozenset[str]:
    """The members at the end of the history that may have left: their records are from before others went missing."""
    limits = history.tables.origin.unconfirmed_until
    if not limits:
        return frozenset()
    wanted = history.all_times(group_id)
    open_tenures = [row for row in history.tables.rows(_Tenure, wanted) if row.to_offset is None]
    if last_confirmed(history, group_id) is not None:
        return frozenset(row.member_id for row in open_tenures)
    epoch = _last(history, group_id, GroupEpochRow)
    if epoch is None or epoch.offset < limits.get(epoch.partition, 0):
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
