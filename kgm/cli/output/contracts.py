"""What `data` of each command's JSON holds: the contract of version 1, to which keys may be added.

A dict is an object with these keys, always present unless the key ends in `?`; {"*": X} is an object from any name to
X; [X] is an array; a tuple is one of several; "str", "int", "float", "bool", "any"; a `?` behind it is nullable; "=a|b"
is one of these words."""

from __future__ import annotations

from typing import Any

PARTITIONS = {"*": ["int"]}
_COORDINATOR = ({"id": "int", "host": "str", "port": "int"}, None)
MEMBER: dict[str, Any] = {
    "group_instance_id": "str?",
    "member_id": "str",
    "client_id": "str",
    "client_host": "str",
    "rack": "str?",
    "member_epoch": "int?",
    "status": "=stable|reconciling|away|unknown",
    "subscription": {"topics": ["str"], "regex": "str?"},
    "assignment": PARTITIONS,
    "target_assignment": (PARTITIONS, None),
    "lag": "int?",
    "protocol": "str?",
    "client_library": "str?",
    "listed_at": "int?",
    "listed_target": ([{"topic": "str", "partitions": ["int"]}], None),
}
OFFSET: dict[str, Any] = {
    "topic": "str",
    "partition": "int",
    "committed": "int?",
    "end": "int?",
    "lag": "int?",
    "group_instance_id": "str?",
    "member_id": "str?",
}
GROUP: dict[str, Any] = {
    "group_id": "str",
    "type": "=classic|consumer|share|streams",
    "state": "str",
    "protocol_type": "str?",
    "assignor": "str?",
    "coordinator": _COORDINATOR,
    "generation": "int?",
    "group_epoch": "int?",
    "assignment_epoch": "int?",
    "session_timeout_ms": "int?",
    "rebalance_timeout_ms": "int?",
    "topics": [{"name": "str", "partitions": "int", "topic_id": "str?"}],
    "members": [MEMBER],
    "offsets": [OFFSET],
}
MOVE: dict[str, Any] = {"topic": "str", "partition": "int", "from": "str?", "to": "str?"}
_RANGE = {"min": "int", "median": "int", "max": "int"}
SCENARIO: dict[str, Any] = {
    "name": "str",
    "protocol": "=classic|consumer",
    "assignor": "str",
    "generations": "int",
    "rebalances": "int",
    "generation_before": "int?",
    "generation_after": "int?",
    "moves": [{**MOVE, "at_ms": "int"}],
    "moved_partitions": "int",
    "handovers": "int",
    "stopped_partition_ms": "int",
    "fenced": ["str"],
    "refused_joins": "int",
    "final_assignment": {"*": PARTITIONS},
    "took_ms": "int",
    "newcomers_wait_ms": "int?",
    "timeline": [{"at_ms": "int", "event": "str", "member": "str?", "detail": "str"}],
    "exact": "bool",
    "caveats": ["str"],
    "ranges": (
        {
            "generations": _RANGE,
            "rebalances": _RANGE,
            "moved_partitions": _RANGE,
            "stopped_partition_ms": _RANGE,
            "draws": "int",
        },
        None,
    ),
}
_PLAN: dict[str, Any] = {
    "bounce": ["str"],
    "scale_in": ["str"],
    "remove": ["str"],
    "scale_out": "int",
    "scale_out_every_ms": "int",
    "target_size": "int?",
    "pre_registered": ["str"],
    "mode": "=together|rolling",
    "max_unavailable": "int?",
    "pause_ms": "int?",
    "restart_time_ms": "int",
    "retry_every_ms": "int?",
    "migrate": "bool",
    "stop": "=clean|crash",
    "session_timeout_ms": "int?",
    "rebalance_timeout_ms": "int?",
    "heartbeat_interval_ms": "int?",
    "assignor": "str?",
    "as": "=static|dynamic?",
    "settings": {"*": "str"},
}

_VALUE = ("str", "int", None)
_EVENT: dict[str, Any] = {
    "at": "str",
    "written_at": "str?",
    "group_id": "str",
    "event": "str",
    "text": "str",
    "identity": "str?",
    "member_id": "str?",
    "member_id_before": "str?",
    "before": _VALUE,
    "after": _VALUE,
    "moves": [MOVE],
    "state": "str?",
    "generation": "int?",
    "group_epoch": "int?",
    "members": "int?",
    "lag": "int?",
    "rebalances": "int",
    "moved_partitions": "int",
}
_WATCHED: dict[str, Any] = {
    "group_id": "str",
    "reached": "bool?",
    "breach": "str?",
    "missing": ["str"],
    "looks": "int",
    "rebalances": "int",
    "rebalances_exact": "bool",
    "rebalances_doubt": "str?",
    "moved_partitions": "int",
    "moves": [MOVE],
    "replaced": ["str"],
    "type": "str?",
    "state": "str?",
    "generation": "int?",
    "group_epoch": "int?",
    "members": "int?",
    "lag": "int?",
}
_SUBSCRIPTION: dict[str, Any] = {"topics": ["str"], "regex": "str?"}
_DIFFERENCES: dict[str, Any] = {
    "group_id": "str",
    "group_id_before": "str?",
    "group_id_after": "str?",
    "same": "bool",
    "members_come": [MEMBER],
    "members_gone": [MEMBER],
    "members_replaced": [{"group_instance_id": "str", "member_id_before": "str", "member_id_after": "str"}],
    "statuses_changed": [{"identity": "str", "before": "str", "after": "str"}],
    "subscriptions_changed": [{"identity": "str", "before": _SUBSCRIPTION, "after": _SUBSCRIPTION}],
    "moves": ([MOVE], None),
    "moved_partitions": "int?",
    "values_changed": {"*": {"before": _VALUE, "after": _VALUE}},
    "topics_changed": [{"name": "str", "before": "int?", "after": "int?"}],
}

CONTRACTS: dict[str, dict[str, Any]] = {
    "list": {
        "groups": [
            {
                "group_id": "str",
                "type": "str?",
                "state": "str?",
                "protocol_type": "str?",
                "members": "int?",
                "coordinator": _COORDINATOR,
            }
        ]
    },
    "describe": {"groups": [GROUP]},
    "remove-members": {
        "group_id": "str",
        "dry_run": "bool",
        "reason": "str",
        "results": [
            {
                "group_instance_id": "str?",
                "member_id": "str?",
                "result": "=planned|removed|returned|absent|refused|failed|unknown",
                "liveness": {"verdict": "=alive|stopped|unknown", "evidence": ["str"]},
                "error": "str?",
                "partitions_freed": PARTITIONS,
                "note": "str?",
            }
        ],
        "moves_expected": ([MOVE], None),
        "warnings": ["str"],
    },
    "simulate-bounce": {"group_id": "str", "plan": _PLAN, "scenarios": [SCENARIO]},
    "watch": {"groups": [_WATCHED], "events": [_EVENT]},
    "wait": {
        "group_id": "str",
        "met": "bool",
        "waited_ms": "int",
        "conditions": [{"condition": "str", "met": "bool", "seen": "str"}],
        "state": "str?",
        "members": "int?",
        "lag": "int?",
    },
    "doctor": {
        "groups": ["str"],
        "findings": [
            {
                "group_id": "str",
                "check": "str",
                "severity": "=error|warning|info",
                "message": "str",
                "evidence": ["str"],
                "about": ["str"],
                "next_command": "str?",
            }
        ],
        "skipped": [{"checks": "str", "why": "str"}],
        "window_ms": "int",
        "history": "str?",
    },
    "diff": {"a": "str", "b": "str", "groups": [_DIFFERENCES]},
    "audit": {
        "file": "str",
        "torn_lines": "int",
        "removals": [
            {
                "run": "str",
                "time": "str",
                "operator": "str?",
                "uid": "int?",
                "host": "str?",
                "pid": "int?",
                "cluster_id": "str?",
                "bootstrap": "str?",
                "group_id": "str?",
                "group_instance_id": "str?",
                "member_id": "str?",
                "client_id": "str?",
                "client_host": "str?",
                "reason": "str?",
                "verdict": "str?",
                "evidence": ["str"],
                "result": "str",
                "error": "str?",
                "note": "str?",
                "finished_at": "str?",
            }
        ],
    },
    "assign": {"cases": [{"case": "any", "assignor": "str", "assignment": {"*": PARTITIONS}}]},
    "config-view": {
        "profile": "str?",
        "settings": [{"key": "str", "value": "str?", "secret": "bool", "origin": "str"}],
    },
    "config-test": {
        "security_protocol": "str",
        "checks": [
            {"step": "str", "where": "str", "result": "str", "detail": "str?", "took_ms": "int?", "code": "str?"}
        ],
    },
    "demo": {
        "checks": [
            {
                "name": "str",
                "predicted": {"rebalances": "int", "moves": [MOVE]},
                "actual": {"rebalances": "int", "moves": [MOVE]},
                "holds": "bool",
            }
        ],
        "groups": [GROUP],
    },
}
