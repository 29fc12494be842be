"""`kgm history zombies`: alarms about static members and group instance ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgm.cli.options.group_names import GroupOption, maybe_group
from kgm.cli.options.history import Group, HistoryOptions, Match, history_options
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.history.rows_json import Json, alarm_json, cluster_json, window_json
from kgm.cli.output.history.words import short
from kgm.cli.output.report import Column, Columns, Report, Table, emit, object_table
from kgm.text.wording import in_words

if TYPE_CHECKING:
    from kgm.operations.history.source import History

_SCHEMA = "kgm.history-zombies/v1"
_COLUMNS: Columns = {
    "group_id": "GROUP", "identity": "IDENTITY", "alarm": "ALARM", "confidence": "CONFIDENCE",
    "count": Column(title="TIMES", right=True), "since": "SINCE", "last": "LAST", "cleared": "CLEARED",
    "evidence": "EVIDENCE",
}  # fmt: skip


@cluster_options
@history_options
def zombies(
    *, group: Group = None, group_option: GroupOption = None, match: Match = None, options: HistoryOptions,
    common: RunOptions,
) -> None:  # fmt: skip
    """List alarms: processes that share an instance id, sessions that expire repeatedly, ids that never come back.

    IDENTITY: the instance id that the alarm is about."""
    name = maybe_group(group, group_option)
    from kgm.operations.history.group_rows import alarms as alarms_of

    history = options.open(common, name, match)
    rows = alarms_of(history, name, match)
    items = [alarm_json(row) for row in rows]
    emit(
        Report(
            schema=_SCHEMA,
            data={"window": window_json(history), "alarms": items},
            tables=[_alarms(items, history)],
            keys=[*_COLUMNS],
            names=list(dict.fromkeys(row.group_id for row in rows)),
            items=items,
            rows=[*map(_row, items)],
            cluster=cluster_json(history),
        ),
        common,
    )


def _row(alarm: Json) -> Json:
    """A row of csv and of the table."""
    return {**alarm, "identity": alarm["identity"] and short(alarm["identity"]), "alarm": in_words(alarm["alarm"])}


def _alarms(alarms: Sequence[Json], history: History) -> Table:
    notes = ["no alarm in this history"] if not alarms else []
    notes += [f"next: {history.command('timeline', row['group_id'])}" for row in alarms[:1]]
    return object_table(_COLUMNS, map(_row, alarms), notes=notes)
