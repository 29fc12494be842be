"""The current state of the groups at a terminal, redrawn after each poll, fitted to its width and height.

Strings from a cluster are cleaned here, and rich interprets no markup."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kgm.cli.output.output_options import OutputOptions
from kgm.cli.output.table_text import STYLES
from kgm.model.assignment import count
from kgm.operations.watch.events import EventKind, GroupEvent
from kgm.operations.watch.watched_group import WatchedGroup
from kgm.text.durations import show_duration
from kgm.text.names import natural
from kgm.text.sanitize import clean
from kgm.text.timestamps import rfc3339
from kgm.text.wording import many, partitions_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.text import Text

    from kgm.model.snapshot import MemberSnapshot

#: The number of latest events that are kept for the lower part of the screen.
_MOST_EVENTS = 200
#: How long a member is highlighted after an event.
_FRESH_MS = 10_000
#: Columns that can be cut, in the order in which they get room; the width they are cut to; the columns always shown.
_FLEXIBLE, _CUT, _LEAST_COLUMNS, _GAP = (0, 4, 5), 24, 4, 2
_EVENT_STYLES = {
    EventKind.MOVED: "yellow", EventKind.LEFT: "yellow", EventKind.GONE: "red", EventKind.UNREACHABLE: "red",
    EventKind.BREACH: "bold red", EventKind.STABLE: "green", EventKind.REPLACED: "cyan", EventKind.JOINED: "green",
    EventKind.GENERATION: "magenta", EventKind.EPOCH: "magenta",
}  # fmt: skip


class Screen:
    """Uses the terminal's alternate screen while it is open; the last picture stays on the normal screen."""

    def __init__(
        self, options: OutputOptions, groups: Sequence[WatchedGroup], *, interval_ms: int, waiting_for: str | None
    ) -> None:
        self._console = screen_console(options)
        self._groups = groups
        self._title = f"every {show_duration(interval_ms)}" + (f", until {waiting_for}" if waiting_for else "")
        self._events: list[GroupEvent] = []
        self._started_ms: int | None = None
        self._now_ms = 0
        self._live: Live | None = None
        #: Whether long lines are folded; they are in the last picture, which is not redrawn.
        self._whole = False

    def __enter__(self) -> Self:
        from rich.live import Live

        self._live = Live(console=self._console, screen=True, auto_refresh=False, vertical_overflow="crop")
        self._live.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        assert self._live is not None
        self._live.__exit__(kind, value, tb)
        self._whole = True
        self._console.print(self._frame(height=len(self._events) + 2 * len(self._groups) + 60))

    def show(self, events: Iterable[GroupEvent], now_ms: int) -> None:
        """Draw the current state and the latest events."""
        assert self._live is not None
        self._live.update(self.picture(events, now_ms, height=self._console.size.height), refresh=True)

    def picture(self, events: Iterable[GroupEvent], now_ms: int, *, height: int) -> RenderableType:
        """The current state, with these events and earlier ones."""
        self._started_ms = now_ms if self._started_ms is None else self._started_ms
        self._now_ms = now_ms
        self._events = [*self._events, *events][-_MOST_EVENTS:]
        return self._frame(height=height)

    def has_left(self) -> bool:
        return False

    def _frame(self, *, height: int) -> RenderableType:
        """At most `height` lines: at least two for each group, then members, then the events that fit."""
        from rich.console import Group
        from rich.text import Text

        since = rfc3339(self._started_ms or self._now_ms)[11:19]
        shown = f"kgm watch  {self._title}  since {since}Z, now {rfc3339(self._now_ms)[11:19]}Z"
        parts: list[RenderableType] = [self._line(Text(shown, style="dim"))]
        events = min(len(self._events), max(3, height // 4))
        heads = [self._head(group) for group in self._groups]
        room = max(0, height - 1 - sum(len(head) + 1 for head in heads) - (events + 1 if events else 0))
        for group, head in zip(self._groups, heads, strict=True):
            parts += [*head, *self._members(group, room // len(heads))]
        if events:
            parts.append(Text(""))
            parts += [self._event(event) for event in self._events[-events:]]
        return Group(*parts[: max(height, 1)])

    def _line(self, text: object) -> RenderableType:
        from rich.text import Text

        assert isinstance(text, Text)
        if not self._whole:
            text.no_wrap, text.overflow = True, "ellipsis"
        return text

    def _event(self, event: GroupEvent) -> RenderableType:
        from rich.text import Text

        text = Text(f"{rfc3339(event.at_ms)[11:19]}  ")
        if len(self._groups) > 1:
            text.append(f"{clean(event.group_id)}  ")
        text.append(event.kind, style=_EVENT_STYLES.get(event.kind, "bold"))
        text.append(f"  {clean(event.text)}")
        return self._line(text)

    def _head(self, group: WatchedGroup) -> list[RenderableType]:
        """The group, its counts, and what is missing, which gets its own line if there is no room."""
        from rich.text import Text

        text = Text(clean(group.group_id), style="bold cyan")
        latest = group.latest
        if latest is None:
            text.append("  does not exist", style="yellow")
            return [self._line(text)]
        text.append(f"  {clean(latest.state)}", style=STYLES.get(latest.state, ""))
        epoch = "" if latest.assignment_epoch is None else f"  epoch {latest.assignment_epoch}"
        generation = "" if group.generation is None or latest.type != "classic" else f"  generation {group.generation}"
        lag = latest.lag
        at = "" if latest.coordinator is None else f"  coordinator {latest.coordinator.id}"
        text.append(
            clean(
                f"  {latest.type}  {latest.assignor or '-'}{generation}{epoch}  {many(len(latest.members), 'member')}"
                f"  lag {'-' if lag is None else lag}{at}"
            ),
            style="not bold default",
        )
        verdict, why = Text(f"  {group.summary()}"), self._why(group)
        if verdict.cell_len + why.cell_len <= self._console.size.width:
            return [self._line(text), self._line(verdict.append_text(why))]
        return [self._line(text), self._line(verdict), self._line(why)]

    def _why(self, group: WatchedGroup) -> Text:
        """What is wrong or still missing, for the end of the group's line."""
        from rich.text import Text

        why = Text()
        if group.error is not None:
            why.append(f"  {clean(group.error.message)}", style="red")
        elif group.breach() is not None:
            why.append(f"  {clean(group.breach() or '')}", style="bold red")
        elif missing := group.missing():
            why.append(f"  {clean(missing[0])}", style="yellow")
            why.append(f" and {len(missing) - 1} more" if len(missing) > 1 else "", style="yellow")
        elif group.quiet_since_ms is not None:
            why.append(f"  quiet for {show_duration((self._now_ms - group.quiet_since_ms) // 1000 * 1000)}")
        return why

    def _members(self, group: WatchedGroup, room: int) -> list[RenderableType]:
        """All members, or, if there is no room, the members with the latest events."""
        from rich.table import Table
        from rich.text import Text

        latest = group.latest
        if latest is None:
            return []
        rows = sorted(latest.members, key=lambda member: natural(member.identity))
        left = 0
        if len(rows) + 1 > room:  # with the header
            keep = max(room - 2, 0)
            left = len(rows) - keep
            rows.sort(key=lambda member: -self._last_event_ms(group, member))
            rows = sorted(rows[:keep], key=lambda member: natural(member.identity))
        if not rows:
            return []
        titles = ["MEMBER", "STATUS", "PARTS", "LAG", "ASSIGNMENT", "MEMBER-ID"]
        lines = [titles] + [
            [
                clean(member.identity), member.status, str(count(member.assignment)),
                "-" if member.lag is None else str(member.lag), clean(partitions_text(member.assignment)) or "-",
                "" if member.group_instance_id is None else clean(member.member_id),
            ]
            for member in rows
        ]  # fmt: skip
        widths = _widths(lines, self._console.size.width)
        table = Table(box=None, pad_edge=False, header_style="bold", expand=False, show_header=True)
        for title, width in zip(titles, widths, strict=False):
            right = title in ("PARTS", "LAG")
            table.add_column(
                title, justify="right" if right else "left", no_wrap=True, overflow="ellipsis", width=width
            )
        for member, cells in zip(rows, lines[1:], strict=True):
            fresh = self._now_ms - self._last_event_ms(group, member) < _FRESH_MS
            shown = cells[: len(widths)]
            table.add_row(
                *(Text(cell, style=STYLES.get(cell, "") if i == 1 else "") for i, cell in enumerate(shown)),
                style="bold reverse" if fresh else "",
            )
        more = [Text(f"  and {left} more", style="dim")] if left > 0 else []
        return [table, *more]

    def _last_event_ms(self, group: WatchedGroup, member: MemberSnapshot) -> int:
        event = group.last_events.get(member.identity)
        return 0 if event is None else event.at_ms


def _widths(lines: Sequence[Sequence[str]], width: int) -> list[int]:
    """Widths of as many columns as fit: numbers are never cut, names and ids are, the first one the least."""
    from rich.cells import cell_len

    natural = [max(cell_len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for columns in range(len(natural), _LEAST_COLUMNS - 1, -1):
        given = [min(each, _CUT) if i in _FLEXIBLE else each for i, each in enumerate(natural[:columns])]
        left = width - sum(given) - _GAP * (columns - 1)
        if left < 0 and columns > _LEAST_COLUMNS:
            continue
        for i in _FLEXIBLE:
            if i < columns:
                more = max(min(natural[i] - given[i], left), min(left, 0) if i == 0 else 0)
                given[i], left = max(given[i] + more, 1), left - more
        return given
    raise AssertionError("unreachable")


def screen_console(options: OutputOptions) -> Console:
    """A console that interprets no markup, and uses colors only if they are wanted."""
    from rich.console import Console

    from kgm.cli.output.report import wants_color

    plain = not wants_color(options, sys.stdout)
    return Console(file=sys.stdout, force_terminal=True, no_color=plain, markup=False, highlight=False, emoji=False)
