"""The JSON of `kgm simulate-bounce`: the plan, and what each scenario costs."""

from __future__ import annotations

from typing import Any, Final

from kgm.cli.output.contracts.groups import MOVE, PARTITIONS

_RANGE: Final = {"min": "int", "median": "int", "max": "int"}
#: What a plan for Connect workers does to the group of a sink connector.
_SINK_GROUP: Final[dict[str, Any]] = {
    "group_id": "str",
    "connector": "str",
    "tasks": "int",
    "stopping_tasks": ["str"],
    "rebalances": _RANGE,
    "generations": _RANGE,
    "moved_partitions": _RANGE,
    "handovers": _RANGE,
    "stopped_partition_ms": _RANGE,
    "unowned_partitions": [{"topic": "str", "partition": "int", "longest_ms": _RANGE, "until_ms": (_RANGE, None)}],
    "exact": "bool",
    "caveats": ["str"],
    "draws": "int",
}
SCENARIO: Final[dict[str, Any]] = {
    "name": "str",
    "protocol": "=classic|consumer|streams",
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
            "handovers": _RANGE,
            "stopped_partition_ms": _RANGE,
            "draws": "int",
        },
        None,
    ),
    "stopped_partition_range_ms": {**_RANGE, "draws": "int"},
    "draws": "int",
    "sink_groups": [_SINK_GROUP],
}
PLAN: Final[dict[str, Any]] = {
    "bounce": ["str"],
    "scale_in": ["str"],
    "remove": ["str"],
    "scale_out": "int",
    "scale_out_every_ms": "int",
    "target_size": "int?",
    "pre_registered": ["str"],
    "units": [["str"]],
    "mode": "=together|rolling",
    "max_unavailable": "int?",
    "pause_ms": "int?",
    "order": "=named|id|host|client-id|partitions|leader-last",
    "restart_time_ms": "int",
    "restart_times_ms": ["int"],
    "retry_every_ms": "int?",
    "migrate": "bool",
    "remove_first": "bool",
    "stop": "=clean|crash",
    "session_timeout_ms": "int?",
    "rebalance_timeout_ms": "int?",
    "heartbeat_interval_ms": "int?",
    "assignor": "str?",
    "protocol": "=classic|consumer?",
    "library": "str?",
    "as": "=static|dynamic?",
    "kafka_version": "str",
    "other_versions": ["str"],
    "settings": {"*": "str"},
}

FORMS: Final[dict[str, dict[str, Any]]] = {
    "simulate-bounce": {"group_id": "str", "plan": PLAN, "scenarios": [SCENARIO]}
}
