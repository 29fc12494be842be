"""What draws cost, counted in simulated requests and not in seconds of this machine: the same seed and budget give the
same answer everywhere. A budget of 10 s is what one core of a usual machine simulates in about that time."""

from collections.abc import Iterable
from typing import Protocol

#: What one core of a usual machine simulates in a millisecond: a request costs 1, and as much again for every so many
#: members.
_COST_PER_MS = 30
_MEMBERS_PER_COST = 100


class Played(Protocol):
    """What was played once. requests: how many the coordinator handled."""

    @property
    def requests(self) -> int: ...


def affordable(budget_ms: int) -> int:
    """The cost that a budget pays for."""
    return budget_ms * _COST_PER_MS


def cost_of(draws: Iterable[Played], members: int) -> float:
    """The cost of draws of a group with so many members."""
    return sum(draw.requests for draw in draws) * (1 + members / _MEMBERS_PER_COST)
