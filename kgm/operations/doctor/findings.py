"""What the doctor finds, and the words that findings share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kgm.model.errors import PartialError
from kgm.model.snapshot import GroupSnapshot
from kgm.text.shell import shell_word
from kgm.text.wording import many

#: A command names at most this many partitions.
_MOST_RESET: Final = 50


class Severity(StrEnum):
    """error: something is not consumed, or will be lost. warning: it causes rebalances, or will. info: worth
    knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 is the most severe."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem. evidence: what was observed, one item per line; about: the ids of the members or partitions
    concerned; next_command: what to run to investigate or fix it."""

    group_id: str
    check: str
    severity: Severity
    message: str
    evidence: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    next_command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredFinding:
    """A finding that the operator chose to ignore, and why."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedChecks:
    """Checks that did not run, and why. is_choice: the operator's own options ruled them out. is_optional: there is
    more to read than a diagnosis reads, or a permission is missing that nothing else needs; that is a failure only if
    the operator named one of these checks."""

    checks: tuple[str, ...]
    why: str
    is_choice: bool = False
    is_optional: bool = False


def checks_of(skipped: Iterable[SkippedChecks]) -> tuple[str, ...]:
    """The names of the checks, in order."""
    return tuple(sorted({name for one in skipped for name in one.checks}))


def could_not_run(missing: Sequence[SkippedChecks]) -> PartialError:
    names = checks_of(missing)
    return PartialError(
        f"{many(len(names), 'check')} could not run: {', '.join(names)}", facts=[one.why for one in missing],
        hint="grant what is missing, or choose the checks to run with --check",
    )  # fmt: skip


def partition_names(pairs: Iterable[tuple[str, int]]) -> Iterator[str]:
    """`orders-0`, as Kafka's tools write partitions."""
    return (f"{topic}-{partition}" for topic, partition in sorted(pairs))


def server_of(group: GroupSnapshot) -> str:
    """A broker address that Kafka's own tools can use for this group."""
    return "HOST:PORT" if group.coordinator is None else f"{group.coordinator.host}:{group.coordinator.port}"


def reset_line(group: GroupSnapshot, pairs: Sequence[tuple[str, int]], to: str) -> Iterator[str]:
    """How to set where consumers of these partitions start, with Kafka's own tool; nothing if there are too many
    partitions."""
    if len(pairs) > _MOST_RESET:
        return
    by_topic: dict[str, list[str]] = {}
    for topic, partition in sorted(pairs):
        by_topic.setdefault(topic, []).append(str(partition))
    topics = " ".join(f"--topic {shell_word(topic)}:{','.join(numbers)}" for topic, numbers in by_topic.items())
    yield (
        "to choose another position, while no member runs: kafka-consumer-groups.sh --bootstrap-server "
        f"{server_of(group)} --group {shell_word(group.group_id)} {topics} --reset-offsets {to} --dry-run"
    )
