"""`kgm history zombies` and `timeouts`: seats to look at, and the session timeout that the restarts seen ask for."""

from __future__ import annotations

from collections.abc import Sequence

from kgm.cli.commands.history.question import (
    Group,
    GroupOption,
    Match,
    check_group,
    cluster_of,
    matching,
    maybe_group,
    warn_of_damage,
    window_json,
)
from kgm.cli.commands.history.rows import Json, Row, at, in_words, record_json, short
from kgm.cli.commands.history.source import Where, of_history
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.report import Cell, Column, Report, Table, emit
from kgm.text.durations import show_duration
from kgm.text.wording import many, typed

#: A verdict that says it all.
_TOO_FEW = "not enough data"
_ZOMBIES, _TIMEOUTS = "kgm.history-zombies/v1", "kgm.history-timeouts/v1"


@cluster_options
@of_history
def zombies(
    *, group: Group = None, group_option: GroupOption = None, match: Match = None, where: Where, common: RunOptions
) -> None:
    """List what is wrong with seats: two processes on one, owners that do not commit, ids that never come back."""
    name = maybe_group(group, group_option)
    with where.tables() as tables:
        rows = tables.rows("gold_alarm", where.asked(name))
        if name is not None and not rows:
            check_group(tables, where, name)
        window, cluster_json = window_json(tables, where), cluster_of(tables)
        warn_of_damage(tables, common)
    found = [
        _alarm_json(row) for row in sorted(matching(rows, match), key=lambda row: (row["group_id"], row["offset"]))
    ]
    emit(
        Report(
            schema=_ZOMBIES,
            data={"window": window, "alarms": found},
            tables=[_alarms(found, where)],
            names=list(dict.fromkeys(each["group_id"] for each in found)),
            items=found,
            cluster=cluster_json,
        ),
        common,
    )


def _alarm_json(row: Row) -> Json:
    """One alarm. A null identity: it is about the whole group."""
    return {
        "group_id": row["group_id"], "group_type": row["group_type"], "alarm": row["alarm"],
        "identity": row["seat"] or None,
        "confidence": row["confidence"], "count": row["count"], "since": at(row["timestamp"]),
        "last": at(row["last_timestamp"]), "cleared": at(row["cleared_timestamp"]),
        "member_ids": list(row["member_ids"] or ()), "evidence": list(row["evidence"] or ()),
        "record": record_json(row),
    }  # fmt: skip


def _alarms(found: Sequence[Json], where: Where) -> Table:
    columns = [
        Column(title="GROUP"), Column(title="SEAT"), Column(title="ALARM"), Column(title="CONFIDENCE"),
        Column(title="TIMES", right=True), Column(title="SINCE"), Column(title="LAST"), Column(title="CLEARED"),
        Column(title="EVIDENCE"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            each["group_id"], None if each["identity"] is None else short(each["identity"]), in_words(each["alarm"]),
            each["confidence"], each["count"], each["since"], each["last"], each["cleared"],
            "; ".join(each["evidence"]) or None,
        ]
        for each in found
    ]  # fmt: skip
    notes = ["nothing is wrong with any seat that this history shows"] if not found else []
    notes += [f"next: kgm history timeline {typed(each['group_id'])} {where.text}" for each in found[:1]]
    return Table(columns=columns, rows=rows, notes=notes)


@cluster_options
@of_history
def timeouts(
    *, group: Group = None, group_option: GroupOption = None, match: Match = None, where: Where, common: RunOptions
) -> None:
    """Say which session.timeout.ms the restarts seen ask for, what it would have saved, and its price.

    SAVED: rebalances of this history that would not have happened. PRICE: how much later a member that really died
    would be noticed. With too few restarts nothing is advised."""
    name = maybe_group(group, group_option)
    with where.tables() as tables:
        rows = tables.rows("gold_timeout_advice", where.asked(name))
        if name is not None and not rows:
            check_group(tables, where, name)
        window, cluster_json = window_json(tables, where), cluster_of(tables)
        warn_of_damage(tables, common)
    found = [
        advice_json(row)
        for row in sorted(
            matching(rows, match), key=lambda row: (-(row["saved"] or 0), -(row["restarts"] or 0), row["group_id"])
        )
    ]
    emit(
        Report(
            schema=_TIMEOUTS,
            data={"window": window, "advice": found},
            tables=[_advice(found)],
            names=[each["group_id"] for each in found],
            items=found,
            cluster=cluster_json,
        ),
        common,
    )


def advice_json(row: Row) -> Json:
    """The advice for one group; advised_ms is null where there is none."""
    return {
        "group_id": row["group_id"], "group_type": row["group_type"], "session_timeout_ms": row["now_ms"],
        "restarts": row["restarts"],
        "restart_ms": {"p50": row["p50_ms"], "p95": row["p95_ms"], "p99": row["p99_ms"], "max": row["max_ms"]},
        "advised_ms": row["advised_ms"], "saved_rebalances": row["saved"], "extra_stall_ms": row["extra_stall_ms"],
        "within_broker_max": row["within_broker_max"], "verdict": row["verdict"], "advice": row["advice"],
    }  # fmt: skip


def _advice(found: Sequence[Json]) -> Table:
    columns = [
        Column(title="GROUP"), Column(title="NOW", right=True), Column(title="RESTARTS", right=True),
        Column(title="P50", right=True), Column(title="P99", right=True), Column(title="MAX", right=True),
        Column(title="VERDICT"), Column(title="ADVISED", right=True), Column(title="SAVED", right=True),
        Column(title="PRICE", right=True), Column(title="ADVICE"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            each["group_id"], _span(each["session_timeout_ms"]), each["restarts"], _span(each["restart_ms"]["p50"]),
            _span(each["restart_ms"]["p99"]), _span(each["restart_ms"]["max"]),
            each["verdict"] and in_words(each["verdict"]), _span(each["advised_ms"]), each["saved_rebalances"],
            _span(each["extra_stall_ms"]), None if each["verdict"] == _TOO_FEW else each["advice"],
        ]
        for each in found
    ]  # fmt: skip
    raised = sum(each["verdict"] == "raise" for each in found)
    said = f"{many(raised, 'group')} of {len(found)} would do with a longer one" if found else "no restarts were seen"
    return Table(columns=columns, rows=rows, notes=[said])


def _span(ms: int | None) -> str | None:
    return None if ms is None else show_duration(ms)
