"""What a snapshot shows or lacks that makes the future uncertain, whichever library members use: a rebalance that the
plan does not cause is still to come, what a member owns is not known, or racks may matter."""

from dataclasses import dataclass

from kgm.assignors import is_cooperative
from kgm.clients.racks import why_by_rack
from kgm.clients.subscribed_topics import matching, subscribed_topics, why_similar, why_unmatched
from kgm.model.assignment import Partitions, owners
from kgm.model.changes import owned
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan
from kgm.simulation.plan.starting_group import StartingGroup
from kgm.simulation.report.self_check import is_reproduced
from kgm.text.names import in_order
from kgm.text.wording import many, some

_STILL_TO_COME = "the group may still rebalance without the plan, and what moves is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentDoubts:
    """moves_are_open: whether any partition may move. more_rebalances: how many rebalances there may be that the plan
    does not cause."""

    moves_are_open: bool = False
    more_rebalances: int = 0
    caveats: tuple[str, ...] = ()


def present_doubts(
    snapshot: GroupSnapshot, group: StartingGroup, plan: Plan, *, has_rebalances: bool
) -> PresentDoubts:  # fmt: skip
    """has_rebalances: whether any draw has a rebalance or another generation."""
    texts = _racks(group) if has_rebalances else []
    due: list[str] = []
    still_matched: list[str] = []
    if not plan.what_if.changes_assignment:  # otherwise the group is assumed to have been assigned before the plan
        texts += _unreadable(snapshot) if has_rebalances else []
        texts += _unmatched(snapshot) if has_rebalances else []
        due = [*outdated(snapshot), *_reconciling(snapshot)]
        still_matched = _still_matched(snapshot)
    is_classic = group.protocol is GroupProtocol.CLASSIC
    rounds = 2 if is_classic and is_cooperative(group.assignor) else 1
    similar = _similar(snapshot, plan, has_rebalances=has_rebalances)
    # Members look for topics before they join; how long a topic has been there, no API returns.
    may_find = bool(similar) and has_rebalances
    return PresentDoubts(
        moves_are_open=bool(texts or due or still_matched or may_find),
        # A member that has not found the topic before it joins, joins again.
        more_rebalances=max(rounds if due or may_find else 0, 2 if still_matched else 0),
        caveats=(*due, *still_matched, *texts, *similar),
    )


def _racks(group: StartingGroup) -> list[str]:
    if group.protocol is GroupProtocol.CONSUMER:
        return []
    racks = (member.rack for member in group.members)
    why = why_by_rack(group.assignor, racks, {member.assigner(group.assignor) for member in group.members})
    return [] if why is None else [f"{why}: what a rebalance moves is not known"]


def _unreadable(snapshot: GroupSnapshot) -> list[str]:
    unreadable = in_order(member.identity for member in snapshot.members if not member.is_readable)
    if not unreadable:
        return []
    return [f"the assignment of {some(unreadable)} cannot be read: what it owns, and so what moves, is not known"]


def _similar(snapshot: GroupSnapshot, plan: Plan, *, has_rebalances: bool) -> list[str]:
    gone = {*plan.scale_in, *plan.remove}
    staying = (member for member in snapshot.members if member.identity not in gone)
    why = why_similar(snapshot, staying, has_rebalances=has_rebalances)
    return [] if why is None else [f"{why}, and what moves is not known"]


def _unmatched(snapshot: GroupSnapshot) -> list[str]:
    why = why_unmatched(snapshot.members)
    return [] if why is None else [f"{why}: its topics, and so what moves, are not known"]


def outdated(snapshot: GroupSnapshot) -> list[str]:
    """Why the assignment, or in a consumer group the target assignment, is not one for the topics as they are now, in
    words: with which topics and partitions the group's next assignment is computed is not known then."""
    return [*_unowned(snapshot), *_nonexistent(snapshot)]


def _unowned(snapshot: GroupSnapshot) -> list[str]:
    """Partitions that were revoked are assigned in the next round, and new ones once a client or the broker notices
    them. What a leader's assignor would leave without an owner again is no reason for a rebalance."""
    if not snapshot.members or not all(member.is_readable for member in snapshot.members):
        return []
    targets = {member.identity: member.target_assignment or {} for member in snapshot.members}
    owners_now = owners(owned(snapshot)) | owners(targets)
    wanted = subscribed_topics(snapshot.members, snapshot.topics)
    free = [
        f"{topic.name}-{number}"
        for topic in snapshot.topics
        if topic.name in wanted
        for number in range(topic.partitions)
        if (topic.name, number) not in owners_now
    ]
    if not free or is_reproduced(snapshot):
        return []
    have = "has" if len(free) == 1 else "have"
    return [f"{many(len(free), 'subscribed partition')} {have} no owner, for example {free[0]}: {_STILL_TO_COME}"]


def _nonexistent(snapshot: GroupSnapshot) -> list[str]:
    counts = dict.fromkeys(snapshot.deleted_topics, 0) | {topic.name: topic.partitions for topic in snapshot.topics}
    gone = sorted(
        (topic, number) for topic, number in owners(owned(snapshot)) if number >= counts.get(topic, number + 1)
    )
    if not gone:
        return []
    (topic, number) = gone[0]
    exist = "does" if len(gone) == 1 else "do"
    where = f"for example {topic}-{number}"
    return [f"{many(len(gone), 'assigned partition')} {exist} not exist any more, {where}: {_STILL_TO_COME}"]


def _still_matched(snapshot: GroupSnapshot) -> list[str]:
    """A consumer group gets a new epoch when it notices that a topic is gone, and another one when the broker resolves
    the expression again, which it does at most once in 10 s, and only when there are new topics or expressions."""
    if snapshot.type != "consumer":
        return []
    gone = in_order(set[str]().union(*(matching(one, snapshot.deleted_topics) or () for one in snapshot.members)))
    if not gone:
        return []
    exist = "does" if len(gone) == 1 else "do"
    return [
        f"{some(gone)} {exist} not exist any more, but may still count as matched by an expression: {_STILL_TO_COME}"
    ]


def _is_alike(one: Partitions, other: Partitions) -> bool:
    return all(sorted(one.get(topic, ())) == sorted(other.get(topic, ())) for topic in one.keys() | other.keys())


def _reconciling(snapshot: GroupSnapshot) -> list[str]:
    """Members of a consumer group (KIP-848) that are not at the group's epoch, or do not own their targets yet."""
    if snapshot.type != "consumer":
        return []
    epoch, assigned = snapshot.group_epoch, snapshot.assignment_epoch
    if epoch is not None and assigned is not None and assigned < epoch:
        return [f"the target assignment is that of epoch {assigned}, and the group is at {epoch}: {_STILL_TO_COME}"]
    behind = in_order(
        member.identity
        for member in snapshot.members
        if member.status == "reconciling"
        or (None not in (epoch, member.member_epoch) and member.member_epoch != epoch)
        or (member.target_assignment is not None and not _is_alike(member.target_assignment, member.assignment))
    )
    if not behind:
        return []
    return [f"the members have not all reached the target assignment ({some(behind)}): {_STILL_TO_COME}"]
