"""`kgm history explain --report` and `churn --report`: what happened to a group and why; which groups rebalance most.

Both are made from the `data` of the JSON, so that page and script never disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kgm.cli.commands.history.rows import (
    between_text,
    generation_text,
    in_words,
    moved_text,
    short,
    stopped_text,
    sure_text,
    who_text,
    why_text,
)
from kgm.cli.output.pages.bars import colours_of, legend, ownership
from kgm.cli.output.pages.page import Markup, cut, document, element, facts, join, section, table
from kgm.text.durations import show_duration

_REBALANCES_SHOWN, _MOVES_SHOWN, _CULPRITS_SHOWN = 400, 400, 200
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What one owner held, in ms since the start of what is shown."""

    topic: str
    partition: int
    from_ms: int
    to_ms: int
    owner: str


def explain_page(data: Json, owners: Sequence[Json]) -> str:
    """The page of one group. data: of `kgm.history-explain/v1`; owners: of `kgm.history-movement/v1`."""
    group, one = data["group_id"], data["rebalance"]
    return document(
        f"History of {group}",
        element("h1", f"History of {group}"),
        element("p", _in_a_sentence(data), class_="lead"),
        _about(data),
        *([_rebalance(data, one)] if one is not None else []),
        _over_time(data, owners),
        _all_rebalances(data["rebalances"]),
        _alarms(data["alarms"]),
        _next(data["next"]),
    )


def _in_a_sentence(data: Json) -> str:
    said = ", ".join(f"{each['count']} {in_words(each['cause'])}" for each in data["causes"])
    count = len(data["rebalances"])
    return f"{count} rebalances: {said}." if count else "No rebalance in this window."


def _about(data: Json) -> Markup:
    window, advice = data["window"], data["timeout_advice"]
    complete = {True: "yes", False: "no: compaction has eaten records in between", None: None}[data["complete"]]
    return facts([
        ("type", data["group_type"]),
        ("from", window["source"] or window["store"]),
        ("since", window["since"]), ("until", window["until"]),
        ("complete", complete),
        ("session timeout", None if advice is None else advice["advice"]),
    ])  # fmt: skip


def _rebalance(data: Json, one: Json) -> Markup:
    """The one that is explained."""
    rows = [
        ("when", f"{one['at']}, in __consumer_offsets-{one['record']['partition']} at {one['record']['offset']}"),
        ("why", f"{why_text(dict(one))} ({sure_text(dict(one))})"),
        ("the broker says", one["reason"]),
        ("who", who_text(one["who"], most=50)),
        ("members", f"{_known(one['members_before'])} to {_known(one['members_after'])}"),
        ("lost rounds", one["lost_rounds"] or None),
        ("stopped", stopped_text(dict(one))),
        ("stopped, over partitions", between_text(one["stopped_partition_ms"])),
        ("moved", moved_text(dict(one))),
    ]
    because = element("ul", *(element("li", sentence) for sentence in one["evidence"])) if one["evidence"] else ""
    return section(f"Generation {generation_text(dict(one))}", facts(rows), because, _changes(data), _moves(data))


def _known(value: int | None) -> str:
    return "?" if value is None else str(value)


def _changes(data: Json) -> Markup:
    rows = [
        (
            each["identity"], in_words(each["what"]), each["client_id"], each["client_host"],
            f"{_known(each['partitions_before'])} to {_known(each['partitions_after'])}", each["old_member_id"],
        )
        for each in data["changes"]
    ]  # fmt: skip
    if not rows:
        return Markup("")
    titles = ["member", "what", "client id", "host", "partitions", "member id before"]
    return join((element("h3", "Members that changed"), table(titles, rows)))


def _moves(data: Json) -> Markup:
    rows, more = cut(
        [
            (each["topic"], each["partition"], each["from"] or "nobody", each["to"] or "nobody")
            for each in data["moves"]
        ],
        _MOVES_SHOWN,
    )
    if not rows:
        return join((element("h3", "Moves"), element("p", "No partition has another owner afterwards.")))
    found = table(["topic", "partition", "from", "to"], rows, right=("partition",))
    return join((element("h3", f"Moves: {len(data['moves']):,}"), found, more))


def _over_time(data: Json, owned: Sequence[Json]) -> Markup:
    """Who owned what, with a line for each rebalance."""
    owners = [each for each in owned if each["from_ms"] is not None]
    marks = [_ms(each["at"]) for each in data["rebalances"] if each["at"] is not None]
    times = [each["from_ms"] for each in owners] + [each["to_ms"] for each in owners if each["to_ms"] is not None]
    times += marks
    if not times:
        return Markup("")
    first, last = min(times), max(times)
    held = [
        Held(
            topic=each["topic"] or f"id {each['topic_id']}", partition=each["partition"],
            from_ms=each["from_ms"] - first, to_ms=(last if each["to_ms"] is None else each["to_ms"]) - first,
            owner=short(each["identity"]),
        )
        for each in owners
    ]  # fmt: skip
    colours = colours_of(each.owner for each in held)
    chart = ownership(
        held, end_ms=last - first, marks_ms=[mark - first for mark in marks], colours=colours, show_ms=show_duration
    )
    begins = next((each["from"] for each in owners if each["from_ms"] == first), None)
    note = element("p", f"From {begins or 'the first rebalance'} on.", class_="soft")
    return section("Over time", note, legend(colours), chart)


def _ms(at: str) -> int:
    return round(datetime.fromisoformat(at).timestamp() * 1000)


def _all_rebalances(rebalances: Sequence[Json]) -> Markup:
    rows, more = cut(
        [
            (
                each["at"], generation_text(dict(each)), why_text(dict(each)), sure_text(dict(each)),
                who_text(each["who"]), stopped_text(dict(each)), moved_text(dict(each)),
            )
            for each in reversed(rebalances)
        ],
        _REBALANCES_SHOWN,
    )  # fmt: skip
    titles = ["at", "generation", "why", "confidence", "who", "stopped", "moved"]
    note = (
        "Who: + came, - went, ~ came back, = took over what others gave up the round before, * subscribes to something "
        "else."
    )
    return section(
        "All rebalances, the last first", table(titles, rows, right=("at",)), more, element("p", note, class_="soft")
    )


def _alarms(alarms: Sequence[Json]) -> Markup:
    if not alarms:
        return Markup("")
    rows = [
        (in_words(each["alarm"]), each["identity"], each["confidence"], each["since"], each["cleared"],
         "; ".join(each["evidence"]))
        for each in alarms
    ]  # fmt: skip
    return section("To look at", table(["what", "seat", "confidence", "since", "cleared", "evidence"], rows))


def _next(steps: Sequence[Json]) -> Markup:
    if not steps:
        return Markup("")
    return section("What to do", table(["why", "command"], [(each["why"], each["command"]) for each in steps]))


def churn_page(data: Json) -> str:
    """The page of many groups. data: of `kgm.history-churn/v1`."""
    groups, window = data["groups"], data["window"]
    total = sum(each["rebalances"] for each in groups)
    return document(
        "Churn of consumer groups",
        element("h1", "Churn of consumer groups"),
        element("p", f"{total:,} rebalances of {len(groups):,} groups.", class_="lead"),
        facts([
            ("from", window["source"] or window["store"]), ("since", window["since"]), ("until", window["until"]),
        ]),
        section("Groups, the worst first", _shares(groups), _groups(groups)),
        section("Who had to do with it", _culprits(data["culprits"])),
    )  # fmt: skip


def _groups(groups: Sequence[Json]) -> Markup:
    rows, more = cut(
        [
            (
                each["group_id"], each["rebalances"], _rate(each["per_hour"]), _causes(each["causes"]),
                each["lost_rounds"], each["moved"], between_text(each["stopped_partition_ms"]), each["absorbed"],
                each["last"],
            )
            for each in groups
        ],
        _REBALANCES_SHOWN,
    )  # fmt: skip
    titles = ["group", "rebalances", "per hour", "why", "lost rounds", "moved", "stopped", "absorbed", "last"]
    note = (
        "Stopped adds up, over partitions, the time nobody consumed them, as far as the log bounds it. Absorbed: "
        "restarts of static members of which no rebalance came."
    )
    numbers = ("rebalances", "per hour", "lost rounds", "moved", "stopped", "absorbed")
    return join((table(titles, rows, right=(*numbers, "last")), more, element("p", note, class_="soft")))


def _rate(per_hour: float | None) -> str | None:
    return None if per_hour is None else f"{per_hour:,.1f}"


def _causes(causes: Sequence[Json]) -> str:
    return ", ".join(f"{each['count']} {in_words(each['cause'])}" for each in causes)


_BAR_WIDTH, _BAR_ROW, _BARS_SHOWN = 1000, 18, 25


def _shares(groups: Sequence[Json]) -> Markup:
    """A bar for each of the worst groups, coloured by cause."""
    shown = [each for each in groups if each["rebalances"]][:_BARS_SHOWN]
    if not shown:
        return Markup("")
    colours = colours_of(in_words(cause["cause"]) for each in shown for cause in each["causes"])
    most = max(each["rebalances"] for each in shown)
    parts = []
    for number, each in enumerate(shown):
        y, x = number * _BAR_ROW, 230.0
        name = each["group_id"] if len(each["group_id"]) <= 34 else each["group_id"][:33] + "…"
        parts.append(element("text", name, class_="end", x="222", y=f"{y + 11}"))
        for cause in each["causes"]:
            width = (_BAR_WIDTH - 280) * cause["count"] / most
            hint = element("title", f"{each['group_id']}: {cause['count']} {in_words(cause['cause'])}")
            kind = f"o{colours[in_words(cause['cause'])] % 12}"
            bar = element("rect", hint, class_=kind, x=f"{x:.1f}", y=f"{y + 1}", width=f"{width:.1f}", height="13")
            parts.append(bar)
            x += width
        parts.append(element("text", str(each["rebalances"]), class_="soft", x=f"{x + 5:.1f}", y=f"{y + 11}"))
    height = len(shown) * _BAR_ROW + 4
    figure = element(
        "svg", *parts, viewBox=f"0 0 {_BAR_WIDTH} {height}", role="img", aria_label="rebalances by group and cause"
    )
    return join((legend(colours), element("figure", figure)))


def _culprits(culprits: Sequence[Json]) -> Markup:
    rows, more = cut(
        [
            (each["who"], each["client_host"], each["group_id"], each["rebalances"], _causes(each["causes"]))
            for each in culprits
        ],
        _CULPRITS_SHOWN,
    )
    return join((table(["who", "host", "group", "rebalances", "why"], rows, right=("rebalances",)), more))
