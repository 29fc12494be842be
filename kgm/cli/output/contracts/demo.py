"""The JSON of `kgm demo`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.cli.output.contracts.groups import GROUP, MOVE, moves_json

if TYPE_CHECKING:
    from kgm.operations.demo.demo import PredictionCheck

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
        "predicted": {"rebalances": check.predicted.rebalances, "moves": moves_json(check.predicted.moves)},
        "actual": {"rebalances": check.actual.rebalances, "moves": moves_json(check.actual.moves)},
        "holds": check.holds,
    }
