"""The JSON of `kgm drain`: what removing members does to each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.model.forms.json_form import as_json
from kgm.simulation.report.prediction_form import SCENARIO

if TYPE_CHECKING:
    from kgm.operations.drain.forecast import Drain, DrainedGroup, DrainForecast, UnpredictedGroup

_DRAIN: Final[dict[str, Any]] = {
    "hosts": ["str"],
    "client_ids": ["str"],
    "racks": ["str"],
    "match": ["str"],
    "for_good": "bool",
    "restart_time_ms": "int?",
    "stop": "=clean|crash",
}
_GROUP: Final[dict[str, Any]] = {
    "group_id": "str",
    "type": "=classic|consumer|share|streams",
    "members": "int",
    "drained_members": ["str"],
    "members_left": "int",
    "drained_partitions": "int",
    "unowned_partitions": "int",
    "tasks_without_copy": ["str"],
    "most_partitions_before": "int",
    "most_partitions_after": "int",
    "empty": "bool",
    "thin": "bool",
    "session_timeout_ms": "int?",
    **SCENARIO,
}
FORMS: Final[dict[str, dict[str, Any]]] = {
    "drain": {
        "drain": _DRAIN,
        "groups_examined": "int",
        "groups": [_GROUP],
        "not_predicted": [
            {"group_id": "str", "drained_members": (["str"], None), "code": "str", "reason": "str", "hint": "str?"}
        ],
        "totals": {
            "drained_members": "int",
            "rebalances": "int",
            "handovers": "int",
            "moved_partitions": "int",
            "stopped_partition_ms": "int",
            "empty_groups": "int",
            "thin_groups": "int",
        },
    }
}


def forecast_json(foreseen: DrainForecast) -> dict[str, Any]:
    """`data`."""
    typical = [one.prediction.typical for one in foreseen.groups]
    return {
        "drain": _drain_json(foreseen.drain),
        "groups_examined": foreseen.examined,
        "groups": [group_json(one) for one in foreseen.groups],
        "not_predicted": [unpredicted_json(one) for one in foreseen.unpredicted],
        "totals": {
            "drained_members": foreseen.members_taken,
            "rebalances": sum(draw.rebalances for draw in typical),
            "handovers": sum(draw.handovers for draw in typical),
            "moved_partitions": sum(draw.moved_partitions for draw in typical),
            "stopped_partition_ms": sum(draw.stopped_partition_ms for draw in typical),
            "empty_groups": sum(one.is_emptied for one in foreseen.groups),
            "thin_groups": sum(one.is_thin for one in foreseen.groups),
        },
    }


def _drain_json(drain: Drain) -> dict[str, Any]:
    own = {
        "match": list(drain.target.identities),
        "for_good": drain.restart_time_ms is None,
        "restart_time_ms": drain.restart_time_ms,
        "stop": drain.stop.value,
    }
    return as_json(drain.target, _DRAIN, own)


def group_json(one: DrainedGroup) -> dict[str, Any]:
    """An entry of `data.groups`."""
    own = {
        "group_id": one.group.group_id,
        "type": one.group.type,
        "members": len(one.group.members),
        "drained_members": list(one.taken),
        "drained_partitions": one.partitions_taken,
        "unowned_partitions": one.prediction.unowned_partitions,
        "empty": one.is_emptied,
        "thin": one.is_thin,
        "session_timeout_ms": one.group.session_timeout_ms,
        **one.prediction.to_json(),
    }
    return as_json(one, _GROUP, own)


def unpredicted_json(one: UnpredictedGroup) -> dict[str, Any]:
    """An entry of `data.not_predicted`."""
    return {
        "group_id": one.group_id,
        "drained_members": None if one.taken is None else list(one.taken),
        "code": one.reason.json_code,
        "reason": one.reason.message,
        "hint": one.reason.hint,
    }
