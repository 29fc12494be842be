"""What a simulation predicts, as values; the JSON of `kgm simulate-bounce`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, ClassVar

from kgm.model.assignment import Partitions
from kgm.model.errors import ConditionNotMet
from kgm.model.forms.json_form import as_json, json_value
from kgm.simulation.play.draw import Draw
from kgm.simulation.report.prediction_form import SCENARIO
from kgm.text.names import in_order
from kgm.text.wording import many

#: With fewer draws than this, people should not rely on a range.
_FEWEST_FOR_RANGE = 5


def assignment_json(assignment: Mapping[str, Partitions]) -> dict[str, dict[str, list[int]]]:
    """What each member owns, by identity, in natural order."""
    return {
        identity: {topic: list(numbers) for topic, numbers in assignment[identity].items()}
        for identity in in_order(assignment)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The least, median and most over many draws."""

    min: int
    median: int
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange(Range):
    """A time in ms, over `draws` draws. It differs from draw to draw even if everything else is certain. is_open: more
    may follow that no draw has: its maximum is not known."""

    draws: int
    is_open: bool = False

    @property
    def is_meaningful(self) -> bool:
        """Whether there are enough draws to say something about what else may happen."""
        return self.draws >= _FEWEST_FOR_RANGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """The ranges over `draws` draws."""

    generations: Range
    rebalances: Range
    moved_partitions: Range
    handovers: Range
    stopped_partition_ms: Range
    draws: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnownedPartition:
    """A partition that no task consumes for a while. longest_ms: the longest time at a stretch. until_ms: when a task
    consumes it for good, from the start of the plan; None if that may never happen."""

    topic: str
    partition: int
    longest_ms: Range
    until_ms: Range | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkForecast:
    """What a plan for Connect workers does to the consumer group of a sink connector, whose members are its tasks.

    tasks: how many tasks are members. stopping_tasks: the tasks of workers that the plan stops, as CONNECTOR-NUMBER.
    moved_partitions: how many partitions another task consumes in the end. handovers: as in `Draw`.
    stopped_partition_ms: the total time without a consumer, over all partitions. Never exact: when a task stops and
    starts is random."""

    group_id: str
    connector: str
    tasks: int
    stopping_tasks: tuple[str, ...]
    rebalances: Range
    generations: Range
    moved_partitions: Range
    handovers: Range
    stopped_partition_ms: Range
    unowned_partitions: tuple[UnownedPartition, ...]
    draws: int
    caveats: tuple[str, ...] = ()
    exact: ClassVar = False

    @property
    def unowned_by_topic(self) -> Partitions:
        topics = groupby(self.unowned_partitions, key=attrgetter("topic"))
        return {topic: tuple(one.partition for one in some) for topic, some in topics}

    @property
    def longest_ms(self) -> Range:
        """The longest time at a stretch that a partition has no consumer."""
        return _latest([one.longest_ms for one in self.unowned_partitions])

    @property
    def until_ms(self) -> Range | None:
        """When every partition has a consumer for good; None if that may never be."""
        until = [one.until_ms for one in self.unowned_partitions]
        known = [one for one in until if one is not None]
        return _latest(known) if len(known) == len(until) else None

    def __str__(self) -> str:
        least, most = self.rebalances.min, self.rebalances.max
        rebalances = many(most, "rebalance") if least == most else f"{least} to {many(most, 'rebalance')}"
        unowned = "no partition stops"
        if self.unowned_partitions:
            until = "maybe forever" if self.until_ms is None else f"until {_seconds(self.until_ms)}"
            unowned = f"{many(len(self.unowned_partitions), 'partition')} without a consumer for a while, {until}"
        return f"sink group {self.group_id}: {rebalances}, {unowned}"


def _latest(ranges: Sequence[Range]) -> Range:
    """The range of the latest of several times, as far as their ranges show; 0 if there are none."""
    return Range(
        min=max((one.min for one in ranges), default=0),
        median=max((one.median for one in ranges), default=0),
        max=max((one.max for one in ranges), default=0),
    )


def _seconds(span_ms: Range) -> str:
    return f"{span_ms.min / 1000:.1f}s to {span_ms.max / 1000:.1f}s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a plan would do to a group, under the conditions of one scenario.

    name: of the scenario; `as-is` is the plan as it stands. typical: the draw that is nearest to the median. exact:
    whether everything except times is certain. ranges: over all draws; None if the prediction is exact, or rests on a
    single draw, so that nothing is known about what else may happen (except with client libraries, which have their own
    ranges). stopped_partition_range_ms: the time that partitions are without a consumer, which is never certain;
    `draws` shows whether it is more than one number. generation_before: the generation or epoch, None if the snapshot
    does not contain it (DescribeGroups does not return it). sinks: for a group of Connect workers, what happens to the
    groups of its sink connectors, as far as they are known. missing_sinks: why others are not predicted. may_be_full:
    whether the group may refuse processes that start because the broker's limit for its size is not known.
    assumes_session: whether it depends on the session timeout of a streams group, which could not be read."""

    name: str
    assignor: str
    generation_before: int | None
    typical: Draw
    exact: bool
    caveats: tuple[str, ...]
    ranges: Ranges | None
    stopped_partition_range_ms: TimeRange
    protocol: str = "classic"
    sinks: tuple[SinkForecast, ...] = ()
    missing_sinks: tuple[ConditionNotMet, ...] = ()
    may_be_full: bool = False
    assumes_session: bool = False

    @property
    def generation_after(self) -> int | None:
        """The generation or epoch at the end."""
        if self.typical.epoch_in_new_group is not None or self.generation_before is None:
            return self.typical.epoch_in_new_group
        return self.generation_before + self.typical.generations

    @property
    def unowned_partitions(self) -> int:
        """How many partitions have an owner before the plan and none after it."""
        return sum(move.owner_after is None for move in self.typical.moves)

    @property
    def draws(self) -> int:
        """How many draws the prediction is based on."""
        return self.stopped_partition_range_ms.draws

    @property
    def meaningful_ranges(self) -> Ranges | None:
        """The ranges; None if there are too few draws to say something about what else may happen."""
        return None if self.ranges is None or self.ranges.draws < _FEWEST_FOR_RANGE else self.ranges

    def to_json(self) -> dict[str, Any]:
        typical = self.typical
        own = {
            "generations": typical.generations,
            "rebalances": typical.rebalances,
            "moves": [{**move.to_json(), "at_ms": move.at_ms} for move in typical.moves],
            "moved_partitions": typical.moved_partitions,
            "handovers": typical.handovers,
            "stopped_partition_ms": typical.stopped_partition_ms,
            "fenced": in_order(typical.fenced),
            "refused_joins": typical.refused_joins,
            "final_assignment": assignment_json(typical.final_assignment),
            "took_ms": typical.took_ms,
            "newcomers_wait_ms": typical.newcomers_wait_ms,
            "timeline": json_value(typical.timeline, SCENARIO["timeline"]),
            "sink_groups": json_value(self.sinks, SCENARIO["sink_groups"]),
        }
        return as_json(self, SCENARIO, own)
