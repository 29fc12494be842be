"""Builds a page from parts. Any name from a broker or a client goes through `text`: made visible, then escaped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from kgm.model.errors import UsageError
from kgm.text.files import replace_file
from kgm.text.sanitize import clean
from kgm.version import __version__

#: Colors for owners that color-blind readers can tell apart too (Okabe and Ito, without black, which is for partitions
#: without a consumer).
OWNER_COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7")
#: The colors on which light letters are easier to read than dark ones.
_DARK_COLOURS = ("#0072b2",)
#: The fill of `.gap`, once for all charts of a page; a definition inside a chart that is not shown has no effect.
_HATCH = (
    '<svg class="off" aria-hidden="true"><pattern id="gap" width="4" height="4" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect class="ground" width="4" height="4"></rect>'
    '<rect class="hatch" width="1.6" height="4"></rect></pattern></svg>'
)


class Markup(str):
    """HTML that is already safe to include."""

    __slots__ = ()


#: Nothing is loaded and no script runs, whatever a name contains.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
:root { --page: #fff; --ink: #1b1f24; --soft: #5c6670; --line: #d5dae0; --shade: #f5f7f9; --stop: #c0262d;
  --mark: #6a737d; }
@media (prefers-color-scheme: dark) { :root { --page: #14181d; --ink: #e6e9ed; --soft: #98a3ae; --line: #353c44;
  --shade: #1d2329; --stop: #ff6b6b; --mark: #8b949e; } }
* { box-sizing: border-box }
body { margin: 2rem auto; padding: 0 1.25rem; max-width: 68rem; background: var(--page); color: var(--ink);
  font: .95rem/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; overflow-wrap: anywhere }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; padding-top: .75rem; border-top: 1px solid var(--line) }
h3 { font-size: 1rem; margin: 1.25rem 0 .35rem }
p, ul { margin: .35rem 0 .7rem; max-width: 60rem; overflow-wrap: anywhere }
.lead { font-size: 1.05rem } .soft, footer, figcaption { color: var(--soft); font-size: .87rem }
.bad { color: var(--stop); font-weight: 600 }
dl { display: grid; grid-template-columns: fit-content(40%) 1fr; gap: .15rem 1rem; margin: .75rem 0 }
dt { color: var(--soft) } dd { margin: 0; overflow-wrap: anywhere }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; margin: .4rem 0 .9rem }
th, td { padding: .22rem .7rem .22rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere }
td:not(.right) { min-width: 4.5rem }
th { color: var(--soft); font-weight: 600; white-space: nowrap } .right { text-align: right; white-space: nowrap }
figure { margin: .5rem 0 1rem } svg { display: block; width: 100%; height: auto }
svg text { font: 10px system-ui, sans-serif; fill: var(--ink) } svg .soft { fill: var(--soft); font-size: 10px }
svg .in { fill: #14181d } svg .in.pale { fill: #fff } svg .end { text-anchor: end } svg .mid { text-anchor: middle }
svg .grid { stroke: var(--line); stroke-width: .6 } svg .row { fill: var(--shade) }
svg .mark { stroke: var(--mark); stroke-width: .8; stroke-dasharray: 2 2 }
svg .gap { fill: url(#gap); stroke: var(--ink); stroke-width: .6 } svg .area { fill: var(--ink); opacity: .65 }
svg .ground { fill: var(--page) } svg .hatch { fill: var(--ink) } svg.off { position: absolute; width: 0; height: 0 }
.legend { display: flex; flex-wrap: wrap; gap: .1rem .9rem; font-size: .82rem } .legend svg { display: inline;
  width: .8rem; height: .8rem; vertical-align: -.08rem; margin-right: .3rem }
.narrow { display: none }
@media screen and (max-width: 600px) { .broad { display: none } .narrow { display: block }
  th, td { overflow-wrap: break-word } }
footer { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: .6rem }
@media print { :root { --page: #fff; --ink: #000; --soft: #444; --line: #bbb; --shade: #f3f3f3; --stop: #b00;
  --mark: #666 } html { font-size: 9.5px } body { margin: 0; max-width: none; font-size: 1rem }
  h2, h3, tr, dl { break-inside: avoid } h2, h3 { break-after: avoid }
  svg { print-color-adjust: exact; -webkit-print-color-adjust: exact } }
@page { margin: 14mm }
"""


def text(value: object) -> Markup:
    """An untrusted string or a number, escaped for HTML; None becomes a dash."""
    if isinstance(value, Markup):
        return value
    return Markup("-") if value is None else Markup(escape(clean(str(value))))


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """An element. Attribute names are as in HTML, with a trailing `_` for Python keywords, and `_` for `-`."""
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{text(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{given}>{''.join(map(text, children))}</{tag}>")


def join(parts: Iterable[object]) -> Markup:
    return Markup("".join(map(text, parts)))


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> Markup:
    """A table; columns whose titles are in `right` hold numbers."""
    numbers = [title in set(right) for title in titles]

    def cells(tag: str, values: Sequence[object]) -> Markup:
        return join(
            element(tag, value, class_="right" if is_number else None)
            for value, is_number in zip(values, numbers, strict=True)
        )

    head = element("thead", element("tr", cells("th", titles)))
    body = element("tbody", *(element("tr", cells("td", row)) for row in rows))
    return element("div", element("table", head, body), class_="wide")


def cut(rows: Sequence[Sequence[object]], most: int) -> tuple[Sequence[Sequence[object]], Markup]:
    """The first rows, and a sentence about the others if there are any."""
    if len(rows) <= most:
        return rows, Markup("")
    return rows[:most], element("p", f"and {len(rows) - most:,} more: -o json has them all", class_="soft")


def facts(rows: Iterable[tuple[str, object]]) -> Markup:
    """A list of names and values, without those that are None."""
    return element(
        "dl", *(join((element("dt", name), element("dd", value))) for name, value in rows if value is not None)
    )


def section(title: object, *children: object) -> Markup:
    return element("section", element("h2", title), *children)


def swatch(number: int) -> str:
    """The CSS class with the color of this owner number."""
    return f"o{number % len(OWNER_COLOURS)}"


def label_class(number: int) -> str:
    """The CSS class of letters on that color."""
    return "in pale" if OWNER_COLOURS[number % len(OWNER_COLOURS)] in _DARK_COLOURS else "in"


def document(title: str, *children: object) -> str:
    """The whole page."""
    colours = "\n".join(f".{swatch(number)} {{ fill: {colour} }}" for number, colour in enumerate(OWNER_COLOURS))
    head = join((
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        element("title", title),
        Markup(f"<style>{_STYLE}{colours}</style>"),
    ))  # fmt: skip
    footer = element("footer", f"kgm {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
    body = element("body", Markup(_HATCH), element("main", *children), footer)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>{body}</html>\n'


def write(path: str, page: str) -> None:
    """Write the file completely or not at all. Raises UsageError if that fails."""
    target = Path(path)
    try:
        if target.exists() and not target.is_file():  # a pipe, a terminal: nothing to replace
            with os.fdopen(_opened_without_waiting(target), "w", encoding="utf-8") as file:
                file.write(page)
            return
        replace_file(target, page.encode(), is_shared=True, is_durable=False)
    except OSError as error:
        raise UsageError(f"report {path} cannot be written: {error.strerror}") from error


def _opened_without_waiting(path: Path) -> int:
    """A file descriptor for writing. Raises OSError for a pipe that no process reads, instead of waiting for one."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(handle, True)
    return handle
