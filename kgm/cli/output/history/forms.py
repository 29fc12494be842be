"""The contracts of `kgm history`, written as in `contracts`. If compaction removed records, many values are null."""

from __future__ import annotations

from typing import Any

from kgm.cli.output.contracts.describe import WAIT

_WINDOW = {"source": "str?", "store": "str?", "since": "str?", "until": "str?"}
RECORD = {"partition": "int", "offset": "int"}
_BOUNDS = {"min": "int?", "max": "int?"}
WHO = {"identity": "str?", "what": "str?", "member_id": "str?", "client_id": "str?", "client_host": "str?"}
_CAUSES = [{"cause": "str", "count": "int"}]
REBALANCE: dict[str, Any] = {
    "group_id": "str",
    "group_type": "str?",
    "at": "str?",
    "generation_before": "int?",
    "generation_after": "int?",
    "protocol": "str?",
    "cause": "str",
    "confidence": "str?",
    "also": ["str"],
    "who": [WHO],
    "evidence": ["str"],
    "source": "str?",
    "reason": "str?",
    "inferred": ({"cause": "str", "confidence": "str?"}, None),
    "members_before": "int?",
    "members_after": "int?",
    "joined": "int?",
    "left": "int?",
    "replaced": "int?",
    "lost_rounds": "int?",
    "moved": "int?",
    "kept": "int?",
    "assigned": "int?",
    "sync_ms": "int?",
    "stopped_ms": _BOUNDS,
    "stopped_partition_ms": _BOUNDS,
    "unowned_ms": "int?",
    "complete": "bool?",
    "record": RECORD,
}
EVENT: dict[str, Any] = {
    "group_id": "str",
    "group_type": "str?",
    "at": "str?",
    "generation": "int?",
    "event": "str?",
    "confidence": "str?",
    "who": [WHO],
    "evidence": ["str"],
    "complete": "bool?",
    "record": RECORD,
}
_DIFFERENCE = {"recorded": "int", "avoided": {"min": "int", "typical": "int", "max": "int"}}
CHANGE_ADVICE: dict[str, Any] = {
    "change": "str",
    "causes": ["str"],
    "text": "str",
    "bound": "str",
    "rebalances": _DIFFERENCE,
    "moves": _DIFFERENCE,
    "interruptions": _DIFFERENCE,
    "session_timeout_ms": "int?",
    "assignor": "str?",
    "processes": ["str"],
    "max_poll_interval_ms": "int?",
    "price": "str?",
    "caveats": ["str"],
}
REPLAY: dict[str, Any] = {
    "rebalances": "int",
    "replayed": {"min": "int", "max": "int"},
    "untouched": "int",
    "reason": "str?",
}
ADVICE: dict[str, Any] = {
    "group_id": "str",
    "group_type": "str?",
    "session_timeout_ms": "int?",
    "restarts": "int?",
    "restart_ms": {"p50": "int?", "p95": "int?", "p99": "int?", "max": "int?"},
    "advised_ms": "int?",
    "saved_rebalances": "int?",
    "extra_stall_ms": "int?",
    "within_broker_max": "bool?",
    "verdict": "str?",
    "advice": "str?",
}
SEAT: dict[str, Any] = {
    "identity": "str?",
    "member_id": "str?",
    "group_instance_id": "str?",
    "client_id": "str?",
    "client_host": "str?",
    "session_timeout_ms": "int?",
    "from": "str?",
    "from_generation": "int?",
    "known_from": "bool?",
    "to": "str?",
    "to_generation": "int?",
    "end_cause": "str?",
    "end_confidence": "str?",
    "from_ms": "int?",
    "to_ms": "int?",
}
OWNER: dict[str, Any] = {
    "topic": "str?",
    "topic_id": "str?",
    "partition": "int",
    "identity": "str?",
    "member_id": "str?",
    "from": "str?",
    "from_generation": "int?",
    "known_from": "bool?",
    "to": "str?",
    "to_earliest": "str?",
    "to_generation": "int?",
    "exact": "bool?",
    "from_ms": "int?",
    "to_ms": "int?",
}
CHANGE: dict[str, Any] = {
    "what": "str?",
    "identity": "str?",
    "member_id": "str?",
    "old_member_id": "str?",
    "client_id": "str?",
    "client_host": "str?",
    "session_timeout_ms": "int?",
    "topics_added": ["str"],
    "topics_removed": ["str"],
    "partitions_before": "int?",
    "partitions_after": "int?",
}
_SPREAD = ({"min": "int", "median": "int", "max": "int"}, None)
COST: dict[str, Any] = {
    "group_id": "str",
    "scenario": "str",
    "assignor": "str?",
    "members": "int?",
    "static_members": "int?",
    "partitions": "int?",
    "session_timeout_ms": "int?",
    "rebalances": _SPREAD,
    "moved_partitions": _SPREAD,
    "handovers": _SPREAD,
    "stopped_partition_ms": _SPREAD,
    "exact": "bool?",
    "worst": "str?",
    "played": "int?",
    "caveats": ["str"],
    "reason": "str?",
}
OFFSET_CHANGE: dict[str, Any] = {
    "topic": "str",
    "partition": "int",
    "what": "str",
    "before": "int?",
    "after": "int?",
    "commits": "int",
    "at": "str?",
    "last": "str?",
    "by": "str?",
    "identity": "str?",
    "confidence": "str",
    "evidence": ["str"],
    "record": RECORD,
}
HELD_OFFSET: dict[str, Any] = {
    "topic": "str",
    "partition": "int",
    "committed": "int",
    "at": "str?",
    "expires": "str?",
    "rule": "str",
    "lost": "int?",
    "confirmed": "bool",
}
CAPTURED = {"records": "int", "repeated": "int", "batches": "int"}
PARTITION: dict[str, Any] = {
    "partition": "int",
    "records": "int",
    "first_offset": "int",
    "end_offset": "int",
    "first": "str?",
    "last": "str?",
    "doubles": "int",
    "controls": "int",
    "missing": "int",
    "gaps": [{"start": "int", "end": "int"}],
    "complete_from": "int",
    "complete_since": "str?",
    "open_transactions": [{"producer_id": "int", "producer_epoch": "int?", "first_offset": "int", "records": "int"}],
}
_GROUP: dict[str, Any] = {
    "group_id": "str",
    "partition": "int",
    "protocol": "str",
    "records": "int",
    "first": "int?",
    "last": "int?",
    "windows": "int",
    "complete": "bool",
    "complete_from": "int",
    "complete_since": "str?",
    "lost_rounds": "int",
}
GROUP_CHURN: dict[str, Any] = {
    "group_id": "str",
    "group_type": "str?",
    "rebalances": "int",
    "per_hour": "float?",
    "first": "str?",
    "last": "str?",
    "causes": _CAUSES,
    "lost_rounds": "int",
    "moved": "int",
    "stopped_partition_ms": _BOUNDS,
    "absorbed": "int",
}
CULPRIT: dict[str, Any] = {
    "group_id": "str",
    "who": "str",
    "client_host": "str?",
    "rebalances": "int",
    "causes": _CAUSES,
}
ALARM: dict[str, Any] = {
    "alarm": "str",
    "identity": "str?",
    "confidence": "str?",
    "count": "int?",
    "since": "str?",
    "cleared": "str?",
    "evidence": ["str"],
}
EXPLANATION: dict[str, Any] = {
    "group_id": "str",
    "group_type": "str?",
    "window": _WINDOW,
    "complete": "bool?",
    "causes": _CAUSES,
    "rebalance": (REBALANCE, None),
    "changes": [CHANGE],
    "moves": [{"topic": "str", "partition": "int", "from": "str?", "to": "str?"}],
    "rebalances": [REBALANCE],
    "events": [EVENT],
    "alarms": [ALARM],
    "timeout_advice": (ADVICE, None),
    "advice": [CHANGE_ADVICE],
    "replay": REPLAY,
    "next": ["any"],
    "wait": (WAIT, None),
}
DAMAGE: dict[str, Any] = {"partition": "int", "path": "str", "position": "int?", "reason": "str", "torn": "bool"}

CONTRACTS: dict[str, dict[str, Any]] = {
    "history-capture": {"out": "str", "source": "str", **CAPTURED},
    "history-build": {
        "out": "str",
        "number": "int",
        "records": "int",
        "bad": "int",
        "partitions": ["int"],
        "rebuilt": ["int"],
        "rows": {"*": "int"},
        "captured": (CAPTURED, None),
    },
    "history-rebalances": {"window": _WINDOW, "rebalances": [REBALANCE]},
    "history-explain": EXPLANATION,
    "history-timeline": {
        "group_id": "str",
        "window": _WINDOW,
        "seats": [SEAT],
        "unconfirmed": ["str"],
        "events": [EVENT],
        "rebalances": [REBALANCE],
    },
    "history-movement": {"group_id": "str", "window": _WINDOW, "owners": [OWNER]},
    "history-offsets": {
        "group_id": "str",
        "window": _WINDOW,
        "retention_ms": "int?",
        "changes": [OFFSET_CHANGE],
        "offsets": [HELD_OFFSET],
    },
    "history-churn": {
        "window": _WINDOW,
        "groups": [GROUP_CHURN],
        "culprits": [CULPRIT],
    },
    "history-zombies": {
        "window": _WINDOW,
        "alarms": [
            {
                "group_id": "str",
                "group_type": "str?",
                **ALARM,
                "last": "str?",
                "member_ids": ["str"],
                "record": RECORD,
            }
        ],
    },
    "history-timeouts": {"window": _WINDOW, "advice": [ADVICE]},
    "history-decode": {
        "records": [
            {
                "partition": "int",
                "offset": "int",
                "timestamp": "int?",
                "key": ({"type": "int?", "data": "any", "raw?": "str"}, None),
                "value": ({"version": "int?", "data": "any", "raw?": "str"}, None),
                "error?": "str",
                "control?": ({"type": "=COMMIT|ABORT"}, None),
                "txn?": "=committed|aborted|open",
            }
        ]
    },
    "history-verify": {
        "source": "str",
        "sound": "bool",
        "records": "int",
        "bad_records": "int",
        "unknown_tags": "int",
        "complete_since": "str?",
        "until": "str?",
        "partitions": [PARTITION],
        "groups": [_GROUP],
        "bad": [
            {
                "reason": "str",
                "key_type": "int?",
                "value_version": "int?",
                "count": "int",
                "examples": [{"partition": "int", "offset": "int", "error": "str", "key": "str?", "value": "str?"}],
            }
        ],
        "damages": [DAMAGE],
    },
    "history-simulate-fleet": {
        "window": _WINDOW,
        "plan": {
            "scenarios": ["str"],
            "restart_time_ms": "int",
            "draws": "int",
            "seed": "int",
            "settings": {"*": "str"},
            "hosts": ["str"],
            "racks": ["str"],
        },
        "costs": [COST],
    },
}
