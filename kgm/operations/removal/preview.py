"""What a removal would do, before it is done: who gets the freed partitions, and who would hold the rebalance up.

The assignor that the group uses is run on the members that stay, with what they own now. Where that cannot be known
(an assignor of somebody's own, a group in the middle of a rebalance) there is no answer rather than a guess."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from kgm.model.assignment import Assignment, Move, Partitions, moves
from kgm.model.errors import KgmError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.removal.liveness import Liveness, Sign

if TYPE_CHECKING:
    from kgm.assignors import MemberSpec

#: What a leader hands out, by member id: (assignor, members, partition counts) -> partitions by topic. Leaders of
#: another library than Java's decide some ties in another way.
Lead: TypeAlias = "Callable[[str, Sequence[MemberSpec], Mapping[str, int]], Assignment]"

#: A cooperative group gives a partition away in one round and hands it on in the next (KIP-429).
_MAX_ROUNDS = 4


def expected_moves(
    group: GroupSnapshot,
    removed_member_ids: Iterable[str],
    *,
    lead: Lead | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Move, ...] | None:
    """Every partition that changes hands, owners by identity; None when it cannot be computed.

    lead: how the leader of a classic group assigns; by default as Kafka's Java client does. tell: gets the reason when
    the group is none of consumers or its assignor, one that was installed beside kgm, does not work."""
    from kgm.assignors import is_known
    from kgm.assignors.unsupported_groups import why_unsupported

    removed = set(removed_member_ids)
    name = f"consumer-{group.assignor}" if group.type == "consumer" else group.assignor
    settled = group.type == "consumer" or group.state == "Stable"
    foreign = why_unsupported(group)
    if foreign is not None:
        tell(f"group {group.group_id} {foreign}")
        return None
    if name is None or not settled or becomes_classic(group, removed):
        return None  # of what members of a group that becomes classic would choose, no API tells
    staying = [member for member in group.in_listed_order().members if member.member_id not in removed]
    if any(not member.topics and not member.regex for member in staying):
        return None  # a subscription that could not be read
    before = {member.identity: member.assignment for member in group.members}
    try:
        if not is_known(name):
            return None
        after = _assigned(name, group, staying, lead if group.type == "classic" else None)
    except KgmError as error:
        tell(error.message)
        return None
    return moves(before, after)


def _assigned(name: str, group: GroupSnapshot, staying: list[MemberSnapshot], lead: Lead | None) -> Assignment:
    from kgm.assignors import GroupSpec, MemberSpec, TopicSpec, assign, is_cooperative

    if not staying:
        return {}
    counts = {topic.name: topic.partitions for topic in group.topics}
    owned: Assignment = {member.member_id: _owned(group, member) for member in staying}
    result = owned
    for _ in range(_MAX_ROUNDS):
        members = tuple(
            MemberSpec(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                rack=member.rack,
                topics=tuple(topic for topic in _topics(group, member) if topic in counts),
                owned=owned[member.member_id],
                generation=1,
            )
            for member in staying
        )
        if group.type == "consumer":
            result = _by_the_broker(name, group, members, staying)
        elif lead is not None:
            result = lead(name, members, counts)
        else:
            topics = tuple(TopicSpec(name=topic.name, partitions=topic.partitions) for topic in group.topics)
            result = assign(name, GroupSpec(members=members, topics=topics))
        if not is_cooperative(name) or result == owned:
            break
        owned = result
    identity = {member.member_id: member.identity for member in staying}
    return {identity[member_id]: partitions for member_id, partitions in result.items()}


def _by_the_broker(
    name: str, group: GroupSnapshot, members: tuple[MemberSpec, ...], staying: list[MemberSnapshot]
) -> Assignment:
    """What the assignor of a consumer group says."""
    from kgm.assignors import TopicSpec, assign
    from kgm.assignors.server.broker_view import as_the_broker_sees
    from kgm.assignors.server.uniform import assign_uniform

    alike = len({(one.topics, one.regex) for one in staying}) == 1
    spec = as_the_broker_sees(
        members,
        [TopicSpec(name=topic.name, partitions=topic.partitions) for topic in group.topics],
        {topic.name: topic.topic_id for topic in group.topics if topic.topic_id is not None},
        is_homogeneous=alike,
        is_listed=all(member.listed_target is not None for member in staying),
    )
    return assign_uniform(spec, is_homogeneous=alike) if name == "consumer-uniform" else assign(name, spec)


def _owned(group: GroupSnapshot, member: MemberSnapshot) -> Partitions:
    """What the assignor is told: the target on the server's side, what it owns on the client's."""
    if group.type == "consumer" and member.listed_target is not None:
        return member.listed_target
    source = member.assignment
    if group.type == "consumer" and member.target_assignment is not None:
        source = member.target_assignment
    return {topic: tuple(sorted(partitions)) for topic, partitions in source.items()}


def _topics(group: GroupSnapshot, member: MemberSnapshot) -> list[str]:
    """Subscribed names, with a regular expression resolved over the topics that the group is known to use."""
    names = set(member.topics)
    if member.regex:
        names |= {topic for other in group.members for topic in (*other.assignment, *(other.target_assignment or {}))}
    return sorted(names)


#: Which groups with members may change their protocol, and how many members a classic group may have.
MIGRATION_POLICY, CLASSIC_MAX_SIZE = "group.consumer.migration.policy", "group.max.size"


def becomes_classic(group: GroupSnapshot, removed_member_ids: Iterable[str]) -> bool:
    """Whether a removal takes away the last members that speak the new protocol (KIP-848), and others stay.

    Brokers of before 4.0 do not tell which protocol a member speaks: then no."""
    removed = set(removed_member_ids)
    staying = {member.protocol for member in group.members if member.member_id not in removed}
    going = {member.protocol for member in group.members if member.member_id in removed}
    return group.type == "consumer" and staying == {"classic"} and "consumer" in going


def downgrade_warning(
    group: GroupSnapshot, removed_member_ids: Iterable[str], settings: Mapping[str, str]
) -> str | None:
    """That the group becomes a classic one, and rebalances, if it does. settings: of the broker, as far as it tells."""
    removed = set(removed_member_ids)
    if not becomes_classic(group, removed):
        return None
    stay = len(group.members) - len(removed)
    policy, most = settings.get(MIGRATION_POLICY), settings.get(CLASSIC_MAX_SIZE, "")
    if policy in ("upgrade", "disabled") or (most.isdigit() and stay > int(most)):
        return None
    unless = "" if policy is not None else f", unless {MIGRATION_POLICY} forbids it"
    who = "the member that stays speaks" if stay == 1 else f"the {stay} members that stay speak"
    return (
        f"no member with the consumer protocol is left: group {group.group_id} becomes a classic group and rebalances"
        f"{unless}; {who} the classic protocol, whose own assignor hands the partitions out then"
    )


def stall_warning(group: GroupSnapshot, removed_member_ids: Iterable[str], signs: dict[str, Sign]) -> str | None:
    """Who would make everybody wait: static members that stay in a classic group and show no life.

    The rebalance that a removal starts ends when every member has rejoined, or else after the smaller of the rebalance
    timeout (max.poll.interval.ms) and the absent member's session timeout."""
    removed = set(removed_member_ids)
    if group.type != "classic":
        return None
    holding = [
        member.identity
        for member in group.members
        if member.member_id not in removed
        and member.group_instance_id is not None
        and member.member_id in signs
        and signs[member.member_id].liveness is Liveness.SILENT
    ]
    if not holding:
        return None
    return (
        f"{', '.join(sorted(holding))} showed no sign of life either and would hold the rebalance up for every member, "
        "until the rebalance timeout or their session ends; remove all that are gone in this one request"
    )
