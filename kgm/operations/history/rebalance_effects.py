"""What one rebalance changed: its members, and which partitions another identity owns after it.

Between two rebalances runs a border, an offset of the group's partition. In a classic group it is the record of the
rebalance, which holds all of it. In the other groups (KIP-848 and those like it), what raises the epoch comes before
the record of the epoch, in one batch: a member that is gone has already given up its partitions there, and the border
is before that."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kgm.history.causes.verdict import GroupEventKind
from kgm.history.facts.classic_groups import CLASSIC
from kgm.history.reconstruct.classic_snapshots import ChangeKind
from kgm.history.rows import EventRow, MemberChangeRow, OwnerRow, RebalanceRow, TenureRow
from kgm.model.assignment import Move
from kgm.model.uuids import uuid_text
from kgm.operations.history.source import History

#: An offset after all records.
_END = 1 << 62
_GONE = (ChangeKind.LEFT.value, ChangeKind.REPLACED.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Holding:
    """The records from which an identity has a partition and no longer has it."""

    place: tuple[str, int]
    seat: str
    begin: int
    end: int


class RebalanceEffects:
    """changes: what happened to each member in the rebalance; moves: the partitions that have another owner at the end
    of the rebalance, just before the next one, than just before it."""

    def __init__(self, history: History, chosen: RebalanceRow) -> None:
        every = history.all_times(chosen.group_id)
        self._changes = history.tables.rows(MemberChangeRow, every)
        self._holdings = _holdings(history, chosen.group_id)
        # A rebalance ends with the next one, whether or not that is in the requested time.
        rows = sorted(history.tables.rows(RebalanceRow, every), key=lambda row: row.offset)
        before = [row for row in rows if row.offset < chosen.offset]
        after = [row for row in rows if row.offset > chosen.offset]
        last = before[-1].offset if before else -1
        self.changes: tuple[MemberChangeRow, ...] = tuple(self._changed(chosen, last))
        stop = self._border(after[0], chosen.offset) if after else _END
        self.moves = _moves(self._owners(self._border(chosen, last)), self._owners(stop))

    def _changed(self, row: RebalanceRow, last: int) -> list[MemberChangeRow]:
        """The changes that belong to a rebalance. last: the record of the one before."""
        if row.group_type == CLASSIC:
            return [change for change in self._changes if change.offset == row.offset]
        return [
            change
            for change in self._changes
            if last < change.offset <= row.offset
            and (change.timestamp == row.timestamp or _is_of_next_epoch(change, row))
        ]

    def _border(self, row: RebalanceRow, last: int) -> int:
        """The first offset that is part of a rebalance. last: the record of the one before."""
        if row.group_type == CLASSIC:
            return row.offset
        gone = [change.offset for change in self._changed(row, last) if change.kind in _GONE]
        return min(gone, default=row.offset)

    def _owners(self, border: int) -> dict[tuple[str, int], str]:
        """Who has which partition before an offset."""
        newest = {each.place: each for each in self._holdings if each.begin < border}
        return {place: each.seat for place, each in newest.items() if each.end >= border}


def _is_of_next_epoch(change: MemberChangeRow, row: RebalanceRow) -> bool:
    """Whether a change that came earlier is one of those that raised the epoch, or an epoch before it since the last
    target assignment. A process that took over an instance id raised none."""
    is_between = row.from_generation <= (change.generation or 0) < row.to_generation
    return is_between and change.kind != ChangeKind.REPLACED.value


def _holdings(history: History, group_id: str) -> Sequence[_Holding]:
    """By time."""
    every = history.all_times(group_id)
    stopped = {row.offset for row in history.tables.rows(EventRow, every) if row.event == GroupEventKind.AWAY.value}
    tenures: dict[str, list[TenureRow]] = {}
    for tenure in sorted(history.tables.rows(TenureRow, every), key=lambda row: row.from_offset):
        tenures.setdefault(tenure.member_id, []).append(tenure)
    return [
        _Holding(
            place=(topic_name(row), row.topic_partition), seat=row.seat, begin=row.from_offset,
            end=_end(row, tenures.get(row.member_id, ()), stopped),
        )
        for row in sorted(history.owners(every), key=lambda row: row.from_offset)
    ]  # fmt: skip


def _end(row: OwnerRow, tenures: Sequence[TenureRow], stopped: Collection[int]) -> int:
    """A static member that stopped has its partitions until it is gone, as the broker describes it. stopped: the
    records with which members did."""
    if row.to_offset is None or row.group_type == CLASSIC:
        return _END if row.to_offset is None else row.to_offset
    tenure = next((each for each in tenures if each.to_offset is None or each.to_offset >= row.to_offset), None)
    if tenure is None:
        return row.to_offset
    # The records of a member that is replaced go just before those of the one that replaces it.
    if row.to_offset in stopped or row.to_timestamp == tenure.to_timestamp:
        return _END if tenure.to_offset is None else tenure.to_offset
    return row.to_offset


def _moves(before: dict[tuple[str, int], str], after: dict[tuple[str, int], str]) -> tuple[Move, ...]:
    return tuple(
        Move(topic=place[0], partition=place[1], owner_before=before.get(place), owner_after=after.get(place))
        for place in sorted(before.keys() | after.keys())
        if before.get(place) != after.get(place)
    )


def topic_name(row: OwnerRow) -> str:
    """The name of a topic, or its id if the history does not have the name."""
    return row.topic or ("?" if row.topic_id is None else f"id {uuid_text(row.topic_id)}")
