"""What a simulation says, as values; the JSON of `kgm simulate-bounce`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgm.model.assignment import Partitions
from kgm.simulation.report.holdings import Holding


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedMove:
    """A partition whose owner is another once the group is stable again. at_ms: when it got that owner (or lost the
    last one), counted from the start of the plan. Owners are identities; None is nobody."""

    topic: str
    partition: int
    owner_before: str | None
    owner_after: str | None
    at_ms: int

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "from": self.owner_before,
            "to": self.owner_after,
            "at_ms": self.at_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """Something that happened, in ms since the start of the plan."""

    at_ms: int
    event: str
    detail: str
    member: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"at_ms": self.at_ms, "event": self.event, "member": self.member, "detail": self.detail}


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What came out of many draws."""

    min: int
    median: int
    max: int

    def to_json(self) -> dict[str, int]:
        return {"min": self.min, "median": self.median, "max": self.max}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """What came out of `draws` draws."""

    generations: Range
    rebalances: Range
    moved_partitions: Range
    stopped_partition_ms: Range
    draws: int

    def to_json(self) -> dict[str, Any]:
        return {
            "generations": self.generations.to_json(),
            "rebalances": self.rebalances.to_json(),
            "moved_partitions": self.moved_partitions.to_json(),
            "stopped_partition_ms": self.stopped_partition_ms.to_json(),
            "draws": self.draws,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came out of one draw.

    generations: by how much the coordinator's counter rose. new_count: where it stands if it began anew on the way,
    as that of a group does which has emptied before its first member of KIP-848. rebalances: those of them that
    reached an assignment. handovers: how often a partition came to another owner, those on the way included.
    fenced, final_assignment: by identity. settled: whether the group came to rest within the time that was
    simulated. random_ids: whether it ended with member ids that nobody can know beforehand. newcomers_wait_ms: the
    longest that a new member was without partitions, from its start; None if none has come to any. holdings: who
    consumed what when, if it was asked for."""

    generations: int
    rebalances: int
    moves: tuple[TimedMove, ...]
    handovers: int
    stopped_partition_ms: int
    fenced: tuple[str, ...]
    refused_joins: int
    final_assignment: Mapping[str, Partitions]
    timeline: tuple[TimelineEvent, ...]
    settled: bool
    random_ids: bool
    passed_empty: bool
    took_ms: int
    requests: int
    newcomers_wait_ms: int | None = None
    new_count: int | None = None
    holdings: tuple[Holding, ...] = ()

    @property
    def moved_partitions(self) -> int:
        return len(self.moves)

    @property
    def verdict(self) -> tuple[object, ...]:
        """What has to be the same in every draw for a prediction to be exact; times are not in it."""
        return (
            self.generations,
            self.rebalances,
            tuple((move.topic, move.partition, move.owner_before, move.owner_after) for move in self.moves),
            self.fenced,
            self.refused_joins,
            self.settled,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A prediction: one typical draw, whether it is exact, and the ranges where it is not.

    generation_before: None when the snapshot does not tell (DescribeGroups does not)."""

    name: str
    assignor: str
    generation_before: int | None
    typical: Outcome
    exact: bool
    caveats: tuple[str, ...]
    ranges: Ranges | None
    protocol: str = "classic"

    @property
    def generation_after(self) -> int | None:
        """The generation, or epoch, that the group ends with."""
        if self.typical.new_count is not None or self.generation_before is None:
            return self.typical.new_count
        return self.generation_before + self.typical.generations

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
        }
