"""How a watched group stands at the end of a watch."""

from __future__ import annotations

from dataclasses import dataclass

from kgm.model.assignment import Move
from kgm.model.snapshot import GroupSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDoubt:
    """Why the number of rebalances may be wrong. bound: `at least` or `at most`."""

    bound: str
    why: str

    def __str__(self) -> str:
        return f"{self.bound}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchVerdict:
    """How a group stands at the end of a watch. reached: whether it reached the goal; None if there was none.

    moves: from the owners of the baseline to the latest owners; moved_partitions: those that had another owner at any
    time since the baseline. handovers: how often a partition passed from one consumer to another; there may have been
    more unless handovers_exact."""

    group_id: str
    reached: bool | None
    breach: str | None
    missing: tuple[str, ...]
    looks: int
    rebalances: int
    rebalances_doubt: CountDoubt | None
    moved_partitions: int
    handovers: int
    handovers_exact: bool
    moves: tuple[Move, ...]
    replaced: tuple[str, ...]
    generation: int | None
    latest: GroupSnapshot | None
