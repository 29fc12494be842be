"""What is on the screen of `kgm top`, and what keys do to it. This module uses no terminal, clock or threads.

Strings from a cluster are cleaned here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kgm.cli.output.table_text import STYLES, cells
from kgm.cli.output.top.cells import age_cell, commit_age_cell, rebalances_cell
from kgm.model.changes import IN_TRANSITION
from kgm.operations.top.rows import FleetOrder, FleetRow, matches
from kgm.text.durations import short_duration
from kgm.text.sanitize import clean
from kgm.text.timestamps import rfc3339
from kgm.text.wording import many

#: The order of each key: the capital letter of its word in the last line, pressed in either case.
_ORDERS: Final = {
    "t": FleetOrder.LAG_TIME, "l": FleetOrder.LAG, "r": FleetOrder.REBALANCES, "m": FleetOrder.MISSING,
    "c": FleetOrder.COMMIT, "s": FleetOrder.STATE, "n": FleetOrder.GROUP,
}  # fmt: skip
_KEYS_LINE: Final = "enter open  / filter  q quit  sort: Time Lag Rebal Missing Commit State Name"
_GAP: Final = 2
#: The number of lines above the rows, and below them.
_HEAD, _FOOT = 3, 1
_LEAST_NAME, _MOST_STATE = 12, 11

#: Pieces of a line: (text, style).
Line = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Column:
    """left_out: in a terminal that is too narrow, columns are left out in this order; None: never."""

    title: str
    text: Callable[[FleetRow], str | None]
    order: FleetOrder | None = None
    right: bool = True
    left_out: int | None = None


def _members(row: FleetRow) -> str | None:
    """`3/4` if one of four members is missing."""
    if row.members is None or not row.missing:
        return None if row.members is None else str(row.members)
    return f"{row.members}/{row.members + row.missing}"


_COLUMNS: Final = (
    _Column("STATE", lambda row: _cut(clean(row.state or "-"), _MOST_STATE), FleetOrder.STATE, right=False),
    _Column("MEMBERS", _members, FleetOrder.MISSING, left_out=4),
    _Column("LAG", lambda row: None if row.lag is None else str(row.lag), FleetOrder.LAG),
    _Column("LAG-TIME", lambda row: age_cell(row.lag_ms), FleetOrder.LAG_TIME),
    _Column("COMMIT", commit_age_cell, FleetOrder.COMMIT, left_out=3),
    _Column("REBAL", rebalances_cell, FleetOrder.REBALANCES, left_out=2),
    _Column("TYPE", lambda row: row.type, right=False, left_out=1),
    _Column("ASSIGNOR", lambda row: clean(row.assignor or "-"), right=False, left_out=0),
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class TopView:
    """title: for the first line. problem: why the last round failed. note: what else to show, such as what could not be
    read. _rows: sorted by name."""

    title: str
    order: FleetOrder = FleetOrder.LAG_TIME
    filter: str = ""
    #: Whether the filter is being typed.
    is_typing: bool = False
    problem: str | None = None
    note: str | None = None
    #: The group that the cursor is on; None if it is on the first row, whichever group that is.
    _selected: str | None = None
    _first: int = 0
    _shown: list[FleetRow] = field(default_factory=list)
    _rows: Sequence[FleetRow] = ()

    def update(self, rows: Sequence[FleetRow]) -> None:
        """Show these rows, which are sorted by name."""
        self._rows = rows
        wanted = [row for row in rows if matches(row.group_id, self.filter)] if self.filter else list(rows)
        self._shown = self.order.sorted(wanted)
        if self._selected is not None and all(row.group_id != self._selected for row in self._shown):
            self._selected = None

    def press(self, key: str, height: int) -> str | None:
        """Handle a key. Returns the group to open, an empty string to quit, or None to continue."""
        if self.is_typing:
            self._type(key)
        elif key in ("q", "Q"):
            return ""
        elif key == "enter":
            return self._shown[self._cursor].group_id if self._shown else None
        elif key == "esc":
            self._filter_by("")
        elif key == "/":
            self.is_typing = True
        elif key.lower() in _ORDERS:
            self.order, self._selected, self._first = _ORDERS[key.lower()], None, 0
            self.update(self._rows)
        else:
            self._move(key, self._room(height))
        return None

    def _type(self, key: str) -> None:
        match key:
            case "enter":
                self.is_typing = False
            case "esc":
                self.is_typing = False
                self._filter_by("")
            case "backspace":
                self._filter_by(self.filter[:-1])
            case _ if len(key) == 1 and key.isprintable():
                self._filter_by(self.filter + key)

    def _filter_by(self, text: str) -> None:
        self.filter, self._selected, self._first = text, None, 0
        self.update(self._rows)

    @property
    def _cursor(self) -> int:
        if self._selected is None:
            return 0
        return next(at for at, row in enumerate(self._shown) if row.group_id == self._selected)

    def _move(self, key: str, page: int) -> None:
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdn": page, " ": page,
                 "home": -len(self._shown), "end": len(self._shown)}  # fmt: skip
        if key not in steps or not self._shown:
            return
        at = min(max(self._cursor + steps[key], 0), len(self._shown) - 1)
        self._selected = self._shown[at].group_id if at else None

    def _room(self, height: int) -> int:
        return max(height - _HEAD - _FOOT, 1)

    def visible(self, height: int) -> list[FleetRow]:
        """The rows that a screen of this height shows, including the one with the cursor."""
        room, cursor = self._room(height), self._cursor
        self._first = min(max(self._first, cursor - room + 1, 0), cursor)
        return self._shown[self._first : self._first + room]

    def lines(self, *, width: int, height: int, now_ms: int) -> list[Line]:
        """All lines of the screen, none of them wider than the screen."""
        rows = self.visible(height)
        selected = self._shown[self._cursor] if self._shown else None
        columns, widths = _layout(rows, width)
        lines = [self._title(width, now_ms), self._subtitle(width, now_ms), self._header(columns, widths)]
        lines += [_row_line(row, columns, widths, is_selected=row is selected) for row in rows]
        if not rows:
            lines.append([(_cut("no group matches the filter" if self.filter else "no group", width), "dim")])
        lines += [[("", "")]] * (height - _FOOT - len(lines))
        return [*lines[: max(height - _FOOT, 1)], self._last(width)]

    def last_lines(self, *, width: int, height: int, now_ms: int) -> list[Line]:
        """The lines that stay on the terminal: all except those about keys."""
        return self.lines(width=width, height=height, now_ms=now_ms)[: len(self.visible(height)) + _HEAD]

    def _title(self, width: int, now_ms: int) -> Line:
        rows = self._rows
        behind = sum(bool(row.lag) for row in rows)
        changing = sum(row.state in IN_TRANSITION for row in rows)
        unread = sum(row.error is not None for row in rows)
        counts = [many(len(rows), "group"), f"{behind} behind", f"{changing} rebalancing"]
        if unread:
            counts.append(f"{unread} unread")
        return [(_cut(f"{rfc3339(now_ms)[11:19]}Z  {', '.join(counts)}  {clean(self.title)}", width), "bold")]

    def _subtitle(self, width: int, now_ms: int) -> Line:
        if self.problem is not None:
            return [(_cut(clean(self.problem), width), "red")]
        parts = [f"by {self.order}"]
        if self.filter:
            parts.append(f"filter {clean(self.filter)!r}: {len(self._shown)}")
        reading = [row for row in self._rows if row.read_at_ms is None]
        if reading:
            parts.append(f"read {len(self._rows) - len(reading)} of {len(self._rows)}")
        elif self._rows:
            oldest_ms = min(row.read_at_ms or 0 for row in self._rows)
            parts.append(f"all read within {short_duration(max(now_ms - oldest_ms, 0))}")
        return [(_cut("  ".join([*parts, *([clean(self.note)] if self.note else [])]), width), "dim")]

    def _header(self, columns: Sequence[_Column], widths: Sequence[int]) -> Line:
        line: Line = [
            (
                _padded(_cut("GROUP", widths[0]), widths[0]),
                "bold underline" if self.order is FleetOrder.GROUP else "bold",
            )
        ]
        for column, width in zip(columns, widths[1:], strict=True):
            style = "bold underline" if column.order is self.order else "bold"
            pad = " " * max(width - len(column.title), 0)
            title = [(column.title, style)]
            line += [(" " * _GAP, ""), *([(pad, ""), *title] if column.right else [*title, (pad, "")])]
        return line

    def _last(self, width: int) -> Line:
        if self.is_typing:
            return [(_cut(f"filter (substring or glob): {clean(self.filter)}_", width), "bold")]
        return [(_cut(_KEYS_LINE, width), "dim")]


def _layout(rows: Sequence[FleetRow], width: int) -> tuple[list[_Column], list[int]]:
    """The columns that fit, and the widths of the name column and of these columns."""
    columns = list(_COLUMNS)
    sizes = {
        column.title: max([len(column.title), *(cells(column.text(row) or "-") for row in rows)]) for column in columns
    }
    longest = max([len("GROUP"), *(cells(clean(row.group_id)) for row in rows)])
    wanted = min(longest, max(_LEAST_NAME, width // 3))
    for rank in range(len(_COLUMNS)):
        left = width - sum(sizes[column.title] + _GAP for column in columns)
        if left >= wanted:
            break
        columns = [column for column in columns if column.left_out != rank]
    left = width - sum(sizes[column.title] + _GAP for column in columns)
    while left < 1 and columns:
        columns.pop()
        left = width - sum(sizes[column.title] + _GAP for column in columns)
    return columns, [max(min(longest, left), 1), *(sizes[column.title] for column in columns)]


def _row_line(row: FleetRow, columns: Sequence[_Column], widths: Sequence[int], *, is_selected: bool) -> Line:
    line: Line = [(_padded(_cut(clean(row.group_id), widths[0]), widths[0]), "")]
    for column, width in zip(columns, widths[1:], strict=True):
        text = column.text(row) or "-"
        line += [(" " * _GAP, ""), (_padded(text, width, right=column.right), _style(column.title, row))]
    return [("".join(text for text, _ in line), "reverse")] if is_selected else line


def _style(title: str, row: FleetRow) -> str:
    if row.error is not None:
        return "magenta"
    if title == "STATE":
        return STYLES.get(row.state or "", "")
    return "yellow" if title == "MEMBERS" and row.missing else ""


def _padded(text: str, width: int, *, right: bool = False) -> str:
    pad = " " * max(width - cells(text), 0)
    return pad + text if right else text + pad


def _cut(text: str, width: int) -> str:
    """The text in at most `width` cells, ending with an ellipsis if something is cut off."""
    if cells(text) <= width:
        return text
    text = text[: max(width - 1, 0)]
    while cells(text) > width - 1:
        text = text[:-1]
    return f"{text}…" if width > 0 else ""
