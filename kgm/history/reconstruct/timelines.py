"""Turns a table of raw records into the history of every classic group in it, and that into tables of `schema`."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from kgm.history.decode.raw_batch import RawBatch
from kgm.history.decode.record_order import in_order, partitions_of, pieces
from kgm.history.reconstruct.classic_snapshots import GroupHistory
from kgm.history.reconstruct.partition_replay import PartitionReplay, Timeline
from kgm.history.reconstruct.replay_state import replay_table, replays_of
from kgm.history.row_tables import column_table
from kgm.history.schema import RAW, SILVER_SNAPSHOT


def timelines(raw: pa.Table) -> Iterator[Timeline]:
    """Every group with a GroupMetadata record, by partition and group id. The table holds all that is known about its
    partitions: offsets missing in between count as removed by compaction."""
    yield from joined(LogReplay().feed(raw))


class LogReplay:
    """Replays all partitions of a log, in any number of parts.

    No matter how a log is cut, the concatenated snapshots and changes of the parts equal those of the whole, and so do
    the rebalances if later ones replace those with the same offset: a group's last rebalance is reported again when
    commits after the cut narrow it down. Records that have been fed before change nothing."""

    def __init__(self, state: pa.Table | None = None) -> None:
        """state: of an earlier replay, to continue from."""
        self._replays = {} if state is None else replays_of(state)

    def feed(self, raw: pa.Table) -> Iterator[Timeline]:
        """What the next records add. A group can occur several times."""
        raw = raw.select(RAW.names)
        for number in partitions_of(raw):
            replay = self._replays.setdefault(number, PartitionReplay(number))
            for piece in pieces(in_order(number, raw, replay.next_offset)):
                timelines_of_piece, _ = replay.feed(RawBatch(piece))
                yield from timelines_of_piece

    def state(self) -> pa.Table:
        """The state needed to continue."""
        return replay_table(self._replays.values())


def joined(parts: Iterable[Timeline]) -> Iterator[Timeline]:
    """Consecutive timelines, merged into one for each group."""
    groups: dict[tuple[int, str], list[Timeline]] = {}
    for each in parts:
        groups.setdefault((each.partition, each.group_id), []).append(each)
    for key in sorted(groups):
        yield _one(groups.pop(key))


def _one(parts: list[Timeline]) -> Timeline:
    if len(parts) == 1:
        return parts[0]
    # A rebalance that occurs again is the last one of the previous part.
    rebalances = {rebalance.offset: rebalance for part in parts for rebalance in part.history.rebalances}
    history = GroupHistory(
        tuple(snapshot for part in parts for snapshot in part.history.snapshots),
        tuple(change for part in parts for change in part.history.changes),
        tuple(rebalances.values()),
        parts[-1].history.end,
    )
    epochs = {offset: epoch for part in parts for offset, epoch in part.leader_epochs.items()}
    first = parts[0]
    return Timeline(
        group_id=first.group_id, partition=first.partition, history=history, leader_epochs=epochs, before=first.before
    )


def snapshot_table(histories: Iterable[Timeline]) -> pa.Table:
    """The snapshots as a table by `schema.SILVER_SNAPSHOT`."""
    rows = [(each, fact) for each in histories for fact in each.history.snapshots]
    facts = [fact for _, fact in rows]
    columns: dict[str, list[Any]] = {
        "partition": [each.partition for each, _ in rows], "group_id": [each.group_id for each, _ in rows],
        "leader_epoch": [each.leader_epochs.get(fact.offset) for each, fact in rows],
        "offset": [fact.offset for fact in facts], "timestamp": [fact.timestamp for fact in facts],
        "kind": [fact.kind.value for fact in facts], "generation": [fact.generation for fact in facts],
        "protocol_type": [fact.protocol_type for fact in facts], "protocol": [fact.protocol for fact in facts],
        "leader": [fact.leader for fact in facts], "state_timestamp": [fact.state_timestamp for fact in facts],
        "members": [len(fact.members) for fact in facts], "sync_ms": [fact.sync_ms for fact in facts],
        "contiguous": [fact.complete for fact in facts],
    }  # fmt: skip
    return column_table(columns, len(facts), SILVER_SNAPSHOT)
