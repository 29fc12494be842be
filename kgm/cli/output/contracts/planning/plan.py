"""The JSON of `kgm plan`: the ways to restart members that no other way beats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.cli.output.contracts.simulate_bounce import PLAN
from kgm.model.forms.json_form import as_json, json_value
from kgm.simulation.report.prediction_form import SCENARIO

if TYPE_CHECKING:
    from kgm.operations.plan.search import FoundPlan, FoundPlans, WhatIfPlan
    from kgm.operations.plan.session_advice import SessionAdvice

_COSTS: Final[dict[str, Any]] = {
    "stopped_partition_ms": "int",
    "handovers": "int",
    "rebalances": "int",
    "duration_ms": "int",
    "longest_duration_ms": "int",
    "fewest_consumed_percent": "int",
    "tasks_without_copy": "int",
}
_DEATH: Final = {"member": "str", "stopped_partition_ms": "int", "stopped_partition_now_ms": "int"}
_ADVICE: Final[dict[str, Any]] = {
    "session_timeout_ms": "int",
    "session_timeout_now_ms": "int",
    "members": "int",
    "restarts_seen": "int",
    "longest_restart_ms": "int",
    "quiet_percent": "int",
    "quiet_percent_now": "int",
    "if_a_member_dies": _DEATH,
    "caveats": ["str"],
}
_PLAN: Final[dict[str, Any]] = {
    "flags": ["str"],
    "costs": _COSTS,
    "exceeds": ["str"],
    "scenario": SCENARIO,
}

FORMS: Final[dict[str, dict[str, Any]]] = {
    "plan": {
        "group_id": "str",
        "minimise": "=stopped|handovers|rebalances|duration",
        "limits": {"max_duration_ms": "int?", "max_unavailable": "int?", "keep_consuming_percent": "int?"},
        "plan": PLAN,
        "plans": [{**_PLAN, "rollout": "str"}],
        "closest": ({**_PLAN, "rollout": "str"}, None),
        "what_ifs": [{**_PLAN, "name": "str", "change": "str", "if_a_member_dies": (_DEATH, None)}],
        "what_ifs_not_played": [{"name": "str", "reason": "str"}],
        "session_advice": (_ADVICE, None),
        "search": {
            "tried": "int", "ways": "int", "complete": "bool", "draws": "int", "seed": "int", "budget_ms": "int",
            "not_predicted": ["str"],
        },
    }
}  # fmt: skip


def plan_json(found: FoundPlan, exceeds: tuple[str, ...] = ()) -> dict[str, Any]:
    """The keys that all plans share."""
    costs = found.costs
    return {
        "flags": list(found.shape.words),
        "costs": as_json(costs, _COSTS, {"duration_ms": costs.took_ms, "longest_duration_ms": costs.most_ms}),
        "exceeds": list(exceeds),
        "scenario": found.prediction.to_json(),
    }


def limits_json(found: FoundPlans) -> dict[str, int | None]:
    """`data.limits`."""
    limits = found.task.limits
    return {
        "max_duration_ms": limits.duration_ms,
        "max_unavailable": found.task.max_unavailable,
        "keep_consuming_percent": limits.consumed_percent,
    }


def what_if_json(one: WhatIfPlan) -> dict[str, Any]:
    """An entry of `data.what_ifs`."""
    death = json_value(one.death, (_DEATH, None))
    return {"name": one.name, "change": one.change, **plan_json(one.best, one.exceeded), "if_a_member_dies": death}


def advice_json(advice: SessionAdvice | None) -> dict[str, Any] | None:
    """`data.session_advice`."""
    if advice is None:
        return None
    times_ms = advice.restart_times_ms
    return as_json(advice, _ADVICE, {"restarts_seen": len(times_ms), "longest_restart_ms": max(times_ms)})
