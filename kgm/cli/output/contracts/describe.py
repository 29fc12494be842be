"""The JSON of `kgm describe`: snapshots, which `GroupSnapshot.to_json` makes, partitions where they were asked for, and
what both lack."""

from __future__ import annotations

from typing import Any, Final

from kgm.cli.output.contracts.groups import GROUP, PARTITION, UNREAD

FORMS: Final[dict[str, dict[str, Any]]] = {
    "describe": {"groups": [GROUP], "partitions": ([PARTITION], None), "unread": [UNREAD]}
}
