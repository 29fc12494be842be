"""The JSON of `kgm list` and `kgm top`, which both list groups."""

from __future__ import annotations

from typing import Any, Final

from kgm.cli.output.contracts.groups import COORDINATOR, UNREAD, coordinator_json
from kgm.operations.groups.listing import GroupRow
from kgm.operations.top.rows import FleetRow
from kgm.text.timestamps import rfc3339

FORMS: Final[dict[str, dict[str, Any]]] = {
    "list": {
        "groups": [
            {
                "group_id": "str",
                "type": "str?",
                "state": "str?",
                "protocol_type": "str?",
                "members": "int?",
                "coordinator": COORDINATOR,
                "lag": "int?",
            }
        ],
        "unread": [UNREAD],
    },
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
    },
}


def group_json(row: GroupRow) -> dict[str, Any]:
    """An entry of `data.groups`."""
    return {
        "group_id": row.group_id,
        "type": row.type,
        "state": row.state,
        "protocol_type": row.protocol_type,
        "members": row.members,
        "coordinator": coordinator_json(row.coordinator),
        "lag": row.lag,
    }


def fleet_row_json(row: FleetRow) -> dict[str, Any]:
    """An entry of `data.groups` of `kgm top`."""
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
