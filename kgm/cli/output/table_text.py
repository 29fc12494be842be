"""Tables of text for people: columns two spaces apart, as kubectl prints them, with nothing to strip for awk.

At a terminal, the cells of a table that is too wide are folded. If that would be unreadable, the columns that people
need least are left out; if that does not help either, each row becomes a block of `TITLE  value` lines. Without a
terminal, nothing is folded. Cells are already clean when they get here."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TypeAlias

#: The cells of a row.
_Row: TypeAlias = Sequence[str]
#: The minimum width of a folded column, unless its cells are narrower; the second applies if all else has failed.
_NARROWEST, _LAST_RESORT = 16, 12
_GAP = "  "
#: The beginning of a timestamp, up to its time of day.
_DATE = re.compile(r"\d{4}-\d\d-\d\dT(?=\d\d:\d\d)")
_RESET = "\x1b[0m"
_SGR = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "1;36"}
#: Colors of cells with these words.
STYLES = {
    "Stable": "green", "stable": "green", "removed": "green", "Empty": "dim", "Dead": "red", "absent": "yellow",
    "away": "yellow", "reconciling": "yellow", "failed": "red", "refused": "red", "unknown": "magenta",
    "PreparingRebalance": "yellow", "CompletingRebalance": "yellow", "Reconciling": "yellow", "Assigning": "yellow",
    "ok": "green", "error": "red", "warning": "yellow",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStyle:
    """How tables are printed. width: of the terminal, in cells; None without a terminal."""

    width: int | None = None
    color: bool = False
    headers: bool = True


def styled(text: str, color: str | None, style: TableStyle) -> str:
    """The text in one of this module's colors, if colors are wanted."""
    return f"\x1b[{_SGR[color]}m{text}{_RESET}" if color and style.color and text else text


def cells(text: str) -> int:
    """How many terminal cells a text takes."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def column_widths(titles: Sequence[str], rows: Sequence[Sequence[str]], style: TableStyle) -> list[int]:
    """The width of each column, in cells."""
    head = [tuple(titles)] if style.headers else []
    return [*map(_width, zip(*head, *rows, strict=True))]


def table_lines(
    titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], style: TableStyle,
    widths: Sequence[int] | None = None,
) -> list[str]:  # fmt: skip
    """The lines of a table, without line ends. `right`: which columns are aligned to the right. widths: None if these
    are all of its rows."""
    head = [tuple(titles)] if style.headers else []
    columns = list(zip(*head, *rows, strict=True))
    if not columns:
        return []
    widths = [*map(_width, columns)] if widths is None else widths
    if style.width is None or _total(widths) <= style.width:
        if not style.color:
            return _plain_lines(columns, widths, right)
        return _lines(head, rows, widths, right, style)
    folded = _folded_widths(widths, style.width) or _folded_widths(widths, style.width, _LAST_RESORT)
    if folded is None:
        return _blocks(titles, rows, style, style.width)
    return _folded_lines(head, rows, folded, right, style)


def columns_that_fit(
    titles: Sequence[str], rows: Sequence[Sequence[str]], ranks: Sequence[int | None], style: TableStyle
) -> list[int]:
    """The columns of a table that fits the width; all columns if no selection fits. ranks: the order in which columns
    are left out; None: never. Columns without values, and columns of rank 0, which repeat what others show, are left
    out before any cell is folded."""
    everything = list(range(len(titles)))
    head = [tuple(titles)] if style.headers else []
    columns = list(zip(*head, *rows, strict=True))
    if style.width is None or not columns:
        return everything
    widths = [*map(_width, columns)]
    if _total(widths) <= style.width:
        return everything
    ordered = sorted(
        (rank if any(row[at] != "-" for row in rows) else 0, at) for at, rank in enumerate(ranks) if rank is not None
    )
    kept = [at for at in everything if (0, at) not in ordered]
    for _, left_out in [(0, -1), *ordered]:
        kept = [at for at in kept if at != left_out]
        now = [widths[at] for at in kept]
        if _total(now) <= style.width or _folded_widths(now, style.width) is not None:
            return kept
    return kept if _folded_widths([widths[one] for one in kept], style.width, _LAST_RESORT) else everything


def _width(column: Sequence[str]) -> int:
    """The width of the widest text, in cells."""
    return max(map(len if "".join(column).isascii() else cells, column))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _folded_widths(widths: Sequence[int], room: int, narrowest: int = _NARROWEST) -> list[int] | None:
    """Widths with the widest columns cut to the largest common width that fits; None if that is too narrow to read."""
    for cap in range(max(widths), narrowest - 1, -1):
        capped = [min(width, cap) for width in widths]
        if _total(capped) <= room:
            return capped
    return None


def _plain_lines(columns: Sequence[_Row], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    """Like `_lines`, without colors, but column by column, because a table may have thousands of rows."""
    padded: list[Iterable[str]] = []
    for column, width, to_right in zip(columns, widths, right, strict=True):
        pad = str.rjust if to_right else str.ljust
        # `pad` counts characters, some of which take zero or two cells.
        rooms = repeat(width) if "".join(column).isascii() else [width - cells(text) + len(text) for text in column]
        padded.append(map(pad, column, rooms))
    return [_GAP.join(parts).rstrip(" ") for parts in zip(*padded, strict=True)]


def _lines(
    head: Sequence[Sequence[str]],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
    right: Sequence[bool],
    style: TableStyle,
) -> list[str]:
    lines = [_line(line, widths, right, style, "bold") for line in head]
    lines += [_line(row, widths, right, style, None) for row in rows]
    return lines


def _line(
    row: Sequence[str], widths: Sequence[int], right: Sequence[bool], style: TableStyle, color: str | None
) -> str:
    parts = []
    for value, width, to_right in zip(row, widths, right, strict=True):
        pad = " " * (width - cells(value))
        text = styled(value, color or STYLES.get(value), style)
        parts.append(pad + text if to_right else text + pad)
    return _GAP.join(parts).rstrip(" ")


def _folded_lines(
    head: Sequence[Sequence[str]],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
    right: Sequence[bool],
    style: TableStyle,
) -> list[str]:
    lines = []
    for at, row in enumerate([*head, *rows]):
        color = "bold" if at < len(head) else None
        folded = [fold(value, width) for value, width in zip(row, widths, strict=True)]
        for k in range(max(map(len, folded))):
            part = [each[k] if k < len(each) else "" for each in folded]
            lines.append(_line(part, widths, right, style, color))
    return lines


def fold(text: str, width: int) -> list[str]:
    """A text in pieces of at most `width` cells, split between words or list items if that wastes little room. Each
    piece keeps the indentation of the text."""
    indent = text[: min(len(text) - len(text.lstrip(" ")), width // 3)]
    pieces = []
    while cells(text) > width:
        cut = _cut(text, width, len(indent))
        pieces.append(text[:cut].rstrip(" "))
        text = indent + text[cut:].lstrip(" ")
    return [*pieces, text] if text.strip(" ") or not pieces else pieces


def _cut(text: str, width: int, start: int) -> int:
    """The number of characters before the cut, more than `start`; best at a space, so options and names stay whole."""
    if text[:width].isascii():
        fits = width
    else:
        fits, used = 0, 0
        while fits < len(text) and used + _cells_of(text[fits]) <= width:
            used += _cells_of(text[fits])
            fits += 1
    fits = max(fits, start + 1)
    if text[fits : fits + 1] == " ":
        return fits
    if (date := _DATE.match(text)) is not None and date.end() <= fits:
        return date.end()
    for marks, least in ((" ", start + (fits - start) // 3), (",-", fits // 2)):
        good = max(text.rfind(mark, max(least, start), fits) for mark in marks)
        if good >= 0:
            return good + 1
    return fits


def _blocks(titles: _Row, rows: Sequence[_Row], style: TableStyle, room: int) -> list[str]:
    """A block for each row, without unknown values. A row with an empty first cell continues the block before it."""
    margin = max(map(cells, titles)) + len(_GAP) if style.headers else 0
    lines: list[str] = []
    for row in rows:
        continues = bool(lines) and not row[0]
        if lines and not continues:
            lines.append("")
        for title, value in zip(titles, row, strict=True):
            if value == "-" or not value:
                continue
            name = title if style.headers and not continues else ""
            for piece in fold(value, max(room - margin, 8)):
                start = styled(name, "bold", style) + " " * (margin - cells(name))
                lines.append((start + styled(piece, STYLES.get(value), style)).rstrip(" "))
                name = ""
    return lines
