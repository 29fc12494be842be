"""The histories of all classic groups of a partition, built piece by piece as its records arrive.

The state kept between the pieces is what a compacted log would hold: each group's last metadata record, the time of the
last commit for each partition that a group has committed, and open transactions. So that no members have to be kept in
between, each group's last record before a piece is read together with the piece."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.arrow_lists import to_list
from kgm.history.decode.raw_batch import CommitRows, GroupRecords, RawBatch, read_group_values
from kgm.history.decode.transactions import TransactionOutcome, transaction_outcomes
from kgm.history.decode.vector_cursor import Positions
from kgm.history.reconstruct.classic_snapshots import (
    GroupHistory,
    Rebalance,
    Snapshot,
    SnapshotKind,
    TopicPartition,
    snapshot,
)
from kgm.history.reconstruct.downtime import (
    NEVER,
    CountedCommits,
    Interruptions,
    LastCommits,
    first_after_rebalances,
)
from kgm.history.reconstruct.incremental_fold import IncrementalFold
from kgm.history.reconstruct.member_sets import MemberSets
from kgm.history.schema import RAW


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What a piece's records add to one group: the partition that holds it, its history, and the leader epoch of each
    of its metadata records, by offset (another epoch, another coordinator). before: the group at the start of the
    history, if that continues an earlier one."""

    group_id: str
    partition: int
    history: GroupHistory
    leader_epochs: dict[int, int | None]
    before: Snapshot | None = None


class LastRecord(NamedTuple):
    """The last metadata record of a group; value None is a tombstone."""

    offset: int
    timestamp: int
    key: bytes
    value: bytes | None
    leader_epoch: int | None


@dataclass(slots=True)
class GroupReplay:
    """The state needed to continue a group. kind, complete: of its last snapshot. gaps: how many gaps there were in the
    offsets of the partition before its last record. rebalance: the last one, if commits can still narrow it down.
    rebalanced_at, ended_at: the offsets of the last rebalance and of the last tombstone. committed: for each partition,
    the offset from which its last commit counts, and when that was written."""

    last_record: LastRecord | None = None
    kind: SnapshotKind = SnapshotKind.UNKNOWN
    complete: bool = False
    gaps: int = 0
    rebalance: Rebalance | None = None
    rebalanced_at: int = NEVER
    ended_at: int = NEVER
    committed: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)

    @property
    def last_value(self) -> bytes | None:
        """The value of the last record; None if that is a tombstone, or there is none."""
        return None if self.last_record is None else self.last_record.value


class _Straddle(NamedTuple):
    """The first commit of a partition after a rebalance: the offset from which it counts, and ms since the previous
    one."""

    visible: int
    place: TopicPartition
    gap: int


class _GroupRow(NamedTuple):
    """A metadata record in a piece. at: its row. value: its number in the member sets, -1 for a tombstone. gaps: how
    many gaps in the offsets precede it."""

    at: int
    offset: int
    timestamp: int
    leader_epoch: int | None
    value: int
    gaps: int


@dataclass(slots=True)
class PartitionReplay:
    """One partition of `__consumer_offsets`. gaps: how many gaps there are in the offsets before `next_offset`."""

    partition: int
    next_offset: int = 0
    gaps: int = 0
    groups: dict[str, GroupReplay] = field(default_factory=dict)
    #: Records of transactions that have not ended, by `schema.RAW`.
    open: pa.Table = field(default_factory=RAW.empty_table)

    def feed(self, batch: RawBatch) -> tuple[list[Timeline], Positions]:
        """(what the records add, groups by id; how many gaps in the offsets precede each record). Offsets must ascend,
        from `next_offset` or higher."""
        if not len(batch):
            return [], np.zeros(0, dtype=np.int64)
        gaps = self._count_gaps(batch.raw.column("offset").to_numpy())
        commits, raw, visible = self._commits(batch)
        piece = _Piece(self, batch, gaps)
        return list(piece.timelines(commits, raw, visible)), gaps

    def _count_gaps(self, offset: Positions) -> Positions:
        expected = np.append(self.next_offset, offset[:-1] + 1)
        counts = self.gaps + np.cumsum(offset > expected)
        self.gaps, self.next_offset = int(counts[-1]), int(offset[-1]) + 1
        return counts

    def _commits(self, batch: RawBatch) -> tuple[CommitRows, pa.RecordBatch, Positions]:
        """(the commits, the records that contain them, the offset from which each of those counts: NEVER if it does
        not, or not yet). They include records of earlier transactions that were open, because their marker may have
        arrived."""
        raw = batch.raw
        transactional = pc.any(raw.column("transactional")).as_py() or pc.any(pc.is_valid(raw.column("marker"))).as_py()
        if not transactional:
            return batch.commits(), raw, raw.column("offset").to_numpy()
        whole = pa.concat_tables([self.open, pa.Table.from_batches([raw], schema=RAW)]).combine_chunks()
        commits = _joined(RawBatch(_one_batch(self.open)).commits(), len(self.open), batch.commits())
        outcome, marker = transaction_outcomes(whole)
        is_open = outcome == TransactionOutcome.OPEN
        self.open = whole.filter(pa.array(is_open))
        offset = whole.column("offset").to_numpy()
        void = is_open | (outcome == TransactionOutcome.ABORTED)
        visible = np.where(outcome == TransactionOutcome.NONE, offset, np.where(void, NEVER, marker))
        return commits, whole.to_batches()[0], visible


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _joined(one: CommitRows, count: int, other: CommitRows) -> CommitRows:
    """The commits of two batches, the first of which has `count` records, as the commits of one batch."""
    number_of = {place: number for number, place in enumerate(one.places)}
    numbers = [number_of.setdefault(place, len(number_of)) for place in other.places]
    place = np.array(numbers, dtype=np.int64)[other.place] if numbers else other.place
    return CommitRows(
        np.concatenate((one.rows, other.rows + count)), np.concatenate((one.place, place)), list(number_of)
    )  # fmt: skip


class _Piece:
    """Processes some records of a partition."""

    def __init__(self, replay: PartitionReplay, batch: RawBatch, gaps: Positions) -> None:
        self.replay, self.batch = replay, batch
        groups = replay.groups
        earlier = {name: value for name in batch.group_ids() if (value := _last_value(groups.get(name))) is not None}
        records = batch.read_groups(list(earlier.values()))
        self.members = MemberSets(records.values)
        #: The number of each group's last value before the piece; it was read with the piece.
        self.before = dict(zip(earlier, records.earlier_of.tolist(), strict=True))
        self.rows = self._rows(records, gaps)

    def _rows(self, records: GroupRecords, gaps: Positions) -> dict[str, list[_GroupRow]]:
        """Each group's metadata records."""
        names = to_list(records.keys.field("group"))
        _, offset, timestamp, leader_epoch = map(to_list, records.plain[:4])
        rows: dict[str, list[_GroupRow]] = {}
        for key, *row in zip(
            records.key_of.tolist(), records.rows.tolist(), offset, timestamp, leader_epoch,
            records.value_of.tolist(), gaps[records.rows].tolist(), strict=True,
        ):  # fmt: skip
            rows.setdefault(names[key], []).append(_GroupRow(*row))
        return rows

    # -- what happened

    def timelines(self, commits: CommitRows, raw: pa.RecordBatch, visible: Positions) -> Iterator[Timeline]:
        straddles = self._straddles(commits, raw, visible)
        for name in sorted(self.rows):
            yield from self._group(name, self.members, self.before.get(name), straddles.get(name, []))
        # Groups without a metadata record in the piece, about which commits show more.
        groups = self.replay.groups
        others = {
            name: value
            for name in sorted(straddles.keys() - self.rows.keys())
            if (value := groups[name].last_value) is not None
        }
        values, number_of = read_group_values(list(others.values()))
        members = MemberSets(values)
        for name, before in zip(others, number_of.tolist(), strict=True):
            yield from self._group(name, members, before, straddles[name])

    def _group(
        self, name: str, members: MemberSets, before: int | None, straddles: list[_Straddle]
    ) -> Iterator[Timeline]:
        known = self.replay.groups.setdefault(name, GroupReplay())
        fold = IncrementalFold(known.rebalance)
        begin = None
        if before is not None and known.last_record is not None:
            member_set = members.member_set(before)
            begin = snapshot(
                known.last_record.offset, known.last_record.timestamp, members.headers[before],
                member_set.by_identity, kind=known.kind, complete=known.complete,
            )  # fmt: skip
            fold.begin(begin, member_set)
        waiting = iter(straddles)
        following = next(waiting, None)
        rows = self.rows.get(name, [])
        gaps = known.gaps
        for row in rows:
            while following is not None and following.visible < row.offset:
                fold.committed(following.place, members.number_of(following.place), following.gap)
                following = next(waiting, None)
            if row.value < 0:
                fold.tombstone(row.offset, row.timestamp, complete=row.gaps == gaps)
            else:
                header, member_set = members.headers[row.value], members.member_set(row.value)
                fold.value(row.offset, row.timestamp, header, member_set, complete=row.gaps == gaps)
            gaps = row.gaps
        while following is not None:
            fold.committed(following.place, members.number_of(following.place), following.gap)
            following = next(waiting, None)
        known.rebalance = fold.rebalance
        if rows:
            self._remember(known, rows[-1], fold)
        if fold.snapshots or fold.rebalances:
            epochs = {row.offset: row.leader_epoch for row in rows}
            yield Timeline(
                group_id=name, partition=self.replay.partition, history=fold.history(), leader_epochs=epochs,
                before=begin,
            )  # fmt: skip

    def _remember(self, known: GroupReplay, row: _GroupRow, fold: IncrementalFold) -> None:
        last = fold.snapshots[-1]
        key, value = (self.batch.raw.column(name)[row.at].as_py() for name in ("key", "value"))
        known.last_record = LastRecord(row.offset, row.timestamp, key, value, row.leader_epoch)
        known.kind, known.complete, known.gaps = last.kind, last.complete, row.gaps
        if known.ended_at != NEVER:
            known.committed = {place: at for place, at in known.committed.items() if at[0] > known.ended_at}

    # -- commits

    def _straddles(self, commits: CommitRows, raw: pa.RecordBatch, visible: Positions) -> Mapping[str, list[_Straddle]]:
        """The first commits of partitions after rebalances, by group. Also updates the groups' state, except for their
        metadata records."""
        names: dict[str, int] = {name: number for number, name in enumerate(self.rows)}
        groups = self.replay.groups
        numbers, known = [], []
        for group, topic, partition in commits.places:
            numbers.append(names.setdefault(group, len(names)))
            state = groups.get(group)
            known.append((NEVER, 0) if state is None else state.committed.get((topic, partition), (NEVER, 0)))
        at = np.array(known, dtype=np.int64).reshape(-1, 2)
        last = LastCommits(np.array(numbers, dtype=np.int64), at[:, 0], at[:, 1])
        states = [groups.setdefault(name, GroupReplay()) for name in names]
        interruptions = self._interruptions(states)
        counts = visible[commits.rows] != NEVER
        rows = commits.rows[counts]
        offset, timestamp = (raw.column(name).to_numpy()[rows] for name in ("offset", "timestamp"))
        counted = CountedCommits(commits.place[counts], offset, visible[rows], timestamp)
        firsts = first_after_rebalances(counted, last, interruptions)
        for (_, topic, partition), number, where, when in zip(
            commits.places, numbers, firsts.last.visible.tolist(), firsts.last.timestamp.tolist(), strict=True
        ):
            if where != NEVER:
                states[number].committed[topic, partition] = where, when
        straddles: dict[str, list[_Straddle]] = {}
        for place, where, gap in zip(firsts.place.tolist(), firsts.visible.tolist(), firsts.gap.tolist(), strict=True):
            group, topic, partition = commits.places[place]
            straddles.setdefault(group, []).append(_Straddle(where, (topic, partition), gap))
        return straddles

    def _interruptions(self, states: list[GroupReplay]) -> Interruptions:
        group, offset, is_end = [], [], []
        for number, (name, rows) in enumerate(self.rows.items()):
            before = self.before.get(name)
            generation = None if before is None else self.members.headers[before].generation
            for row in rows:
                now = None if row.value < 0 else self.members.headers[row.value].generation
                if now is None or generation not in (None, now):
                    group.append(number)
                    offset.append(row.offset)
                    is_end.append(now is None)
                generation = now
        interruptions = Interruptions(
            np.array(group, dtype=np.int64),
            np.array(offset, dtype=np.int64),
            np.array(is_end, dtype=np.bool_),
            np.array([state.rebalanced_at for state in states], dtype=np.int64),
            np.array([state.ended_at for state in states], dtype=np.int64),
        )
        for number, where, ended in zip(group, offset, is_end, strict=True):
            if ended:
                states[number].ended_at = where
            else:
                states[number].rebalanced_at = where
        return interruptions


def _last_value(group: GroupReplay | None) -> bytes | None:
    return None if group is None else group.last_value
