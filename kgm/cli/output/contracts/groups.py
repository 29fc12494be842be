"""Forms for groups that several commands share, and the objects made from typed values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kgm.model.assignment import Move
from kgm.model.snapshot import CoordinatorNode, GroupSnapshot
from kgm.operations.groups.partitions import PartitionRow
from kgm.operations.groups.unread import Unread
from kgm.text.names import NaturalKey, natural, places_of

PARTITIONS: Final = {"*": ["int"]}
COORDINATOR: Final = ({"id": "int", "host": "str", "port": "int"}, None)
SUBSCRIPTION: Final[dict[str, Any]] = {"topics": (["str"], None), "regex": "str?"}
MOVE: Final[dict[str, Any]] = {"topic": "str", "partition": "int", "from": "str?", "to": "str?"}
#: A value before or after a change.
VALUE: Final = ("str", "int", None)
CLIENT_LIBRARY: Final[dict[str, Any]] = {
    "name": "str?",
    "confidence": "=certain|likely|unknown",
    "evidence": ["str"],
    "candidates": ["str"],
}
MEMBER: Final[dict[str, Any]] = {
    "group_instance_id": "str?",
    "member_id": "str",
    "client_id": "str",
    "client_host": "str",
    "rack": "str?",
    "member_epoch": "int?",
    "status": "=stable|reconciling|away|unknown",
    "subscription": SUBSCRIPTION,
    "assignment": PARTITIONS,
    "target_assignment": (PARTITIONS, None),
    "lag": "int?",
    "lag_ms": "int?",
    "protocol": "str?",
    "client_library": CLIENT_LIBRARY,
    "listed_at": "int?",
    "listed_target": ([{"topic": "str", "partitions": ["int"]}], None),
    "is_readable": "bool",
    "session_timeout_ms": "int?",
    "rebalance_timeout_ms": "int?",
    "process_id": "str?",
    "user_endpoint": "str?",
    "active_tasks": (["str"], None),
    "standby_tasks": (["str"], None),
    "warmup_tasks": (["str"], None),
    "connectors": (["str"], None),
    "target_active_tasks": (["str"], None),
    "target_standby_tasks": (["str"], None),
    "target_warmup_tasks": (["str"], None),
    "client_tags": (["str"], None),
    "topology_epoch": "int?",
    "metadata_version": "int?",
    "assignment_user_data": ({"length": "int", "sha256": "str"}, None),
    "subscription_version": "int?",
    "names_owned": "bool?",
}
_OFFSET: Final[dict[str, Any]] = {
    "topic": "str",
    "partition": "int",
    "committed": "int?",
    "end": "int?",
    "lag": "int?",
    "group_instance_id": "str?",
    "member_id": "str?",
    "lost": "int?",
    "lag_ms": "int?",
    "commit_age_ms": "int?",
}
#: A snapshot, as `GroupSnapshot.to_json` makes it.
GROUP: Final[dict[str, Any]] = {
    "group_id": "str",
    "type": "=classic|consumer|share|streams",
    "state": "str",
    "protocol_type": "str?",
    "assignor": "str?",
    "coordinator": COORDINATOR,
    "generation": "int?",
    "group_epoch": "int?",
    "assignment_epoch": "int?",
    "session_timeout_ms": "int?",
    "rebalance_timeout_ms": "int?",
    "topics": [{"name": "str", "partitions": "int", "topic_id": "str?"}],
    "members": [MEMBER],
    "offsets": [_OFFSET],
    "kafka_versions": (["str"], None),
    "leader": "str?",
    "leader_library": (CLIENT_LIBRARY, None),
    "deleted_topics": ["str"],
    "may_lack_offsets": "bool",
    "hidden_offset_topics": ["str"],
    "next_rebalance_at": "str?",
    "is_settled": "bool?",
    "rebalance_delay_ms": "int?",
    "unassigned_until": "str?",
    "topology_epoch": "int?",
}
#: A partition of one group, in `describe --topic` and similar views.
PARTITION: Final[dict[str, Any]] = {
    "group_id": "str",
    **_OFFSET,
    "client_id": "str?",
    "client_host": "str?",
    "has_owner": "bool?",
}
#: Something that could not be read, so that other values are null or missing.
UNREAD: Final[dict[str, Any]] = {"what": "str", "consequence": "str"}


def snapshot_json(snapshot: GroupSnapshot) -> dict[str, Any]:
    """A snapshot with its members, topics and partitions in natural order. Reading it back does not depend on these."""
    data = snapshot.to_json()
    place = places_of(row.topic for row in snapshot.offsets)
    data["topics"].sort(key=lambda one: natural(one["name"]))
    data["members"].sort(key=_identity)
    data["offsets"].sort(key=lambda one: (place[one["topic"]], one["partition"]))
    return data


def _identity(member: Mapping[str, Any]) -> NaturalKey:
    name = member["group_instance_id"]
    return natural(member["member_id"] if name is None else name)


def unread_json(every: Iterable[Unread]) -> list[dict[str, Any]]:
    return [{"what": one.text, "consequence": one.consequence} for one in every]


def partition_json(row: PartitionRow) -> dict[str, Any]:
    """An entry of `data.partitions`."""
    owner = row.owner
    return {
        "group_id": row.group_id,
        **row.offset.to_json(),
        "client_id": None if owner is None else owner.client_id,
        "client_host": None if owner is None else owner.client_host,
        "has_owner": row.has_owner,
    }


def moves_json(moves: Iterable[Move]) -> list[dict[str, Any]]:
    return [
        {"topic": move.topic, "partition": move.partition, "from": move.owner_before, "to": move.owner_after}
        for move in moves
    ]


def coordinator_json(node: CoordinatorNode | None) -> dict[str, Any] | None:
    return None if node is None else {"id": node.id, "host": node.host, "port": node.port}
