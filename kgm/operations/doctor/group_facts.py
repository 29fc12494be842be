"""What `kgm doctor` looks for.

Theory of operation. A `Case` is everything that is known of one group: two looks at it some seconds apart, what its
coordinator wrote down lately, settings of the broker, advice from a built history. A check is a function from a case to
findings, pure, and says nothing where it cannot know. `findings_of` runs them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kgm.client.offsets_topic_tail import Recorded
    from kgm.model.snapshot import GroupSnapshot, MemberSnapshot

SEVERITIES: Final = ("error", "warning", "info")
#: Of a long list of names, so many are shown.
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something to look at. evidence: what was seen, a line each; about: the members or partitions that it is about, as
    ids; next_command: what to run to see more of it, or to put it right."""

    group_id: str
    check: str
    severity: str
    message: str
    evidence: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    next_command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One group. earlier: the look before `group`, `window_ms` earlier, if there was one. past: records of the group,
    oldest first. retention_ms: how long offsets of an empty group are kept; None where the broker does not tell."""

    group: GroupSnapshot
    now_ms: int
    earlier: GroupSnapshot | None = None
    window_ms: int = 0
    past: Sequence[Recorded] = ()
    retention_ms: int | None = None
    denied_topics: frozenset[str] = frozenset()
    speaks_consumer_protocol: bool = False
    advice: Sequence[Mapping[str, Any]] = ()
    alarms: Sequence[Mapping[str, Any]] = ()
    history: str | None = None
    #: Filled by nobody: the members that are there, by what they are.
    static: tuple[MemberSnapshot, ...] = field(init=False)
    dynamic: tuple[MemberSnapshot, ...] = field(init=False)

    def __post_init__(self) -> None:
        members = sorted(self.group.members, key=lambda member: member.identity)
        is_static = [member.group_instance_id is not None for member in members]
        object.__setattr__(self, "static", tuple(m for m, yes in zip(members, is_static, strict=True) if yes))
        object.__setattr__(self, "dynamic", tuple(m for m, yes in zip(members, is_static, strict=True) if not yes))

    def finding(
        self, check: str, severity: str, message: str, *evidence: str, about: Iterable[str] = (),
        run: Sequence[str] = (),
    ) -> Finding:  # fmt: skip
        """A finding of this group. run: words of the next command."""
        return Finding(
            group_id=self.group.group_id,
            check=check,
            severity=severity,
            message=message,
            evidence=evidence,
            about=tuple(about),
            next_command=command(*run) if run else None,
        )


def findings_of(case: Case) -> list[Finding]:
    """All findings, the gravest first."""
    from kgm.operations.doctor import activity, assignment, identity, past

    found: list[Finding] = []
    for module in (identity, assignment, activity, past):
        for check in module.CHECKS:
            found += check(case)
    return sorted(found, key=lambda one: (SEVERITIES.index(one.severity), one.check))


def command(*words: str) -> str:
    """A command line that a shell takes as it is meant."""
    import shlex

    return " ".join(shlex.quote(word) for word in words)


def some(names: Iterable[str]) -> str:
    """`a, b, c and 4 more`."""
    listed = list(names)
    rest = len(listed) - _SHOWN
    return ", ".join(listed[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def grouped(pairs: Iterable[tuple[str, int]]) -> str:
    """`orders[0-2] users[1]`."""
    from kgm.text.wording import partitions_text

    found: dict[str, list[int]] = {}
    for topic, partition in sorted(pairs):
        found.setdefault(topic, []).append(partition)
    return partitions_text(found)


def names_of(pairs: Iterable[tuple[str, int]]) -> Iterator[str]:
    """`orders-0`, as Kafka's tools write partitions."""
    return (f"{topic}-{partition}" for topic, partition in sorted(pairs))
