"""A row per group of a fleet, and the orders in which rows are shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from kgm.model.errors import KgmError


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """A group as it was at read_at_ms, which is None before the first read. Unknown values are None.

    missing: how many fewer members are present (not away) than at the maximum within the last hour; if that is not
    known, how many are away. lag: in records; lag_ms: how far behind it is in time. commit_age_ms: how long ago it last
    committed; commit_age_least_ms: if that is not known, the minimum. rebalances: how many ended since
    rebalances_since_ms, which is at most an hour before read_at_ms; rebalances_exact: False if there may have been
    more. error: why it could not be described."""

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
    """What rows are sorted by: the worst first, or names alphabetically. Ties are broken by name.

    lag-time: groups whose lag in time is known; then those with a lag in records, by that lag; then those whose lag is
    unknown; then those that are caught up. In the other orders, unknown values come last."""

    LAG_TIME = "lag-time"
    LAG = "lag"
    REBALANCES = "rebalances"
    MISSING = "missing"
    COMMIT = "commit-age"
    MEMBERS = "members"
    STATE = "state"
    GROUP = "group"

    def sorted(self, rows: list[FleetRow]) -> list[FleetRow]:
        """The rows in this order. rows: already sorted by name, which the stable sort keeps for ties."""
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


#: States by how much they need attention; any other state comes in between.
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
    """Whether the id matches. A pattern with `*`, `?` or `[` is a glob for the whole id, any other a substring.
    Case-insensitive."""
    text, pattern = group_id.lower(), pattern.lower()
    return fnmatchcase(text, pattern) if any(char in pattern for char in "*?[") else pattern in text
