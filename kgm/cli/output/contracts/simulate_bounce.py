"""The JSON of `kgm simulate-bounce`: the plan, and what each scenario costs."""

from __future__ import annotations

from typing import Any, Final

from kgm.simulation.report.prediction_form import SCENARIO

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
