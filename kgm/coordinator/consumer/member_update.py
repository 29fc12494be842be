"""What a member's request changes in a consumer group: the steps that heartbeats and JoinGroup have in common.

In order: find or make the member, write what it says of itself, see whether the group needs a new epoch, compute a new
target if one is due, and bring the member nearer to it (Kafka: GroupMetadataManager.consumerGroupHeartbeat and
classicGroupJoinToConsumerGroup)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgm.coordinator.consumer import records, target, timers
from kgm.coordinator.consumer.group import ConsumerGroup, Refresh, homogeneous
from kgm.coordinator.consumer.member import AWAY, Assigned, ConsumerMember, MemberState, Target
from kgm.coordinator.consumer.reconciliation import Owned, Reconciliation, UnknownStateError
from kgm.coordinator.consumer.regexes import METADATA_REFRESH_MS
from kgm.coordinator.contract.event_draft import EventDraft
from kgm.model.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Epochs:
    """What a group's epoch is after a change, and whether its members then subscribe to the same topics."""

    group_epoch: int
    is_homogeneous: bool


# -- who it is


def is_full(group: ConsumerGroup, member_id: str, max_size: int) -> bool:
    """Whether a member may not be let in; those that are in stay."""
    return len(group.members) >= max_size and member_id not in group.members


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned) -> ErrorCode:
    """Whether a member may go on from an epoch: from its own; from the one before, when it cannot have got more than it
    has (it lost an answer); and from 0, since it may always begin anew."""
    if epoch in (0, member.member_epoch):
        return ErrorCode.NONE
    if epoch == member.previous_member_epoch and epoch < member.member_epoch and _has_all(member.assigned, owned):
        return ErrorCode.NONE
    return ErrorCode.FENCED_MEMBER_EPOCH


def _has_all(assigned: Assigned, owned: Owned) -> bool:
    return owned is not None and all(
        partition in assigned.get(topic_id, {}) for topic_id, partitions in owned.items() for partition in partitions
    )


def find_dynamic(
    group: ConsumerGroup, member_id: str, epoch: int | None, owned: Owned, *, creates: bool
) -> ConsumerMember | ErrorCode:
    """A dynamic member, a new one if need be. epoch: None from a member that speaks the classic protocol."""
    member = group.members.get(member_id)
    if member is None:
        if not creates:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member = ConsumerMember(member_id)
    return (ErrorCode.NONE if epoch is None else check_epoch(member, epoch, owned)) or member


def find_static(
    group: ConsumerGroup,
    member_id: str,
    epoch: int | None,
    instance_id: str,
    owned: Owned,
    step: EventDraft,
    *,
    creates: bool,
) -> ConsumerMember | ErrorCode:
    """A static member, in the place of the one that has its instance id if that one is away, or one of the two speaks
    the classic protocol."""
    member = group.static_member(instance_id)
    if not creates:
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.member_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        return (ErrorCode.NONE if epoch is None else check_epoch(member, epoch, owned)) or member
    if member is None:
        if group.lost_its_member(instance_id):
            return ErrorCode.UNKNOWN_MEMBER_ID
        return group.members.get(member_id) or ConsumerMember(member_id)
    if epoch is not None and member.classic is None and member.member_epoch != AWAY:
        # Also when the same member joins again because it has not got the answer (apache/kafka#23542).
        return ErrorCode.UNRELEASED_INSTANCE_ID
    new = member._replace(member_id=member_id, member_epoch=0, previous_member_epoch=0)
    for tombstone in records.member_tombstones(group.group_id, member.member_id):
        step.write(tombstone)
    step.write(records.member_record(group.group_id, new))
    step.write(records.target_record(group.group_id, new.member_id, group.listed_target(member.member_id)))
    step.write(records.current_record(group.group_id, new))
    if member.member_id != member_id:
        timers.cancel_all(group.group_id, member.member_id, step)
    return new


# -- what it changes


def write_member(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, step: EventDraft) -> bool:
    """Write what a member says of itself, if it is new; whether it wants other topics by name."""
    if after == before:
        return False
    step.write(records.member_record(group.group_id, after))
    return after.subscribed_topic_names != before.subscribed_topic_names


def update_epoch(
    group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, step: EventDraft, *, bumps: bool
) -> Epochs:
    """A new epoch for the group, if the member's change asks for one, or the topics have changed."""
    if not bumps and not group.metadata_expired(step.now):
        return Epochs(group_epoch=group.group_epoch, is_homogeneous=group.is_homogeneous)
    names, matched, subscribed = group.counts_with(before, after)
    metadata_hash = step.image.hash_of({*names, *matched})
    is_new = after.member_id not in group.members and (
        after.group_instance_id is None or after.group_instance_id not in group.static_ids
    )
    is_homogeneous = homogeneous(names, matched, subscribed, len(group.members) + is_new)
    epoch = group.group_epoch
    if bumps or metadata_hash != group.metadata_hash:
        epoch += 1
        step.write(records.epoch_record(group.group_id, epoch, metadata_hash))
    group.refresh = Refresh(step.now + METADATA_REFRESH_MS, epoch)
    if group.has_partition_metadata:
        step.write(records.partition_metadata_tombstone(group.group_id))
    return Epochs(group_epoch=epoch, is_homogeneous=is_homogeneous)


def reconcile(
    group: ConsumerGroup,
    member: ConsumerMember,
    aim: tuple[int, Target],
    owned: Owned,
    step: EventDraft,
    *,
    subscription_changed: bool,
) -> ConsumerMember | ErrorCode:
    """Bring a member nearer to its target. One of the new protocol that has something to give up gets its rebalance
    timeout for it."""
    target_epoch, wanted = aim
    if not subscription_changed and member.is_reconciled_to(target_epoch):
        return member
    names, by_id = target.subscription(group, member), step.image.by_id
    try:
        after = Reconciliation(
            member=member,
            target_epoch=target_epoch,
            target=wanted,
            is_subscribed=lambda topic_id: topic_id in by_id and by_id[topic_id].name in names,
            owner_epoch=group.owner_epoch,
            owned=owned,
            wants_nothing=not names,
            subscription_changed=subscription_changed,
        ).next()
    except UnknownStateError:
        return ErrorCode.FENCED_MEMBER_EPOCH
    if after != member:
        step.write(records.current_record(group.group_id, after))
        if after.classic is None:
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                timers.start_rebalance(group.group_id, after, step)
            else:
                timers.cancel_rebalance(group.group_id, after.member_id, step)
        elif after.member_epoch != member.member_epoch:
            # One from before it went back to the classic protocol, which would find it in another epoch.
            timers.cancel_rebalance(group.group_id, after.member_id, step)
    return after


def owned_from(rows: Sequence[tuple[bytes, Sequence[int]]] | None) -> Mapping[bytes, Sequence[int]] | None:
    """Owned partitions by topic id; a topic that stands twice is merged."""
    if rows is None:
        return None
    owned: dict[bytes, list[int]] = {}
    for topic_id, partitions in rows:
        owned.setdefault(topic_id, []).extend(partitions)
    return owned
