"""How a watched group stands at the end of a watch."""

from __future__ import annotations

from dataclasses import dataclass

from kgm.model.assignment import Move
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.watch.rebalance_count import CountDoubt, most_rebalances, rebalances_text
from kgm.text.wording import many


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchVerdict:
    """How a group stands at the end of a watch. reached: whether it reached the goal; None if there was none.
    rebalances: at least how many; rebalances_doubt: None if that is the number.

    moves: from the owners of the baseline to the latest owners; moved_partitions: those that had another owner at any
    time since the baseline, or have none now. handovers: how often a partition passed from one consumer to another;
    there may have been more unless handovers_exact."""

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

    @property
    def rebalances_max(self) -> int | None:
        """At most how many rebalances there were; None if that is not known."""
        return most_rebalances(self.rebalances, self.rebalances_doubt)

    @property
    def summary(self) -> str:
        """`2 rebalances, 0 partitions moved, 3 members replaced`; handovers only if there were any."""
        counted = rebalances_text(self.rebalances, self.rebalances_doubt)
        parts = [counted, f"{many(self.moved_partitions, 'partition')} moved"]
        if self.handovers:
            parts.append(("" if self.handovers_exact else "at least ") + many(self.handovers, "handover"))
        parts.append(f"{many(len(self.replaced), 'member')} replaced")
        return ", ".join(parts)
