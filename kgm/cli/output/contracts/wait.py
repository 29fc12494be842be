"""The JSON of `kgm wait`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kgm.operations.watch.wait import ConditionResult, WaitResult

FORMS: Final[dict[str, dict[str, Any]]] = {
    "wait": {
        "group_id": "str",
        "met": "bool",
        "waited_ms": "int",
        "conditions": [{"condition": "str", "met": "bool", "seen": "str"}],
        "state": "str?",
        "members": "int?",
        "lag": "int?",
        "lag_ms": "int?",
        "trend": "=rising|falling|steady|caught-up|unknown?",
        "done_in_ms": "int?",
    }
}


def condition_json(result: ConditionResult) -> dict[str, Any]:
    """An entry of `data.conditions`."""
    return {"condition": result.condition.text, "met": result.met, "seen": result.seen}


def wait_json(result: WaitResult) -> dict[str, Any]:
    """`data`."""
    group = result.group
    return {
        "group_id": result.group_id,
        "met": result.met,
        "waited_ms": result.waited_ms,
        "conditions": [condition_json(one) for one in result.conditions],
        "state": None if group is None else group.state,
        "members": None if group is None else len(group.members),
        "lag": None if group is None else group.lag,
        "lag_ms": None if group is None else group.lag_ms,
        "trend": None if result.trend is None else str(result.trend.kind),
        "done_in_ms": None if result.trend is None else result.trend.done_in_ms,
    }
