"""`kgm history timeline`: which process was a member under which identity, and what happened to the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgm.cli.options.group_names import GroupOption
from kgm.cli.options.history import HistoryOptions, TheGroup, history_options, one_group
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.history.bars import bar, length_text, shown_window, span_text
from kgm.cli.output.history.rows_json import (
    at,
    at_text,
    cluster_json,
    event_json,
    rebalance_json,
    tenure_json,
    window_json,
)
from kgm.cli.output.history.words import generation_text, moved_text, short, sure_text, who_text, why_text
from kgm.cli.output.report import Cell, Column, Report, Table, emit
from kgm.text.wording import in_words, many

if TYPE_CHECKING:
    from kgm.history.rows import EventRow, RebalanceRow
    from kgm.operations.history.group_rows import TenuresAndEvents
    from kgm.operations.history.source import History

_SCHEMA = "kgm.history-timeline/v1"
#: The columns of csv and tsv.
_KEYS = (
    "identity", "member_id", "group_instance_id", "client_id", "client_host", "from", "known_from", "to", "end_cause",
    "end_confidence", "from_ms", "to_ms",
)  # fmt: skip


@cluster_options
@history_options
def timeline(
    *, group: TheGroup = None, group_option: GroupOption = None, options: HistoryOptions, common: RunOptions
) -> None:
    """Show the members of a group over time, and what happened to it: rebalances, absorbed bounces, and other events.

    IDENTITY: the instance id, or the member id of a dynamic member; each row is the time during which one member id had
    it. Each column of a bar is an equal part of the window: # means that a member was present, . that none was."""
    name = one_group(group, group_option)
    from kgm.operations.history.group_rows import tenures_and_events
    from kgm.operations.history.source import in_order

    history = options.open(common, name)
    answer = tenures_and_events(history, name)
    seats = [tenure_json(row) for row in answer.tenures]
    happened: list[EventRow | RebalanceRow] = [*answer.events, *answer.rebalances]
    happened = in_order(happened)
    data = {
        "group_id": name, "window": window_json(history), "seats": seats,
        "events": [event_json(row) for row in answer.events],
        "rebalances": [rebalance_json(row) for row in answer.rebalances], "unconfirmed": sorted(answer.unconfirmed),
    }  # fmt: skip
    emit(
        Report(
            schema=_SCHEMA,
            data=data,
            tables=[_tenures(name, answer, history), _happened(happened)],
            keys=_KEYS,
            names=list(dict.fromkeys(row.seat for row in answer.tenures)),
            items=seats,
            cluster=cluster_json(history),
        ),
        common,
    )


def _tenures(group: str, answer: TenuresAndEvents, history: History) -> Table:
    tenures = answer.tenures
    window = _, last = shown_window(tenures, history)
    columns = [
        Column(title="IDENTITY"), Column(title="MEMBER-ID", wide=True), Column(title="CLIENT-ID"), Column(title="HOST"),
        Column(title="FROM"), Column(title="TO"), Column(title="FOR", right=True), Column(title="ENDED-BY"),
        Column(title="CONFIDENCE"), Column(title="OVER TIME"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            short(row.seat), row.member_id, row.client_id, row.client_host,
            ("" if row.known_from else "before ") + at_text(row.from_timestamp), at(row.to_timestamp),
            length_text(row, last), row.end_cause and in_words(row.end_cause), row.end_confidence, bar([row], window),
        ]
        for row in tenures
    ]  # fmt: skip
    at_end = [row.member_id in answer.unconfirmed for row in tenures if row.to_timestamp is None]
    here, unknown = at_end.count(False), at_end.count(True)
    identities = len({row.seat for row in tenures})
    identities_text = f"{identities} {'identity' if identities == 1 else 'identities'}"
    notes = [f"{many(len(tenures), 'member id')} of {identities_text}, {here} at the end"]
    if unknown:
        ids = many(unknown, "member id")
        notes.append(f"{ids} may be gone: records after theirs are missing, and no later one shows that they are there")
    return Table(
        columns=columns, rows=rows, heading=f"{group}  members{span_text(tenures, window, history)}", notes=notes
    )


def _happened(rows: Sequence[EventRow | RebalanceRow]) -> Table:
    from kgm.history.rows import EventRow

    columns = [Column(title=title) for title in ("AT", "WHAT", "WHO", "CONFIDENCE", "GENERATION", "MOVED")]
    cells: list[list[Cell]] = []
    for row in rows:
        when, who = at(row.timestamp), who_text(row.who)
        if isinstance(row, EventRow):
            cells.append([when, in_words(row.event), who, row.confidence, row.generation, None])
        else:
            what = f"rebalance: {why_text(row)}"
            cells.append([when, what, who, sure_text(row), generation_text(row), moved_text(row)])
    return Table(columns=columns, rows=cells, heading="what happened")
