"""Who owns what: partitions without an owner, members without partitions, uneven shares, subscriptions, protocols."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from kgm.clients.subscribed_topics import subscribed_topics
from kgm.clients.table import EAGER, KNOWN_ASSIGNORS
from kgm.frameworks.connect import CONNECTOR, missing_work
from kgm.model.assignment import Partitions, count, less, owners
from kgm.model.changes import owned
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.doctor.findings import Finding, Severity, partition_names
from kgm.operations.doctor.group_facts import GroupFacts
from kgm.protocol.subscription import PROTOCOL_TYPE
from kgm.simulation.connect.group import is_connect, work_of
from kgm.text.braces import as_list
from kgm.text.durations import show_duration
from kgm.text.names import in_order
from kgm.text.wording import grouped, many, partitions_text, some

_STABLE: Final = "Stable"
#: A share is uneven when the largest is this many times the smallest.
_UNEVEN: Final = 1.5
_MOST_IDS: Final = 20
_MOST_KINDS: Final = 5
#: Number of partitions listed with their owners.
_MOST_PARTITIONS: Final = 5


def unowned_partitions(facts: GroupFacts) -> Iterator[Finding]:
    """Partitions of subscribed topics that no member owns even though the group is stable."""
    free = unowned(facts.group)
    if facts.earlier is not None:
        free &= unowned(facts.earlier)
    if free:
        yield facts.finding(
            "unowned-partitions", Severity.ERROR,
            f"{many(len(free), 'partition')} of subscribed topics {'has' if len(free) == 1 else 'have'} no consumer",
            f"without an owner: {grouped(free)}", *_added_later(facts.group, free),
            about=partition_names(free), run=("describe", "--offsets"),
        )  # fmt: skip


def _added_later(group: GroupSnapshot, free: set[tuple[str, int]]) -> Iterator[str]:
    """Unowned partitions that were probably added after the assignment: those with the highest numbers in their topic.
    Classic groups only, whose assignors never leave a partition of a topic out."""
    first: dict[str, int] = {}
    for topic, number in free:
        first[topic] = min(number, first.get(topic, number))
    assigned = owners(owned(group))
    added = [
        (topic, number)
        for topic, number in free
        if first[topic]
        and all((topic, below) in assigned for below in range(first[topic]))
        and not any(name == topic and above > first[topic] for name, above in assigned)
    ]
    if group.type == "classic" and added:
        yield (
            f"probably added after the last rebalance: {grouped(added)}; consumers look for new partitions every "
            "metadata.max.age.ms (5m by default), and rebalance then"
        )


def unassigned_tasks(facts: GroupFacts) -> Iterator[Finding]:
    """Connectors and tasks that ran on a lost Connect worker and that the leader holds back for a while. The last
    record from before the loss shows which they are; without one, only gaps show: missing task numbers, and connectors
    whose tasks run."""
    group, delay_ms = facts.group, facts.group.rebalance_delay_ms
    if not is_connect(group) or not delay_ms:
        return
    running = {work for member in group.members for work in work_of(member)}
    before = next((one.group for one in reversed(facts.recorded) if one.group.is_settled), None)
    had = missing_work(running) if before is None else {work for one in before.members for work in work_of(one)}
    lost = sorted({*had} - running)
    names = [name if number == CONNECTOR else f"{name}-{number}" for name, number in lost]
    ends = facts.recorded[-1].group.unassigned_until if facts.recorded else None
    when = f"until {ends}" if ends is not None else f"for {show_duration(delay_ms)} after a worker left"
    yield facts.finding(
        "unassigned-tasks", Severity.WARNING,
        f"the work of a Connect worker that has left is held back {when}, and REST may still say RUNNING",
        f"runs nowhere: {some(names)}" if names else "it is not visible which connectors and tasks these are",
        *(["there may be more: this is what is missing between others"] if before is None else []),
        "the leader waits for the worker to return (scheduled.rebalance.max.delay.ms)",
        about=names, run=("wait", "--for", "settled", "--timeout", "10m"),
    )  # fmt: skip


def unowned(group: GroupSnapshot) -> set[tuple[str, int]]:
    """(topic, partition) pairs of subscribed topics that have no owner; empty while the group is not stable, or if a
    member's assignment cannot be read."""
    if group.state != _STABLE or not group.members or not all(member.is_readable for member in group.members):
        return set()
    subscribed = subscribed_topics(group.members, group.topics)
    every = {(topic.name, p) for topic in group.topics if topic.name in subscribed for p in range(topic.partitions)}
    return every - owners(owned(group)).keys()


def double_owners(facts: GroupFacts) -> Iterator[Finding]:
    """Partitions that several members own even though the group is stable: each of them reads every record."""
    group = facts.group
    shared = _shared(group)
    if facts.earlier is not None:
        before = _shared(facts.earlier)
        shared = {pair: names for pair, names in shared.items() if before.get(pair) == names}
    if shared:
        evidence = [f"{partitions_text({topic: [p]})}: {some(names)}" for (topic, p), names in sorted(shared.items())]
        yield facts.finding(
            "double-owners", Severity.ERROR,
            f"several members own {many(len(shared), 'partition')}, and each reads every record: a custom assignor "
            "may be wrong",
            *evidence[:_MOST_PARTITIONS], about=partition_names(shared), run=("describe", "-o", "wide"),
        )  # fmt: skip


def _shared(group: GroupSnapshot) -> dict[tuple[str, int], list[str]]:
    """The owners of each partition that has more than one; empty while the group is not stable. Share groups are left
    out, since sharing partitions is their purpose."""
    if group.state != _STABLE or group.type == "share":
        return {}
    by_partition: dict[tuple[str, int], list[str]] = {}
    for member in sorted(group.members, key=lambda one: one.identity):
        for topic, numbers in member.assignment.items():
            for number in numbers:
                by_partition.setdefault((topic, number), []).append(member.identity)
    return {pair: names for pair, names in by_partition.items() if len(names) > 1}


def unreadable_members(facts: GroupFacts) -> Iterator[Finding]:
    """Members whose assignment is not in the format of Kafka's consumers, so what they own is unknown."""
    names = in_order(member.identity for member in facts.group.members if not member.is_readable)
    if names:
        yield facts.finding(
            "unreadable-members", Severity.WARNING,
            f"the assignment of {many(len(names), 'member')} cannot be decoded: what they own is not known, and "
            "partitions without an owner are not looked for",
            f"not decoded: {some(names)}", about=names, run=("describe", "-o", "wide"),
        )  # fmt: skip


def idle_members(facts: GroupFacts) -> Iterator[Finding]:
    """Members without partitions."""
    group = facts.group
    if group.state != _STABLE:
        return
    present = [member for member in group.members if member.status != "away"]
    idle = in_order(
        member.identity
        for member in present
        # If its subscription cannot be read, a member may not want any partitions.
        if not count(member.assignment) and member.is_readable and (member.topics is not None or member.regex)
    )
    if not idle:
        return
    subscribed = subscribed_topics(present, group.topics)
    partitions = sum(topic.partitions for topic in group.topics if topic.name in subscribed)
    if subscribed and len(present) > partitions > 0:
        yield facts.finding(
            "more-members-than-partitions", Severity.INFO,
            f"{len(present)} members share {many(partitions, 'partition')}: {len(idle)} of them are idle",
            f"idle: {some(idle)}", about=idle, run=("describe",),
        )  # fmt: skip
    elif any(member.assignment for member in present):
        yield facts.finding(
            "idle-members", Severity.WARNING,
            f"{len(idle)} of {len(present)} members own no partition, although there are enough partitions",
            f"idle: {some(idle)}", about=idle, run=("describe", "-o", "wide"),
        )  # fmt: skip


def away_members(facts: GroupFacts) -> Iterator[Finding]:
    """Static members of a KIP-848 group that left temporarily and keep their partitions."""
    group = facts.group
    away = [member for member in facts.static if member.status == "away"]
    if away:
        names = [member.identity for member in away]
        stopped = sum(count(member.assignment) for member in away)
        yield facts.finding(
            "away-members", Severity.WARNING,
            f"away: {len(away)} of {many(len(group.members), 'member')}; {many(stopped, 'partition')} "
            f"{'has' if stopped == 1 else 'have'} no consumer until they return or their session expires",
            f"away: {some(names)}", about=names,
            run=("remove-members", "--instance-ids", as_list(names[:_MOST_IDS]), "--dry-run"),
        )  # fmt: skip


def uneven_shares(facts: GroupFacts) -> Iterator[Finding]:
    """Uneven numbers of partitions. The range assignor gives the remainder of every topic to the same members, which
    adds up over many topics."""
    group = facts.group
    loads = {one.identity: count(one.assignment) for one in group.members if one.status != "away" and one.is_readable}
    same = len({frozenset(one.known_topics) for one in group.members}) == 1
    if group.state != _STABLE or len(loads) < 2 or not same:
        return
    least, most = min(loads.values()), max(loads.values())
    if most - least < 2 or most < _UNEVEN * least:
        return
    full = in_order(name for name, load in loads.items() if load == most)
    light = in_order(name for name, load in loads.items() if load == least)
    by_range = group.assignor == "range" and len({topic for one in group.members for topic in one.known_topics}) > 1
    why = ": the range assignor assigns each topic separately" if by_range else ""
    yield facts.finding(
        "uneven-assignment", Severity.WARNING if by_range else Severity.INFO,
        f"some members own far more partitions than others{why}",
        f"{most} partitions: {some(full)}", f"{least} partitions: {some(light)}", about=full,
        run=("simulate-bounce", "--all", "--assignor", "cooperative-sticky"),
    )  # fmt: skip


def mixed_subscriptions(facts: GroupFacts) -> Iterator[Finding]:
    """Members with different subscriptions: on purpose, or in a rollout that has not reached every member."""
    kinds: dict[tuple[tuple[str, ...], str | None], list[str]] = {}
    clients: dict[str, str] = {}
    for one in facts.group.members:
        if one.topics or one.regex:
            kinds.setdefault((tuple(sorted(one.known_topics)), one.regex), []).append(one.identity)
            clients[one.identity] = one.client_id
    if facts.group.state == _STABLE and len(kinds) > 1:
        ordered = sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0][0]))
        evidence = [
            f"{many(len(names), 'member')} ({some(sorted({clients[name] for name in names}))}): "
            f"{some([*topics, *([f'/{regex}/'] if regex else [])])}"
            for (topics, regex), names in ordered[:4]
        ]
        if not frozenset.intersection(*(frozenset(topics) for topics, _ in kinds)) and not any(rx for _, rx in kinds):
            evidence.append("different applications need a group.id each: in one group, each restart rebalances all")
        yield facts.finding(
            "mixed-subscriptions", Severity.INFO,
            f"the members subscribe to {len(kinds)} different sets of topics", *evidence,
            about=in_order(name for _, names in ordered[1:] for name in names), run=("describe", "-o", "wide"),
        )  # fmt: skip


def unsubscribed_owners(facts: GroupFacts) -> Iterator[Finding]:
    """Members of a classic group that own partitions of topics to which they do not subscribe. A static member that
    restarts with other topics gets what it had, without a rebalance (KAFKA-12759); Java's consumers notice and rejoin,
    librdkafka's consume it."""
    group = facts.group
    foreign = _foreign(group)
    if facts.earlier is not None:
        before = _foreign(facts.earlier)
        kept = {name: less(owned, less(owned, before.get(name, {}))) for name, owned in foreign.items()}
        foreign = {name: owned for name, owned in kept.items() if owned}
    if not foreign:
        return
    subscriptions = {one.identity: some(in_order(one.known_topics)) or "nothing" for one in group.members}
    evidence = [
        f"{name}: owns {partitions_text(foreign[name])}, subscribes to {subscriptions[name]}"
        for name in in_order(foreign)[:_MOST_PARTITIONS]
    ]
    lost = {topic for owned in foreign.values() for topic in owned} - subscribed_topics(group.members, group.topics)
    if lost and all(one.topics is not None for one in group.members):
        evidence.append(f"no member subscribes to {some(in_order(lost))}: then nobody consumes it")
    is_one = len(foreign) == 1
    yield facts.finding(
        "unsubscribed-owner", Severity.WARNING,
        f"{many(len(foreign), 'member')} {'owns' if is_one else 'own'} partitions of topics to which "
        f"{'it does' if is_one else 'they do'} not subscribe: the next rebalance takes these partitions away",
        *evidence, "a static member that restarts with other topics keeps what it had until the group rebalances",
        about=in_order(foreign), run=("describe", "-o", "wide"),
    )  # fmt: skip


def _foreign(group: GroupSnapshot) -> dict[str, Partitions]:
    """What members own of topics to which they do not subscribe, by identity; empty unless the group is stable and its
    assignor gives partitions to subscribers only. Without topics that were deleted."""
    is_plain = group.type == "classic" and group.protocol_type == PROTOCOL_TYPE and group.assignor in KNOWN_ASSIGNORS
    if group.state != _STABLE or not is_plain:
        return {}
    foreign = {
        one.identity: {
            topic: numbers
            for topic, numbers in one.assignment.items()
            if numbers and topic not in {*one.topics, *group.deleted_topics}
        }
        for one in group.members
        if one.topics is not None and one.regex is None
    }
    return {name: owned for name, owned in foreign.items() if owned}


def missing_topics(facts: GroupFacts) -> Iterator[Finding]:
    """Subscribed topics that do not exist."""
    known = {topic.name for topic in facts.group.topics} | facts.undescribed_topics
    subscribed = {topic for member in facts.group.members for topic in member.known_topics}
    missing = in_order(subscribed - known)
    if missing:
        yield facts.finding(
            "missing-topics", Severity.WARNING,
            f"{many(len(missing), 'subscribed topic')} {'does' if len(missing) == 1 else 'do'} not exist",
            f"missing: {some(missing)}", about=missing, run=("describe", "-o", "wide"),
        )  # fmt: skip
    elif facts.vanished_topics:
        # librdkafka drops such topics from the subscription; Java keeps them.
        names = in_order(facts.vanished_topics)
        yield facts.finding(
            "missing-topics", Severity.WARNING,
            f"{many(len(names), 'topic')} that members subscribed to before {'does' if len(names) == 1 else 'do'} not "
            "exist any more: some libraries leave such topics out of the subscription",
            f"missing: {some(names)}", about=names, run=("history offsets",),
        )  # fmt: skip


def mixed_clients(facts: GroupFacts) -> Iterator[Finding]:
    """Members on several libraries, or on old and new versions of one: on purpose, or in an upgrade that has skipped
    some."""
    kinds: dict[str, list[str]] = {}
    versions: set[int] = set()
    libraries: set[frozenset[str]] = set()
    for one in facts.group.members:
        library, version = one.client_library, one.subscription_version
        if library is not None and library.candidates and version is not None:
            kinds.setdefault(f"{library.text}, subscription version {version}", []).append(one.identity)
            versions.add(version)
            libraries.add(frozenset(library.candidates))
    # A member that could be using either of two libraries may be using the same one as another member.
    is_one = not any(one.isdisjoint(other) for one, other in combinations(libraries, 2))
    if not is_one or len(versions) > 1:
        ordered = sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0]))
        yield facts.finding(
            "mixed-clients", Severity.INFO,
            "the members run on old and new versions of their library: an upgrade is under way, or has left some out"
            if is_one
            else "the members run on several client libraries, whose assignors and restarts may differ",
            *(f"{kind}: {some(names)}" for kind, names in ordered[:_MOST_KINDS]),
            about=in_order(name for _, names in ordered[1:] for name in names), run=("describe", "-o", "wide"),
        )  # fmt: skip


def protocols(facts: GroupFacts) -> Iterator[Finding]:
    """The rebalance protocol: an unfinished migration, or a classic group on brokers that support the new protocol."""
    group = facts.group
    kinds = {member.protocol for member in group.members if member.protocol is not None}
    if group.type == "consumer" and "classic" in kinds:
        old = in_order(member.identity for member in group.members if member.protocol == "classic")
        yield facts.finding(
            "unfinished-migration", Severity.WARNING if len(kinds) > 1 else Severity.INFO,
            f"still on the classic protocol: {many(len(old), 'member')} of this KIP-848 group",
            f"classic: {some(old)}", about=old, run=("describe", "-o", "wide"),
        )  # fmt: skip
    if (
        group.type == "classic"
        and group.protocol_type == "consumer"
        and group.members
        and facts.supports_consumer_protocol
        and _may_migrate(group)
    ):
        eager = group.assignor in EAGER and bool(facts.dynamic)
        yield facts.finding(
            "classic-protocol", Severity.INFO,
            "the group uses the classic protocol; the brokers support KIP-848"
            + (" (with an eager assignor each rebalance stops every member)" if eager else ""),
            f"assignor: {group.assignor or 'unknown'}",
            run=("simulate-bounce", "--all", "--rolling", "--compare"),
        )  # fmt: skip


def _may_migrate(group: GroupSnapshot) -> bool:
    """Whether the group's clients support the consumer protocol and brokers would convert the group while it runs.
    Brokers refuse if assignments carry user data, and their own assignors do not do what a custom assignor does."""
    is_known = group.assignor is None or group.assignor in KNOWN_ASSIGNORS
    return is_known and not any(member.user_data for member in group.members)


CHECKS: Final = (
    unowned_partitions, unassigned_tasks, double_owners, unreadable_members, idle_members, away_members, uneven_shares,
    mixed_subscriptions, unsubscribed_owners, missing_topics, mixed_clients, protocols,
)  # fmt: skip
