"""Merges timelines that follow each other, and turns them into a table of `schema`."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from kgm.history.reconstruct.classic_snapshots import GroupHistory
from kgm.history.reconstruct.partition_replay import Timeline
from kgm.history.row_tables import column_table
from kgm.history.schema import SILVER_SNAPSHOT


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
