"""What has changed in a group between two snapshots: members, owners of partitions, and single values.

Members are compared by identity, so a static member that joins again with a new member id is *replaced*, and its
partitions have not moved. A value that a snapshot does not know (None) has not changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kgm.model.assignment import Assignment, Move, moves, owners
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot

#: Single values of a group that are compared, in the order in which they are reported.
VALUES: Final = (
    "type", "state", "protocol_type", "assignor", "generation", "group_epoch", "assignment_epoch",
    "session_timeout_ms", "rebalance_timeout_ms",
)  # fmt: skip
#: States of a classic group in which the coordinator does not return subscriptions and assignments.
REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})
#: States of a group of any type that last until its members have what they should.
IN_TRANSITION: Final = REBALANCING | {"Assigning", "Reconciling"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """One value of the group, a topic or a member. name: which one. before, after: None if it did not exist then."""

    name: str
    before: str | int | None
    after: str | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """Another member id with the same group instance id: the static member was restarted."""

    identity: str
    member_id_before: str
    member_id_after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resubscribed:
    """A member whose subscription has changed."""

    identity: str
    topics_before: tuple[str, ...]
    topics_after: tuple[str, ...]
    regex_before: str | None
    regex_after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """All changes, by identity or name. moves: None if the owners are not known in one of the snapshots."""

    joined: tuple[MemberSnapshot, ...] = ()
    left: tuple[MemberSnapshot, ...] = ()
    replaced: tuple[Replaced, ...] = ()
    statuses: tuple[Changed, ...] = ()
    resubscribed: tuple[Resubscribed, ...] = ()
    moves: tuple[Move, ...] | None = ()
    values: tuple[Changed, ...] = ()
    coordinator: Changed | None = None
    topics: tuple[Changed, ...] = ()

    @property
    def any(self) -> bool:
        """Whether anything has changed except the status of members."""
        return bool(
            self.joined or self.left or self.replaced or self.resubscribed or self.moves or self.values
            or self.coordinator or self.topics
        )  # fmt: skip


def changes(before: GroupSnapshot, after: GroupSnapshot) -> Changes:
    """The changes from one snapshot to a later one of the same group."""
    old, new = by_identity(before), by_identity(after)
    both = sorted(old.keys() & new.keys())
    known = knows_owners(before) and knows_owners(after)
    return Changes(
        joined=tuple(new[identity] for identity in sorted(new.keys() - old.keys())),
        left=tuple(old[identity] for identity in sorted(old.keys() - new.keys())),
        replaced=tuple(
            Replaced(identity=name, member_id_before=old[name].member_id, member_id_after=new[name].member_id)
            for name in both
            if old[name].member_id != new[name].member_id
        ),
        statuses=tuple(
            Changed(name=name, before=old[name].status, after=new[name].status)
            for name in both
            if old[name].status != new[name].status
        ),
        resubscribed=tuple(
            Resubscribed(
                identity=name,
                topics_before=tuple(sorted(old[name].known_topics)),
                topics_after=tuple(sorted(new[name].known_topics)),
                regex_before=old[name].regex,
                regex_after=new[name].regex,
            )
            for name in both
            if known and _is_resubscribed(old[name], new[name])
        ),
        moves=moves(owned(before), owned(after)) if known else None,
        values=_values(before, after),
        coordinator=_coordinator(before, after),
        topics=_topics(before, after),
    )


def _is_resubscribed(old: MemberSnapshot, new: MemberSnapshot) -> bool:
    """Whether both subscriptions are known, and are different."""
    if old.topics is None or new.topics is None:
        return False
    return (set(old.topics), old.regex) != (set(new.topics), new.regex)


def by_identity(snapshot: GroupSnapshot) -> Mapping[str, MemberSnapshot]:
    """The members of a snapshot by identity."""
    return {member.identity: member for member in snapshot.members}


def owned(snapshot: GroupSnapshot) -> Assignment:
    """The partitions that each identity owns."""
    return {member.identity: member.assignment for member in snapshot.members}


def disowned(before: GroupSnapshot, after: GroupSnapshot) -> dict[str, list[int]]:
    """The partitions that have lost their owner, by topic, both in order."""
    free: dict[str, list[int]] = {}
    for topic, partition in sorted(owners(owned(before)).keys() - owners(owned(after)).keys()):
        free.setdefault(topic, []).append(partition)
    return free


def knows_owners(snapshot: GroupSnapshot) -> bool:
    """Whether the owners are known, which is not the case for a classic group that is rebalancing."""
    return not (snapshot.type == "classic" and snapshot.state in REBALANCING)


def _values(before: GroupSnapshot, after: GroupSnapshot) -> tuple[Changed, ...]:
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in VALUES]
    return tuple(
        Changed(name=name, before=old, after=new)
        for name, old, new in pairs
        if old is not None and new is not None and old != new
    )


def _coordinator(before: GroupSnapshot, after: GroupSnapshot) -> Changed | None:
    if before.coordinator is None or after.coordinator is None or before.coordinator.id == after.coordinator.id:
        return None
    return Changed(name="coordinator", before=before.coordinator.id, after=after.coordinator.id)


def _topics(before: GroupSnapshot, after: GroupSnapshot) -> tuple[Changed, ...]:
    """Topics that are new, gone, or have another number of partitions; empty if one of the snapshots has no topics."""
    old = {topic.name: topic.partitions for topic in before.topics}
    new = {topic.name: topic.partitions for topic in after.topics}
    if not old or not new:
        return ()
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return tuple(Changed(name=name, before=old.get(name), after=new.get(name)) for name in names)
