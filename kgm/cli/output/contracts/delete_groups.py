"""The JSON of `kgm delete-groups`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.model.errors import error_name

if TYPE_CHECKING:
    from kgm.operations.deletion.outcome import DeletionResult

FORMS: Final[dict[str, dict[str, Any]]] = {
    "delete-groups": {
        "dry_run": "bool",
        "reason": "str",
        "idle_for_ms": "int",
        "results": [
            {
                "group_id": "str",
                "topic": "str?",
                "result": "=planned|removed|returned|absent|refused|failed|unknown",
                "idleness": {"verdict": "=active|idle|unknown", "evidence": ["str"], "last_use_at": "str?"},
                "offsets": [{"topic": "str", "partition": "int", "committed": "int"}],
                "error": "str?",
                "note": "str?",
            }
        ],
        "warnings": ["str"],
    }
}


def result_json(one: DeletionResult) -> dict[str, Any]:
    return {
        "group_id": one.target.group_id,
        "topic": one.target.topic,
        "result": str(one.result),
        "idleness": {
            "verdict": str(one.idleness.verdict),
            "evidence": list(one.idleness.evidence),
            "last_use_at": one.last_use_at,
        },
        "offsets": one.target.rows,
        "error": error_name(one.error),
        "note": one.note,
    }
