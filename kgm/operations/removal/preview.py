"""Who gets the partitions that a removal frees, computed in advance.

The group's assignor is run on the members that stay, with the partitions that they own now. If the result cannot be
known (a custom assignor that is not installed, a group that is rebalancing, members whose racks may matter or without
whom the broker may choose another assignor), there is none, rather than a guess."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from kgm.assignors import GroupSpec, MemberSpec, TopicSpec, assign, has_assignor, is_cooperative, is_known
from kgm.assignors.server.broker_view import as_the_broker_sees
from kgm.assignors.server.uniform import assign_uniform
from kgm.assignors.unsupported_groups import why_unsupported
from kgm.clients.racks import why_by_rack
from kgm.clients.subscribed_topics import subscribed_topics, why_similar, why_unmatched
from kgm.clients.table import SAME_ASSIGNOR, never_says_owned
from kgm.model.assignment import Assignment, Move, Partitions, moves
from kgm.model.client_library import FRANZ_GO, PLAYED
from kgm.model.errors import KgmError, RefusedError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.removal.consequences import stay_only_classic
from kgm.operations.removal.leader import LeaderAssignor, possible_leaders
from kgm.simulation.plan.bounce_plan import Plan, WhatIf
from kgm.simulation.plan.client_library import STICKY, may_forget
from kgm.simulation.plan.server_assignors import SERVER_ASSIGNORS, SERVER_PREFIX
from kgm.simulation.plan.starting_group import library_of, starting_group_of
from kgm.simulation.plan.votes import has_known_votes, may_lose_votes, other_assignors, other_lists, same_lists
from kgm.simulation.report.certainty import doubts_of
from kgm.simulation.report.present import outdated
from kgm.simulation.report.self_check import unexplained
from kgm.text.braces import as_list
from kgm.text.names import in_order
from kgm.text.wording import group_command

#: A cooperative group revokes a partition in one rebalance and assigns it in the next (KIP-429).
_MAX_ROUNDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedMoves:
    """moves: every partition that will change its owner, with owners by identity; None if that cannot be computed.

    notes: why not, or what the result assumes."""

    moves: tuple[Move, ...] | None
    notes: tuple[str, ...] = ()


def preview_moves(
    group: GroupSnapshot, removed_member_ids: Collection[str], *, undescribed_topics: Collection[str] = (),
    default_assignor: str = SERVER_ASSIGNORS[0], stated_assignor: str | None = None,
) -> ExpectedMoves:  # fmt: skip
    """The moves that a removal causes with the most likely leader, with a note if another leader would assign
    differently. undescribed_topics: topics of which it is not known whether they exist, and with how many
    partitions. default_assignor: the one that the broker gives a consumer group for which no member asks.
    stated_assignor: the group's, if an operator has named it."""
    if not removed_member_ids:
        return ExpectedMoves(moves=())
    staying = [member for member in group.members if member.member_id not in removed_member_ids]
    wanted = {topic for member in staying for topic in member.known_topics}
    if any(member.regex for member in staying):
        wanted |= {topic for member in group.members for topic in member.assignment}
    unknown = sorted(wanted & set(undescribed_topics))
    if unknown:
        return unknown_moves(f"topic {', '.join(map(repr, unknown))} could not be described")
    first, *others = possible_leaders(group, removed_member_ids)
    expected = expected_moves(group, removed_member_ids, leader=first.assign)
    if expected.moves is None:
        return expected
    if staying and (why := next(iter(outdated(group)), None) or _why_by_rack(group)) is not None:
        return unknown_moves(why)
    has_votes = has_known_votes(group, stated_assignor)
    if group.type == "consumer" and may_lose_votes(group.assignor or "", default_assignor, has_known_votes=has_votes):
        by_default = expected_moves(replace(group, assignor=default_assignor), removed_member_ids)
        if by_default.moves != expected.moves:
            return unknown_moves(
                f"no API returns which members ask for {group.assignor} (group.remote.assignor), and without those "
                f"that are removed the group may change to the broker's default, {default_assignor} (--assignor "
                f"{group.assignor} if all members ask for it)"
            )
    if staying:
        listed = _lists(group, stated_assignor) if len(staying) > 1 else []
        expected = replace(expected, notes=(*expected.notes, *listed, *_doubts(group, removed_member_ids)))
    if first.map_order.decides:
        note = (
            f"the expected moves are one of many possibilities: {first.what} leads the group, whose {group.assignor} "
            "follows the order of a Go map, which differs from run to run"
        )
        expected = replace(expected, notes=(*expected.notes, note))
    for other in others:
        if expected_moves(group, removed_member_ids, leader=other.assign).moves != expected.moves:
            note = (
                f"the expected moves assume that {first.what} leads the group; {other.what}, which may lead it as "
                "well, assigns the partitions differently"
            )
            return replace(expected, notes=(*expected.notes, note))
    return expected


def _lists(group: GroupSnapshot, stated_assignor: str | None) -> list[str]:
    """What the moves assume about the assignors that members of a classic group list."""
    if group.type != "classic" or group.assignor is None or has_known_votes(group, stated_assignor):
        return []
    others = other_assignors(group, stated_assignor)
    return [other_lists(group.assignor, others) if others else same_lists(group.assignor)]


def _why_by_rack(group: GroupSnapshot) -> str | None:
    if group.type != "classic":
        return None
    libraries = (leader.library for leader in possible_leaders(group, ()))
    return why_by_rack(_usual_name(group) or "", (member.rack for member in group.members), libraries)


def _doubts(group: GroupSnapshot, removed_member_ids: Collection[str]) -> list[str]:
    """Reasons why the partitions may be assigned differently: the leader's library, or the members' assignors; and how
    many may move then."""
    open_moves = _open_moves(group, removed_member_ids)
    misfit = unexplained(group)
    if misfit is not None:
        return [misfit, *open_moves]
    doubts = [f"the moves are an estimate {_why_forgotten(group)}"] if may_forget(group) else []
    staying = (member for member in group.members if member.member_id not in removed_member_ids)
    similar = why_similar(group, staying)
    doubts += [f"the moves are an estimate: {similar}"] if similar is not None else []
    leader = group.leader_library
    name = None if leader is None else leader.name
    usual = _usual_name(group)
    if name is not None and usual is not None and name not in PLAYED and not has_assignor(name, usual):
        doubts.append(
            f"the leader runs {name}, whose {usual} assigns differently than Java's: the moves are an estimate"
        )
    return [*doubts, *open_moves]


def _why_forgotten(group: GroupSnapshot) -> str:
    if group.assignor == STICKY:
        return f"if members run on {FRANZ_GO}, most versions of which forget with {STICKY} what they had"
    return f"if an eager assignor is configured along with {group.assignor}: then the members give up all partitions"


def _open_moves(group: GroupSnapshot, removed_member_ids: Collection[str]) -> list[str]:
    """How many partitions may move in a classic group if more may than are expected, by the rules of
    `simulate-bounce`. In a consumer group the broker assigns, whatever the members run on."""
    if group.type != "classic":
        return []
    gone = in_order(member.identity for member in group.members if member.member_id in removed_member_ids)
    try:
        doubts = doubts_of(group, starting_group_of(group, WhatIf()), Plan(remove=tuple(gone)), has_rebalances=True)
    except RefusedError as error:
        return [error.message]
    if not doubts.moves_are_open:
        return []
    why = group_command("simulate-bounce", group.group_id, "--remove", as_list(gone))
    return [f"the moves are one possibility: from {doubts.freed} to {doubts.total} partitions may move ({why})"]


def _usual_name(group: GroupSnapshot) -> str | None:
    """The name of the group's assignor in Java's client."""
    return SAME_ASSIGNOR.get(group.assignor or "", group.assignor)


def expected_moves(
    group: GroupSnapshot, removed_member_ids: Iterable[str], *, leader: LeaderAssignor | None = None
) -> ExpectedMoves:
    """The moves with one leader. leader: how the leader of a classic group assigns; None: as Kafka's Java client
    does."""
    removed = set(removed_member_ids)
    name = f"{SERVER_PREFIX}{group.assignor}" if group.type == "consumer" else _usual_name(group)
    has_assignment = group.type == "consumer" or group.state == "Stable"
    foreign = why_unsupported(group)
    if foreign is not None:
        return unknown_moves(f"group {group.group_id} {foreign}")
    if name is None or not has_assignment or stay_only_classic(group, removed):
        return ExpectedMoves(moves=None)  # its members' assignor, which no API shows, or none
    staying = [member for member in group.in_listed_order().members if member.member_id not in removed]
    if any(not member.topics and not member.regex for member in staying):
        return ExpectedMoves(moves=None)  # a subscription that cannot be decoded
    if (why := why_unmatched(staying)) is not None:
        return unknown_moves(why)
    before = {member.identity: member.assignment for member in group.members}
    try:
        if not is_known(name):
            return ExpectedMoves(moves=None)
        after = _assigned(name, group, staying, leader if group.type == "classic" else None)
    except KgmError as error:
        return unknown_moves(error.message)
    return ExpectedMoves(moves=moves(before, after))


def unknown_moves(why: str) -> ExpectedMoves:
    """No moves, because of this."""
    return ExpectedMoves(moves=None, notes=(f"which partitions will move is not known: {why}",))


def _assigned(
    name: str, group: GroupSnapshot, staying: list[MemberSnapshot], leader: LeaderAssignor | None
) -> Assignment:
    if not staying:
        return {}
    counts = {topic.name: topic.partitions for topic in group.topics}
    wanted = {one.member_id: tuple(sorted(counts.keys() & subscribed_topics((one,), group.topics))) for one in staying}
    owned: Assignment = {member.member_id: _owned(group, member) for member in staying}
    result = owned
    for _ in range(_MAX_ROUNDS):
        members = tuple(
            MemberSpec(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                rack=member.rack,
                topics=wanted[member.member_id],
                owned=owned[member.member_id],
                generation=1,
                says_owned=not never_says_owned(library_of(group, member)),
            )
            for member in staying
        )
        if group.type == "consumer":
            result = _assigned_by_broker(name, group, members, staying)
        elif leader is not None:
            result = leader(name, members, counts)
        else:
            topics = tuple(TopicSpec(name=topic.name, partitions=topic.partitions) for topic in group.topics)
            result = assign(name, GroupSpec(members=members, topics=topics))
        if not is_cooperative(name) or result == owned:
            break
        owned = result
    identity = {member.member_id: member.identity for member in staying}
    return {identity[member_id]: partitions for member_id, partitions in result.items()}


def _assigned_by_broker(
    name: str, group: GroupSnapshot, members: tuple[MemberSpec, ...], staying: list[MemberSnapshot]
) -> Assignment:
    """The result of the assignor of a consumer group."""
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
    """The partitions that the assignor treats as owned: the target assignment for a server-side assignor, the owned
    partitions for a client-side one."""
    if group.type == "consumer" and member.listed_target is not None:
        return member.listed_target
    source = member.assignment
    if group.type == "consumer" and member.target_assignment is not None:
        source = member.target_assignment
    return {topic: tuple(sorted(partitions)) for topic, partitions in source.items()}
