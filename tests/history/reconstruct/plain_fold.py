"""Folds the records of one group into its history the obvious way: the reference for `incremental_fold`."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kgm.history.reconstruct.classic_snapshots import (
    Difference,
    GroupHistory,
    Header,
    MemberChange,
    OffsetGaps,
    Rebalance,
    Snapshot,
    SnapshotKind,
    TopicPartition,
    can_be_timed,
    changes_between,
    kind_of,
    member_of,
    rebalance_between,
    snapshot,
    timed,
    tombstone,
)
from kgm.records.messages.group_metadata_value import GroupMetadataValue


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataRecord:
    """A GroupMetadata record; value None is a tombstone. timestamp: of the record, in ms."""

    offset: int
    timestamp: int
    value: GroupMetadataValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommitRecord:
    """An offset commit of the group that counts (tombstones and aborted ones do not). timestamp: of the record, in ms.
    A fold expects it where it begins to count, after the marker if it was in a transaction; `offset` is its own."""

    offset: int
    timestamp: int
    topic: str
    partition: int


def gaps_between(offsets: Iterable[int]) -> OffsetGaps:
    """The gaps between the ascending offsets of all records of the partition, transaction markers included."""
    starts, ends, expected = [], [], 0
    for offset in offsets:
        if offset != expected:
            starts.append(expected)
            ends.append(offset)
        expected = offset + 1
    return OffsetGaps(tuple(starts), tuple(ends))


def fold(records: Iterable[GroupMetadataRecord | GroupCommitRecord], gaps: OffsetGaps) -> GroupHistory:
    """The history of one group. records: by ascending offset; gaps: of the partition that holds them."""
    state = _Fold(gaps)
    for record in records:
        match record:
            case GroupMetadataRecord():
                state.metadata(record)
            case GroupCommitRecord():
                state.commit(record)
    return state.history()


@dataclass(slots=True)
class _Fold:
    gaps: OffsetGaps
    snapshots: list[Snapshot] = field(default_factory=list)
    changes: list[MemberChange] = field(default_factory=list)
    rebalances: list[Rebalance] = field(default_factory=list)
    last_offset: int = -1
    #: The offset of the last rebalance or tombstone, -1 if there is none.
    turned_at: int = -1
    committed_at: dict[TopicPartition, int] = field(default_factory=dict)
    #: Whether commits can still narrow down the last rebalance; and, for each partition not committed since that
    #: rebalance, when it was last committed before it.
    open_rebalance: bool = False
    before: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def previous(self) -> Snapshot | None:
        """The group before the next record; None if there was none, or it is not known."""
        if not self.snapshots or self.snapshots[-1].kind is SnapshotKind.TOMBSTONE:
            return None
        return self.snapshots[-1]

    def metadata(self, record: GroupMetadataRecord) -> None:
        complete = not self.gaps.within(self.last_offset, record.offset)
        self.last_offset = record.offset
        if record.value is None:
            self.tombstone(record, complete=complete)
        else:
            self.value(record, record.value, complete=complete)

    def tombstone(self, record: GroupMetadataRecord, *, complete: bool) -> None:
        generation = -1 if self.previous is None else self.previous.generation
        self.snapshots.append(tombstone(record.offset, record.timestamp, generation, complete=complete))
        # Everything after it is a new group with this id.
        self.turned_at, self.committed_at, self.before, self.open_rebalance = record.offset, {}, {}, False

    def value(self, record: GroupMetadataRecord, value: GroupMetadataValue, *, complete: bool) -> None:
        previous = self.previous
        members = {each.identity: each for each in (member_of(each, value.protocol_type) for each in value.members)}
        difference = Difference({} if previous is None else previous.members, members)
        header = Header(
            value.protocol_type, value.generation, value.protocol, value.leader, value.current_state_timestamp
        )
        kind = kind_of(header, previous, difference, members=bool(members), complete=complete)
        new = snapshot(record.offset, record.timestamp, header, members, kind=kind, complete=complete)
        self.snapshots.append(new)
        if previous is None:
            return
        self.changes += changes_between(previous, new, difference)
        if new.generation != previous.generation:
            self.rebalances.append(rebalance_between(previous, new, difference))
            self.turned_at, self.before = record.offset, dict(self.committed_at)
            self.open_rebalance = can_be_timed(new)

    def commit(self, record: GroupCommitRecord) -> None:
        if record.offset < self.turned_at:
            return  # its transaction began before a rebalance and ended after it: it says nothing about the stop
        place = record.topic, record.partition
        since = self.before.pop(place, None)
        if since is not None and self.open_rebalance and place in self.snapshots[-1].owners:
            self.rebalances[-1] = timed(self.rebalances[-1], record.timestamp - since)
        self.committed_at[place] = record.timestamp

    def history(self) -> GroupHistory:
        return GroupHistory(tuple(self.snapshots), tuple(self.changes), tuple(self.rebalances), self.previous)
