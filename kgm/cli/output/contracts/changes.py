"""The JSON of `kgm remove-members` and `kgm delete-groups`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.model.errors import error_name
from kgm.model.forms.json_form import as_json
from kgm.model.forms.snapshot_form import MOVE, PARTITIONS

if TYPE_CHECKING:
    from kgm.operations.deletion.outcome import DeletionResult
    from kgm.operations.removal.outcome import MemberResult

_REMOVAL: Final[dict[str, Any]] = {
    "group_instance_id": "str?",
    "member_id": "str?",
    "result": "=planned|removed|returned|absent|refused|failed|unknown",
    "liveness": {"verdict": "=alive|stopped|unknown", "evidence": ["str"]},
    "error": "str?",
    "partitions_freed": PARTITIONS,
    "note": "str?",
}
_DELETION: Final[dict[str, Any]] = {
    "group_id": "str",
    "topic": "str?",
    "result": "=planned|removed|returned|absent|refused|failed|unknown",
    "idleness": {"verdict": "=active|idle|unknown", "evidence": ["str"], "last_use_at": "str?"},
    "offsets": [{"topic": "str", "partition": "int", "committed": "int"}],
    "error": "str?",
    "note": "str?",
}
FORMS: Final[dict[str, dict[str, Any]]] = {
    "remove-members": {
        "group_id": "str",
        "dry_run": "bool",
        "reason": "str",
        "results": [_REMOVAL],
        "moves_expected": ([MOVE], None),
        "warnings": ["str"],
    },
    "delete-groups": {
        "dry_run": "bool",
        "reason": "str",
        "idle_for_ms": "int",
        "results": [_DELETION],
        "warnings": ["str"],
    },
}


def removal_json(one: MemberResult) -> dict[str, Any]:
    freed = one.partitions_freed
    own = {
        "group_instance_id": one.target.instance_id,
        "member_id": one.target.member_id,
        "error": error_name(one.error),
        "partitions_freed": {topic: sorted(freed[topic]) for topic in sorted(freed)},
    }
    return as_json(one, _REMOVAL, own)


def deletion_json(one: DeletionResult) -> dict[str, Any]:
    own = {
        "group_id": one.target.group_id,
        "topic": one.target.topic,
        "idleness": as_json(one.idleness, _DELETION["idleness"], {"last_use_at": one.last_use_at}),
        "offsets": one.target.rows,
        "error": error_name(one.error),
    }
    return as_json(one, _DELETION, own)
