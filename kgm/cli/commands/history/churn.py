"""`kgm history churn`: which groups rebalance most, and which members cause it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.options.history import HistoryOptions, Match, ReportFile, history_options
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.history.rows_json import at, churn_json, cluster_json, window_json
from kgm.cli.output.history.words import between_text, causes_text, short
from kgm.cli.output.report import Cell, Column, Report, Table, emit
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.operations.history.churn import Churn, Culprit
    from kgm.operations.history.source import History

_SCHEMA = "kgm.history-churn/v1"
_CULPRITS_SHOWN = 20
#: The columns of csv and tsv.
_KEYS = (
    "group_id", "group_type", "rebalances", "per_hour", "causes", "lost_rounds", "moved", "stopped_partition_ms.min",
    "stopped_partition_ms.max", "absorbed", "first", "last",
)  # fmt: skip


@cluster_options
@history_options
def churn(
    *,
    match: Match = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="Only the first N groups.")] = None,
    report: ReportFile = None,
    options: HistoryOptions,
    common: RunOptions,
) -> None:
    """Rank groups by how often they rebalance, and members by how many rebalances they were involved in.

    STOPPED: time without a consumer, total over partitions, within the bounds that the log gives. ABSORBED: restarts of
    static members that caused no rebalance. Dynamic members are listed by client id and host, because each start has a
    new member id."""
    from kgm.operations.history.churn import rank_churn

    history = options.open(common, match=match)
    ranked = rank_churn(history, match=match, limit=limit)
    window = window_json(history)
    data = churn_json(ranked, window)
    emit(
        Report(
            schema=_SCHEMA,
            data=data,
            tables=[_groups(ranked, history), _culprits(ranked.culprits)],
            keys=_KEYS,
            names=[each.group_id for each in ranked.groups],
            items=data["groups"],
            cluster=cluster_json(history),
        ),
        common,
    )
    if report is not None:
        from kgm.cli.output.pages.history_page import churn_page
        from kgm.cli.output.pages.page import write

        write(report, churn_page(ranked, window))


def _groups(ranked: Churn, history: History) -> Table:
    columns = [
        Column(title="GROUP"), Column(title="TYPE", wide=True), Column(title="REBALANCES", right=True),
        Column(title="PER HOUR", right=True), Column(title="WHY"), Column(title="INCOMPLETE", right=True),
        Column(title="MOVED", right=True), Column(title="STOPPED", right=True), Column(title="ABSORBED", right=True),
        Column(title="LAST"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            each.group_id, each.group_type, each.rebalances, None if each.per_hour is None else f"{each.per_hour:.1f}",
            causes_text(each.causes) or None, each.lost_rounds, each.moved,
            between_text(each.stopped_partition_ms_min, each.stopped_partition_ms_max), each.absorbed,
            at(each.last_ms),
        ]
        for each in ranked.groups
    ]  # fmt: skip
    notes = [f"and {ranked.total - len(ranked.groups)} more"] if ranked.total > len(ranked.groups) else []
    notes += [f"next: {history.command('explain', each.group_id)}" for each in ranked.groups[:1] if each.rebalances]
    return Table(columns=columns, rows=rows, notes=notes)


def _culprits(culprits: Sequence[Culprit]) -> Table:
    columns = [
        Column(title="WHO"), Column(title="HOST"), Column(title="GROUP"), Column(title="REBALANCES", right=True),
        Column(title="WHY"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [short(each.who), each.client_host, each.group_id, each.rebalances, causes_text(each.causes)]
        for each in culprits[:_CULPRITS_SHOWN]
    ]
    rest = len(culprits) - _CULPRITS_SHOWN
    notes = [f"and {many(rest, 'more member')}: -o json has them all"] if rest > 0 else []
    return Table(columns=columns, rows=rows, heading="members involved", notes=notes)
