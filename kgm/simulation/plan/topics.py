"""The topics of a group that is played, and what had to be assumed about them."""

from collections.abc import Collection
from dataclasses import replace

from kgm.assignors import TopicSpec
from kgm.assignors.contract import refuse_too_many_partitions
from kgm.clients.subscribed_topics import matching
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot


def partition_counts(snapshot: GroupSnapshot, wanted: Collection[str], caveats: list[str]) -> dict[str, int]:
    """The partition count of every topic that matters; for a topic that is missing from the snapshot, as many as are
    assigned. wanted: the topics that members subscribe to; empty for all."""
    known = {topic.name: topic.partitions for topic in snapshot.topics}
    for member in snapshot.members:
        for name, partitions in member.assignment.items():
            if name not in known and partitions:
                known[name] = 1 + max(max(other.assignment.get(name, ()), default=-1) for other in snapshot.members)
                assumed = f"{known[name]} partitions are assumed, as many as are assigned"
                caveats.append(f"topic {name} is not in the snapshot: {assumed}")
    topics = {name: known[name] for name in sorted(known) if name in wanted or not wanted}
    refuse_too_many_partitions(TopicSpec(name=name, partitions=partitions) for name, partitions in topics.items())
    return topics


def topics_of_member(member: MemberSnapshot, snapshot: GroupSnapshot, caveats: list[str]) -> tuple[str, ...]:
    """The topics of a member. If its subscription cannot be read: the topics that it owns partitions of, or all topics
    if it owns none. For a regular expression: the topics that match it, of those that anybody owns partitions of. If it
    cannot be matched: the topics that members with the same expression own partitions of."""
    if member.topics is None and not member.regex:
        caveats.append(
            f"the subscription of {member.identity} cannot be read: assumed to be the topics that are assigned now"
        )
        every = {topic for other in snapshot.members for topic in (*other.known_topics, *other.assignment)}
        return tuple(sorted(member.assignment or every))
    if not member.regex:
        return member.known_topics or tuple(sorted(member.assignment))
    caveat = "a subscription by regular expression is assumed to be the topics that are assigned now"
    if caveat not in caveats:
        caveats.append(caveat)
    assigned = {topic for other in snapshot.members for topic, numbers in other.assignment.items() if numbers}
    resolved = matching(member, assigned)
    if resolved is None:
        alike = [other.assignment for other in snapshot.members if other.regex == member.regex]
        resolved = {topic for assignment in alike for topic, numbers in assignment.items() if numbers}
    return tuple(sorted({*member.known_topics, *resolved}))


def is_matched(member: MemberSnapshot) -> bool:
    """Whether a member subscribes by a regular expression that kgm can match."""
    return bool(member.regex) and matching(member, ()) is not None


def without_nonexistent(snapshot: GroupSnapshot) -> GroupSnapshot:
    """The snapshot without assigned partitions beyond the partition count of their topic, which was created again with
    fewer; unchanged if there are none."""
    counts = {topic.name: topic.partitions for topic in snapshot.topics}

    def exists(topic: str, number: int) -> bool:
        return number < counts.get(topic, number + 1)

    def existing(member: MemberSnapshot) -> MemberSnapshot:
        if all(exists(topic, number) for topic, numbers in member.assignment.items() for number in numbers):
            return member
        kept = {t: tuple(number for number in numbers if exists(t, number)) for t, numbers in member.assignment.items()}
        return replace(member, assignment=kept)

    return replace(snapshot, members=tuple(existing(member) for member in snapshot.members))
