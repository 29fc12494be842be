"""What is expected of a watched group."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """What is expected of a group. quiet_ms: how long nothing may happen before the group counts as stable.
    expect_no_moves: no partition passes from one consumer to another, and a stable group has the owners of the
    baseline.

    bounced: every member of the baseline must be replaced first. members: the required number; None: those of the
    baseline. max_rebalances: None for any number. counts_empty: whether the generation of a classic group that became
    empty counts as a rebalance: predictions do not count it, as nothing is assigned in it."""

    quiet_ms: int = 5_000
    bounced: bool = False
    members: int | None = None
    expect_no_moves: bool = False
    max_rebalances: int | None = None
    counts_empty: bool = False

    @property
    def are_counted(self) -> bool:
        """Whether it matters that nothing is missed."""
        return self.expect_no_moves or self.max_rebalances is not None
