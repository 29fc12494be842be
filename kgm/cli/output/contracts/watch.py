"""The JSON of `kgm watch`: events as they happen, and the final state of each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.cli.output.contracts.groups import VALUE
from kgm.model.forms.json_form import as_json
from kgm.model.forms.snapshot_form import MOVE
from kgm.text.names import in_order
from kgm.text.timestamps import rfc3339

if TYPE_CHECKING:
    from kgm.model.snapshot import GroupSnapshot
    from kgm.operations.watch.events import GroupEvent
    from kgm.operations.watch.verdict import WatchVerdict
    from kgm.operations.watch.watched_group import WatchedGroup

_GROUP: Final[dict[str, Any]] = {
    "group_id": "str",
    "reached": "bool?",
    "breach": "str?",
    "missing": ["str"],
    "looks": "int",
    "rebalances": "int",
    "rebalances_max": "int?",
    "rebalances_exact": "bool",
    "rebalances_doubt": "str?",
    "moved_partitions": "int",
    "handovers": "int",
    "handovers_exact": "bool",
    "moves": [MOVE],
    "replaced": ["str"],
    "type": "str?",
    "state": "str?",
    "generation": "int?",
    "group_epoch": "int?",
    "members": "int?",
    "lag": "int?",
}
_EVENT: Final[dict[str, Any]] = {
    "at": "str",
    "written_at": "str?",
    "group_id": "str",
    "event": "str",
    "text": "str",
    "identity": "str?",
    "member_id": "str?",
    "member_id_before": "str?",
    "before": VALUE,
    "after": VALUE,
    "moves": [MOVE],
    "state": "str?",
    "generation": "int?",
    "group_epoch": "int?",
    "members": "int?",
    "lag": "int?",
    "rebalances": "int",
    "moved_partitions": "int",
    "handovers": "int",
}
FORMS: Final[dict[str, dict[str, Any]]] = {"watch": {"groups": [_GROUP], "events": [_EVENT]}}


def event_json(event: GroupEvent, group: WatchedGroup) -> dict[str, Any]:
    """A line of NDJSON and entry of `data.events`: the event, and the state of the group at that moment."""
    own = {
        "at": rfc3339(event.at_ms),
        "written_at": None if event.written_at_ms is None else rfc3339(event.written_at_ms),
        "event": str(event.kind),
        "moves": [move.to_json() for move in event.moves],
        **_state(group.latest),
        "generation": group.generation,
        "rebalances": group.rebalances,
        "moved_partitions": len(group.moved),
        "handovers": group.handovers,
    }
    return as_json(event, _EVENT, own)


def verdict_json(verdict: WatchVerdict) -> dict[str, Any]:
    """An entry of `data.groups`."""
    doubt = verdict.rebalances_doubt
    own = {
        "rebalances_exact": doubt is None,
        "rebalances_doubt": None if doubt is None else str(doubt),
        "moves": [move.to_json() for move in verdict.moves],
        "replaced": in_order(verdict.replaced),
        **_state(verdict.latest),
    }
    return as_json(verdict, _GROUP, own)


def _state(latest: GroupSnapshot | None) -> dict[str, Any]:
    """What both forms show of the latest snapshot."""
    return {
        "type": None if latest is None else latest.type,
        "state": None if latest is None else latest.state,
        "group_epoch": None if latest is None else latest.group_epoch,
        "members": None if latest is None else len(latest.members),
        "lag": None if latest is None else latest.lag,
    }
