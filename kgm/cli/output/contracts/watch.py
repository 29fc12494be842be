"""The JSON of `kgm watch`: events as they happen, and the final state of each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.cli.output.contracts.groups import MOVE, VALUE, moves_json
from kgm.text.names import in_order
from kgm.text.timestamps import rfc3339

if TYPE_CHECKING:
    from kgm.operations.watch.events import GroupEvent
    from kgm.operations.watch.verdict import WatchVerdict
    from kgm.operations.watch.watched_group import WatchedGroup

FORMS: Final[dict[str, dict[str, Any]]] = {
    "watch": {
        "groups": [
            {
                "group_id": "str",
                "reached": "bool?",
                "breach": "str?",
                "missing": ["str"],
                "looks": "int",
                "rebalances": "int",
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
        ],
        "events": [
            {
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
        ],
    }
}


def event_json(event: GroupEvent, group: WatchedGroup) -> dict[str, Any]:
    """A line of NDJSON and entry of `data.events`: the event, and the state of the group at that moment."""
    latest = group.latest
    return {
        "at": rfc3339(event.at_ms),
        "written_at": None if event.written_at_ms is None else rfc3339(event.written_at_ms),
        "group_id": event.group_id,
        "event": event.kind,
        "text": event.text,
        "identity": event.identity,
        "member_id": event.member_id,
        "member_id_before": event.member_id_before,
        "before": event.before,
        "after": event.after,
        "moves": moves_json(event.moves),
        "state": None if latest is None else latest.state,
        "generation": group.generation,
        "group_epoch": None if latest is None else latest.group_epoch,
        "members": None if latest is None else len(latest.members),
        "lag": None if latest is None else latest.lag,
        "rebalances": group.rebalances,
        "moved_partitions": len(group.moved),
        "handovers": group.handovers,
    }


def verdict_json(verdict: WatchVerdict) -> dict[str, Any]:
    """An entry of `data.groups`."""
    latest, doubt = verdict.latest, verdict.rebalances_doubt
    return {
        "group_id": verdict.group_id,
        "reached": verdict.reached,
        "breach": verdict.breach,
        "missing": list(verdict.missing),
        "looks": verdict.looks,
        "rebalances": verdict.rebalances,
        "rebalances_exact": doubt is None,
        "rebalances_doubt": None if doubt is None else str(doubt),
        "moved_partitions": verdict.moved_partitions,
        "handovers": verdict.handovers,
        "handovers_exact": verdict.handovers_exact,
        "moves": moves_json(verdict.moves),
        "replaced": in_order(verdict.replaced),
        "type": None if latest is None else latest.type,
        "state": None if latest is None else latest.state,
        "generation": verdict.generation,
        "group_epoch": None if latest is None else latest.group_epoch,
        "members": None if latest is None else len(latest.members),
        "lag": None if latest is None else latest.lag,
    }
