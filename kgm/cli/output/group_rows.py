"""The objects of groups in ndjson, and the rows of csv and tsv, which are these objects with a few values more."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kgm.cli.output.contracts.groups import partition_json
from kgm.cli.output.group_tables import node_text, owned_offsets, static_members
from kgm.model.assignment import count
from kgm.model.snapshot import GroupSnapshot, OffsetSnapshot
from kgm.operations.groups.partitions import PartitionOrder, PartitionRow
from kgm.operations.groups.trends import GroupTrends

if TYPE_CHECKING:
    from kgm.operations.groups.sink_tasks import SinkTask

Json = dict[str, Any]
#: The columns of csv and tsv. `trend` is one of them if it was asked for.
MEMBER_KEYS = (
    "group_id", "group_instance_id", "member_id", "client_id", "client_host", "status", "member_epoch", "protocol",
    "rack", "subscription", "partitions", "lag", "trend", "assignment", "target_assignment", "client_library",
    "process_id", "user_endpoint", "active_tasks", "standby_tasks", "warmup_tasks", "connectors", "lag_ms",
    "worker_id", "url",
)  # fmt: skip
OFFSET_KEYS = (
    "group_id", "topic", "partition", "committed", "end", "lag", "trend", "group_instance_id", "member_id", "lost",
    "lag_ms", "commit_age_ms",
)  # fmt: skip
PARTITION_KEYS = (*OFFSET_KEYS[:9], "client_id", "client_host", "lost", "has_owner", "lag_ms", "commit_age_ms")
STATE_KEYS = (
    "group_id", "type", "state", "assignor", "members", "static_members", "generation", "group_epoch", "lag", "trend",
    "coordinator", "lag_ms",
)  # fmt: skip


def member_items(snapshot: GroupSnapshot, order: PartitionOrder) -> Iterator[Json]:
    for member in order.members(snapshot):
        yield {"group_id": snapshot.group_id, **member.to_json()}


def offset_items(snapshot: GroupSnapshot, order: PartitionOrder) -> Iterator[Json]:
    for offset in order.offsets(snapshot):
        yield {"group_id": snapshot.group_id, **offset.to_json()}


def member_rows(
    snapshot: GroupSnapshot, order: PartitionOrder, trends: GroupTrends | None, tasks: Collection[SinkTask]
) -> Iterator[Json]:
    """tasks: those whose consumers or workers are in the group."""
    owned = owned_offsets(snapshot, trends)
    workers = {one.member_id: one for one in tasks if one.sink_group == snapshot.group_id}
    for item in member_items(snapshot, order):
        task = workers.get(item["member_id"])
        item["partitions"] = count(item["assignment"])
        item["trend"] = _trend(trends, owned.get(item["member_id"], []))
        if task is not None:
            item |= {"worker_id": task.worker_id, "url": task.url}
        yield item


def offset_rows(snapshot: GroupSnapshot, order: PartitionOrder, trends: GroupTrends | None) -> Iterator[Json]:
    if trends is None:
        yield from offset_items(snapshot, order)
        return
    for offset, item in zip(order.offsets(snapshot), offset_items(snapshot, order), strict=True):
        yield {**item, "trend": _trend(trends, [offset])}


def partition_row(row: PartitionRow, trends: Mapping[str, GroupTrends] | None) -> Json:
    of_group = None if trends is None else trends.get(row.group_id)
    return {**partition_json(row), "trend": _trend(of_group, [row.offset])}


def state_row(snapshot: GroupSnapshot, trends: Mapping[str, GroupTrends] | None) -> Json:
    """A group without its members and offsets."""
    of_group = None if trends is None else trends.get(snapshot.group_id)
    return {
        "group_id": snapshot.group_id, "type": snapshot.type, "state": snapshot.state, "assignor": snapshot.assignor,
        "members": len(snapshot.members), "static_members": static_members(snapshot),
        "generation": snapshot.generation, "group_epoch": snapshot.group_epoch, "lag": snapshot.lag,
        "trend": _trend(of_group, [*snapshot.offsets]), "lag_ms": snapshot.lag_ms,
        "coordinator": None if snapshot.coordinator is None else node_text(snapshot.coordinator),
    }  # fmt: skip


def _trend(trends: GroupTrends | None, offsets: Collection[OffsetSnapshot]) -> str | None:
    return str(trends.of(offsets).kind) if trends is not None and offsets else None
