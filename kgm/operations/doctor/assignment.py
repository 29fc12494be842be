"""Who owns what: partitions without an owner, members without partitions, and shares that are not even."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kgm.model.assignment import count, owners
from kgm.model.changes import owned
from kgm.operations.doctor.case import Case, Finding, grouped, names_of, some
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.model.snapshot import GroupSnapshot

_STABLE: Final = "Stable"
_EAGER: Final = frozenset({"range", "roundrobin", "sticky"})
#: A share is uneven when the largest is this many times the smallest.
_UNEVEN: Final = 1.5


def unowned_partitions(case: Case) -> Iterator[Finding]:
    """Partitions of subscribed topics that nobody consumes, although the group is stable."""
    free = unowned(case.group)
    if case.earlier is not None:
        free &= unowned(case.earlier)
    if free:
        yield case.finding(
            "unowned-partitions", "error",
            f"nobody consumes {many(len(free), 'partition')} that the group subscribes to",
            f"without an owner: {grouped(free)}", about=names_of(free),
            run=("kgm", "describe", case.group.group_id, "--offsets"),
        )  # fmt: skip


def unowned(group: GroupSnapshot) -> set[tuple[str, int]]:
    """(topic, partition) of subscribed topics without an owner; none while the group is not stable."""
    if group.state != _STABLE or not group.members:
        return set()
    subscribed = {topic for member in group.members for topic in member.topics}
    every = {(topic.name, p) for topic in group.topics if topic.name in subscribed for p in range(topic.partitions)}
    return every - owners(owned(group)).keys()


def idle_members(case: Case) -> Iterator[Finding]:
    """Members that own nothing."""
    group = case.group
    if group.state != _STABLE:
        return
    there = [member for member in group.members if member.status != "away"]
    idle = sorted(member.identity for member in there if not count(member.assignment))
    if not idle:
        return
    subscribed = {topic for member in there for topic in member.topics}
    partitions = sum(topic.partitions for topic in group.topics if topic.name in subscribed)
    if subscribed and len(there) > partitions > 0:
        yield case.finding(
            "more-members-than-partitions", "info",
            f"{len(there)} members share {many(partitions, 'partition')}: {len(idle)} of them have nothing to do",
            f"idle: {some(idle)}", about=idle, run=("kgm", "describe", group.group_id),
        )  # fmt: skip
    elif any(member.assignment for member in there):
        yield case.finding(
            "idle-members", "warning", f"{len(idle)} of {len(there)} members own nothing: there are partitions enough",
            f"idle: {some(idle)}", about=idle, run=("kgm", "describe", group.group_id, "-o", "wide"),
        )  # fmt: skip


def away_members(case: Case) -> Iterator[Finding]:
    """Static members of a KIP-848 group that left with the intention to come back, and keep their partitions."""
    group = case.group
    away = [member for member in case.static if member.status == "away"]
    if away:
        names = [member.identity for member in away]
        stopped = sum(count(member.assignment) for member in away)
        yield case.finding(
            "away-members", "warning",
            f"away: {len(away)} of {many(len(group.members), 'member')}; nobody consumes what they own, "
            f"{many(stopped, 'partition')}, until they are back or their session ends",
            f"away: {some(names)}", about=names,
            run=("kgm", "remove-members", group.group_id, "--instance-ids", ",".join(names[:20]), "--dry-run"),
        )  # fmt: skip


def uneven_shares(case: Case) -> Iterator[Finding]:
    """The range assignor gives the rest of each topic to the same members, so that many topics add up."""
    group = case.group
    loads = {one.identity: count(one.assignment) for one in group.members if one.status != "away"}
    same = len({frozenset(one.topics) for one in group.members}) == 1
    if group.state != _STABLE or len(loads) < 2 or not same:
        return
    least, most = min(loads.values()), max(loads.values())
    if most - least < 2 or most < _UNEVEN * least:
        return
    full = sorted(name for name, load in loads.items() if load == most)
    light = sorted(name for name, load in loads.items() if load == least)
    by_range = group.assignor == "range" and len({topic for one in group.members for topic in one.topics}) > 1
    why = ": the range assignor deals out each topic on its own" if by_range else ""
    yield case.finding(
        "uneven-assignment", "warning" if by_range else "info", f"some members own far more than others{why}",
        f"{most} partitions: {some(full)}", f"{least} partitions: {some(light)}", about=full,
        run=("kgm", "simulate-bounce", group.group_id, "--all", "--assignor", "cooperative-sticky"),
    )  # fmt: skip


def mixed_subscriptions(case: Case) -> Iterator[Finding]:
    """Members that subscribe to different things: meant, or a rollout that has not reached everybody."""
    kinds: dict[tuple[tuple[str, ...], str | None], list[str]] = {}
    for one in case.group.members:
        if one.topics or one.regex:
            kinds.setdefault((tuple(sorted(one.topics)), one.regex), []).append(one.identity)
    if case.group.state == _STABLE and len(kinds) > 1:
        ordered = sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0][0]))
        evidence = [
            f"{many(len(names), 'member')}: {some([*topics, *([f'/{regex}/'] if regex else [])])}"
            for (topics, regex), names in ordered[:4]
        ]
        yield case.finding(
            "mixed-subscriptions", "info", f"the members subscribe to {len(kinds)} different sets of topics", *evidence,
            about=sorted(name for _, names in ordered[1:] for name in names),
            run=("kgm", "describe", case.group.group_id, "-o", "wide"),
        )  # fmt: skip


def missing_topics(case: Case) -> Iterator[Finding]:
    """Topics that are subscribed to and do not exist."""
    known = {topic.name for topic in case.group.topics} | case.denied_topics
    subscribed = {topic for member in case.group.members for topic in member.topics}
    missing = sorted(subscribed - known)
    if missing:
        yield case.finding(
            "missing-topics", "warning", f"the group subscribes to {many(len(missing), 'topic')} that do not exist",
            f"missing: {some(missing)}", about=missing, run=("kgm", "describe", case.group.group_id, "-o", "wide"),
        )  # fmt: skip


def protocols(case: Case) -> Iterator[Finding]:
    """The rebalance protocol: half moved, or the old one where the new one is there."""
    group = case.group
    kinds = {member.protocol for member in group.members if member.protocol is not None}
    if group.type == "consumer" and "classic" in kinds:
        old = sorted(member.identity for member in group.members if member.protocol == "classic")
        yield case.finding(
            "unfinished-migration", "warning" if len(kinds) > 1 else "info",
            f"still in the classic protocol: {many(len(old), 'member')} of this KIP-848 group",
            f"classic: {some(old)}", about=old, run=("kgm", "describe", group.group_id, "-o", "wide"),
        )  # fmt: skip
    if (
        group.type == "classic"
        and group.protocol_type == "consumer"
        and group.members
        and case.speaks_consumer_protocol
    ):
        eager = group.assignor in _EAGER and bool(case.dynamic)
        yield case.finding(
            "classic-protocol", "info",
            "the group uses the classic protocol, although the brokers speak the one of KIP-848"
            + (": with an eager assignor each rebalance stops everybody" if eager else ""),
            f"assignor: {group.assignor or 'not known'}",
            run=("kgm", "simulate-bounce", group.group_id, "--all", "--rolling", "--compare"),
        )  # fmt: skip


CHECKS: Final = (
    unowned_partitions, idle_members, away_members, uneven_shares, mixed_subscriptions, missing_topics, protocols,
)  # fmt: skip
