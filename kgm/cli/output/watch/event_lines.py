"""Events as lines: for people who read a pipe or a log, and as NDJSON for programs."""

from __future__ import annotations

import json
import sys
from typing import Any

from kgm.operations.watch.story import Event, Story
from kgm.text.sanitize import clean, json_text


def stamp(at_ms: int) -> str:
    """RFC 3339, in UTC."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def line(event: Event) -> str:
    """`2026-11-21T12:00:00Z  orders  moved  orders[2] seat-1 -> seat-2`."""
    return clean(f"{stamp(event.at_ms)[:19]}Z  {event.group_id}  {event.kind}  {event.text}")


def event_json(event: Event, story: Story) -> dict[str, Any]:
    """One line of NDJSON, one of `data.events`: the event, and how the group stands at that moment."""
    from kgm.cli.commands.diff import moves_json

    view = story.view
    return {
        "at": stamp(event.at_ms),
        "written_at": None if event.written_at_ms is None else stamp(event.written_at_ms),
        "group_id": event.group_id,
        "event": event.kind,
        "text": event.text,
        "identity": event.identity,
        "member_id": event.member_id,
        "member_id_before": event.member_id_before,
        "before": event.before,
        "after": event.after,
        "moves": moves_json(event.moves),
        "state": None if view is None else view.state,
        "generation": story.generation,
        "group_epoch": None if view is None else view.group_epoch,
        "members": None if view is None else len(view.members),
        "lag": None if view is None else view.lag,
        "rebalances": story.rebalances,
        "moved_partitions": len(story.moved),
    }


def write(text: str) -> None:
    """One line at once, so that a reader of the pipe has it. Raises BrokenPipeError when there is none any more."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def write_json(value: dict[str, Any]) -> None:
    """As `write`, a JSON object."""
    write(json_text(json.dumps(value, ensure_ascii=False)))
