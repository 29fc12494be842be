"""The JSON of `kgm describe`: snapshots, which `GroupSnapshot.to_json` makes, and what they lack."""

from __future__ import annotations

from typing import Any, Final

from kgm.cli.output.contracts.groups import GROUP, UNREAD

FORMS: Final[dict[str, dict[str, Any]]] = {"describe": {"groups": [GROUP], "unread": [UNREAD]}}
