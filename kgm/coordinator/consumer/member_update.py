"""The steps that ConsumerGroupHeartbeat and JoinGroup share in a consumer group.

In order: find or create the member, write its metadata, increment the group epoch if necessary, compute a new target
assignment if one is due (`target`), and reconcile the member with its target (Kafka:
GroupMetadataManager.consumerGroupHeartbeat and classicGroupJoinToConsumerGroup)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgm.coordinator.consumer import epochs, records, target, timers
from kgm.coordinator.consumer.reconciliation import Owned, Reconciliation, UnknownStateError
from kgm.coordinator.consumer.regexes import METADATA_REFRESH_MS
from kgm.coordinator.groups.consumer_group import ConsumerGroup, MetadataRefresh, homogeneous
from kgm.coordinator.groups.consumer_member import AWAY, Assigned, ConsumerMember, Target
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.model.errors import ErrorCode
from kgm.records.member_states import MemberState


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochUpdate:
    """The group epoch after a member has changed, and whether all members then subscribe to the same topics."""

    group_epoch: int
    is_homogeneous: bool


# -- the member


def is_full(group: ConsumerGroup, member_id: str, instance_id: str | None, max_size: int) -> bool:
    """Whether the group is full for this member. Existing members always have room."""
    if group.behavior.counts_static_members_once and instance_id in group.static_ids:
        return False
    return len(group.members) >= max_size and member_id not in group.members


def check_epoch(group: ConsumerGroup, member: ConsumerMember, epoch: int, owned: Owned) -> ErrorCode:
    """Whether a member may continue from an epoch (FENCED_MEMBER_EPOCH if not): its own; its previous one, if it owns
    no more than it was assigned (it missed a response); or 0, if members can always rejoin (`accepts_every_rejoin`)."""
    if epoch == member.member_epoch or (epoch == 0 and group.behavior.accepts_every_rejoin):
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
    """A dynamic member; a new one if `creates`. epoch: None from a member that uses the classic protocol."""
    member = group.members.get(member_id)
    if member is None:
        if not creates:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member = ConsumerMember(member_id)
    return (ErrorCode.NONE if epoch is None else check_epoch(group, member, epoch, owned)) or member


def find_static(
    group: ConsumerGroup,
    member_id: str,
    epoch: int | None,
    instance_id: str,
    owned: Owned,
    event: EventDraft,
    *,
    creates: bool,
) -> ConsumerMember | ErrorCode:
    """A static member; a new one if `creates`. A new one takes the place of the member with its instance id if that
    member is away, or if one of the two uses the classic protocol."""
    member = group.static_member(instance_id)
    if not creates:
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.member_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        return (ErrorCode.NONE if epoch is None else check_epoch(group, member, epoch, owned)) or member
    if member is None:
        if group.lost_its_member(instance_id):
            return ErrorCode.UNKNOWN_MEMBER_ID
        return group.members.get(member_id) or ConsumerMember(member_id)
    if epoch is not None and member.classic is None and member.member_epoch != AWAY:
        # This also hits a member that rejoins because it missed the response (apache/kafka#23542).
        return ErrorCode.UNRELEASED_INSTANCE_ID
    new = member._replace(member_id=member_id, member_epoch=0, previous_member_epoch=0)
    for tombstone in records.member_tombstones(group.group_id, member.member_id):
        event.write(tombstone)
    event.write(records.member_record(group.group_id, new))
    event.write(records.target_record(group.group_id, new.member_id, group.listed_target(member.member_id)))
    event.write(records.current_record(group, new))
    if member.member_id != member_id:
        timers.cancel_all(group.group_id, member.member_id, event)
    return new


# -- what the request changes


def write_member(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, event: EventDraft) -> bool:
    """Write a member's metadata if it has changed. Returns whether the topics that it names have changed."""
    if after is before or after == before:
        return False
    event.write(records.member_record(group.group_id, after))
    return after.subscribed_topic_names != before.subscribed_topic_names


def update_epoch(
    group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, event: EventDraft, *, bumps: bool
) -> EpochUpdate:
    """Increment the group epoch if the change of the member requires it (`bumps`), or if the topics have changed."""
    if not bumps and not group.metadata_expired(event.now):
        return EpochUpdate(group_epoch=group.group_epoch, is_homogeneous=group.is_homogeneous)
    names, matched, subscribed = group.counts_with(before, after)
    is_new = after.member_id not in group.members and (
        after.group_instance_id is None or after.group_instance_id not in group.static_ids
    )
    is_homogeneous = homogeneous(names, matched, subscribed, len(group.members) + is_new)
    epoch = epochs.write_if_changed(group, {*names, *matched}, event, bumps=bumps)
    group.refresh = MetadataRefresh(event.now + METADATA_REFRESH_MS, epoch)
    if group.has_partition_metadata and group.behavior.has_metadata_hash:
        event.write(records.partition_metadata_tombstone(group.group_id))
    return EpochUpdate(group_epoch=epoch, is_homogeneous=is_homogeneous)


def reconcile(
    group: ConsumerGroup,
    member: ConsumerMember,
    aim: tuple[int, Target],
    owned: Owned,
    event: EventDraft,
    *,
    subscription_changed: bool,
) -> ConsumerMember | ErrorCode:
    """Take the next step of a member's reconciliation. A member that uses the consumer protocol must revoke partitions
    within its rebalance timeout. aim: the target epoch and the target assignment."""
    target_epoch, wanted = aim
    behavior = group.behavior
    subscription_changed &= behavior.reconciles_with_subscription
    if not subscription_changed and member.is_reconciled_to(target_epoch):
        return member
    names, by_id = target.subscription(group, member), event.image.by_id
    try:
        after = Reconciliation(
            member=member,
            target_epoch=target_epoch,
            target=wanted,
            is_subscribed=lambda topic_id: (
                not behavior.reconciles_with_subscription or (topic_id in by_id and by_id[topic_id].name in names)
            ),
            owner_epoch=group.owner_epoch,
            owned=owned,
            subscribes_to_nothing=not names,
            subscription_changed=subscription_changed,
            behavior=behavior,
        ).next()
    except UnknownStateError:
        return ErrorCode.FENCED_MEMBER_EPOCH
    if after is not member and after != member:
        event.write(records.current_record(group, after))
        if after.classic is None:
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                timers.start_rebalance(group.group_id, after, event)
            else:
                timers.cancel_rebalance(group.group_id, after.member_id, event)
        elif after.member_epoch != member.member_epoch:
            # A timer from before the member changed to the classic protocol.
            timers.cancel_rebalance(group.group_id, after.member_id, event)
    return after


def owned_from(rows: Sequence[tuple[bytes, Sequence[int]]] | None) -> Mapping[bytes, Sequence[int]] | None:
    """Owned partitions by topic id. A topic that occurs twice is merged."""
    if rows is None:
        return None
    owned: dict[bytes, list[int]] = {}
    for topic_id, partitions in rows:
        owned.setdefault(topic_id, []).extend(partitions)
    return owned
