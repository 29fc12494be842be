"""The form of a prediction's JSON (`Prediction.to_json`)."""

from typing import Any, Final

from kgm.model.forms.snapshot_form import MOVE, PARTITIONS

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
    "stopped_partition_range_ms": {**_RANGE, "draws": "int", "is_open": "bool"},
    "draws": "int",
    "sink_groups": [_SINK_GROUP],
}
