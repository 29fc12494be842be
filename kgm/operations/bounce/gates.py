"""The limits that an operator sets for a prediction (`--fail-if-…`), and which of them it exceeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgm.model.errors import ConditionNotMet, UsageError
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.simulation.play.draw import Draw
    from kgm.simulation.report.prediction import Prediction, Range, Ranges, SinkForecast


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """The limits for what a plan can cause in any draw, for the group and for each sink group that depends on it. None:
    no limit. A sink group that cannot be predicted exceeds every limit.

    handovers: also limits moved partitions, of which there are fewer unless some have no consumer before or after the
    plan. stopped_ms: total time without a consumer over the group's partitions; a partition that is left without an
    owner exceeds every limit."""

    handovers: int | None = None
    rebalances: int | None = None
    stopped_ms: int | None = None

    def __post_init__(self) -> None:
        """Raises UsageError for a limit that nothing can meet."""
        for option, limit in (("--fail-if-moves", self.handovers), ("--fail-if-rebalances", self.rebalances)):
            if limit is not None and limit < 0:
                raise UsageError(f"{option} is {limit}; the minimum is 0")

    @property
    def are_set(self) -> bool:
        return any(limit is not None for limit in (self.handovers, self.rebalances, self.stopped_ms))

    def depend_on_chance(self, prediction: Prediction) -> bool:
        """Whether more draws may exceed a limit that these keep: times are never exact."""
        return self.stopped_ms is not None or (self.are_set and not prediction.exact)

    def failures(self, prediction: Prediction) -> tuple[ConditionNotMet, ...]:
        """One failure for each limit that the prediction exceeds, and for each sink group that is not predicted."""
        if not self.are_set:
            return ()
        is_single = prediction.draws < 2 if self.stopped_ms is not None else prediction.ranges is None
        if is_single and self.depend_on_chance(prediction):
            return (ConditionNotMet("one draw is no limit to what may happen: more draws (--draws) are needed"),)
        if not prediction.typical.became_stable:  # what is counted ends where the simulation gave up
            return (ConditionNotMet("the group is not predicted to become stable"),)
        up_to = "up to " if prediction.ranges else ""
        failures = [ConditionNotMet(f"{up_to}{text}") for text in self._of(prediction.ranges or prediction.typical)]
        unowned = prediction.unowned_partitions
        stopped = prediction.stopped_partition_range_ms
        if self.stopped_ms is not None and stopped.is_open:
            failures.append(ConditionNotMet("how long partitions will have no consumer is not known"))
        failures += map(ConditionNotMet, self._too_long(stopped, unowned))
        for sink in prediction.sinks:
            never = [one for one in sink.unowned_partitions if one.until_ms is None]
            texts = [f"up to {text}" for text in self._of(sink)]
            texts += self._too_long(sink.stopped_partition_ms, len(never), may=True)
            failures += [ConditionNotMet(f"sink group {sink.group_id}: {one}", group_id=sink.group_id) for one in texts]
        return (*failures, *prediction.missing_sinks)

    def _of(self, predicted: Ranges | Draw | SinkForecast) -> Iterator[str]:
        counts = (predicted.handovers, predicted.moved_partitions, predicted.rebalances)
        handovers, moved, rebalances = map(_most, counts)
        moves = (handovers, "handovers") if handovers >= moved else (moved, "moved partitions")
        for limit, (most, what) in ((self.handovers, moves), (self.rebalances, (rebalances, "rebalances"))):
            if limit is not None and most > limit:
                yield f"{most} {what} are predicted, more than {limit}"

    def _too_long(self, stopped_ms: Range, unowned: int, *, may: bool = False) -> Iterator[str]:
        """unowned: how many partitions are left without an owner, or may be."""
        if self.stopped_ms is None:
            return
        if unowned:
            verb = "may be" if may else "is" if unowned == 1 else "are"
            yield f"{many(unowned, 'partition')} {verb} left without an owner"
        elif stopped_ms.max > self.stopped_ms:
            text = f"up to {stopped_ms.max / 1000:.1f} partition-seconds without a consumer are predicted"
            yield f"{text}, more than {self.stopped_ms / 1000:g}"


def _most(predicted: Range | int) -> int:
    return predicted if isinstance(predicted, int) else predicted.max
