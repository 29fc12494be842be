"""The JSON of `kgm demo`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.model.forms.snapshot_form import GROUP, MOVE

if TYPE_CHECKING:
    from kgm.operations.demo.demo import Effect, PredictionCheck

FORMS: Final[dict[str, dict[str, Any]]] = {
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
    }
}


def check_json(check: PredictionCheck) -> dict[str, Any]:
    """An entry of `data.checks`."""
    return {
        "name": check.name,
        "predicted": _effect_json(check.predicted),
        "actual": _effect_json(check.actual),
        "holds": check.holds,
    }


def _effect_json(effect: Effect) -> dict[str, Any]:
    return {"rebalances": effect.rebalances, "moves": [move.to_json() for move in effect.moves]}
