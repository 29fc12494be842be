"""What draws cost, counted in simulated requests, not in seconds on this machine: the same seed and budget give the
same result everywhere. A budget of 10 s is what one core of a typical machine simulates in about that time.

A rebalance that is played in bulk counts as the few requests that could be played in the same time
(`kgm.simulation.play.bulk.arrays`). So with numpy a budget pays for more draws of large groups than without."""

from collections.abc import Iterable
from typing import Protocol

#: How many requests one core of a typical machine simulates in a millisecond, whatever the size of the group
#: (bench/simulation.py).
_REQUESTS_PER_MS = 30


class Played(Protocol):
    """Something that was played. cost: in requests."""

    @property
    def cost(self) -> int: ...


def affordable(budget_ms: int) -> int:
    """How many requests a budget pays for."""
    return budget_ms * _REQUESTS_PER_MS


def cost_of(draws: Iterable[Played]) -> int:
    """The total cost of draws, in requests."""
    return sum(draw.cost for draw in draws)
