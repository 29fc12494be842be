"""What the doctor finds, and the words that findings share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from kgm.text.wording import partitions_text


class Severity(StrEnum):
    """error: something is not consumed, or will be lost. warning: it costs rebalances, or will. info: worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 is the most severe."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem. evidence: what was seen, a line each; about: the ids of the members or partitions concerned;
    next_command: what to run to see more of it, or to solve it."""

    group_id: str
    check: str
    severity: Severity
    message: str
    evidence: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    next_command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredFinding:
    """A finding that is accepted, and why."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedChecks:
    """Checks that did not run, and why. is_choice: because the operator said so. is_optional: there is
    more to read than a diagnosis reads, or a right is missing that nothing else needs; that is a failure only for
    somebody who names one of these checks."""

    checks: tuple[str, ...]
    why: str
    is_choice: bool = False
    is_optional: bool = False


def grouped(pairs: Iterable[tuple[str, int]]) -> str:
    """`orders[0-2] users[1]` for (topic, partition) pairs."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(pairs):
        by_topic.setdefault(topic, []).append(partition)
    return partitions_text(by_topic)


def partition_names(pairs: Iterable[tuple[str, int]]) -> Iterator[str]:
    """`orders-0`, as Kafka's tools write partitions."""
    return (f"{topic}-{partition}" for topic, partition in sorted(pairs))
