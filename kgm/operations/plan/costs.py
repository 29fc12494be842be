"""What a plan costs, and which plans no other plan beats."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import TypeVar

from kgm.simulation.play.draw import Draw

T = TypeVar("T")
#: Times that differ by no more than this fraction count as equal, because they vary from draw to draw.
SAME_TIME = 0.05
#: Plans are sorted by this many leading digits of their times.
_DIGITS = 2


class Objective(enum.Enum):
    """What to minimize."""

    STOPPED = "stopped"
    HANDOVERS = "handovers"
    REBALANCES = "rebalances"
    DURATION = "duration"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCosts:
    """Medians over the draws of one plan, and values from the worst draw.

    most_ms: the longest time from start to end. fewest_consumed_percent: the lowest share of the group's partitions
    that had a consumer at the same time. may_fail: whether in some draw the group did not become stable, or permanently
    refused a process. tasks_without_copy: the most tasks of a Kafka Streams application of which no remaining process
    has a copy while others are away."""

    stopped_partition_ms: int
    handovers: int
    rebalances: int
    took_ms: int
    most_ms: int
    fewest_consumed_percent: int
    may_fail: bool
    tasks_without_copy: int = 0

    @classmethod
    def of(cls, draws: Sequence[Draw], partitions: int, *, tasks_without_copy: int = 0) -> PlanCosts:
        """partitions: how many have a consumer before the plan."""
        fewest = min(draw.fewest_consumed or 0 for draw in draws)
        return cls(
            stopped_partition_ms=median_low([draw.stopped_partition_ms for draw in draws]),
            handovers=median_low([draw.handovers for draw in draws]),
            rebalances=median_low([draw.rebalances for draw in draws]),
            took_ms=median_low([draw.took_ms for draw in draws]),
            most_ms=max(draw.took_ms for draw in draws),
            fewest_consumed_percent=100 * fewest // partitions if partitions else 100,
            may_fail=not all(draw.became_stable for draw in draws),
            tasks_without_copy=tasks_without_copy,
        )

    def is_no_worse_than(self, other: PlanCosts) -> bool:
        """Whether it is no worse by any measure on which plans are compared."""
        return (
            self.handovers <= other.handovers
            and self.tasks_without_copy <= other.tasks_without_copy
            and self.rebalances <= other.rebalances
            and self.stopped_partition_ms <= other.stopped_partition_ms * (1 + SAME_TIME)
            and self.took_ms <= other.took_ms * (1 + SAME_TIME)
        )

    def beats(self, other: PlanCosts) -> bool:
        """Whether it is no worse by any measure, and better by at least one."""
        return self.is_no_worse_than(other) and not other.is_no_worse_than(self)

    def rank(self, objective: Objective) -> tuple[int, ...]:
        """A sort key: the best plan for the objective comes first."""
        stopped, took = rounded(self.stopped_partition_ms), rounded(self.took_ms)
        handovers, rebalances = self.handovers, self.rebalances
        by = {
            Objective.STOPPED: stopped,
            Objective.HANDOVERS: handovers,
            Objective.REBALANCES: rebalances,
            Objective.DURATION: took,
        }
        return by[objective], self.tasks_without_copy, stopped, handovers, rebalances, took


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimits:
    """Limits that a plan must keep in every draw. None: no limit. consumed_percent: the minimum share of the partitions
    that must have a consumer at any time."""

    duration_ms: int | None = None
    consumed_percent: int | None = None

    @property
    def are_set(self) -> bool:
        return self.duration_ms is not None or self.consumed_percent is not None

    def exceeded(self, costs: PlanCosts) -> tuple[str, ...]:
        """The options whose limits the plan exceeds; also, if so, that the group may not become stable."""
        failed = []
        if costs.may_fail:
            failed.append("the group may not become stable")
        if self.duration_ms is not None and costs.most_ms > self.duration_ms:
            failed.append("--max-duration")
        if self.consumed_percent is not None and costs.fewest_consumed_percent < self.consumed_percent:
            failed.append("--keep-consuming")
        return tuple(failed)


def rounded(value: int) -> int:
    """The value rounded to its leading digits: 12345 becomes 12000."""
    digits = len(str(abs(value)))
    return value if digits <= _DIGITS else round(value, _DIGITS - digits)


def unbeaten(plans: Iterable[tuple[T, PlanCosts]]) -> list[tuple[T, PlanCosts]]:
    """The plans that no other plan beats (the Pareto front); of several with equal costs, the first."""
    every = list(plans)
    left: list[tuple[T, PlanCosts]] = []
    for plan, costs in every:
        is_beaten = any(other.beats(costs) for _, other in every)
        if not is_beaten and not any(other.is_no_worse_than(costs) for _, other in left):
            left.append((plan, costs))
    return left
