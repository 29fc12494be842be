"""The forms of a snapshot's JSON (`GroupSnapshot.to_json`)."""

from __future__ import annotations

from typing import Any, Final

from kgm.model.work import LIST_KEYS, NUMBER_KEYS, TEXT_KEYS

PARTITIONS: Final = {"*": ["int"]}
COORDINATOR: Final = {"id": "int", "host": "str", "port": "int"}
SUBSCRIPTION: Final[dict[str, Any]] = {"topics": (["str"], None), "regex": "str?"}
CLIENT_LIBRARY: Final[dict[str, Any]] = {
    "name": "str?",
    "confidence": "=certain|likely|unknown",
    "evidence": ["str"],
    "candidates": ["str"],
}
WORK: Final[dict[str, Any]] = {
    **dict.fromkeys(TEXT_KEYS, "str?"),
    **dict.fromkeys(LIST_KEYS, (["str"], None)),
    **dict.fromkeys(NUMBER_KEYS, "int?"),
}
USER_DATA: Final = {"length": "int", "sha256": "str"}
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
    **WORK,
    "assignment_user_data": (USER_DATA, None),
    "subscription_version": "int?",
    "names_owned": "bool?",
}
OFFSET: Final[dict[str, Any]] = {
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
GROUP: Final[dict[str, Any]] = {
    "group_id": "str",
    "type": "=classic|consumer|share|streams",
    "state": "str",
    "protocol_type": "str?",
    "assignor": "str?",
    "coordinator": (COORDINATOR, None),
    "generation": "int?",
    "group_epoch": "int?",
    "assignment_epoch": "int?",
    "session_timeout_ms": "int?",
    "rebalance_timeout_ms": "int?",
    "topics": [{"name": "str", "partitions": "int", "topic_id": "str?"}],
    "members": [MEMBER],
    "offsets": [OFFSET],
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
    "earlier_assignors": (["str"], None),
}
MOVE: Final[dict[str, Any]] = {"topic": "str", "partition": "int", "from": "str?", "to": "str?"}
