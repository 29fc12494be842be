"""`kgm history explain --report` and `churn --report`: what happened to a group and why; which groups rebalance the
most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgm.cli.output.history.damages import no_rebalance_text
from kgm.cli.output.history.rows_json import Json, at
from kgm.cli.output.history.words import (
    between_text,
    count_texts,
    generation_text,
    known,
    moved_text,
    record_text,
    short,
    stopped_partitions_text,
    stopped_text,
    sure_text,
    who_text,
    why_text,
)
from kgm.cli.output.pages.bars import colours_of, legend, ownership
from kgm.cli.output.pages.page import Markup, cut, document, element, facts, join, section, table
from kgm.simulation.play.holdings import Holding
from kgm.text.durations import show_duration
from kgm.text.wording import in_words, some

if TYPE_CHECKING:
    from kgm.history.rows import AlarmRow, OwnerRow, RebalanceRow
    from kgm.operations.history import Explanation
    from kgm.operations.history.advice import AdviceReport
    from kgm.operations.history.churn import Churn, Culprit, GroupChurn
    from kgm.operations.history.next_steps import NextStep

_REBALANCES_SHOWN, _MOVES_SHOWN, _CULPRITS_SHOWN = 400, 400, 200


def explain_page(explained: Explanation, owners: Sequence[OwnerRow], window: Json) -> str:
    """The page of one group. window: as in the JSON of the command."""
    group, one = explained.group_id, explained.rebalance
    return document(
        f"History of {group}",
        element("h1", f"History of {group}"),
        element("p", _in_a_sentence(explained), class_="lead"),
        _about(explained, window),
        *([_rebalance(explained, one)] if one is not None else []),
        _over_time(explained, owners),
        _all_rebalances(explained.rebalances),
        _alarms(explained.alarms),
        _advice(explained.advice),
        _next(explained.next_steps),
    )


def _in_a_sentence(explained: Explanation) -> str:
    count = len(explained.rebalances)
    if count:
        return f"{count} rebalances: {', '.join(count_texts(explained.causes))}."
    return f"{no_rebalance_text(is_complete=explained.complete is not False).capitalize()}."


def _about(explained: Explanation, window: Json) -> Markup:
    advice = explained.timeout_advice
    complete = {True: "yes", False: "no: compaction has removed records", None: None}[explained.complete]
    return facts([
        ("type", explained.group_type),
        ("from", window["source"] or window["store"]),
        ("since", window["since"]), ("until", window["until"]),
        ("complete", complete),
        ("session timeout", None if advice is None else advice.advice),
    ])  # fmt: skip


def _rebalance(explained: Explanation, one: RebalanceRow) -> Markup:
    """The rebalance that is explained in detail."""
    rows = [
        ("when", record_text(one)),
        ("why", f"{why_text(one)} ({sure_text(one)})"),
        ("broker log", one.reason),
        ("who", who_text(one.who, most=50)),
        ("members", f"{known(one.members_before)} to {known(one.members_after)}"),
        ("incomplete", one.lost_rounds or None),
        ("stopped", stopped_text(one)),
        ("stopped, total over partitions", stopped_partitions_text(one)),
        ("moved", moved_text(one)),
    ]
    because = element("ul", *(element("li", sentence) for sentence in one.evidence)) if one.evidence else ""
    return section(f"Generation {generation_text(one)}", facts(rows), because, _changes(explained), _moves(explained))


def _changes(explained: Explanation) -> Markup:
    rows = [
        (
            row.group_instance_id or row.member_id, in_words(row.kind), row.client_id, row.client_host,
            f"{known(row.partitions_before)} to {known(row.partitions_after)}", row.old_member_id,
        )
        for row in explained.changes
    ]  # fmt: skip
    if not rows:
        return Markup("")
    titles = ["member", "what", "client id", "host", "partitions", "member id before"]
    return join((element("h3", "Members that changed"), table(titles, rows)))


def _moves(explained: Explanation) -> Markup:
    rows, more = cut(
        [
            (move.topic, move.partition, move.owner_before or "no consumer", move.owner_after or "no consumer")
            for move in explained.moves
        ],
        _MOVES_SHOWN,
    )
    if not rows:
        return join((element("h3", "Moves"), element("p", "No partition changed its owner.")))
    moves = table(["topic", "partition", "from", "to"], rows, right=("partition",))
    return join((element("h3", f"Moves: {len(explained.moves):,}"), moves, more))


def _over_time(explained: Explanation, owners: Sequence[OwnerRow]) -> Markup:
    """Who owned which partition, with a line for each rebalance."""
    from kgm.operations.history.rebalance_effects import topic_name

    marks = [row.timestamp for row in explained.rebalances if at(row.timestamp) is not None]
    times = [row.from_timestamp for row in owners]
    times += [row.to_timestamp for row in owners if row.to_timestamp is not None]
    times += marks
    if not times:
        return Markup("")
    first, last = min(times), max(times)
    bars = [
        Holding(
            topic=topic_name(row), partition=row.topic_partition, from_ms=row.from_timestamp - first,
            to_ms=(last if row.to_timestamp is None else row.to_timestamp) - first, owner=short(row.seat),
        )
        for row in owners
    ]  # fmt: skip
    colours = colours_of(each.owner for each in bars)
    chart = ownership(
        bars, end_ms=last - first, marks_ms=[mark - first for mark in marks], colours=colours, show_ms=show_duration
    )
    begins = next((at(row.from_timestamp) for row in owners if row.from_timestamp == first), None)
    note = element("p", f"From {begins or 'the first rebalance'} on.", class_="soft")
    return section("Over time", note, legend(colours), chart)


def _all_rebalances(rebalances: Sequence[RebalanceRow]) -> Markup:
    rows, more = cut(
        [
            (
                at(row.timestamp), generation_text(row), why_text(row), sure_text(row), who_text(row.who),
                stopped_text(row), moved_text(row),
            )
            for row in reversed(rebalances)
        ],
        _REBALANCES_SHOWN,
    )  # fmt: skip
    titles = ["at", "generation", "why", "confidence", "who", "stopped", "moved"]
    note = (
        "Who: + joined, - left, ~ came back, = took over what others gave up in the previous rebalance, * changed its "
        "subscription; no sign: it stayed a member, and joined again."
    )
    return section(
        "All rebalances, newest first", table(titles, rows, right=("at",)), more,
        element("p", note, class_="soft"),
    )  # fmt: skip


def _alarms(alarms: Sequence[AlarmRow]) -> Markup:
    if not alarms:
        return Markup("")
    rows = [
        (
            in_words(row.alarm), row.seat or None, row.confidence, at(row.timestamp), at(row.cleared_timestamp),
            "; ".join(row.evidence),
        )
        for row in alarms
    ]  # fmt: skip
    return section("Alarms", table(["what", "instance id", "confidence", "since", "cleared", "evidence"], rows))


def _advice(report: AdviceReport) -> Markup:
    """The changes that would have avoided rebalances."""
    if not report.advice:
        return Markup("")
    rows = [
        (in_words(each.change.kind.value), each.text, each.price, "; ".join(each.caveats)) for each in report.advice
    ]
    heads = ["change", "would have avoided", "cost", "what is not known"]
    played = f"Computed by replaying the newest {report.rebalances} rebalances."
    return section("Advice", element("p", played), table(heads, rows))


def _next(steps: Sequence[NextStep]) -> Markup:
    if not steps:
        return Markup("")
    return section("What to do", table(["why", "command"], [(step.why, step.command) for step in steps]))


def churn_page(churn: Churn, window: Json) -> str:
    """The page of many groups. window: as in the JSON of the command."""
    groups = churn.groups
    total = sum(each.rebalances for each in groups)
    return document(
        "Churn of consumer groups",
        element("h1", "Churn of consumer groups"),
        element("p", f"{total:,} rebalances of {len(groups):,} groups.", class_="lead"),
        facts([
            ("from", window["source"] or window["store"]), ("since", window["since"]), ("until", window["until"]),
            ("not complete: compaction has removed records", some(churn.incomplete) or None),
        ]),
        section("Groups, most rebalances first", _shares(groups), _groups(groups)),
        section("Members involved", _culprits(churn.culprits)),
    )  # fmt: skip


def _groups(groups: Sequence[GroupChurn]) -> Markup:
    rows, more = cut(
        [
            (
                each.group_id, each.rebalances, _rate(each.per_hour), ", ".join(count_texts(each.causes)),
                each.lost_rounds, each.moved,
                between_text(each.stopped_partition_ms_min, each.stopped_partition_ms_max), each.absorbed,
                at(each.last_ms),
            )
            for each in groups
        ],
        _REBALANCES_SHOWN,
    )  # fmt: skip
    titles = ["group", "rebalances", "per hour", "why", "incomplete", "moved", "stopped", "absorbed", "last"]
    note = (
        "Stopped: time without a consumer, total over partitions, within the bounds that the log gives. Absorbed: "
        "restarts of static members that caused no rebalance."
    )
    numbers = ("rebalances", "per hour", "incomplete", "moved", "stopped", "absorbed")
    return join((table(titles, rows, right=(*numbers, "last")), more, element("p", note, class_="soft")))


def _rate(per_hour: float | None) -> str | None:
    return None if per_hour is None else f"{per_hour:,.1f}"


_BAR_WIDTH, _BAR_ROW, _BARS_SHOWN = 1000, 18, 25
_NAME_SHOWN = 34


def _shares(groups: Sequence[GroupChurn]) -> Markup:
    """A bar for each of the first groups, colored by cause."""
    shown = [each for each in groups if each.rebalances][:_BARS_SHOWN]
    if not shown:
        return Markup("")
    colours = colours_of(in_words(cause.cause) for each in shown for cause in each.causes)
    most = max(each.rebalances for each in shown)
    parts = []
    for number, each in enumerate(shown):
        y, x = number * _BAR_ROW, 230.0
        name = each.group_id if len(each.group_id) <= _NAME_SHOWN else each.group_id[: _NAME_SHOWN - 1] + "…"
        parts.append(element("text", name, class_="end", x="222", y=f"{y + 11}"))
        for cause in each.causes:
            width = (_BAR_WIDTH - 280) * cause.count / most
            hint = element("title", f"{each.group_id}: {cause.count} {in_words(cause.cause)}")
            kind = f"o{colours[in_words(cause.cause)] % 12}"
            bar = element("rect", hint, class_=kind, x=f"{x:.1f}", y=f"{y + 1}", width=f"{width:.1f}", height="13")
            parts.append(bar)
            x += width
        parts.append(element("text", str(each.rebalances), class_="soft", x=f"{x + 5:.1f}", y=f"{y + 11}"))
    height = len(shown) * _BAR_ROW + 4
    figure = element(
        "svg", *parts, viewBox=f"0 0 {_BAR_WIDTH} {height}", role="img", aria_label="rebalances by group and cause"
    )
    return join((legend(colours), element("figure", figure)))


def _culprits(culprits: Sequence[Culprit]) -> Markup:
    rows, more = cut(
        [
            (each.who, each.client_host, each.group_id, each.rebalances, ", ".join(count_texts(each.causes)))
            for each in culprits
        ],
        _CULPRITS_SHOWN,
    )
    return join((table(["who", "host", "group", "rebalances", "why"], rows, right=("rebalances",)), more))
