"""The JSON of `kgm remove-members` and `kgm delete-groups`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.cli.output.contracts.groups import MOVE, PARTITIONS
from kgm.model.errors import error_name

if TYPE_CHECKING:
    from kgm.operations.deletion.outcome import DeletionResult
    from kgm.operations.removal.outcome import MemberResult

FORMS: Final[dict[str, dict[str, Any]]] = {
    "remove-members": {
        "group_id": "str",
        "dry_run": "bool",
        "reason": "str",
        "results": [
            {
                "group_instance_id": "str?",
                "member_id": "str?",
                "result": "=planned|removed|returned|absent|refused|failed|unknown",
                "liveness": {"verdict": "=alive|stopped|unknown", "evidence": ["str"]},
                "error": "str?",
                "partitions_freed": PARTITIONS,
                "note": "str?",
            }
        ],
        "moves_expected": ([MOVE], None),
        "warnings": ["str"],
    },
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
    },
}


def removal_json(one: MemberResult) -> dict[str, Any]:
    freed = one.partitions_freed
    return {
        "group_instance_id": one.target.instance_id,
        "member_id": one.target.member_id,
        "result": str(one.result),
        "liveness": {"verdict": str(one.liveness.verdict), "evidence": list(one.liveness.evidence)},
        "error": error_name(one.error),
        "partitions_freed": {topic: sorted(freed[topic]) for topic in sorted(freed)},
        "note": one.note,
    }


def deletion_json(one: DeletionResult) -> dict[str, Any]:
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
