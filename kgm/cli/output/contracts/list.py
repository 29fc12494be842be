"""The JSON of `kgm list`."""

from __future__ import annotations

from typing import Any, Final

from kgm.cli.output.contracts.groups import COORDINATOR, UNREAD, coordinator_json
from kgm.operations.groups.listing import GroupRow

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
    }
}


def group_json(row: GroupRow) -> dict[str, Any]:
    """One of `data.groups`."""
    return {
        "group_id": row.group_id,
        "type": row.type,
        "state": row.state,
        "protocol_type": row.protocol_type,
        "members": row.members,
        "coordinator": coordinator_json(row.coordinator),
        "lag": row.lag,
    }
