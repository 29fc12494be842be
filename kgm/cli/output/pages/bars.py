"""Ownership over time as SVG: a row for all partitions with the same history, a bar for each owner, gaps where there is
no consumer, and lines where there are rebalances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os.path import commonprefix

from kgm.cli.output.pages.page import Markup, element, join, label_class, swatch, text
from kgm.model.assignment import as_ranges
from kgm.simulation.play.holdings import Holding
from kgm.text.sanitize import clean

_EDGE = 8.0
_AXIS_PX, _ROW_PX, _BAR_PX, _AREA_PX = 22.0, 15.0, 12.0, 46.0
#: The width of a letter in bar labels.
_LETTER_PX = 5.4
#: If there are more rows than this, only the most affected ones are shown.
MOST_ROWS = 90
#: The minimum width of a gap, so that none is overlooked.
_LEAST_GAP_PX = 0.8


@dataclass(frozen=True, slots=True)
class _Shape:
    """width: of the chart. labels: the part of the width for row names. most_ticks: the most ticks after the first.
    class_: where it is shown."""

    class_: str
    width: float
    labels: float
    most_ticks: int


#: A chart is drawn twice, for screen or paper and for phones, where text that shrinks with the picture is unreadable.
_SHAPES = (_Shape("broad", 1000.0, 190.0, 9), _Shape("narrow", 350.0, 92.0, 4))


#: The bars of one partition: (from_ms, to_ms, owner), by time.
Course = tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class ChartRow:
    """Partitions of one topic with the same history."""

    topic: str
    partitions: tuple[int, ...]
    course: Course

    @property
    def label(self) -> str:
        return f"{self.topic} {as_ranges(self.partitions)}"

    def gaps(self, end_ms: int) -> list[tuple[int, int]]:
        """The times without a consumer: (from_ms, to_ms)."""
        gaps, reached = [], self.course[0][0]
        for start, end, _ in self.course:
            if start > reached:
                gaps.append((reached, start))
            reached = max(reached, end)
        return [*gaps, (reached, end_ms)] if reached < end_ms else gaps

    def impact(self, end_ms: int) -> tuple[bool, int]:
        """How much the partitions were affected: whether they moved, and for how many ms they were stopped."""
        return self.course[0][2] != self.course[-1][2], sum(end - start for start, end in self.gaps(end_ms))


def rows_of(bars: Iterable[Holding]) -> list[ChartRow]:
    """The rows, sorted by topic and first partition."""
    courses: dict[tuple[str, int], list[tuple[int, int, str]]] = {}
    for bar in bars:
        courses.setdefault((bar.topic, bar.partition), []).append((bar.from_ms, bar.to_ms, bar.owner))
    alike: dict[tuple[str, Course], list[int]] = {}
    for (topic, partition), course in sorted(courses.items()):
        alike.setdefault((topic, tuple(sorted(course))), []).append(partition)
    return [ChartRow(topic, tuple(partitions), course) for (topic, course), partitions in alike.items()]


def colours_of(owners: Iterable[str]) -> dict[str, int]:
    """A number for each owner; `swatch` has the color for a number."""
    return {owner: number for number, owner in enumerate(sorted(set(owners)))}


def ownership(
    bars: Sequence[Holding],
    *,
    end_ms: int,
    marks_ms: Sequence[int],
    colours: Mapping[str, int],
    show_ms: Callable[[int], str],
) -> Markup:
    """The chart: how many partitions are stopped, and the rows, on one axis from 0 to end_ms. marks_ms: the times of
    rebalances. show_ms: formats a time."""
    rows = rows_of(bars)
    if not rows:
        return element("p", "No partition had an owner.", class_="soft")
    shown = rows
    if len(rows) > MOST_ROWS:
        affected = sorted(range(len(rows)), key=lambda n: rows[n].impact(end_ms), reverse=True)[:MOST_ROWS]
        shown = [rows[number] for number in sorted(affected)]
    top = _AXIS_PX + _AREA_PX + 8
    height = top + len(shown) * _ROW_PX + 6
    short = _short_names(colours)
    drawn = []
    for shape in _SHAPES:
        axis = _Axis(end_ms, shape)
        parts = [
            axis.grid(height, show_ms),
            _stopped_area(rows, axis, end_ms),
            *(_row(row, top + number * _ROW_PX, axis, end_ms, colours, short) for number, row in enumerate(shown)),
            *(
                Markup(f'<path class="mark" d="M{axis.at(at_ms):.1f} {_AXIS_PX:g}V{height:g}"></path>')
                for at_ms in dict.fromkeys(marks_ms)
            ),
        ]
        size = f'viewBox="0 0 {shape.width:g} {height:g}" role="img" aria-label="ownership over time"'
        drawn.append(element("div", Markup(f"<svg {size}>{join(parts)}</svg>"), class_=shape.class_))
    words = [
        "Bars are owners, hatching is no consumer, dashed lines are rebalances. Partitions with equal bars share a row."
    ]
    if len(shown) < len(rows):
        left = sum(len(row.partitions) for row in rows) - sum(len(row.partitions) for row in shown)
        words.append(f"The {len(shown)} most affected of {len(rows):,} rows are shown; {left:,} partitions are not.")
    return element("figure", *drawn, element("figcaption", " ".join(words)))


def legend(colours: Mapping[str, int], most: int = 24) -> Markup:
    """A legend with the colors of the first owners; several owners may share a color."""
    square = '<svg viewBox="0 0 8 8"><rect class="{}" width="8" height="8" rx="1.5"></rect></svg>'
    shown = list(colours.items())[:most]
    items = [element("span", Markup(square.format(swatch(number))), owner) for owner, number in shown]
    if len(shown) < len(colours):
        items.append(element("span", f"and {len(colours) - len(shown):,} more; hover over a bar to see its owner"))
    return element("p", *items, class_="legend")


class _Axis:
    """Time from left to right, with a little room at both ends for the time before and after."""

    def __init__(self, end_ms: int, shape: _Shape) -> None:
        self.shape = shape
        span = max(end_ms, 1)
        self._lead = span * 0.025
        self.first, self.last = -self._lead, span + self._lead
        self._per_ms = (shape.width - shape.labels - _EDGE) / (self.last - self.first)
        self.end_ms = end_ms

    def at(self, at_ms: float) -> float:
        return self.shape.labels + (min(max(at_ms, self.first), self.last) - self.first) * self._per_ms

    def held(self, start_ms: int, end_ms: int) -> tuple[float, float]:
        """The x coordinates of a bar. At the start or end of the axis, the bar continues into the room beyond it."""
        start = self.first if start_ms <= 0 else start_ms
        end = self.last if end_ms >= self.end_ms else end_ms
        return self.at(start), self.at(end)

    def grid(self, height: float, show_ms: Callable[[int], str]) -> Markup:
        step = _step(self.end_ms, self.shape.most_ticks)
        parts = []
        for at_ms in range(0, self.end_ms + 1, step):
            x = self.at(at_ms)
            parts.append(Markup(f'<path class="grid" d="M{x:.1f} {_AXIS_PX - 5:g}V{height:g}"></path>'))
            parts.append(element("text", show_ms(at_ms), class_="soft mid", x=f"{x:.1f}", y="11"))
        return join(parts)


def _step(end_ms: int, most: int) -> int:
    """The ms between ticks at round times; most: the most ticks after the first."""
    minute = 60_000
    rounds = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000]
    rounds += [minute * n for n in (1, 2, 5, 10, 15, 30)]
    rounds += [60 * minute * n for n in (1, 2, 4, 6, 12, 24, 48, 168)]
    return next((step for step in rounds if end_ms / step <= most), max(end_ms // most, 1))


def _short_names(owners: Iterable[str]) -> dict[str, str]:
    """Names for the bars, without the leading words that all of them share."""
    names = {owner: clean(owner) for owner in owners}
    alike = commonprefix(list(names.values()))  # noqa: RUF071  (names, not paths)
    shared = alike.rfind("-") + 1 if len(names) > 1 else 0
    return {owner: name[shared:] or name for owner, name in names.items()}


def _row(
    row: ChartRow, y: float, axis: _Axis, end_ms: int, colours: Mapping[str, int], short: Mapping[str, str]
) -> Markup:  # fmt: skip
    bottom = y + _BAR_PX
    paths: dict[str, list[str]] = {}
    labels = []
    named = ""
    for start_ms, to_ms, owner in row.course:
        start, end = axis.held(start_ms, to_ms)
        paths.setdefault(owner, []).append(f"M{start:.1f} {y:g}H{end:.1f}V{bottom:g}H{start:.1f}z")
        fits = int((end - start) / _LETTER_PX) - 1
        if owner != named and fits >= min(len(short[owner]), 6):
            named = owner
            shown = short[owner] if len(short[owner]) <= fits else short[owner][: fits - 1] + "…"
            kind = label_class(colours[owner])
            labels.append(element("text", shown, class_=kind, x=f"{start + 3:.1f}", y=f"{bottom - 2.8:g}"))
    bars = [_path(swatch(colours[owner]), "".join(d), f"{owner}: {row.label}") for owner, d in paths.items()]
    gaps = "".join(
        f"M{x:.1f} {y:g}h{max(axis.at(end) - x, _LEAST_GAP_PX):.1f}v{_BAR_PX:g}H{x:.1f}z"
        for x, end in ((axis.at(start), end) for start, end in row.gaps(end_ms))
    )
    stopped = _path("gap", gaps, f"no consumer: {row.label}") if gaps else ""
    shown = _cut_label(clean(row.topic), as_ranges(row.partitions), int((axis.shape.labels - 8) / _LETTER_PX))
    name = element(
        "text", element("title", row.label), shown, class_="end", x=f"{axis.shape.labels - 6:g}", y=f"{bottom - 2.8:g}"
    )
    return join((name, *bars, stopped, *labels))


def _cut_label(topic: str, partitions: str, most: int) -> str:
    """The name of a row in at most `most` letters, with the start of the topic if enough of it fits to be useful."""
    if len(topic) + 1 + len(partitions) <= most:
        return f"{topic} {partitions}"
    room = most - len(partitions) - 2
    return f"{topic[:room]}… {partitions}" if room >= min(4, len(topic)) else f"{f'{topic} {partitions}'[: most - 1]}…"


def _path(kind: str, d: str, hint: str) -> Markup:
    return Markup(f'<path class="{kind}" d="{d}"><title>{text(hint)}</title></path>')


def _stopped_area(rows: Sequence[ChartRow], axis: _Axis, end_ms: int) -> Markup:
    """How many partitions have no consumer, as an area above the rows."""
    total = sum(len(row.partitions) for row in rows)
    steps: dict[int, int] = {}
    for row in rows:
        for start, end in row.gaps(end_ms):
            steps[start] = steps.get(start, 0) + len(row.partitions)
            steps[end] = steps.get(end, 0) - len(row.partitions)
    base = _AXIS_PX + _AREA_PX
    level, most = 0, 0
    path = [f"M{axis.at(0):.1f} {base:g}"]
    levels = []
    for at_ms, change in sorted(steps.items()):
        level += change
        most = max(most, level)
        levels.append((at_ms, level))
    for (at_ms, count), (until_ms, _) in pairwise([*levels, (end_ms, 0)]):
        top = base - _AREA_PX * 0.9 * count / max(most, 1)
        x, until = axis.at(at_ms), axis.at(until_ms)
        path.append(f"H{x:.1f}V{top:.1f}H{max(until, x + (_LEAST_GAP_PX if count else 0)):.1f}")
    path.append(f"V{base:g}z")
    labels, edge = axis.shape.labels, axis.shape.width - _EDGE
    words = [f"stopped: up to {most:,} of {total:,}" if most else "never stopped"]
    if len(words[0]) * _LETTER_PX > labels:
        words = words[0].replace("stopped: ", "stopped:\n").replace(" of ", "\nof ").split("\n")
    lines = [
        element(
            "text", line, class_="end soft", x=f"{labels - 6:g}", y=f"{base - 16 - 12 * (len(words) - 1 - number):g}"
        )
        for number, line in enumerate(words)
    ]
    return join((
        Markup(f'<path class="row" d="M{labels:g} {_AXIS_PX:g}H{edge:g}V{base:g}H{labels:g}z"></path>'),
        Markup(f'<path class="area" d="{"".join(path)}"></path>'),
        *lines,
    ))  # fmt: skip
