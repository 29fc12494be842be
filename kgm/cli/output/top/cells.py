"""The texts of a row of `kgm top`, at a terminal and in a table."""

from __future__ import annotations

from typing import Final

from kgm.cli.output.report import Cell, Column, Table
from kgm.operations.top.rows import FleetRow
from kgm.text.durations import short_duration

#: Counts over a shorter time show it. Because reading takes a moment, this is a little less than an hour.
_HOUR_MS: Final = 3_590_000


def age_cell(span_ms: int | None) -> str | None:
    return None if span_ms is None else short_duration(span_ms)


def commit_age_cell(row: FleetRow) -> str | None:
    """The age of the last commit; `>1h` if it is only known to be older than that."""
    if row.commit_age_ms is None and row.commit_age_least_ms is not None:
        return f">{short_duration(row.commit_age_least_ms, 1)}"
    return age_cell(row.commit_age_ms)


def rebalances_cell(row: FleetRow) -> str | None:
    """`3` within the last hour, `3/12m` within 12 minutes; `3+` if there may have been more."""
    if row.rebalances is None or row.rebalances_since_ms is None or row.read_at_ms is None:
        return None
    span_ms = row.read_at_ms - row.rebalances_since_ms
    more = "" if row.rebalances_exact else "+"
    return f"{row.rebalances}{more}" + (f"/{short_duration(span_ms, 1)}" if span_ms < _HOUR_MS else "")


def fleet_table(rows: list[FleetRow]) -> Table:
    """One row for each group."""
    columns = [
        Column(title="GROUP"),
        Column(title="TYPE", left_out=2),
        Column(title="STATE"),
        Column(title="MEMBERS", right=True),
        Column(title="MISSING", right=True, left_out=3),
        Column(title="LAG", right=True),
        Column(title="LAG-TIME", right=True),
        Column(title="COMMIT-AGE", right=True, left_out=4),
        Column(title="REBALANCES", right=True, left_out=5),
        Column(title="ASSIGNOR", wide=True),
        Column(title="PROTOCOL-TYPE", wide=True),
    ]
    return Table(columns=columns, rows=[_cells(row) for row in rows])


def _cells(row: FleetRow) -> list[Cell]:
    return [
        row.group_id, row.type, row.state, row.members, row.missing, row.lag, age_cell(row.lag_ms),
        commit_age_cell(row), rebalances_cell(row), row.assignor, row.protocol_type,
    ]  # fmt: skip
