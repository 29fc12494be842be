"""`kgm simulate-bounce --report FILE.html`: the plan, its scenarios side by side, and each of them over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgm.cli.output.pages.bars import colours_of, legend, ownership
from kgm.cli.output.pages.page import Markup, cut, document, element, facts, section, table
from kgm.text.durations import show_duration

if TYPE_CHECKING:
    from kgm.model.errors import KgmError
    from kgm.model.snapshot import GroupSnapshot
    from kgm.simulation.report.report import Range, Scenario

_MOVES_SHOWN, _EVENTS_SHOWN = 200, 120


def bounce_page(
    snapshot: GroupSnapshot,
    plan_in_words: str,
    scenarios: Sequence[Scenario],
    errors: Sequence[KgmError],
    where: dict[str, str | None] | None,
) -> str:
    """The page. scenarios: with their holdings."""
    owners = {holding.owner for scenario in scenarios for holding in scenario.typical.holdings}
    colours = colours_of(owners)
    return document(
        f"Planned bounce of {snapshot.group_id}",
        element("h1", f"Planned bounce of {snapshot.group_id}"),
        element("p", plan_in_words, class_="lead"),
        _about(snapshot, where),
        *(element("p", str(error), class_="bad") for error in errors),
        section("What it would do", _side_by_side(scenarios), _certainty(scenarios[0])),
        element("h3", "Owners"),
        legend(colours),
        *(_scenario(scenario, colours, alone=len(scenarios) == 1) for scenario in scenarios),
    )


def _about(snapshot: GroupSnapshot, where: dict[str, str | None] | None) -> Markup:
    static = sum(member.group_instance_id is not None for member in snapshot.members)
    return facts([
        ("cluster", where and f"{where['id']} at {where['bootstrap']}"),
        ("group", f"{snapshot.type}, {snapshot.state}, assignor {snapshot.assignor or 'unknown'}"),
        ("members", f"{len(snapshot.members)}, of which static: {static}"),
        ("topics", ", ".join(f"{topic.name} ({topic.partitions})" for topic in snapshot.topics) or None),
    ])  # fmt: skip


def _side_by_side(scenarios: Sequence[Scenario]) -> Markup:
    titles = ["scenario", "protocol", "assignor", "rebalances", "moved", "stopped", "takes", "certain"]
    rows = []
    for scenario in scenarios:
        typical, ranges = scenario.typical, scenario.ranges
        rows.append(
            [
                scenario.name,
                scenario.protocol,
                scenario.assignor,
                _spread(typical.rebalances, ranges.rebalances if ranges else None),
                _spread(typical.moved_partitions, ranges.moved_partitions if ranges else None),
                _stopped(typical.stopped_partition_ms, ranges.stopped_partition_ms if ranges else None),
                show_duration(typical.took_ms),
                "yes" if scenario.exact else f"no, {ranges.draws} draws" if ranges else "no",
            ]
        )
    note = "Stopped is the time without a consumer, added up over partitions. 2 (1-3): typical, and from least to most."
    return Markup(
        table(titles, rows, right=("rebalances", "moved", "stopped", "takes")) + element("p", note, class_="soft")
    )


def _spread(typical: int, found: Range | None) -> str:
    return f"{typical:,} ({found.min:,}-{found.max:,})" if found and found.min != found.max else f"{typical:,}"


def _stopped(typical_ms: int, found: Range | None) -> str:
    spread = f" ({found.min / 1000:,.1f}-{found.max / 1000:,.1f})" if found and found.min != found.max else ""
    return f"{typical_ms / 1000:,.1f}{spread} s"


def _certainty(scenario: Scenario) -> Markup:
    if not scenario.caveats:
        return Markup("")
    return element("ul", *(element("li", caveat) for caveat in scenario.caveats))


def _scenario(scenario: Scenario, colours: dict[str, int], *, alone: bool) -> Markup:
    typical = scenario.typical
    marks = [event.at_ms for event in typical.timeline if event.event in ("rebalance", "epoch")]
    chart = ownership(typical.holdings, end_ms=typical.took_ms, marks_ms=marks, colours=colours, show_ms=show_duration)
    title = "Over time" if alone else f"Scenario {scenario.name}"
    draw = "" if scenario.exact else element("p", "One typical draw of many: another run differs.", class_="soft")
    return section(title, draw, chart, _moves(scenario), _timeline(scenario))


def _moves(scenario: Scenario) -> Markup:
    moves = scenario.typical.moves
    if not moves:
        return Markup(element("h3", "Moves") + element("p", "No partition has another owner afterwards."))
    rows, more = cut(
        [(its.topic, its.partition, its.owner_before, its.owner_after, show_duration(its.at_ms)) for its in moves],
        _MOVES_SHOWN,
    )
    found = table(["topic", "partition", "from", "to", "at"], rows, right=("partition", "at"))
    return Markup(element("h3", f"Moves: {len(moves):,}") + found + more)


def _timeline(scenario: Scenario) -> Markup:
    events = scenario.typical.timeline
    rows, more = cut(
        [(show_duration(event.at_ms), event.event, event.member, event.detail) for event in events], _EVENTS_SHOWN
    )
    return Markup(element("h3", "Timeline") + table(["at", "event", "member", "detail"], rows, right=("at",)) + more)
