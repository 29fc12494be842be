"""Bars of characters for intervals: `..####..` shows in which parts of a window something was there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgm.cli.output.history.rows_json import at_text
from kgm.text.durations import show_duration

if TYPE_CHECKING:
    from kgm.history.rows import OwnerRow, TenureRow
    from kgm.operations.history.source import History

_WIDTH = 32


def shown_window(intervals: Sequence[TenureRow | OwnerRow], history: History) -> tuple[int, int]:
    """The (start, end) of the window to show, in ms: the window that was asked for, otherwise the whole history."""
    starts = [each.from_timestamp for each in intervals]
    ends = [each.to_timestamp for each in intervals if each.to_timestamp is not None]
    first = history.since_ms if history.since_ms is not None else min(starts, default=0)
    end = history.tables.origin.last_ms or 0
    last = history.until_ms if history.until_ms is not None else max([*starts, *ends, end])
    return first, max(first, last)


def span_text(intervals: Sequence[TenureRow | OwnerRow], window: tuple[int, int], history: History) -> str:
    """`, FROM to TO` for a heading; empty if neither the intervals nor the request say where the window begins."""
    if not intervals and history.since_ms is None:
        return ""
    first, last = window
    return f", {at_text(first)} to {at_text(last)}"


def bar(intervals: Sequence[TenureRow | OwnerRow], window: tuple[int, int]) -> str:
    """Each column is an equal part of the window: # if an interval touches it."""
    first, last = window
    width = max(last - first, 1)
    cells = ["."] * _WIDTH
    for each in intervals:
        end = last if each.to_timestamp is None else each.to_timestamp
        left, right = ((at - first) * _WIDTH // width for at in (each.from_timestamp, end))
        for place in range(max(left, 0), min(max(right, left + 1), _WIDTH)):
            cells[place] = "#"
    return "".join(cells)


def length_text(interval: TenureRow | OwnerRow, last: int) -> str:
    """How long an interval lasts, up to the end of the window, in words."""
    return show_duration(max((interval.to_timestamp or last) - interval.from_timestamp, 0))
