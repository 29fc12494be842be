"""The JSON of `kgm remove-members`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.cli.output.contracts.groups import MOVE, PARTITIONS
from kgm.model.errors import error_name

if TYPE_CHECKING:
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
    }
}


def result_json(one: MemberResult) -> dict[str, Any]:
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
