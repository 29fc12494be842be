"""The JSON of `kgm remove-members`."""

from __future__ import annotations

from typing import Any, Final

from kgm.cli.output.contracts.groups import MOVE, PARTITIONS

FORMS: Final[dict[str, dict[str, Any]]] = {
    "remove-members": {
        "group_id": "str",
        "dry_run": "bool",
        "reason": "str",
        "results": [
            {
                "group_instance_id": "str?",
                "member_id": "str?",
                "result": "=planned|removed|absent|refused|failed|unknown",
                "error": "str?",
                "partitions_freed": PARTITIONS,
                "note": "str?",
            }
        ],
        "moves_expected": ([MOVE], None),
    }
}
