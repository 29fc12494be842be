"""Events as lines of text (for a pipe or a log), as lines of JSON, or collected for a document at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from kgm.cli.output.contracts.watch import event_json
from kgm.cli.output.streams import reader_has_gone, write_to_reader
from kgm.operations.watch.events import GroupEvent
from kgm.operations.watch.watched_group import WatchedGroup
from kgm.text.names import visible
from kgm.text.sanitize import clean, json_text
from kgm.text.timestamps import rfc3339


class TextLines:
    """Prints a line for each event immediately."""

    def show(self, events: Sequence[GroupEvent], now_ms: int) -> None:  # noqa: ARG002  (a WatchObserver)
        for event in events:
            _write_line(event_line(event))

    def has_left(self) -> bool:
        return reader_has_gone(sys.stdout)


class JsonLines:
    """Prints a JSON object for each event immediately."""

    def __init__(self, groups: Sequence[WatchedGroup]) -> None:
        self._groups = {group.group_id: group for group in groups}

    def show(self, events: Sequence[GroupEvent], now_ms: int) -> None:  # noqa: ARG002  (a WatchObserver)
        for event in events:
            item = event_json(event, self._groups[event.group_id])
            _write_line(json_text(json.dumps(item, ensure_ascii=False)))

    def has_left(self) -> bool:
        return reader_has_gone(sys.stdout)


class CollectedEvents:
    """Collects the JSON objects of all events, made when they happened."""

    def __init__(self, groups: Sequence[WatchedGroup]) -> None:
        self._groups = {group.group_id: group for group in groups}
        self.items: list[dict[str, Any]] = []

    def show(self, events: Sequence[GroupEvent], now_ms: int) -> None:  # noqa: ARG002  (a WatchObserver)
        self.items += [event_json(event, self._groups[event.group_id]) for event in events]

    def has_left(self) -> bool:
        return reader_has_gone(sys.stdout)


def event_line(event: GroupEvent) -> str:
    """`2026-11-21T12:00:00Z  orders  moved  orders[2] app-1 -> app-2`."""
    return clean(f"{rfc3339(event.at_ms)[:19]}Z  {visible(event.group_id)}  {event.kind}  {event.text}")


def _write_line(text: str) -> None:
    """Write and flush the line, so that the reader of the pipe gets it. Raises BrokenPipeError if there is no reader,
    OutputError if it cannot be written."""
    write_to_reader(text + "\n")
