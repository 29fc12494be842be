"""`kgm history churn`: which groups rebalance most, and who brings it about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from kgm.cli.commands.history.question import Match, cluster_of, matching, rebalances_of, warn_of_damage, window_json
from kgm.cli.commands.history.rows import Json, Row, at, in_words, short
from kgm.cli.commands.history.source import Where, of_history
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.report import Cell, Column, Report, Table, emit
from kgm.text.wording import many, typed

SCHEMA = "kgm.history-churn/v1"
_COLUMNS = (
    "partition", "offset", "timestamp", "group_id", "group_type", "cause", "confidence", "who", "moved", "lost_rounds",
    "stopped_partition_ms_min", "stopped_partition_ms_max",
)  # fmt: skip
_HOUR_MS, _LEAST_MS = 3_600_000, 60_000
_CULPRITS_SHOWN = 20
_CAUSES_SHOWN = 3
#: What nobody has brought about: the second half of a rebalance.
_NOBODYS = frozenset({"cooperative-round"})
ReportFile = Annotated[
    str | None, typer.Option("--report", metavar="FILE.html", help="Also as one self-contained page.")
]


@cluster_options
@of_history
def churn(
    *,
    match: Match = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="Only the worst N groups.")] = None,
    report: ReportFile = None,
    where: Where,
    common: RunOptions,
) -> None:
    """Rank groups by how often they rebalance, and who brings it about.

    STOPPED adds up, over partitions, the time nobody consumed them: what the log bounds. ABSORBED: restarts of static
    members of which no rebalance came. Dynamic members are named by client id and host, since each start has another
    member id."""
    with where.tables() as tables:
        asked = where.asked()
        rows = matching(rebalances_of(tables, where, None, _COLUMNS), match)
        restarts = matching(tables.rows("gold_restart", asked, ("group_id", "absorbed", "timestamp")), match)
        window, cluster_json = window_json(tables, where), cluster_of(tables)
        warn_of_damage(tables, common)
    groups = groups_of(rows, restarts)
    shown = groups if limit is None else groups[:limit]
    there = {each["group_id"] for each in shown}
    culprits = [each for each in culprits_of(rows) if each["group_id"] in there]
    data = {"window": window, "groups": shown, "culprits": culprits}
    emit(
        Report(
            schema=SCHEMA,
            data=data,
            tables=[_groups(shown, len(groups), where), _culprits(culprits)],
            names=[each["group_id"] for each in shown],
            items=shown,
            cluster=cluster_json,
        ),
        common,
    )
    if report is not None:
        from kgm.cli.output.pages.history_page import churn_page
        from kgm.cli.output.pages.page import write

        write(report, churn_page(data))


def groups_of(rows: Sequence[Row], restarts: Iterable[Row]) -> list[Json]:
    """A group each, the one that rebalances most first. per_hour: over the time from its first to its last, if that is
    long enough to say anything."""
    absorbed = Counter(row["group_id"] for row in restarts if row["absorbed"])
    by_group: dict[str, list[Row]] = {}
    for row in rows:
        by_group.setdefault(row["group_id"], []).append(row)
    found = [_group_json(group, by_group.get(group, []), absorbed[group]) for group in {*by_group, *absorbed}]
    return sorted(found, key=lambda each: (-each["rebalances"], -(each["lost_rounds"] or 0), each["group_id"]))


def _group_json(group: str, rows: Sequence[Row], absorbed: int) -> Json:
    times = [row["timestamp"] for row in rows]
    first, last = min(times, default=None), max(times, default=None)
    length = 0 if first is None or last is None else last - first
    causes = Counter(row["cause"] for row in rows)
    return {
        "group_id": group, "group_type": rows[0]["group_type"] if rows else None, "rebalances": len(rows),
        "per_hour": round((len(rows) - 1) * _HOUR_MS / length, 3) if length >= _LEAST_MS else None,
        "first": at(first), "last": at(last),
        "causes": [{"cause": cause, "count": count} for cause, count in causes.most_common()],
        "lost_rounds": sum(row["lost_rounds"] or 0 for row in rows), "moved": sum(row["moved"] or 0 for row in rows),
        "stopped_partition_ms": {
            "min": _sum(row["stopped_partition_ms_min"] for row in rows),
            "max": _sum(row["stopped_partition_ms_max"] for row in rows),
        },
        "absorbed": absorbed,
    }  # fmt: skip


def _sum(values: Iterable[int | None]) -> int | None:
    """Of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def culprits_of(rows: Iterable[Row]) -> list[Json]:
    """Who had to do with how many rebalances of a group, most first."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for row in rows:
        if row["cause"] in _NOBODYS:
            continue
        # A dynamic member has another id at each start; its client id and host stay.
        named = {
            (each["seat"], "") if each["seat"] != each["member_id"] else (each["client_id"], each["client_host"])
            for each in row["who"] or ()
        }
        for name, host in named:
            counts.setdefault((row["group_id"], name or "?", host or ""), Counter())[row["cause"]] += 1
    found = [
        {
            "group_id": group, "who": who, "client_host": host or None, "rebalances": causes.total(),
            "causes": [{"cause": cause, "count": count} for cause, count in causes.most_common()],
        }
        for (group, who, host), causes in counts.items()
    ]  # fmt: skip
    return sorted(found, key=lambda each: (-each["rebalances"], each["group_id"], each["who"]))


def causes_text(causes: Sequence[Json]) -> str:
    """`12 join, 3 leave, ...`."""
    texts = [f"{each['count']} {in_words(each['cause'])}" for each in causes[:_CAUSES_SHOWN]]
    rest = sum(each["count"] for each in causes[_CAUSES_SHOWN:])
    return ", ".join(texts) + (f", {rest} more" if rest else "")


def _groups(groups: Sequence[Json], count: int, where: Where) -> Table:
    columns = [
        Column(title="GROUP"), Column(title="TYPE", wide=True), Column(title="REBALANCES", right=True),
        Column(title="PER HOUR", right=True), Column(title="WHY"), Column(title="LOST ROUNDS", right=True),
        Column(title="MOVED", right=True), Column(title="STOPPED", right=True), Column(title="ABSORBED", right=True),
        Column(title="LAST"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            each["group_id"], each["group_type"], each["rebalances"],
            None if each["per_hour"] is None else f"{each['per_hour']:.1f}", causes_text(each["causes"]) or None,
            each["lost_rounds"], each["moved"], _stopped(each["stopped_partition_ms"]), each["absorbed"], each["last"],
        ]
        for each in groups
    ]  # fmt: skip
    notes = [f"and {count - len(groups)} more"] if count > len(groups) else []
    notes += [
        f"next: kgm history explain {typed(each['group_id'])} {where.text}" for each in groups[:1] if each["rebalances"]
    ]
    return Table(columns=columns, rows=rows, notes=notes)


def _stopped(bounds: Json) -> str | None:
    from kgm.cli.commands.history.rows import between_text

    return between_text(bounds)


def _culprits(culprits: Sequence[Json]) -> Table:
    columns = [
        Column(title="WHO"), Column(title="HOST"), Column(title="GROUP"), Column(title="REBALANCES", right=True),
        Column(title="WHY"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [short(each["who"]), each["client_host"], each["group_id"], each["rebalances"], causes_text(each["causes"])]
        for each in culprits[:_CULPRITS_SHOWN]
    ]
    rest = len(culprits) - _CULPRITS_SHOWN
    notes = [f"and {many(rest, 'more member')}: -o json has them all"] if rest > 0 else []
    return Table(columns=columns, rows=rows, heading="who had to do with it", notes=notes)
