"""Whether the assignor that a group names explains the assignment that it has.

A model that does not explain the present cannot predict the future: assignors of the same name differ between client
libraries, and anyone can write one. So the assignor is run on the state that the group shows. Differences that the
group's unknown past can account for count as explained: a topic or partitions that were added after the last rebalance,
a static member that has come back with another subscription (the coordinator answers it without a rebalance), racks of
partitions, which a snapshot does not have, and for sticky assignors any assignment that they would leave as it is. Of
the broker's assignors (KIP-848) only the balance is checked."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kgm.assignors import MemberSpec, has_assignor
from kgm.assignors.contract import MOST_PARTITIONS
from kgm.clients.table import BROKER, LEADER, MEMBER_ID, SAME_ASSIGNOR, assigning_by, never_says_owned
from kgm.java.hash_map import DEFAULT_CAPACITY, map_capacity
from kgm.model.assignment import Partitions, count
from kgm.model.client_library import JAVA, KAFKA_PYTHON, LIBRDKAFKA, PLATFORMATIC
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.simulation.play.leader import assigned
from kgm.text.wording import many

_DETERMINED = ("range", "roundrobin")
_STICKY = ("sticky", "cooperative-sticky")
_COOPERATIVE = "cooperative-sticky"
_BY_LEADER: Final = assigning_by(LEADER)
_BY_BROKER: Final = assigning_by(BROKER)
_BY_ID: Final = assigning_by(MEMBER_ID)
#: At most this many members, one for each different subscription, are tried as the leader.
_MOST_LEADERS: Final = 20
#: Assignments by member id, without empty topics.
Owned = Mapping[str, Mapping[str, tuple[int, ...]]]


def unexplained(snapshot: GroupSnapshot) -> str | None:
    """What the named assignor would have assigned differently, in words; None if it explains the current assignment, or
    if that cannot be checked: the group is not stable, kgm does not know the assignor, or something cannot be read."""
    if snapshot.type == "consumer":
        return _uneven(snapshot)
    assignor = SAME_ASSIGNOR.get(snapshot.assignor or "", snapshot.assignor)
    if assignor not in (*_DETERMINED, *_STICKY) or not _is_checkable(snapshot):
        return None
    present = {member.member_id: _plain(member.assignment) for member in snapshot.members}
    if assignor == _COOPERATIVE and _has_unowned(snapshot, present):
        return None  # revoked partitions will be assigned in the next round
    other: Owned | None = None
    for members, topics in _pasts(snapshot, present):
        for library in _leaders(snapshot, assignor):
            for given in _assigned(snapshot, assignor, members, topics, library):
                if _is_explained(snapshot, assignor, library, given, present):
                    return None
                other = given if other is None else other
    return None if other is None else _text(snapshot, assignor, other, present)


def is_reproduced(snapshot: GroupSnapshot) -> bool:
    """Whether the named assignor, run on the group as it is now, is certain to return the current assignment."""
    assignor = SAME_ASSIGNOR.get(snapshot.assignor or "", snapshot.assignor)
    if assignor not in (*_DETERMINED, *_STICKY) or not _is_checkable(snapshot):
        return False
    present = {member.member_id: _plain(member.assignment) for member in snapshot.members}
    members, topics = next(_pasts(snapshot, present), ((), {}))
    return any(
        given == present
        for library in _leaders(snapshot, assignor)
        for given in _assigned(snapshot, assignor, members, topics, library)
    )


def _is_checkable(snapshot: GroupSnapshot) -> bool:
    return (
        snapshot.type == "classic"
        and snapshot.state == "Stable"
        and any(count(member.assignment) for member in snapshot.members)
        and all(member.topics is not None and not member.regex and member.is_readable for member in snapshot.members)
    )


def _uneven(snapshot: GroupSnapshot) -> str | None:
    """The broker's assignors (KIP-848) balance what members with equal subscriptions get, whatever they had: uniform
    all partitions, range those of each topic."""
    members = snapshot.members
    subscriptions = {frozenset(member.known_topics) for member in members}
    is_known = all(member.topics is not None and not member.regex and member.is_readable for member in members)
    if snapshot.state != "Stable" or not is_known or len(subscriptions) != 1:
        return None
    targets = [member.target_assignment for member in members]
    shares = [member.assignment if target is None else target for member, target in zip(members, targets, strict=True)]
    match snapshot.assignor:
        case "uniform":
            counts = [[count(share) for share in shares]]
        case "range":
            counts = [[len(share.get(topic, ())) for share in shares] for topic in sorted(subscriptions.pop())]
        case _:
            return None
    for numbers in counts:
        if max(numbers) - min(numbers) > 1:
            return (
                f"the broker's assignor {snapshot.assignor} does not explain the current assignment: members with the "
                f"same subscription would have about the same number of partitions, and not {min(numbers)} and "
                f"{max(numbers)}: what a rebalance moves is not certain"
            )
    return None


def _plain(partitions: Partitions) -> dict[str, tuple[int, ...]]:
    return {topic: tuple(sorted(numbers)) for topic, numbers in partitions.items() if numbers}


def _has_unowned(snapshot: GroupSnapshot, present: Owned) -> bool:
    """Whether subscribed partitions have no owner."""
    owned = {(topic, number) for one in present.values() for topic, numbers in one.items() for number in numbers}
    wanted = {topic for member in snapshot.members for topic in member.known_topics}
    counts = {topic.name: topic.partitions for topic in snapshot.topics if topic.name in wanted}
    return any((topic, number) not in owned for topic, partitions in counts.items() for number in range(partitions))


def _pasts(snapshot: GroupSnapshot, present: Owned) -> Iterator[tuple[list[MemberSpec], dict[str, int]]]:
    """What the leader may have seen: subscriptions and partition counts as they are now and, if they may have changed
    since, as the assignment shows them."""
    members = snapshot.in_listed_order().members
    wanted = {topic for member in members for topic in member.known_topics}
    now = {topic.name: topic.partitions for topic in snapshot.topics if topic.name in wanted}
    then: dict[str, int] = {}
    for partitions in present.values():
        for topic, numbers in partitions.items():
            then[topic] = max(then.get(topic, 0), numbers[-1] + 1)
    as_now = [_spec(member, member.known_topics, present) for member in members]
    as_then = [_spec(member, _former_topics(member, present), present) for member in members]
    for specs in [as_now] if as_now == as_then else [as_now, as_then]:
        for topics in [now] if now == then else [now, then]:
            if sum(topics.values()) <= MOST_PARTITIONS:  # an assignment may name any partition, up to 2**31 - 1
                yield specs, topics


def _former_topics(member: MemberSnapshot, present: Owned) -> tuple[str, ...]:
    """For a static member, the topics that it owns partitions of, because it may have named others since."""
    owned = tuple(sorted(present[member.member_id]))
    return member.known_topics if member.group_instance_id is None else owned


def _spec(member: MemberSnapshot, topics: tuple[str, ...], present: Owned) -> MemberSpec:
    return MemberSpec(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=topics,
        owned=present[member.member_id],
        generation=1,
        says_owned=member.client_library is None or not never_says_owned(member.client_library),
    )


def _leaders(snapshot: GroupSnapshot, assignor: str) -> list[str]:
    """The libraries whose assignor may have run. A library whose assignor kgm does not have may still assign the same
    as Java's."""
    leader = snapshot.leader_library
    names = (JAVA, LIBRDKAFKA) if leader is None or not leader.candidates else leader.candidates
    known = [name for name in names if has_assignor(name, assignor)]
    return known if len(known) == len(names) or JAVA in known else [*known, JAVA]


def _assigned(
    snapshot: GroupSnapshot, assignor: str, members: Sequence[MemberSpec], topics: Mapping[str, int], library: str
) -> Iterator[Owned]:
    """What this library's assignor returns, for each member that may have led and each kind of broker, if that
    matters."""
    capacity = map_capacity([member.member_id for member in members]) or DEFAULT_CAPACITY
    known = {topic for member in members for topic in member.topics} & topics.keys()
    leaders: list[str | None] = [None]
    if library in _BY_LEADER:
        leaders = [snapshot.leader] if snapshot.leader else [*{one.topics: one.member_id for one in members}.values()]
        leaders = leaders[:_MOST_LEADERS]
    for leader in leaders:
        for has_scala_maps in (False, True) if library in _BY_BROKER else (False,):
            given = assigned(
                assignor, members, {name: topics[name] for name in sorted(known)}, library, capacity,
                has_scala_maps=has_scala_maps, leader=leader,
            )  # fmt: skip
            yield {member.member_id: _plain(given.get(member.member_id, {})) for member in snapshot.members}


def _is_explained(
    snapshot: GroupSnapshot, assignor: str, library: str, given: Owned, present: Owned
) -> bool:  # fmt: skip
    if given == present:
        return True
    if assignor in _STICKY:
        # As balanced as its own result would be: the last rebalance started from another assignment.
        return _loads(given) == _loads(present) and _are_subscribed(snapshot)
    if any(member.rack for member in snapshot.members):
        # Racks change which partitions of a topic a member gets, and which members get one more than others.
        return _counts(given) == _counts(present) and _are_subscribed(snapshot)
    kinds = {member.group_instance_id is None for member in snapshot.members}
    if library == KAFKA_PYTHON and len(kinds) > 1:
        return True  # which members it leaves out depends on the order in which they were listed then
    # A static member has a new member id after each restart. So what each member gets by these ids, or by the order of
    # the broker's map of them, may now belong to another; if subscriptions differ, nothing can be said. If members are
    # not listed in the order of that map, the order is not known either.
    is_listed = map_capacity([member.member_id for member in snapshot.in_listed_order().members]) is not None
    if (library in _BY_ID and len(kinds) > 1) or (library == PLATFORMATIC and (False in kinds or not is_listed)):
        return _shares(given) == _shares(present) or len({frozenset(one.known_topics) for one in snapshot.members}) > 1
    return False


def _loads(owned: Owned) -> list[int]:
    return sorted(count(partitions) for partitions in owned.values())


def _are_subscribed(snapshot: GroupSnapshot) -> bool:
    return all(
        member.group_instance_id is not None or {*_plain(member.assignment)} <= {*member.known_topics}
        for member in snapshot.members
    )


def _counts(owned: Owned) -> dict[str, list[int]]:
    """How many partitions of each topic its owners have, sorted."""
    counts: dict[str, list[int]] = {}
    for partitions in owned.values():
        for topic, numbers in partitions.items():
            counts.setdefault(topic, []).append(len(numbers))
    return {topic: sorted(each) for topic, each in counts.items()}


def _shares(owned: Owned) -> list[list[tuple[str, tuple[int, ...]]]]:
    return sorted(sorted(partitions.items()) for partitions in owned.values())


def _text(snapshot: GroupSnapshot, assignor: str, given: Owned, present: Owned) -> str:
    names = {member.member_id: member.identity for member in snapshot.members}

    def owners(owned: Owned) -> dict[tuple[str, int], str]:
        return {
            (topic, number): names[member_id]
            for member_id, partitions in owned.items()
            for topic, numbers in partitions.items()
            for number in numbers
        }

    is_there, would_be = owners(present), owners(given)
    every = sorted(is_there.keys() | would_be.keys())
    differ = [place for place in every if is_there.get(place) != would_be.get(place)]
    # Several members may own the same partition.
    where = "several members own the same partitions"
    if differ:
        (topic, number) = differ[0]
        where = (
            f"{len(differ)} of {many(len(every), 'partition')} would have another owner, for example {topic}-{number} "
            f"{would_be.get((topic, number), 'no member')} and not {is_there.get((topic, number), 'no member')}"
        )
    leader = snapshot.leader_library
    others = [] if leader is None else [name for name in leader.candidates if not has_assignor(name, assignor)]
    likely = f"that of {' or '.join(others)}" if others else "a custom one, or that of a library that kgm does not know"
    return (
        f"the assignor {assignor} as kgm knows it does not explain the current assignment: {where}. It is "
        f"probably {likely}: what a rebalance moves is not certain"
    )
