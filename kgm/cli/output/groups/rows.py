"""The objects of groups in ndjson, and the rows of csv, tsv and tables, which are these objects with a few values more:
a `trend` is None for a group that was not described twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kgm.cli.output.contracts.groups import partition_json
from kgm.model.assignment import count
from kgm.model.snapshot import CoordinatorNode, GroupSnapshot, OffsetSnapshot
from kgm.operations.groups.partitions import PartitionOrder, PartitionRow
from kgm.operations.groups.trends import GroupTrends, Trend
from kgm.text.names import natural

if TYPE_CHECKING:
    from kgm.operations.groups.sink_tasks import SinkTask

Json = dict[str, Any]
#: By group id; None if they were not asked for.
Trends = Mapping[str, GroupTrends] | None
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
    snapshot: GroupSnapshot, order: PartitionOrder, trends: Trends, tasks: Collection[SinkTask]
) -> Iterator[Json]:
    """tasks: those whose consumers or workers are in the group."""
    owned: dict[str | None, list[OffsetSnapshot]] = {}
    for offset in snapshot.offsets if trends is not None else ():
        owned.setdefault(offset.member_id, []).append(offset)
    workers = {one.member_id: one for one in tasks if one.sink_group == snapshot.group_id}
    for item in member_items(snapshot, order):
        item["partitions"] = count(item["assignment"])
        item["trend"] = _trend(trends, snapshot.group_id, owned.get(item["member_id"], ()))
        if (task := workers.get(item["member_id"])) is not None:
            item |= {"worker": task.url or task.worker_id, "worker_id": task.worker_id, "url": task.url}
        yield item


def offset_rows(snapshot: GroupSnapshot, order: PartitionOrder, trends: Trends) -> Iterator[Json]:
    items = offset_items(snapshot, order)
    if trends is None:
        return items
    pairs = zip(items, order.offsets(snapshot), strict=True)
    return ({**item, "trend": _trend(trends, snapshot.group_id, [offset])} for item, offset in pairs)


def partition_row(row: PartitionRow, trends: Trends) -> Json:
    return {**partition_json(row), "trend": _trend(trends, row.group_id, [row.offset])}


def state_rows(snapshots: Iterable[GroupSnapshot], order: PartitionOrder, trends: Trends) -> Iterator[Json]:
    """Groups without their members and offsets."""
    rows: Iterable[tuple[Any, Json]] = ((order.place(one), _state_row(one, trends)) for one in snapshots)
    if order is not PartitionOrder.NAME:
        rows = sorted(rows, key=lambda one: (*one[0], natural(one[1]["group_id"])))
    return (row for _, row in rows)


def _state_row(snapshot: GroupSnapshot, trends: Trends) -> Json:
    epoch, node = snapshot.group_epoch, snapshot.coordinator
    return {
        "group_id": snapshot.group_id, "type": snapshot.type, "state": snapshot.state, "assignor": snapshot.assignor,
        "members": len(snapshot.members), "static_members": snapshot.static_members,
        "epoch": snapshot.generation if epoch is None else epoch, "generation": snapshot.generation,
        "group_epoch": epoch, "lag": snapshot.lag, "lag_ms": snapshot.lag_ms,
        "trend": _trend(trends, snapshot.group_id, snapshot.offsets),
        "coordinator": None if node is None else node_text(node),
    }  # fmt: skip


def node_text(node: CoordinatorNode) -> str:
    """`1 (host:9092)`."""
    return f"{node.id} ({node.host}:{node.port})"


def _trend(trends: Trends, group_id: str, offsets: Sequence[OffsetSnapshot]) -> Trend | None:
    of_group = None if trends is None else trends.get(group_id)
    return of_group.of(offsets) if of_group is not None and offsets else None
