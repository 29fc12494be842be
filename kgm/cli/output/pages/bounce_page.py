"""`kgm simulate-bounce --report FILE.html`: the plan, its scenarios side by side, and each scenario over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgm.cli.output.bounce_report import exact_text, sink_tables
from kgm.cli.output.pages.bars import colours_of, legend, ownership
from kgm.cli.output.pages.page import Markup, cut, document, element, facts, join, section, table
from kgm.text.durations import show_duration

if TYPE_CHECKING:
    from kgm.model.snapshot import GroupSnapshot
    from kgm.operations.bounce.prediction import PredictedBounce
    from kgm.simulation.report.prediction import Prediction, Range, TimeRange

_MOVES_SHOWN, _EVENTS_SHOWN = 200, 120


def bounce_page(predicted: PredictedBounce, plan_in_words: str, where: dict[str, str | None] | None) -> str:
    """The page. The predictions need their holdings. where: the `cluster` of the envelope."""
    snapshot, predictions = predicted.group, predicted.predictions
    owners = {holding.owner for prediction in predictions for holding in prediction.typical.holdings}
    colours = colours_of(owners)
    return document(
        f"Planned bounce of {snapshot.group_id}",
        element("h1", f"Planned bounce of {snapshot.group_id}"),
        element("p", plan_in_words, class_="lead"),
        _about(snapshot, where),
        *(element("p", str(error), class_="bad") for error in predicted.all_errors),
        section("Prediction", _side_by_side(predictions), _caveats(predictions[0])),
        element("h3", "Owners"),
        legend(colours),
        *(course_of(prediction, colours, is_only=len(predictions) == 1) for prediction in predictions),
    )


def _about(snapshot: GroupSnapshot, where: dict[str, str | None] | None) -> Markup:
    return facts([
        ("cluster", where and f"{where['id']} at {where['bootstrap']}"),
        ("group", f"{snapshot.type}, {snapshot.state}, assignor {snapshot.assignor or 'unknown'}"),
        ("members", f"{len(snapshot.members)}, {snapshot.static_members} static"),
        ("topics", ", ".join(f"{topic.name} ({topic.partitions})" for topic in snapshot.topics) or None),
    ])  # fmt: skip


def _side_by_side(predictions: Sequence[Prediction]) -> Markup:
    titles = ["scenario", "protocol", "assignor", "rebalances", "moved", "handovers", "stopped", "duration", "exact"]
    rows = []
    for prediction in predictions:
        typical, ranges = prediction.typical, prediction.meaningful_ranges
        rows.append(
            [
                prediction.name,
                prediction.protocol,
                prediction.assignor,
                _with_range(typical.rebalances, ranges.rebalances if ranges else None),
                _with_range(typical.moved_partitions, ranges.moved_partitions if ranges else None),
                _with_range(typical.handovers, ranges.handovers if ranges else None),
                _stopped(typical.stopped_partition_ms, prediction.stopped_partition_range_ms),
                show_duration(typical.took_ms),
                exact_text(prediction),
            ]
        )
    note = (
        "Moved: partitions with another owner at the end. Handovers: how often a partition passes to another consumer "
        "along the way. Stopped: partition-seconds without a consumer. 2 (1-3) is typical (min-max)."
    )
    return Markup(
        table(titles, rows, right=("rebalances", "moved", "handovers", "stopped", "duration"))
        + element("p", note, class_="soft")
    )


def _with_range(typical: int, drawn: Range | None) -> str:
    return f"{typical:,} ({drawn.min:,}-{drawn.max:,})" if drawn and drawn.min != drawn.max else f"{typical:,}"


def _stopped(typical_ms: int, drawn: TimeRange) -> str:
    differs = drawn.is_meaningful and drawn.min != drawn.max
    most = "?" if drawn.is_open else f"{drawn.max / 1000:,.1f}"
    span = f" ({drawn.min / 1000:,.1f}-{most})" if differs or drawn.is_open else ""
    return f"{typical_ms / 1000:,.1f}{span} s"


def _caveats(prediction: Prediction) -> Markup:
    if not prediction.caveats:
        return Markup("")
    return element("ul", *(element("li", caveat) for caveat in prediction.caveats))


def course_of(prediction: Prediction, colours: dict[str, int], *, is_only: bool) -> Markup:
    """The owners over time, the moves and the timeline of a typical draw."""
    typical = prediction.typical
    marks = [event.at_ms for event in typical.timeline if event.event in ("rebalance", "epoch")]
    chart = ownership(typical.holdings, end_ms=typical.took_ms, marks_ms=marks, colours=colours, show_ms=show_duration)
    title = "Over time" if is_only else f"Scenario {prediction.name}"
    draw = "" if prediction.exact else element("p", "A typical draw; other draws differ.", class_="soft")
    return section(title, draw, chart, _sinks(prediction), _moves(prediction), _timeline(prediction))


def _sinks(prediction: Prediction) -> Markup:
    """The groups of sink connectors, as a wide terminal shows them."""
    return join(
        join([
            element("h3", "Sink groups"),
            table(
                [column.title for column in shown.columns], shown.rows,
                right=[column.title for column in shown.columns if column.right],
            ),
            *(element("p", note, class_="soft") for note in shown.notes),
        ])
        for shown in sink_tables(prediction.sinks)
    )  # fmt: skip


def _moves(prediction: Prediction) -> Markup:
    moves = prediction.typical.moves
    if not moves:
        return Markup(element("h3", "Moves") + element("p", "No partition changes its owner."))
    rows, more = cut(
        [(its.topic, its.partition, its.owner_before, its.owner_after, show_duration(its.at_ms)) for its in moves],
        _MOVES_SHOWN,
    )
    shown = table(["topic", "partition", "from", "to", "at"], rows, right=("partition", "at"))
    return Markup(element("h3", f"Moves: {len(moves):,}") + shown + more)


def _timeline(prediction: Prediction) -> Markup:
    events = prediction.typical.timeline
    rows, more = cut(
        [(show_duration(event.at_ms), event.event, event.member, event.detail) for event in events], _EVENTS_SHOWN
    )
    return Markup(element("h3", "Timeline") + table(["at", "event", "member", "detail"], rows, right=("at",)) + more)
