"""`kgm history explain`: one group, and everything that is known about one of its rebalances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli import invocation
from kgm.cli.commands.history import following
from kgm.cli.commands.history.following import Follow
from kgm.cli.options.group_names import GroupOption
from kgm.cli.options.history import HistoryOptions, ReportFile, TheGroup, history_options, one_group
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.history.damages import no_rebalance_text
from kgm.cli.output.history.rebalance_detail import MEMBERS_SHOWN, rebalance_detail
from kgm.cli.output.history.rows_json import cluster_json, explanation_json, window_json
from kgm.cli.output.history.words import (
    REBALANCE_KEYS,
    count_texts,
    known,
    rebalance_cells,
    rebalance_columns,
    short,
)
from kgm.cli.output.report import Cell, Column, Report, Table, emit
from kgm.text.durations import show_duration
from kgm.text.wording import in_words, many

if TYPE_CHECKING:
    from kgm.history.rows import MemberChangeRow, RebalanceRow
    from kgm.operations.history import Explanation, History

_SCHEMA = "kgm.history-explain/v1"
_SHOWN = 12
#: The output formats that have tables.
_TABLES = ("table", "wide")


@cluster_options
@history_options
def explain(
    *,
    group: TheGroup = None,
    group_option: GroupOption = None,
    generation: Annotated[
        int | None,
        typer.Option("--generation", metavar="N", help="The generation that the rebalance led to. [the latest]"),
    ] = None,
    report: ReportFile = None,
    follow: Follow = False,
    options: HistoryOptions,
    common: RunOptions,
) -> None:
    """Explain a rebalance of a group: why and how certain, who, how long, what moved, and what to do next.

    While a rebalance is in progress, it shows which members the group is waiting for, and the longest that it will
    wait. Without a cluster, a history shows this for consumer groups (KIP-848) only: a classic group writes no record
    when a rebalance begins.

    With -b HOST:PORT and neither --source nor --store, kgm reads the group's partition of the live topic: this needs
    READ on __consumer_offsets, but neither Spark nor Java. --follow explains each rebalance as it happens, and prints
    the advice whenever it changes (not with -o ndjson)."""
    name = one_group(group, group_option)
    if follow:
        following.follow(options, common, name, partial(_followed, name, _AdviceShown(common.output in _TABLES)))
    from kgm.operations.history.group_rows import owners as owners_of

    history, explained = _explained(options, common, name, generation)
    steps = [replace(step, command=invocation.with_cluster(step.command)) for step in explained.next_steps]
    explained = replace(explained, next_steps=tuple(steps))
    owners = [] if report is None else owners_of(history, name)
    window = window_json(history)
    data = explanation_json(explained, window)
    emit(
        Report(
            schema=_SCHEMA,
            data=data,
            tables=_tables(explained),
            keys=REBALANCE_KEYS,
            names=[f"{row.to_generation}" for row in explained.rebalances],
            items=data["rebalances"],
            cluster=cluster_json(history),
        ),
        common,
    )
    if report is not None:
        from kgm.cli.output.pages.history_page import explain_page
        from kgm.cli.output.pages.page import write

        write(report, explain_page(explained, owners, window))


def _explained(
    options: HistoryOptions, common: RunOptions, group_id: str, generation: int | None
) -> tuple[History, Explanation]:
    """The history and its explanation; a live coordinator adds what its log lacks about a rebalance in progress."""
    from kgm.cli.output.history.damages import warn_of_gaps
    from kgm.operations.history import explain_group

    if not options.is_live(common):
        history = options.open(common, group_id)
        return history, explain_group(history, group_id, generation)
    with options.live(common, group_id) as live:
        history = live.read()
        warn_of_gaps(history, group_id)
        wait = None if history.until_ms is not None else live.wait(group_id)
    return history, replace(explain_group(history, group_id, generation), wait=wait)


class _AdviceShown:
    """The advice that was printed last; it is printed again only when it changes."""

    def __init__(self, is_wanted: bool) -> None:  # noqa: FBT001
        self.is_wanted = is_wanted
        self._texts: list[str] = []

    def of(self, explained: Explanation) -> list[Table]:
        """The advice as tables; empty if it has not changed."""
        texts = [each.text for each in explained.advice.advice]
        is_new, self._texts = texts != self._texts, texts
        return _advice(explained) if texts and is_new else []


def _followed(group_id: str, advice: _AdviceShown, history: History, rows: Sequence[RebalanceRow]) -> Report:
    """New rebalances of a group, one after another, and the changes that would have avoided rebalances so far."""
    from kgm.operations.history import explain_group

    explained = [
        explain_group(history, group_id, row.to_generation, is_advised=advice.is_wanted and row is rows[-1])
        for row in rows
    ]
    items = [explanation_json(one, window_json(history)) for one in explained]
    shown = [one for one in explained if one.rebalance is not None]
    return Report(
        schema=_SCHEMA,
        data={},
        tables=[
            *(rebalance_detail(one.rebalance, one.moves) for one in shown if one.rebalance is not None),
            *advice.of(explained[-1]),
        ],
        names=[f"{row.to_generation}" for row in rows],
        items=[item["rebalance"] for item in items],
        cluster=cluster_json(history),
    )


def _tables(explained: Explanation) -> list[Table]:
    one = explained.rebalance
    return [
        _list(explained),
        *_under_way(explained),
        *([rebalance_detail(one, explained.moves), *_members(explained)] if one is not None else []),
        *_advice(explained),
        *_next(explained),
    ]


def _under_way(explained: Explanation) -> list[Table]:
    """The rebalance in progress, if there is one."""
    wait = explained.wait
    if wait is None:
        return []
    return [Table(columns=[], rows=[], heading="a rebalance is under way", notes=[wait.headline, *wait.lines()])]


def _list(explained: Explanation) -> Table:
    rows = explained.rebalances
    columns = rebalance_columns(explained.group_id)
    shown = [at for at, column in enumerate(columns) if column.title != "GROUP"]
    cells: list[list[Cell]] = [[rebalance_cells(row)[at] for at in shown] for row in rows[-_SHOWN:]]
    causes = ", ".join(count_texts(explained.causes))
    absorbed = sum("absorbed" in (each.event or "") for each in explained.events)
    notes = []
    if len(rows) > _SHOWN:
        notes.append(f"the last {_SHOWN}; {len(rows) - _SHOWN} earlier ones: `kgm history rebalances` lists all")
    if absorbed:
        notes.append(f"{many(absorbed, 'restart')} of static members without a rebalance")
    if any(not row.complete for row in rows):
        notes.append("compaction has removed records: a row with ? is the difference between its two ends")
    is_known = bool(rows) or explained.complete is not False
    count = many(len(rows), "rebalance") if is_known else no_rebalance_text(is_complete=False)
    heading = f"{explained.group_id}  {count}" + (f": {causes}" if causes else "")
    return Table(columns=[columns[at] for at in shown], rows=cells, heading=heading, notes=notes)


def _members(explained: Explanation) -> list[Table]:
    changes = explained.changes
    if not changes:
        return []
    columns = [
        Column(title="MEMBER"), Column(title="WHAT"), Column(title="CLIENT-ID"), Column(title="HOST"),
        Column(title="SESSION", right=True), Column(title="PARTITIONS", right=True), Column(title="TOPICS"),
        Column(title="MEMBER-ID", wide=True), Column(title="BEFORE", wide=True),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            short(row.group_instance_id or row.member_id), in_words(row.kind), row.client_id, row.client_host,
            None if row.session_timeout_ms is None else show_duration(row.session_timeout_ms),
            f"{known(row.partitions_before)} -> {known(row.partitions_after)}", _topics(row), row.member_id,
            row.old_member_id,
        ]
        for row in changes[:MEMBERS_SHOWN]
    ]  # fmt: skip
    rest = len(changes) - MEMBERS_SHOWN
    notes = [f"and {rest} more: -o json has them all"] if rest > 0 else []
    return [Table(columns=columns, rows=rows, heading="members that changed", notes=notes)]


def _topics(row: MemberChangeRow) -> str | None:
    """The topics that the member has subscribed to or unsubscribed from."""
    if row.kind != "resubscribed":
        return None
    names = [f"+{name}" for name in row.topics_added] + [f"-{name}" for name in row.topics_removed]
    return " ".join(names) or None


def _advice(explained: Explanation) -> list[Table]:
    """The changes that would have avoided rebalances."""
    report = explained.advice
    if not report.advice:
        return []
    rows: list[list[Cell]] = [[in_words(each.change.kind.value), each.text, each.price] for each in report.advice]
    notes = [f"computed by replaying the newest {many(report.rebalances, 'rebalance')}"]
    notes += dict.fromkeys(caveat for each in report.advice for caveat in each.caveats)
    columns = [Column(title="CHANGE"), Column(title="WOULD HAVE AVOIDED"), Column(title="COST")]
    return [Table(columns=columns, rows=rows, heading="advice", notes=notes)]


def _next(explained: Explanation) -> list[Table]:
    rows: list[list[Cell]] = [
        [
            f"look at {short(row.seat)}" if row.seat else "look at the group",
            f"{in_words(row.alarm)}: {'; '.join(row.evidence)}",
        ]
        for row in explained.alarms
        if row.cleared_timestamp is None
    ]
    rows += [[step.why, step.command] for step in explained.next_steps]
    if not rows:
        return []
    return [Table(columns=[Column(title="WHAT"), Column(title="NEXT")], rows=rows, heading="what to do")]
