"""One group of a fleet in one row, and the orders in which rows are shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from kgm.model.errors import KgmError


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """A group as it was at read_at_ms; None before it was read. What is not known is None.

    missing: how many more members it had within the last hour, as far as that is known, and how many are away.
    lag: in records; lag_ms: how far behind it is in time. commit_age_ms: how long ago it committed;
    commit_age_least_ms: where that is not known, for how long at least it has not. rebalances: how many ended since
    rebalances_since_ms, an hour before read_at_ms at the earliest; rebalances_exact: False if there may have been more.
    error: why it could not be described."""

    group_id: str
    type: str | None
    state: str | None
    protocol_type: str | None = None
    assignor: str | None = None
    members: int | None = None
    missing: int | None = None
    lag: int | None = None
    lag_ms: int | None = None
    commit_age_ms: int | None = None
    commit_age_least_ms: int | None = None
    rebalances: int | None = None
    rebalances_since_ms: int | None = None
    rebalances_exact: bool | None = None
    read_at_ms: int | None = None
    error: KgmError | None = None


class FleetOrder(StrEnum):
    """What rows are sorted by: the worst first; names from a to z. Groups that are equal are sorted by name.

    lag-time: those whose lag in time is known; then those that have a lag, by it; then those of which no lag is known;
    then those that are caught up. The others: what is unknown is last."""

    LAG_TIME = "lag-time"
    LAG = "lag"
    REBALANCES = "rebalances"
    MISSING = "missing"
    COMMIT = "commit-age"
    MEMBERS = "members"
    STATE = "state"
    GROUP = "group"

    def sorted(self, rows: list[FleetRow]) -> list[FleetRow]:
        """rows: sorted by name already, which the sort keeps among equals."""
        return rows if self is FleetOrder.GROUP else sorted(rows, key=_KEYS[self])


def _by_lag_time(row: FleetRow) -> tuple[int, int]:
    if row.lag_ms:
        return 0, -row.lag_ms
    if row.lag_ms is None and row.lag:
        return 1, -row.lag
    return (3, 0) if row.lag == 0 else (2, 0)


def _by_number(value: Callable[[FleetRow], int | None]) -> Callable[[FleetRow], tuple[bool, int]]:
    def key(row: FleetRow) -> tuple[bool, int]:
        found = value(row)
        return found is None, -(found or 0)

    return key


#: States by how much they need attention; others come between.
_STATES: Final = {"Dead": 0, "PreparingRebalance": 1, "CompletingRebalance": 2, "Assigning": 3, "Reconciling": 4,
                  "Stable": 8, "Empty": 9}  # fmt: skip


def _by_state(row: FleetRow) -> int:
    return _STATES.get(row.state or "", 5)


def _age_ms(row: FleetRow) -> int | None:
    return row.commit_age_least_ms if row.commit_age_ms is None else row.commit_age_ms


_KEYS: Final[dict[FleetOrder, Callable[[FleetRow], Any]]] = {
    FleetOrder.LAG_TIME: _by_lag_time,
    FleetOrder.LAG: _by_number(lambda row: row.lag),
    FleetOrder.REBALANCES: _by_number(lambda row: row.rebalances),
    FleetOrder.MISSING: _by_number(lambda row: row.missing),
    FleetOrder.COMMIT: _by_number(_age_ms),
    FleetOrder.MEMBERS: _by_number(lambda row: row.members),
    FleetOrder.STATE: _by_state,
}


def matches(group_id: str, pattern: str) -> bool:
    """A pattern with `*`, `?` or `[` is a glob for the whole id, another one a part of it; case does not matter."""
    text, pattern = group_id.lower(), pattern.lower()
    return fnmatchcase(text, pattern) if any(char in pattern for char in "*?[") else pattern in text
