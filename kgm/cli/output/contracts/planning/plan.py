"""The JSON of `kgm plan`: the ways to restart members that no other way beats."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from kgm.cli.output.contracts.simulate_bounce import PLAN, SCENARIO

if TYPE_CHECKING:
    from kgm.operations.plan.costs import PlanCosts
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
        "session_advice": (
            {
                "session_timeout_ms": "int",
                "session_timeout_now_ms": "int",
                "members": "int",
                "restarts_seen": "int",
                "longest_restart_ms": "int",
                "quiet_percent": "int",
                "quiet_percent_now": "int",
                "if_a_member_dies": _DEATH,
                "caveats": ["str"],
            },
            None,
        ),
        "search": {
            "tried": "int", "ways": "int", "complete": "bool", "draws": "int", "seed": "int", "budget_ms": "int",
            "not_predicted": ["str"],
        },
    }
}  # fmt: skip


def plan_json(found: FoundPlan, exceeds: tuple[str, ...] = ()) -> dict[str, Any]:
    """The keys that all plans share."""
    return {
        "flags": list(found.shape.words),
        "costs": _costs_json(found.costs),
        "exceeds": list(exceeds),
        "scenario": found.prediction.to_json(),
    }


def _costs_json(costs: PlanCosts) -> dict[str, int]:
    return {
        "stopped_partition_ms": costs.stopped_partition_ms,
        "handovers": costs.handovers,
        "rebalances": costs.rebalances,
        "duration_ms": costs.took_ms,
        "longest_duration_ms": costs.most_ms,
        "fewest_consumed_percent": costs.fewest_consumed_percent,
        "tasks_without_copy": costs.tasks_without_copy,
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
    death = None if one.death is None else asdict(one.death)
    return {"name": one.name, "change": one.change, **plan_json(one.best, one.exceeded), "if_a_member_dies": death}


def advice_json(advice: SessionAdvice | None) -> dict[str, Any] | None:
    """`data.session_advice`."""
    return None if advice is None else {
        "session_timeout_ms": advice.session_timeout_ms,
        "session_timeout_now_ms": advice.now_ms,
        "members": advice.members,
        "restarts_seen": len(advice.restart_times_ms),
        "longest_restart_ms": max(advice.restart_times_ms),
        "quiet_percent": advice.quiet,
        "quiet_percent_now": advice.quiet_now,
        "if_a_member_dies": {
            "member": advice.member,
            "stopped_partition_ms": advice.died_ms,
            "stopped_partition_now_ms": advice.died_now_ms,
        },
        "caveats": list(advice.caveats),
    }  # fmt: skip
