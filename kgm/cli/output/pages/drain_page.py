"""`kgm drain --report FILE.html`: all affected groups, and the most expensive ones over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgm.cli.output.drain_report import counts_of, in_words, warnings_of
from kgm.cli.output.pages.bars import colours_of, legend
from kgm.cli.output.pages.bounce_page import course_of
from kgm.cli.output.pages.page import Markup, cut, document, element, facts, section, table
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.operations.drain.forecast import DrainedGroup, DrainForecast

_GROUPS_SHOWN, _COURSES_SHOWN = 500, 12


def drain_page(foreseen: DrainForecast, where: dict[str, str | None] | None) -> str:
    """The page. The predictions need their holdings. where: the `cluster` of the envelope."""
    errors = (*foreseen.failed_gates, *foreseen.errors)
    words = in_words(foreseen.drain)
    return document(
        "Drain",
        element("h1", "Drain"),
        element("p", words[0].upper() + words[1:] + ".", class_="lead"),
        facts([
            ("cluster", where and f"{where['id']} at {where['bootstrap']}"),
            ("groups", f"{foreseen.examined} examined, {len(foreseen.groups)} affected"),
            ("empty", sum(one.is_emptied for one in foreseen.groups) or None),
            ("thin", sum(one.is_thin for one in foreseen.groups) or None),
        ]),
        *(element("p", str(error), class_="bad") for error in errors),
        section("Forecast", _ranking(foreseen)),
        *([section("Not predicted", _unpredicted(foreseen))] if foreseen.unpredicted else []),
        *map(_course, foreseen.groups[:_COURSES_SHOWN]),
    )  # fmt: skip


def _ranking(foreseen: DrainForecast) -> Markup:
    titles = ["group", "members", "drained", "left", "rebalances", "handovers", "moved", "stopped", "exact", "warning"]
    rows, more = cut(
        [[one.group.group_id, *counts_of(one), warnings_of(one)] for one in foreseen.groups], _GROUPS_SHOWN
    )
    note = (
        "Handovers: how often a partition passes to another consumer. Moved: partitions with another owner, "
        "or none, at the end. Stopped: partition-seconds without a consumer. 2 (1-3) is typical "
        "(min-max). Thin: half of the members that can have partitions are left, or fewer."
    )
    shown = table(titles, rows, right=("members", "drained", "left", "rebalances", "handovers", "moved", "stopped"))
    return Markup(shown + more + element("p", note, class_="soft"))


def _unpredicted(foreseen: DrainForecast) -> Markup:
    rows, more = cut(
        [
            (one.group_id, "unknown" if one.taken is None else len(one.taken), one.reason.message)
            for one in foreseen.unpredicted
        ],
        _GROUPS_SHOWN,
    )
    return Markup(table(["group", "members drained", "reason"], rows, right=("members drained",)) + more)


def _course(one: DrainedGroup) -> Markup:
    """One group over time."""
    colours = colours_of({holding.owner for holding in one.prediction.typical.holdings})
    caveats = one.prediction.caveats
    return section(
        one.group.group_id,
        element("p", f"{many(len(one.taken), 'member')} drained: {', '.join(one.taken)}"),
        element("ul", *(element("li", caveat) for caveat in caveats)) if caveats else "",
        legend(colours),
        course_of(one.prediction, colours, is_only=True),
    )
