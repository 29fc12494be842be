"""The JSON of `kgm rollout`: the steps, and the events as they happened."""

from __future__ import annotations

from typing import Any, Final

from kgm.model.forms.snapshot_form import PARTITIONS

_SPAN: Final = {"min": "int", "max": "int"}

FORMS: Final[dict[str, dict[str, Any]]] = {
    "rollout": {
        "group_id": "str",
        "dry_run": "bool",
        "journal": "str?",
        "outcome": "=planned|refused|done|deviated|failed",
        "steps_done": "int",
        "steps": [{"step": "int", "kind": "=bounce|stop|replace", "members": ["str"], "remove": ["str"]}],
        "events": [
            {
                "at": "str?",
                "group_id": "str",
                "event": "=foretold|step|command|observed|deviation|note|done",
                "step": "int?",
                "steps": "int",
                "text": "str",
                "identity": "str?",
                "command": (["str"], None),
                "result": (
                    {
                        "exit_code": "int?",
                        "timed_out": "bool",
                        "output": "str",
                        "took_ms": "int",
                        "remaining_pids": ["int"],
                    },
                    None,
                ),
                "foretold": (
                    {
                        "rebalances": _SPAN,
                        "handovers": _SPAN,
                        "exact": "bool",
                        "becomes_stable": "bool",
                        "final_assignment": ({"*": PARTITIONS}, None),
                        "caveats": ["str"],
                    },
                    None,
                ),
                "observed": (
                    {
                        "rebalances": "int",
                        "rebalances_doubt": "str?",
                        "handovers": "int",
                        "handovers_exact": "bool",
                    },
                    None,
                ),
                "as_predicted": "bool?",
            }
        ],
    }
}
