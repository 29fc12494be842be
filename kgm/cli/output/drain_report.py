"""The output of `kgm drain`: a row for each group with drained members, most expensive first."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from kgm.cli.output.bounce_report import exact_text, row, sink_tables, spread_keys, stopped_text
from kgm.cli.output.contracts.planning.drain import forecast_json, group_json, unpredicted_json
from kgm.cli.output.report import Cell, Column, Report, Table, with_range
from kgm.operations.drain.forecast import UnpredictedGroup
from kgm.text.durations import show_duration
from kgm.text.wording import many, some

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgm.operations.drain.forecast import Drain, DrainedGroup, DrainForecast

SCHEMA = "kgm.drain/v1"
_NOTES = (
    "HANDOVERS: how often a partition passes to another consumer; MOVED: partitions with another owner, or none, "
    "at the end; STOPPED: partition-seconds without a consumer; 2 (1-3): typical (min-max)"
)
#: The columns of csv and tsv.
_KEYS = (
    "group_id", "type", "members", "drained_members", "members_left",
    *spread_keys("rebalances", "handovers", "moved_partitions"), "exact", "most_partitions_before",
    "most_partitions_after", "unowned_partitions", "tasks_without_copy", "empty", "thin", "reason",
)  # fmt: skip
_CAVEATS_SHOWN = 8
#: The most members that one command names.
_IDS_SHOWN = 8


def report(
    foreseen: DrainForecast, where: dict[str, str | None] | None, next_command: Callable[[DrainedGroup], str]
) -> Report:
    """The report. where: the `cluster` of the envelope. next_command: makes the command that shows more of a group."""
    return Report(
        schema=SCHEMA,
        data=forecast_json(foreseen),
        tables=[_table(foreseen, next_command), *_sinks(foreseen)],
        keys=_KEYS,
        rows=chain(
            (row(one.prediction, group_json(one)) for one in foreseen.groups),
            map(unpredicted_json, foreseen.unpredicted),
        ),
        names=[one.group.group_id for one in foreseen.groups] + [one.group_id for one in foreseen.unpredicted],
        cluster=where,
        errors=[*foreseen.failed_gates, *foreseen.errors],
    )


def _sinks(foreseen: DrainForecast) -> list[Table]:
    return [table for one in foreseen.groups for table in sink_tables(one.prediction.sinks, one.group.group_id)]


def item_json(result: DrainedGroup | UnpredictedGroup) -> dict[str, Any]:
    """An object of -o ndjson."""
    return unpredicted_json(result) if isinstance(result, UnpredictedGroup) else group_json(result)


def in_words(drain: Drain) -> str:
    """`members on 10.0.3.17 stop for good (clean stop)`."""
    target = drain.target
    parts = [
        f"{what} {' or '.join(values)}"
        for what, values in (
            ("on", target.hosts),
            ("with client id", target.client_ids),
            ("in rack", target.racks),
            ("called", target.identities),
        )
        if values
    ]
    back = "for good" if drain.restart_time_ms is None else f"and are back after {show_duration(drain.restart_time_ms)}"
    return f"members {', '.join(parts)} stop {back} ({drain.stop.value} stop)"


def warnings_of(one: DrainedGroup) -> str | None:
    """Other problems of the group while the members are away or afterwards; None if there are none."""
    unowned = one.prediction.unowned_partitions
    texts = [
        *(["empty"] if one.is_emptied else ["thin"] if one.is_thin else []),
        *([f"{many(unowned, 'partition')} without an owner"] if unowned else []),
        *([f"no other copy of {some(one.tasks_without_copy)}"] if one.tasks_without_copy else []),
    ]
    return ", ".join(texts) or None


def stopped_text_of(one: DrainedGroup) -> str:
    """The time without a consumer, which never ends if partitions are left without an owner."""
    return "no owner left" if one.prediction.unowned_partitions else stopped_text(one.prediction)


def _table(foreseen: DrainForecast, next_command: Callable[[DrainedGroup], str]) -> Table:
    has_warnings = any(map(warnings_of, foreseen.groups))
    columns = [
        Column(title="GROUP"),
        Column(title="TYPE", wide=True),
        Column(title="MEMBERS", right=True),
        Column(title="DRAINED", right=True),
        Column(title="LEFT", right=True),
        Column(title="REBALANCES", right=True),
        Column(title="HANDOVERS", right=True),
        Column(title="MOVED", right=True),
        Column(title="STOPPED", right=True),
        Column(title="EXACT", left_out=1),
        Column(title="MOST PARTITIONS", wide=True),
        *([Column(title="WARNING")] if has_warnings else []),
        *([Column(title="NOT PREDICTED BECAUSE")] if foreseen.unpredicted else []),
    ]
    rows: list[list[Cell]] = [
        [
            one.group.group_id,
            one.group.type,
            *counts_of(one),
            f"{one.most_partitions_before} -> {one.most_partitions_after}",
            *([warnings_of(one)] if has_warnings else []),
            *([None] if foreseen.unpredicted else []),
        ]
        for one in foreseen.groups
    ] + [_cells_of_unpredicted(one, len(columns)) for one in foreseen.unpredicted]
    affected = len(foreseen.groups) + sum(one.taken is not None for one in foreseen.unpredicted)
    heading = f"{in_words(foreseen.drain)}: {many(foreseen.members_taken, 'member')} of {many(affected, 'group')}"
    return Table(
        columns=columns,
        rows=rows,
        heading=f"{heading}; {many(foreseen.examined, 'group')} examined",
        notes=_notes(foreseen, next_command),
    )


def counts_of(one: DrainedGroup) -> list[Cell]:
    """The cells from MEMBERS to EXACT."""
    typical, ranges = one.prediction.typical, one.prediction.meaningful_ranges
    return [
        len(one.group.members),
        len(one.taken),
        one.members_left,
        with_range(typical.rebalances, ranges.rebalances if ranges else None),
        with_range(typical.handovers, ranges.handovers if ranges else None),
        with_range(typical.moved_partitions, ranges.moved_partitions if ranges else None),
        stopped_text_of(one),
        exact_text(one.prediction),
    ]


def _cells_of_unpredicted(one: UnpredictedGroup, columns: int) -> list[Cell]:
    known: list[Cell] = [one.group_id, None, None, None if one.taken is None else len(one.taken)]
    return [*known, *[None] * (columns - len(known) - 1), one.reason.message]


def _notes(foreseen: DrainForecast, next_command: Callable[[DrainedGroup], str]) -> list[str]:
    groups = foreseen.groups
    notes = [_NOTES] if groups else []
    by_caveat: dict[str, list[str]] = {}
    for one in groups:
        for caveat in one.prediction.caveats:
            by_caveat.setdefault(caveat, []).append(one.group.group_id)
    for caveat, group_ids in list(by_caveat.items())[:_CAVEATS_SHOWN]:
        who = group_ids[0] if len(group_ids) == 1 else many(len(group_ids), "group")
        notes.append(f"note ({who}): {caveat}")
    if len(by_caveat) > _CAVEATS_SHOWN:
        notes.append(f"and {many(len(by_caveat) - _CAVEATS_SHOWN, 'more note')}; -o json shows all")
    if any(one.is_thin for one in groups):
        notes.append("thin: half of the members that can have partitions are left, or fewer")
    unread = sum(one.taken is None for one in foreseen.unpredicted)
    if unread:
        notes.append(f"{many(unread, 'group')} cannot be described: members there are not counted")
    if groups and len(groups[0].taken) <= _IDS_SHOWN:
        notes.append(f"next: {next_command(groups[0])}")
    return notes
