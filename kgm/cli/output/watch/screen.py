"""The present state of the groups at a terminal, drawn anew at each look, to its width and height.

Everything that came from a cluster is cleaned before it gets here, or here; rich interprets no markup."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kgm.cli.options.common import Common
from kgm.cli.output.watch.event_lines import stamp
from kgm.model.assignment import count
from kgm.operations.watch.story import Event, Story, summary
from kgm.text.durations import show_duration
from kgm.text.sanitize import clean
from kgm.text.wording import many, partitions_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.text import Text

    from kgm.model.snapshot import MemberSnapshot

#: Events that are kept for the lower part of the screen.
_KEPT = 200
#: How long a member that something happened to stands out.
_FRESH_MS = 10_000
#: Columns of a member that can be cut, in the order in which they are given room; to what; and what is always there.
_FLEXIBLE, _CUT, _LEAST_COLUMNS, _GAP = (0, 4, 5), 24, 4, 2
_STYLES = {
    "Stable": "green", "stable": "green", "Empty": "dim", "Dead": "red", "away": "yellow", "reconciling": "yellow",
    "PreparingRebalance": "yellow", "CompletingRebalance": "yellow", "Reconciling": "yellow", "Assigning": "yellow",
    "unknown": "magenta",
}  # fmt: skip
_EVENT_STYLES = {
    "moved": "yellow", "left": "yellow", "gone": "red", "unreachable": "red", "breach": "bold red", "stable": "green",
    "replaced": "cyan", "joined": "green", "generation": "magenta", "epoch": "magenta",
}  # fmt: skip


class Screen:
    """The other screen of the terminal while it is open; what was drawn last stays on the usual one."""

    def __init__(self, common: Common, stories: Sequence[Story], *, interval_ms: int, waiting_for: str | None) -> None:
        self._console = _console(common)
        self._stories = stories
        self._title = f"every {show_duration(interval_ms)}" + (f", until {waiting_for}" if waiting_for else "")
        self._events: list[Event] = []
        self._begun_ms: int | None = None
        self._now_ms = 0
        self._live: Live | None = None
        #: Whether what is too long for a line is folded: the last picture is not drawn over.
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
        self._console.print(self._frame(height=len(self._events) + 2 * len(self._stories) + 60))

    def draw(self, events: Iterable[Event], now_ms: int) -> None:
        """The state as it is now, and what happened."""
        assert self._live is not None
        self._begun_ms = now_ms if self._begun_ms is None else self._begun_ms
        self._now_ms = now_ms
        self._events = [*self._events, *events][-_KEPT:]
        self._live.update(self._frame(height=self._console.size.height), refresh=True)

    def _frame(self, *, height: int) -> RenderableType:
        """At most `height` lines: two a group at least, then members, then the events that still fit."""
        from rich.console import Group
        from rich.text import Text

        since = stamp(self._begun_ms or self._now_ms)[11:19]
        shown = f"kgm watch  {self._title}  since {since}Z, now {stamp(self._now_ms)[11:19]}Z"
        parts: list[RenderableType] = [self._line(Text(shown, style="dim"))]
        events = min(len(self._events), max(3, height // 4))
        heads = [self._head(story) for story in self._stories]
        room = max(0, height - 1 - sum(len(head) + 1 for head in heads) - (events + 1 if events else 0))
        for story, head in zip(self._stories, heads, strict=True):
            parts += [*head, *self._members(story, room // len(heads))]
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

    def _event(self, event: Event) -> RenderableType:
        from rich.text import Text

        text = Text(f"{stamp(event.at_ms)[11:19]}  ")
        if len(self._stories) > 1:
            text.append(f"{clean(event.group_id)}  ")
        text.append(event.kind, style=_EVENT_STYLES.get(event.kind, "bold"))
        text.append(f"  {clean(event.text)}")
        return self._line(text)

    def _head(self, story: Story) -> list[RenderableType]:
        """The group, how far it is from what is waited for, and why; the latter on a line of its own if need be."""
        from rich.text import Text

        text = Text(clean(story.group_id), style="bold cyan")
        view = story.view
        if view is None:
            text.append("  does not exist", style="yellow")
            return [self._line(text)]
        text.append(f"  {clean(view.state)}", style=_STYLES.get(view.state, ""))
        epoch = "" if view.assignment_epoch is None else f"  epoch {view.assignment_epoch}"
        generation = "" if story.generation is None or view.type != "classic" else f"  generation {story.generation}"
        lag = view.lag
        at = "" if view.coordinator is None else f"  coordinator {view.coordinator.id}"
        text.append(
            clean(
                f"  {view.type}  {view.assignor or '-'}{generation}{epoch}  {many(len(view.members), 'member')}"
                f"  lag {'-' if lag is None else lag}{at}"
            ),
            style="not bold default",
        )
        verdict, why = Text(f"  {summary(story)}"), self._why(story)
        if verdict.cell_len + why.cell_len <= self._console.size.width:
            return [self._line(text), self._line(verdict.append_text(why))]
        return [self._line(text), self._line(verdict), self._line(why)]

    def _why(self, story: Story) -> Text:
        """What is wrong, or still missing."""
        from rich.text import Text

        why = Text()
        if story.error is not None:
            why.append(f"  {clean(story.error.message)}", style="red")
        elif story.breach() is not None:
            why.append(f"  {clean(story.breach() or '')}", style="bold red")
        elif missing := story.unsettled_because():
            why.append(f"  {clean(missing[0])}", style="yellow")
            why.append(f" and {len(missing) - 1} more" if len(missing) > 1 else "", style="yellow")
        elif story.settled_since_ms is not None:
            why.append(f"  quiet for {show_duration((self._now_ms - story.settled_since_ms) // 1000 * 1000)}")
        return why

    def _members(self, story: Story, room: int) -> list[RenderableType]:
        """Those that something happened to first, if there is no room for all."""
        from rich.table import Table
        from rich.text import Text

        view = story.view
        if view is None:
            return []
        rows = sorted(view.members, key=lambda member: member.identity)
        left = 0
        if len(rows) + 1 > room:  # with the header
            keep = max(room - 2, 0)
            left = len(rows) - keep
            rows.sort(key=lambda member: -self._touched(story, member))
            rows = sorted(rows[:keep], key=lambda member: member.identity)
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
            fresh = self._now_ms - self._touched(story, member) < _FRESH_MS
            shown = cells[: len(widths)]
            table.add_row(
                *(Text(cell, style=_STYLES.get(cell, "") if i == 1 else "") for i, cell in enumerate(shown)),
                style="bold reverse" if fresh else "",
            )
        more = [Text(f"  and {left} more", style="dim")] if left > 0 else []
        return [table, *more]

    def _touched(self, story: Story, member: MemberSnapshot) -> int:
        event = story.touched.get(member.identity)
        return 0 if event is None else event.at_ms


def _widths(lines: Sequence[Sequence[str]], width: int) -> list[int]:
    """Of as many columns as there is room for: numbers whole, names and ids cut, the first of them least."""
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


def _console(common: Common) -> Console:
    """A console that interprets nothing in what it is given; without colours where they are not wanted."""
    from rich.console import Console

    from kgm.cli.output.report import wants_color

    plain = not wants_color(common, sys.stdout)
    return Console(file=sys.stdout, force_terminal=True, no_color=plain, markup=False, highlight=False, emoji=False)
