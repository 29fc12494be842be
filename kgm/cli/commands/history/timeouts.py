"""`kgm history timeouts`: the session timeouts that the restarts in a history call for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgm.cli.options.group_names import GroupOption, maybe_group
from kgm.cli.options.history import Group, HistoryOptions, Match, history_options
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.history.rows_json import advice_json, cluster_json, window_json
from kgm.cli.output.report import Cell, Column, Report, Table, emit
from kgm.text.durations import show_duration
from kgm.text.wording import in_words, many

if TYPE_CHECKING:
    from kgm.history.rows import TimeoutAdviceRow

_SCHEMA = "kgm.history-timeouts/v1"
#: The verdict for groups that get no advice.
_TOO_FEW = "not enough data"
#: The columns of csv and tsv.
_KEYS = (
    "group_id", "group_type", "session_timeout_ms", "restarts", "restart_ms.p50", "restart_ms.p95", "restart_ms.p99",
    "restart_ms.max", "verdict", "advised_ms", "saved_rebalances", "extra_stall_ms", "within_broker_max", "advice",
)  # fmt: skip


@cluster_options
@history_options
def timeouts(
    *, group: Group = None, group_option: GroupOption = None, match: Match = None, options: HistoryOptions,
    common: RunOptions,
) -> None:  # fmt: skip
    """Recommend a session.timeout.ms for each group based on its restarts: what it would have saved, and its price.

    SAVED: rebalances in this history that it would have prevented. PRICE: how much later the death of a member
    would be noticed. If there were too few restarts, there is no advice."""
    name = maybe_group(group, group_option)
    from kgm.operations.history.group_rows import timeout_advice

    history = options.open(common, name, match)
    rows = timeout_advice(history, name, match)
    items = [advice_json(row) for row in rows]
    emit(
        Report(
            schema=_SCHEMA,
            data={"window": window_json(history), "advice": items},
            tables=[_advice(rows)],
            keys=_KEYS,
            names=[row.group_id for row in rows],
            items=items,
            cluster=cluster_json(history),
        ),
        common,
    )


def _advice(advice: Sequence[TimeoutAdviceRow]) -> Table:
    columns = [
        Column(title="GROUP"), Column(title="NOW", right=True), Column(title="RESTARTS", right=True),
        Column(title="P50", right=True), Column(title="P99", right=True), Column(title="MAX", right=True),
        Column(title="VERDICT"), Column(title="ADVISED", right=True), Column(title="SAVED", right=True),
        Column(title="PRICE", right=True), Column(title="ADVICE"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            row.group_id, _duration(row.now_ms), row.restarts, _duration(row.p50_ms), _duration(row.p99_ms),
            _duration(row.max_ms), row.verdict and in_words(row.verdict), _duration(row.advised_ms), row.saved,
            _duration(row.extra_stall_ms), None if row.verdict == _TOO_FEW else row.advice,
        ]
        for row in advice
    ]  # fmt: skip
    raised = sum(row.verdict == "raise" for row in advice)
    note = f"{raised} of {many(len(advice), 'group')} should have a longer timeout" if advice else "no restart was seen"
    return Table(columns=columns, rows=rows, notes=[note])


def _duration(ms: int | None) -> str | None:
    return None if ms is None else show_duration(ms)
