"""What the simulator predicts for a step, and how that compares with what happened."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kgm.model.assignment import Partitions, moves
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.watch.rebalance_count import CountDoubt, most_rebalances, rebalances_text
from kgm.simulation.report.prediction import Prediction, assignment_json
from kgm.simulation.streams.group import most_partitions_of_a_task
from kgm.text.wording import many, moves_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRange:
    """The lowest and the highest number that is predicted."""

    least: int
    most: int

    @classmethod
    def from_json(cls, data: Any) -> ExpectedRange:
        """Raises KeyError, TypeError or ValueError for data that is not a range."""
        least, most = operator.index(data["min"]), operator.index(data["max"])
        if not 0 <= least <= most:
            raise ValueError(f"{least} to {most} is not a range")
        return cls(least=least, most=most)

    def __str__(self) -> str:
        return str(self.most) if self.least == self.most else f"{self.least} to {self.most}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExpectation:
    """What is predicted for a step, or for the whole rollout.

    final_assignment: by identity; None if it depends on what cannot be known in advance. becomes_stable: whether the
    group is stable at the end of the typical draw."""

    rebalances: ExpectedRange
    handovers: ExpectedRange
    exact: bool
    becomes_stable: bool = True
    final_assignment: Mapping[str, Partitions] | None = None
    caveats: tuple[str, ...] = ()

    @classmethod
    def of(cls, prediction: Prediction, group: GroupSnapshot) -> StepExpectation:
        """Convert a prediction. Handovers are counted in partitions, which is what can be observed; predictions for
        Kafka Streams count tasks."""
        typical, ranges = prediction.typical, prediction.ranges
        # In a classic group, generations are counted: a group that becomes empty gets a new one too.
        counts_all = prediction.protocol == "classic"
        if prediction.exact or ranges is None:
            most = max(typical.rebalances, typical.generations if counts_all else 0)
            rebalances = ExpectedRange(least=typical.rebalances, most=most)
            handovers = ExpectedRange(least=typical.handovers, most=typical.handovers)
        else:
            most = max(ranges.rebalances.max, ranges.generations.max if counts_all else 0)
            rebalances = ExpectedRange(least=ranges.rebalances.min, most=most)
            weight = most_partitions_of_a_task(group)
            handovers = ExpectedRange(least=ranges.handovers.min, most=ranges.handovers.max * weight)
        return cls(
            rebalances=rebalances,
            handovers=handovers,
            exact=prediction.exact,
            becomes_stable=typical.became_stable,
            final_assignment=typical.final_assignment if prediction.exact else None,
            caveats=(*prediction.caveats, *map(str, prediction.sinks)),
        )

    @property
    def certainty(self) -> str:
        """How reliable the prediction is, in words. A range is never certain."""
        if not self.exact:
            return "at most what any draw had"
        has_range = any(span.least != span.most for span in (self.rebalances, self.handovers))
        return "the same in every draw" if has_range else "certain"

    def __str__(self) -> str:
        return f"{_counted(self.rebalances, 'rebalance')}, {_counted(self.handovers, 'handover')}"

    def to_json(self) -> dict[str, Any]:
        final = self.final_assignment
        return {
            "rebalances": {"min": self.rebalances.least, "max": self.rebalances.most},
            "handovers": {"min": self.handovers.least, "max": self.handovers.most},
            "exact": self.exact,
            "becomes_stable": self.becomes_stable,
            "final_assignment": None if final is None else assignment_json(final),
            "caveats": list(self.caveats),
        }

    @classmethod
    def from_json(cls, data: Any) -> StepExpectation:
        """Raises KeyError, TypeError, ValueError or AttributeError for data that `to_json` did not write."""
        final = data["final_assignment"]
        return cls(
            rebalances=ExpectedRange.from_json(data["rebalances"]),
            handovers=ExpectedRange.from_json(data["handovers"]),
            exact=bool(data["exact"]),
            becomes_stable=bool(data["becomes_stable"]),
            final_assignment=None
            if final is None
            else {
                name: {topic: tuple(map(operator.index, some)) for topic, some in owned.items()}
                for name, owned in final.items()
            },
            caveats=tuple(map(str, data["caveats"])),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """What happened in a step, or in the whole rollout so far.

    rebalances: at least how many; rebalances_doubt: None if that is the number. handovers_exact: whether all handovers
    were seen."""

    rebalances: int
    handovers: int
    rebalances_doubt: CountDoubt | None = None
    handovers_exact: bool = True

    @property
    def unknown_because(self) -> str | None:
        """Why more may have happened than was counted; None if nothing more can have."""
        if self.rebalances_doubt is not None and self.rebalances_doubt.more is None:
            return f"there may have been more rebalances: {self.rebalances_doubt.why}"
        if not self.handovers_exact:
            return "partitions may have been handed over, and back, while kgm did not look"
        return None

    @property
    def most_rebalances(self) -> int | None:
        """At most how many rebalances there were; None if that is not known."""
        return most_rebalances(self.rebalances, self.rebalances_doubt)

    def plus(self, other: StepCounts) -> StepCounts:
        return StepCounts(
            rebalances=self.rebalances + other.rebalances,
            handovers=self.handovers + other.handovers,
            rebalances_doubt=_together(self.rebalances_doubt, other.rebalances_doubt),
            handovers_exact=self.handovers_exact and other.handovers_exact,
        )

    def since(self, before: StepCounts) -> StepCounts:
        """What of this has happened since these counts of the same group."""
        doubt, old = self.rebalances_doubt, before.rebalances_doubt
        if doubt is not None and doubt.more is not None and old is not None:
            more = doubt.more - (old.more or 0)
            doubt = replace(doubt, more=more) if more > 0 else None
        return replace(
            self, rebalances=self.rebalances - before.rebalances, handovers=self.handovers - before.handovers,
            rebalances_doubt=doubt,
        )  # fmt: skip

    def __str__(self) -> str:
        least = "" if self.handovers_exact else "at least "
        return f"{rebalances_text(self.rebalances, self.rebalances_doubt)}, {least}{many(self.handovers, 'handover')}"

    def to_json(self) -> dict[str, Any]:
        return {
            "rebalances": self.rebalances,
            "rebalances_doubt": None if self.rebalances_doubt is None else str(self.rebalances_doubt),
            "handovers": self.handovers,
            "handovers_exact": self.handovers_exact,
        }

    @classmethod
    def from_json(cls, data: Any) -> StepCounts:
        """Raises KeyError, TypeError or ValueError for data that `to_json` did not write."""
        rebalances, doubt = operator.index(data["rebalances"]), _doubt_from_json(data["rebalances_doubt"])
        if doubt is not None and doubt.more == 0:  # of an earlier kgm: the number is the most there can have been
            doubt, rebalances = replace(doubt, more=max(rebalances - 1, 0)), min(rebalances, 1)
        return cls(
            rebalances=rebalances,
            handovers=operator.index(data["handovers"]),
            rebalances_doubt=doubt,
            handovers_exact=bool(data["handovers_exact"]),
        )


def _doubt_from_json(doubt: object) -> CountDoubt | None:
    """The doubt that `str` wrote, or an earlier kgm. Raises ValueError for another text."""
    if doubt is None:
        return None
    bound, _, why = str(doubt).partition(": ")
    if bound == "at least":
        return CountDoubt(why=why)
    if bound == "at most":
        return CountDoubt(why=why, more=0)
    more = re.fullmatch(r"up to ([0-9]+) more", bound)
    if more is None:
        raise ValueError(f"{doubt!r} is not a doubt")
    return CountDoubt(why=why, more=int(more[1]))


def _together(one: CountDoubt | None, other: CountDoubt | None) -> CountDoubt | None:
    """The doubt about a sum."""
    if one is None or other is None:
        return one or other
    if one.more is None or other.more is None:
        return one if one.more is None else other
    return replace(one, more=one.more + other.more)


def excess(counts: StepCounts, expected: StepExpectation, what: str) -> list[str]:
    """What certainly exceeds the prediction, in words. what: the part of the rollout, for the texts."""
    found = []
    doubt = f" ({counts.rebalances_doubt})" if counts.rebalances_doubt is not None else ""
    if counts.rebalances > expected.rebalances.most:
        predicted = _counted(expected.rebalances, "rebalance")
        found.append(f"{what}: {many(counts.rebalances, 'rebalance')}{doubt}, predicted: {predicted}")
    if counts.handovers > expected.handovers.most:
        predicted = _counted(expected.handovers, "handover")
        least = "" if counts.handovers_exact else "at least "
        found.append(f"{what}: {least}{many(counts.handovers, 'handover')}, predicted: {predicted}")
    return found


def unknown_because(counts: StepCounts, expected: StepExpectation) -> str | None:
    """Why it is not known whether everything happened as predicted; None if it is known."""
    doubt, most = counts.rebalances_doubt, counts.most_rebalances
    if doubt is not None and most is not None and most > expected.rebalances.most:
        predicted = _counted(expected.rebalances, "rebalance")
        return f"{rebalances_text(counts.rebalances, doubt)} ({doubt.why}), predicted: {predicted}"
    return counts.unknown_because


def shortfall(counts: StepCounts, expected: StepExpectation) -> list[str]:
    """What falls short of the prediction, in words. This does no harm."""
    found = []
    most = counts.most_rebalances
    if most is not None and most < expected.rebalances.least:
        predicted = _counted(expected.rebalances, "rebalance")
        counted = rebalances_text(counts.rebalances, counts.rebalances_doubt)
        found.append(f"{counted}, fewer than predicted: {predicted}")
    if counts.handovers < expected.handovers.least and counts.handovers_exact:
        predicted = _counted(expected.handovers, "handover")
        found.append(f"{many(counts.handovers, 'handover')}, fewer than predicted: {predicted}")
    return found


def other_owners(owned: Mapping[str, Partitions], expected: StepExpectation) -> str | None:
    """Partitions that end up with a different owner than predicted, in words; None if there are none, or if no final
    assignment is predicted."""
    if expected.final_assignment is None:
        return None
    different = moves(dict(expected.final_assignment), dict(owned))
    if not different:
        return None
    return f"{many(len(different), 'partition')} with a different owner than predicted: {moves_text(different)}"


def _counted(span: ExpectedRange, noun: str) -> str:
    return f"{span} {noun}" if span.most == 1 and span.least == 1 else f"{span} {noun}s"
