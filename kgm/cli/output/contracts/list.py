"""The JSON of `kgm list` and `kgm top`, which both list groups."""

from __future__ import annotations

from typing import Any, Final

from kgm.cli.output.contracts.groups import UNREAD
from kgm.model.forms.json_form import as_json
from kgm.model.forms.snapshot_form import COORDINATOR
from kgm.operations.groups.listing import GroupRow
from kgm.operations.top.rows import FleetRow
from kgm.text.timestamps import rfc3339

_GROUP: Final = {
    "group_id": "str",
    "type": "str?",
    "state": "str?",
    "protocol_type": "str?",
    "members": "int?",
    "coordinator": (COORDINATOR, None),
    "lag": "int?",
}
_FLEET_ROW: Final = {
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
FORMS: Final[dict[str, dict[str, Any]]] = {
    "list": {"groups": [_GROUP], "unread": [UNREAD]},
    "top": {"groups": [_FLEET_ROW], "unread": [UNREAD]},
}


def group_json(row: GroupRow) -> dict[str, Any]:
    """An entry of `data.groups`."""
    return as_json(row, _GROUP)


def fleet_row_json(row: FleetRow) -> dict[str, Any]:
    """An entry of `data.groups` of `kgm top`."""
    own = {
        "rebalances_since": None if row.rebalances_since_ms is None else rfc3339(row.rebalances_since_ms),
        "read_at": None if row.read_at_ms is None else rfc3339(row.read_at_ms),
    }
    return as_json(row, _FLEET_ROW, own)
