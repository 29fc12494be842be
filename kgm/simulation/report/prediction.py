"""What a simulation predicts, as values; the JSON of `kgm simulate-bounce`."""

from dataclasses import dataclass
from typing import Any

from kgm.simulation.play.draw import Draw

#: Of fewer draws there is no range that people should rely on.
_FEWEST_FOR_RANGE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What came of many draws."""

    min: int
    median: int
    max: int

    def to_json(self) -> dict[str, int]:
        return {"min": self.min, "median": self.median, "max": self.max}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange(Range):
    """A time in ms, in `draws` draws. It differs from draw to draw also where everything else is certain."""

    draws: int

    def to_json(self) -> dict[str, int]:
        return {"min": self.min, "median": self.median, "max": self.max, "draws": self.draws}

    @property
    def is_meaningful(self) -> bool:
        """Whether the draws are not so few that they say little of what else may happen."""
        return self.draws >= _FEWEST_FOR_RANGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """What came of `draws` draws."""

    generations: Range
    rebalances: Range
    moved_partitions: Range
    handovers: Range
    stopped_partition_ms: Range
    draws: int

    def to_json(self) -> dict[str, Any]:
        return {
            "generations": self.generations.to_json(),
            "rebalances": self.rebalances.to_json(),
            "moved_partitions": self.moved_partitions.to_json(),
            "handovers": self.handovers.to_json(),
            "stopped_partition_ms": self.stopped_partition_ms.to_json(),
            "draws": self.draws,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a plan would do to a group, under the conditions of one scenario.

    name: of the scenario; `as-is` is the plan as it stands. typical: the draw that is nearest to the median. exact:
    whether everything but times is certain. ranges: over all draws, None if the prediction is exact, or rests on
    one draw only, so that nothing is known of what else may happen (except of client libraries, whose ranges are
    their own). stopped_partition_range_ms: of the time that partitions are without a consumer, which is never
    certain; `draws` says whether it is more than one number. generation_before: the generation or epoch, None if
    the snapshot does not contain it (DescribeGroups does not)."""

    name: str
    assignor: str
    generation_before: int | None
    typical: Draw
    exact: bool
    caveats: tuple[str, ...]
    ranges: Ranges | None
    stopped_partition_range_ms: TimeRange
    protocol: str = "classic"

    @property
    def generation_after(self) -> int | None:
        """The generation or epoch at the end."""
        if self.typical.epoch_in_new_group is not None or self.generation_before is None:
            return self.typical.epoch_in_new_group
        return self.generation_before + self.typical.generations

    @property
    def draws(self) -> int:
        """How many draws it rests on."""
        return self.stopped_partition_range_ms.draws

    @property
    def meaningful_ranges(self) -> Ranges | None:
        """The ranges, unless so few draws say little of what else may happen."""
        return None if self.ranges is None or self.ranges.draws < _FEWEST_FOR_RANGE else self.ranges

    def to_json(self) -> dict[str, Any]:
        typical, before = self.typical, self.generation_before
        return {
            "name": self.name,
            "protocol": self.protocol,
            "assignor": self.assignor,
            "generations": typical.generations,
            "rebalances": typical.rebalances,
            "generation_before": before,
            "generation_after": self.generation_after,
            "moves": [move.to_json() for move in typical.moves],
            "moved_partitions": typical.moved_partitions,
            "handovers": typical.handovers,
            "stopped_partition_ms": typical.stopped_partition_ms,
            "fenced": list(typical.fenced),
            "refused_joins": typical.refused_joins,
            "final_assignment": {
                identity: {topic: list(partitions) for topic, partitions in assigned.items()}
                for identity, assigned in typical.final_assignment.items()
            },
            "took_ms": typical.took_ms,
            "newcomers_wait_ms": typical.newcomers_wait_ms,
            "timeline": [event.to_json() for event in typical.timeline],
            "exact": self.exact,
            "caveats": list(self.caveats),
            "ranges": None if self.ranges is None else self.ranges.to_json(),
            "stopped_partition_range_ms": self.stopped_partition_range_ms.to_json(),
            "draws": self.draws,
        }
