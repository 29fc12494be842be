"""From a table of raw records to the history of every classic group in it, and that into the tables of `schema`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kgm.history.columns import decode
from kgm.history.membership import Change, Commit, Gaps, History, Metadata, Rebalance, Snapshot, fold
from kgm.history.schema import GOLD_REBALANCE, SILVER_MEMBER_CHANGE, SILVER_SNAPSHOT
from kgm.history.tables import GROUP_METADATA, OFFSET_COMMIT, commits
from kgm.history.transactions import fates
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One group: the partition that holds it, its history, and the leader epoch of each of its metadata records by
    offset (another epoch, another coordinator)."""

    group_id: str
    partition: int
    history: History
    leader_epochs: dict[int, int | None]


def timelines(raw: pa.Table) -> Iterator[Timeline]:
    """Every group with a GroupMetadata record, by partition and group id. The table holds all that is known of its
    partitions, offsets rising: what is missing between them counts as eaten by compaction."""
    partition = raw.column("partition").to_numpy()
    for number in np.unique(partition).tolist():
        yield from _of_partition(number, raw.filter(pa.array(partition == number)))


def _of_partition(partition: int, raw: pa.Table) -> Iterator[Timeline]:
    gaps = Gaps.between(raw.column("offset").to_pylist())
    decoded = decode(raw)
    if GROUP_METADATA not in decoded.records:
        return
    rows: dict[str, list[tuple[int, Metadata | Commit]]] = {}
    epochs: dict[str, dict[int, int | None]] = {}
    for row in decoded.records[GROUP_METADATA].to_pylist():
        group = row["key"]["group"]
        value = None if row["value"] is None else _value(row["value"])
        found = Metadata(offset=row["offset"], timestamp=row["timestamp"], value=value)
        rows.setdefault(group, []).append((row["offset"], found))
        epochs.setdefault(group, {})[row["offset"]] = row["leader_epoch"]
    if OFFSET_COMMIT in decoded.records:
        _add_commits(rows, commits(decoded, raw, fates(raw)))
    for group in sorted(rows):
        # A commit counts where it becomes visible: behind the marker of its transaction.
        in_order = [row for _, row in sorted(rows[group], key=lambda row: row[0])]
        yield Timeline(group_id=group, partition=partition, history=fold(in_order, gaps), leader_epochs=epochs[group])


def _add_commits(rows: dict[str, list[tuple[int, Metadata | Commit]]], table: pa.Table) -> None:
    names = ("group_id", "offset", "timestamp", "topic", "topic_partition", "tombstone", "visible_offset")
    for group, offset, timestamp, topic, partition, tombstone, visible in zip(
        *(table.column(name).to_pylist() for name in names), strict=True
    ):
        if group in rows and not tombstone and visible is not None:
            found = Commit(offset=offset, timestamp=timestamp, topic=topic, partition=partition)
            rows[group].append((visible, found))


def _value(row: dict[str, Any]) -> GroupMetadataValue:
    return GroupMetadataValue(**{**row, "members": [MemberMetadata(**member) for member in row["members"]]})


def snapshot_table(found: Iterator[Timeline] | list[Timeline]) -> pa.Table:
    """`schema.SILVER_SNAPSHOT`."""
    return _table(found, lambda history: history.snapshots, _snapshot, SILVER_SNAPSHOT)


def change_table(found: Iterator[Timeline] | list[Timeline]) -> pa.Table:
    """`schema.SILVER_MEMBER_CHANGE`."""
    return _table(found, lambda history: history.changes, _change, SILVER_MEMBER_CHANGE)


def rebalance_table(found: Iterator[Timeline] | list[Timeline]) -> pa.Table:
    """`schema.GOLD_REBALANCE`."""
    return _table(found, lambda history: history.rebalances, _rebalance, GOLD_REBALANCE)


def _table(
    found: Iterator[Timeline] | list[Timeline],
    of_history: Callable[[History], tuple[Any, ...]],
    shown: Callable[[Any], dict[str, Any]],
    schema: pa.Schema,
) -> pa.Table:
    rows = [
        {
            "partition": each.partition,
            "offset": fact.offset,
            "timestamp": fact.timestamp,
            "leader_epoch": each.leader_epochs[fact.offset],
            "group_id": each.group_id,
            **shown(fact),
        }
        for each in found
        for fact in of_history(each.history)
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def _snapshot(fact: Snapshot) -> dict[str, Any]:
    return {
        "kind": fact.kind.value, "generation": fact.generation, "protocol_type": fact.protocol_type,
        "protocol": fact.protocol, "leader": fact.leader, "state_timestamp": fact.state_timestamp,
        "members": len(fact.members), "sync_ms": fact.sync_ms, "contiguous": fact.complete,
    }  # fmt: skip


def _change(fact: Change) -> dict[str, Any]:
    record = fact.member.record
    return {
        "generation": fact.generation, "kind": fact.kind.value, "member_id": record.member_id,
        "old_member_id": fact.old_member_id, "group_instance_id": record.group_instance_id,
        "client_id": record.client_id, "client_host": record.client_host,
        "session_timeout_ms": record.session_timeout, "absorbed": fact.absorbed, "complete": fact.complete,
    }  # fmt: skip


def _rebalance(fact: Rebalance) -> dict[str, Any]:
    return {
        "from_generation": fact.from_generation, "to_generation": fact.to_generation, "lost_rounds": fact.lost_rounds,
        "moved": fact.moved, "kept": fact.kept, "stopped_min_ms": fact.stopped_min_ms,
        "stopped_max_ms": fact.stopped_max_ms, "complete": fact.complete,
    }  # fmt: skip
