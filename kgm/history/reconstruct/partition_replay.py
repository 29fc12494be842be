"""The histories of all groups of a partition, told piece by piece as its records come in.

What is kept between the pieces is what a compacted log would hold: of each group its last metadata record, of each
partition that it has committed when that was last, and transactions that are open. So that nothing has to be known of
the members in between, the last record of each group that occurs in a piece is read with the piece again."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.arrow_lists import listed
from kgm.history.decode.record_tables import commit_rows, group_rows
from kgm.history.decode.transactions import ABORTED, NONE, OPEN, fates
from kgm.history.decode.vector_cursor import Positions
from kgm.history.reconstruct import downtime
from kgm.history.reconstruct.classic_snapshots import History, Kind, Partition, Rebalance, Snapshot, snapshot
from kgm.history.reconstruct.incremental_fold import Steps
from kgm.history.reconstruct.member_sets import Rosters
from kgm.history.schema import RAW


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One group: the partition that holds it, its history, and the leader epoch of each of its metadata records by
    offset (another epoch, another coordinator). before: the group as the history finds it, if that goes on from another
    one."""

    group_id: str
    partition: int
    history: History
    leader_epochs: dict[int, int | None]
    before: Snapshot | None = None


class Written(NamedTuple):
    """A metadata record; value None is a tombstone."""

    offset: int
    timestamp: int
    key: bytes
    value: bytes | None
    leader_epoch: int | None


@dataclass(slots=True)
class Known:
    """What is known of a group so far. kind, complete: of its last snapshot. gaps: how many there were in the offsets
    of the partition up to it. rebalance: the last one, if commits can tell more of it. rebalanced_at, ended_at: where
    the last rebalance and the last tombstone are. committed: of its partitions, where their last commit counts from,
    and when it was written."""

    written: Written | None = None
    kind: Kind = Kind.UNKNOWN
    complete: bool = False
    gaps: int = 0
    rebalance: Rebalance | None = None
    rebalanced_at: int = downtime.NEVER
    ended_at: int = downtime.NEVER
    committed: dict[Partition, tuple[int, int]] = field(default_factory=dict)

    @property
    def alive(self) -> Written | None:
        """Its last record, if that is no tombstone."""
        return self.written if self.written is not None and self.written.value is not None else None


class _Row(NamedTuple):
    """A metadata record in a piece. number: of its value in the rosters, or -1 for a tombstone. gaps: in the offsets up
    to it."""

    at: int
    offset: int
    timestamp: int
    leader_epoch: int | None
    number: int
    gaps: int


@dataclass(slots=True)
class Teller:
    """One partition of `__consumer_offsets`."""

    partition: int
    next_offset: int = 0
    gaps: int = 0
    groups: dict[str, Known] = field(default_factory=dict)
    #: Records of transactions without an end, by `schema.RAW`.
    open: pa.Table = field(default_factory=RAW.empty_table)

    def feed(self, batch: pa.RecordBatch) -> Iterator[Timeline]:
        """What records of the partition add, offsets rising and none before `next_offset`: groups by id."""
        if not len(batch):
            return
        gaps = self._count_gaps(batch.column("offset").to_numpy())
        piece = _Piece(self, batch, gaps)
        commits, visible = self._commits(batch)
        yield from piece.tell(commits, visible)

    def _count_gaps(self, offset: Positions) -> Positions:
        """How many gaps there are before each record, from the beginning of the log on."""
        expected = np.append(self.next_offset, offset[:-1] + 1)
        found = self.gaps + np.cumsum(offset > expected)
        self.gaps, self.next_offset = int(found[-1]), int(offset[-1]) + 1
        return found

    def _commits(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Positions]:
        """The records that commits may be among, and where each counts from (NEVER if it does not, or not yet)."""
        transactional = (
            pc.any(batch.column("transactional")).as_py() or pc.any(pc.is_valid(batch.column("marker"))).as_py()
        )
        if not transactional:
            return batch, batch.column("offset").to_numpy()
        whole = pa.concat_tables([self.open, pa.Table.from_batches([batch], schema=RAW)]).combine_chunks()
        fate, marker = fates(whole)
        self.open = whole.filter(pa.array(fate == OPEN))
        offset = whole.column("offset").to_numpy()
        # What was open before is in here for its commits that count from now on.
        visible = np.where(fate == NONE, offset, np.where((fate == OPEN) | (fate == ABORTED), downtime.NEVER, marker))
        return whole.to_batches()[0], visible


class _Piece:
    """Some records on their way through."""

    def __init__(self, teller: Teller, batch: pa.RecordBatch, gaps: Positions) -> None:
        self.teller, self.batch = teller, batch
        self.rows, values = self._rows(gaps)
        #: The number of each group's last record before the piece, which is read with it.
        self.before: dict[str, int] = {}
        self.rosters = self._rosters(values, list(self.rows))
        for name, rows in self.rows.items():
            self.rows[name] = [row for row in rows if row.number < 0 or self.rosters.good[row.number]]
        self.rows = {name: rows for name, rows in self.rows.items() if rows}

    def _rows(self, gaps: Positions) -> tuple[dict[str, list[_Row]], pa.Array]:
        """(each group's metadata records, the values of all that are no tombstones)."""
        groups = group_rows(self.batch)
        chosen = self.batch.select(["offset", "timestamp", "leader_epoch", "value"])
        if len(groups.rows) < len(chosen):
            chosen = chosen.take(pa.array(groups.rows))
        values = chosen.column("value")
        tombstone = values.is_null().to_numpy(zero_copy_only=False)
        number = np.where(tombstone, -1, np.cumsum(~tombstone) - 1)
        rows: dict[str, list[_Row]] = {}
        for group, *row in zip(
            groups.group.tolist(), groups.rows.tolist(), listed(chosen.column("offset")),
            listed(chosen.column("timestamp")), listed(chosen.column("leader_epoch")), number.tolist(),
            gaps[groups.rows].tolist(), strict=True,
        ):  # fmt: skip
            rows.setdefault(groups.names[group], []).append(_Row(*row))
        return rows, values.drop_null() if tombstone.any() else values

    def _rosters(self, values: pa.Array, names: list[str]) -> Rosters:
        known = self.teller.groups
        earlier: list[bytes | None] = []
        for name in names:
            written = known[name].alive if name in known else None
            if written is not None:
                self.before[name] = len(values) + len(earlier)
                earlier.append(written.value)
        return Rosters(pa.concat_arrays([values, pa.array(earlier, type=pa.binary())]) if earlier else values)

    # -- what happened

    def tell(self, commits: pa.RecordBatch, visible: Positions) -> Iterator[Timeline]:
        straddles = self._straddles(commits, visible)
        others = [name for name in straddles if name not in self.rows]
        rosters, before = self.rosters, self.before
        for name in sorted(self.rows):
            found = self._group(name, rosters, before.get(name), straddles.get(name, []))
            yield from found
        self.before = {}
        rosters = self._rosters(pa.array([], type=pa.binary()), others)
        for name in sorted(self.before):
            yield from self._group(name, rosters, self.before[name], straddles[name])

    def _group(
        self, name: str, rosters: Rosters, before: int | None, straddles: list[tuple[int, Partition, int]]
    ) -> Iterator[Timeline]:
        known = self.teller.groups.setdefault(name, Known())
        steps = Steps(known.rebalance)
        begin = None
        if before is not None and known.written is not None:
            roster = rosters.roster(before)
            begin = snapshot(
                known.written.offset, known.written.timestamp, rosters.headers[before], roster.seats, kind=known.kind,
                complete=known.complete,
            )  # fmt: skip
            steps.begin(begin, roster)
        waiting = iter(straddles)
        following = next(waiting, None)
        rows = self.rows.get(name, [])
        gaps = known.gaps
        for row in rows:
            while following is not None and following[0] < row.offset:
                steps.committed(following[1], rosters.place(*following[1]), following[2])
                following = next(waiting, None)
            if row.number < 0:
                steps.tombstone(row.offset, row.timestamp, complete=row.gaps == gaps)
            else:
                header, roster = rosters.headers[row.number], rosters.roster(row.number)
                steps.value(row.offset, row.timestamp, header, roster, complete=row.gaps == gaps)
            gaps = row.gaps
        while following is not None:
            steps.committed(following[1], rosters.place(*following[1]), following[2])
            following = next(waiting, None)
        known.rebalance = steps.rebalance
        if rows:
            self._note(known, rows[-1], steps)
        if steps.snapshots or steps.rebalances:
            epochs = {row.offset: row.leader_epoch for row in rows}
            yield Timeline(
                group_id=name, partition=self.teller.partition, history=steps.history(), leader_epochs=epochs,
                before=begin,
            )  # fmt: skip

    def _note(self, known: Known, row: _Row, steps: Steps) -> None:
        last = steps.snapshots[-1]
        key, value = (self.batch.column(name)[row.at].as_py() for name in ("key", "value"))
        known.written = Written(row.offset, row.timestamp, key, value, row.leader_epoch)
        known.kind, known.complete, known.gaps = last.kind, last.complete, row.gaps
        if known.ended_at != downtime.NEVER:
            known.committed = {place: at for place, at in known.committed.items() if at[0] > known.ended_at}

    # -- commits

    def _straddles(self, commits: pa.RecordBatch, visible: Positions) -> dict[str, list[tuple[int, Partition, int]]]:
        """By group, the first commits of partitions after rebalances; brings the groups up to date but for records."""
        names: dict[str, int] = {name: number for number, name in enumerate(self.rows)}
        found = commit_rows(commits)
        groups = self.teller.groups
        numbers, known = [], []
        for group, topic, partition in found.places:
            numbers.append(names.setdefault(group, len(names)))
            state = groups.get(group)
            known.append((-1, 0) if state is None else state.committed.get((topic, partition), (-1, 0)))
        at = np.array(known, dtype=np.int64).reshape(-1, 2)
        last = downtime.Last(np.array(numbers, dtype=np.int64), at[:, 0], at[:, 1])
        states = [groups.setdefault(name, Known()) for name in names]
        turns = self._turns(states)
        counts = visible[found.rows] != downtime.NEVER
        rows = found.rows[counts]
        offset, timestamp = (commits.column(name).to_numpy()[rows] for name in ("offset", "timestamp"))
        counted = downtime.Commits(found.place[counts], offset, visible[rows], timestamp)
        pairs = downtime.straddling(counted, last, turns)
        for (_, topic, partition), number, where, when in zip(
            found.places, numbers, pairs.last.visible.tolist(), pairs.last.timestamp.tolist(), strict=True
        ):
            if where != downtime.NEVER:
                states[number].committed[topic, partition] = where, when
        straddles: dict[str, list[tuple[int, Partition, int]]] = {}
        for place, where, gap in zip(pairs.place.tolist(), pairs.visible.tolist(), pairs.gap.tolist(), strict=True):
            group, topic, partition = found.places[place]
            straddles.setdefault(group, []).append((where, (topic, partition), gap))
        return straddles

    def _turns(self, states: list[Known]) -> downtime.Turns:
        group, offset, is_end = [], [], []
        for number, (name, rows) in enumerate(self.rows.items()):
            before = self.before.get(name)
            generation = None if before is None else self.rosters.headers[before].generation
            for row in rows:
                now = None if row.number < 0 else self.rosters.headers[row.number].generation
                if now is None or generation not in (None, now):
                    group.append(number)
                    offset.append(row.offset)
                    is_end.append(now is None)
                generation = now
        found = downtime.Turns(
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
        return found
