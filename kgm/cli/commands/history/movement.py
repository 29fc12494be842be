"""`kgm history movement`: who owned each partition of a group over time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from kgm.cli.options.group_names import GroupOption
from kgm.cli.options.history import HistoryOptions, TheGroup, history_options, one_group
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.history.bars import bar, shown_window, span_text
from kgm.cli.output.history.rows_json import at, cluster_json, owner_json, window_json
from kgm.cli.output.history.words import short
from kgm.cli.output.report import Cell, Column, Report, Table, emit
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.history.rows import OwnerRow
    from kgm.operations.history.source import History

_SCHEMA = "kgm.history-movement/v1"
_MOST_OWNERS = 6
#: The columns of csv and tsv, which have a row for each owner.
_KEYS = (
    "topic", "topic_id", "partition", "identity", "member_id", "from", "known_from", "to", "to_earliest", "exact",
    "from_ms", "to_ms",
)  # fmt: skip


@cluster_options
@history_options
def movement(
    *, group: TheGroup = None, group_option: GroupOption = None, options: HistoryOptions, common: RunOptions
) -> None:
    """Show who owned each partition of a group over time, and how often it moved.

    Each column of a bar is an equal part of the window: # means that the partition had an owner, . that it had none."""
    name = one_group(group, group_option)
    from kgm.operations.history.group_rows import owners as owners_of

    history = options.open(common, name)
    rows = owners_of(history, name)
    items = [owner_json(row) for row in rows]
    emit(
        Report(
            schema=_SCHEMA,
            data={"group_id": name, "window": window_json(history), "owners": items},
            tables=[_owners(name, rows, history)],
            keys=_KEYS,
            names=list(dict.fromkeys(f"{row.topic}:{row.topic_partition}" for row in rows)),
            items=items,
            cluster=cluster_json(history),
        ),
        common,
    )


def _owners(group: str, rows: Sequence[OwnerRow], history: History) -> Table:
    from kgm.operations.history.group_rows import count_moves
    from kgm.operations.history.rebalance_effects import topic_name

    window = shown_window(rows, history)
    of_partition: dict[tuple[str, int], list[OwnerRow]] = {}
    for row in rows:
        of_partition.setdefault((topic_name(row), row.topic_partition), []).append(row)
    columns = [
        Column(title="TOPIC"), Column(title="PARTITION", right=True), Column(title="MOVES", right=True),
        Column(title="OWNER"), Column(title="SINCE"), Column(title="OWNERS BEFORE"), Column(title="OVER TIME"),
    ]  # fmt: skip
    cells: list[list[Cell]] = []
    moves = 0
    for (topic, partition), owners in of_partition.items():
        count = count_moves(owners)
        moves += count
        now = owners[-1] if owners[-1].to_timestamp is None else None
        before = [name for name, _ in groupby(short(row.seat) for row in owners)]
        if now is not None:
            before.pop()
        if len(before) > _MOST_OWNERS:
            before = [f"... {before[-_MOST_OWNERS]}", *before[1 - _MOST_OWNERS :]]
        owner = (None, None) if now is None else (short(now.seat), at(now.from_timestamp))
        cells.append([topic, partition, count, *owner, " -> ".join(before) or None, bar(owners, window)])
    note = f"{many(moves, 'move')} of {many(len(of_partition), 'partition')}"
    return Table(
        columns=columns, rows=cells, heading=f"{group}  owners{span_text(rows, window, history)}",
        notes=[f"{note}; next: {history.command('explain', group)}"],
    )  # fmt: skip
