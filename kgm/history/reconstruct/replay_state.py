"""The state from which the replay of a partition continues, as an Arrow table of the size of a compacted log.

Rows by kind:
    partition  what is known about a partition; `offset` is the one after its last record
    group      the last GroupMetadata record of a group, which can be a tombstone
    commit     a partition that a group has committed: when it last was, and the offset from which that counts
    open       a record of a transaction that has not ended, in full
and `state` is everything else that is needed (JSON)."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.arrow_lists import to_list
from kgm.history.reconstruct.classic_snapshots import Rebalance, SnapshotKind
from kgm.history.reconstruct.partition_replay import GroupReplay, LastRecord, PartitionReplay
from kgm.history.schema import RAW
from kgm.history.state_json import dump_state, load_state

REPLAY_STATE = pa.schema([
    pa.field("kind", pa.string(), nullable=False), *RAW, pa.field("group_id", pa.string()),
    pa.field("state", pa.string()),
])  # fmt: skip
_COLUMNS = ("kind", "partition", "offset", "timestamp", "key", "value", "leader_epoch", "group_id", "state")
_PARTITION, _GROUP, _COMMIT, _OPEN = "partition", "group", "commit", "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartitionState:
    gaps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupState:
    kind: SnapshotKind
    complete: bool
    gaps: int
    rebalanced_at: int
    ended_at: int
    rebalance: Rebalance | None


@dataclass(frozen=True, slots=True)
class _Row:
    """A row that does not hold an open record."""

    kind: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    leader_epoch: int | None
    group_id: str | None
    state: str


def replay_table(replays: Iterable[PartitionReplay]) -> pa.Table:
    """The state of partitions, by REPLAY_STATE."""
    rows: list[_Row] = []
    opened = [REPLAY_STATE.empty_table()]
    for replay in replays:
        rows += _rows(replay)
        columns = [pa.array([_OPEN] * len(replay.open)), *replay.open.columns]
        columns += [pa.nulls(len(replay.open), pa.string())] * 2
        opened.append(pa.Table.from_arrays(columns, schema=REPLAY_STATE))
    arrays = [
        pa.array([getattr(row, field.name) for row in rows], field.type)
        if field.name in _COLUMNS
        else pa.nulls(len(rows), field.type)
        for field in REPLAY_STATE
    ]
    return pa.concat_tables([pa.Table.from_arrays(arrays, schema=REPLAY_STATE), *opened])


def _rows(replay: PartitionReplay) -> Iterator[_Row]:
    number = replay.partition
    state = dump_state(_PartitionState(gaps=replay.gaps)).decode()
    yield _Row(_PARTITION, number, replay.next_offset, None, None, None, None, None, state)
    for name, group in replay.groups.items():
        last = group.last_record
        if last is not None:
            state = dump_state(
                _GroupState(
                    kind=group.kind, complete=group.complete, gaps=group.gaps, rebalanced_at=group.rebalanced_at,
                    ended_at=group.ended_at, rebalance=group.rebalance,
                )
            ).decode()  # fmt: skip
            yield _Row(
                _GROUP, number, last.offset, last.timestamp, last.key, last.value, last.leader_epoch, name, state
            )
        for place, (visible, timestamp) in group.committed.items():
            state = json.dumps(place)
            yield _Row(_COMMIT, number, visible, timestamp, None, None, None, name, state)


def replays_of(table: pa.Table) -> dict[int, PartitionReplay]:
    """The partitions in a table from `replay_table`, by number."""
    replays: dict[int, PartitionReplay] = {}
    is_open = pc.equal(table.column("kind"), _OPEN)
    opened = table.filter(is_open).select(RAW.names)
    rest = table.filter(pc.invert(is_open))
    for values in zip(*(to_list(rest.column(name)) for name in _COLUMNS), strict=True):
        row = _Row(*values)
        replay = replays.setdefault(row.partition, PartitionReplay(row.partition))
        if row.kind == _PARTITION:
            replay.next_offset, replay.gaps = row.offset, load_state(_PartitionState, row.state).gaps
            replay.open = opened.filter(pc.equal(opened.column("partition"), row.partition))
            continue
        group = replay.groups.setdefault(row.group_id or "", GroupReplay())
        if row.kind == _COMMIT:
            topic, partition = json.loads(row.state)
            group.committed[topic, partition] = row.offset, row.timestamp or 0
        else:
            _restore(group, row)
    return replays


def _restore(group: GroupReplay, row: _Row) -> None:
    state = load_state(_GroupState, row.state)
    group.last_record = LastRecord(row.offset, row.timestamp or 0, row.key or b"", row.value, row.leader_epoch)
    group.kind, group.complete, group.gaps = state.kind, state.complete, state.gaps
    group.rebalanced_at, group.ended_at, group.rebalance = state.rebalanced_at, state.ended_at, state.rebalance
