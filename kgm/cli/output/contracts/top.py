"""The JSON of `kgm top`."""

from __future__ import annotations

from typing import Any, Final

from kgm.cli.output.contracts.groups import UNREAD
from kgm.operations.top.rows import FleetRow
from kgm.text.timestamps import rfc3339

FORMS: Final[dict[str, dict[str, Any]]] = {
    "top": {
        "groups": [
            {
                "group_id": "str",
                "type": "str?",
                "state": "str?",
                "protocol_type": "str?",
                "assignor": "str?",
                "members": "int?",
                "missing": "int?",
                "lag": "int?",
                "lag_ms": "int?",
                "commit_age_ms": "int?",
                "commit_age_least_ms": "int?",
                "rebalances": "int?",
                "rebalances_since": "str?",
                "rebalances_exact": "bool?",
                "read_at": "str?",
            }
        ],
        "unread": [UNREAD],
    }
}


def fleet_row_json(row: FleetRow) -> dict[str, Any]:
    """One of `data.groups`."""
    return {
        "group_id": row.group_id,
        "type": row.type,
        "state": row.state,
        "protocol_type": row.protocol_type,
        "assignor": row.assignor,
        "members": row.members,
        "missing": row.missing,
        "lag": row.lag,
        "lag_ms": row.lag_ms,
        "commit_age_ms": row.commit_age_ms,
        "commit_age_least_ms": row.commit_age_least_ms,
        "rebalances": row.rebalances,
        "rebalances_since": None if row.rebalances_since_ms is None else rfc3339(row.rebalances_since_ms),
        "rebalances_exact": row.rebalances_exact,
        "read_at": None if row.read_at_ms is None else rfc3339(row.read_at_ms),
    }
