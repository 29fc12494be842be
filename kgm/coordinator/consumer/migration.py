"""Turns a classic group with members into a consumer group, and back (KIP-848).

Upgrade: on the first ConsumerGroupHeartbeat that joins. The generation becomes every epoch, the leader's assignment
becomes the target and current assignments, and the members continue to use the classic protocol (`classic_protocol`).

Downgrade: when the last member that uses the consumer protocol is removed, or is replaced by a static member that uses
the classic protocol. The target assignment becomes the leader's assignment, and the members must rejoin.

Kafka: convertToConsumerGroup, ConsumerGroup.fromClassicGroup, convertToClassicGroup, ClassicGroup.fromConsumerGroup."""

from collections.abc import Collection, Mapping, Sequence

from kgm.coordinator.classic import rebalance, standby
from kgm.coordinator.classic.records import group_record
from kgm.coordinator.classic.records import tombstone as classic_tombstone
from kgm.coordinator.consumer import records, timers
from kgm.coordinator.contract.behavior import CoordinatorBehavior
from kgm.coordinator.contract.error_responses import Refusal
from kgm.coordinator.contract.outcome import session_key
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.groups.classic_group import ClassicGroup, ClassicMember, OfferedProtocol
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import Assigned, ClassicProtocols, ConsumerMember, ListedTarget
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.java.hash_map import grown_capacity, map_order
from kgm.model.errors import DecodeError, ErrorCode
from kgm.protocol.subscription import (
    MemberAssignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from kgm.records.record import Record

_VERSION_SIZE = 2
# For groups in these states, Kafka fails with an exception.
_SERVER_ERROR = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)


# -- upgrade


def upgrade(group: ClassicGroup, event: EventDraft) -> ConsumerGroup | Refusal:
    """Write the records of the consumer group that a classic group with members becomes. Returns that group, or why
    not.

    Kafka fails if the group has no protocol, because it has never completed a join phase, or if a member that has
    joined since the last one does not offer that protocol."""
    reason = _upgrade_refusal(group, event.settings)
    if reason:
        return _refused(reason)
    draft = event.draft(group)
    answer_parked(draft, event)
    if group.protocol is None and group.members:
        return _SERVER_ERROR
    upgraded = _upgraded_group(group, event.image, event.settings.behavior)
    if isinstance(upgraded, Refusal):
        return upgraded
    group_id, generation = group.group_id, group.generation
    members = upgraded.in_order()
    names = {name for member in members for name in member.subscribed_topic_names}
    has_hash = upgraded.behavior.has_metadata_hash
    epochs = [
        *(() if has_hash else (records.partition_metadata_record(group_id, event.image.described(names)),)),
        records.epoch_record(group_id, generation, event.image.hash_of(names) if has_hash else 0),
        *(records.target_record(group_id, member.member_id, _listed(member.assigned)) for member in members),
        records.target_epoch_record(group_id, generation, 0),
    ]
    for record in epochs:
        records.replay(upgraded, record.key, record.value)
    event.write(classic_tombstone(group_id))
    for record in (
        *(records.member_record(group_id, member) for member in members),
        *epochs,
        *(records.current_record(upgraded, member) for member in members),
    ):
        event.write(record)
    _end(draft, event)
    for member in members:
        timers.extend_session(group_id, member, event)
    return upgraded


def _refused(message: str) -> Refusal:
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _upgrade_refusal(group: ClassicGroup, settings: BrokerSettings) -> str:
    if not settings.may_upgrade:
        return f"Classic group {group.group_id} cannot be upgraded: group.consumer.migration.policy does not allow it."
    if not group.uses_consumer_protocol:
        return f"Classic group {group.group_id} is not a group of consumers."
    if len(group.members) > settings.group_consumer_max_size:
        return f"Classic group {group.group_id} has more members than group.consumer.max.size allows."
    return ""


def _upgraded_group(group: ClassicGroup, image: TopicImage, behavior: CoordinatorBehavior) -> ConsumerGroup | Refusal:
    """The group with its members, added in Kafka's order. (The log has them in the order in which this group iterates
    over them; a group replayed from the log may iterate in another order.)"""
    upgraded_group = ConsumerGroup.new(group.group_id, behavior)
    for member_id in members_in_kafkas_order(group):
        member = group.members[member_id]
        if all(offered.name != group.protocol for offered in member.protocols):
            return _SERVER_ERROR
        try:
            assignment = decode_assignment(member.assignment, is_listed=True)
            subscription = decode_subscription(member.metadata(group.protocol), is_strict=True)
        except DecodeError:
            return _refused(
                f"Classic group {group.group_id} has a member whose subscription or assignment is malformed."
            )
        if assignment.user_data:
            return _refused(f"Classic group {group.group_id} uses a custom assignor, whose user data would be lost.")
        upgraded = _upgraded(member, subscription, assignment, group.generation, image)
        owned = upgraded_group.partition_epochs
        if any(not epochs.keys().isdisjoint(owned.get(t, ())) for t, epochs in upgraded.assigned.items()):
            return _SERVER_ERROR  # a partition is assigned twice
        upgraded_group.put(upgraded)
    return upgraded_group


def _upgraded(
    member: ClassicMember, subscription: Subscription, assignment: MemberAssignment, generation: int, image: TopicImage
) -> ConsumerMember:
    return ConsumerMember(
        member_id=member.member_id,
        member_epoch=generation,
        previous_member_epoch=generation,
        group_instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=frozenset(subscription.topics),
        assigned={
            image.by_name[name].topic_id: dict.fromkeys(partitions, generation)
            for name, partitions in assignment.partitions.items()
            if name in image.by_name
        },
        classic=ClassicProtocols(
            member.session_timeout_ms, tuple((row.name, row.metadata) for row in member.protocols)
        ),
    )


def _listed(assigned: Assigned) -> ListedTarget:
    """The assignment in the order written by the leader, which is the order in which Kafka fills its maps and sets."""
    return {topic_id: tuple(partitions) for topic_id, partitions in assigned.items()}


def answer_parked(draft: ClassicGroup, event: EventDraft) -> None:
    """Answer all parked requests with REBALANCE_IN_PROGRESS, even if the upgrade fails after that, as in Kafka."""
    for member_id in [*draft.soft.parked_joins]:
        rebalance.answer_join(draft, member_id, ErrorCode.REBALANCE_IN_PROGRESS, event, echo=member_id)
    for member_id in [*draft.soft.parked_syncs]:
        rebalance.answer_sync(draft, member_id, ErrorCode.REBALANCE_IN_PROGRESS, event)


def _end(draft: ClassicGroup, event: EventDraft) -> None:
    """The classic group is gone: refuse newcomers that are held back, and make pending ids void."""
    standby.dismiss_all(draft, ErrorCode.REBALANCE_IN_PROGRESS, event)
    event.cancel_timer(rebalance.join_key(draft))
    event.cancel_timer(rebalance.sync_key(draft))
    for member_id in draft.soft.pending_joins:
        event.cancel_timer(session_key(draft.group_id, member_id))


# -- downgrade


def may_downgrade(group: ConsumerGroup, gone: Sequence[ConsumerMember], settings: BrokerSettings) -> bool:
    """Whether the group becomes a classic group when these members are removed."""
    rest = len(group.members) - len(gone)
    return group.only_classic_without(gone) and rest > 0 and settings.may_downgrade and rest <= settings.group_max_size


def may_downgrade_for(group: ConsumerGroup, replaced: ConsumerMember, settings: BrokerSettings) -> bool:
    """Whether the group becomes a classic group when this static member rejoins with the classic protocol."""
    return (
        replaced.classic is None
        and group.only_classic_without([replaced])
        and settings.may_downgrade
        and len(group.members) <= settings.group_max_size
    )


def downgrade(group: ConsumerGroup, gone: Sequence[ConsumerMember], event: EventDraft) -> ErrorCode:
    """Turn the group into a classic group without these members; the others must rejoin. Returns an error, and changes
    nothing, if that is not possible."""
    ids = {member.member_id for member in gone}
    rest = [member for member in group.in_order() if member.member_id not in ids]
    classic = _downgraded_group(group, rest, {}, event)
    if isinstance(classic, ErrorCode):
        return classic
    _replace(group, classic, records.group_tombstones(group), event)
    rebalance.prepare_rebalance(classic, event)
    return ErrorCode.NONE


def downgrade_with(
    group: ConsumerGroup, joining: ConsumerMember, replaced_id: str, event: EventDraft, *, rebalances: bool
) -> ErrorCode:
    """Turn the group into a classic group with a static member that has just replaced the last member that used the
    consumer protocol. Kafka looks the replaced member up by instance id, and fails if that member has joined with
    another instance id since."""
    if group.members[replaced_id].group_instance_id != joining.group_instance_id:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    members = [member for member in group.in_order() if member.member_id != replaced_id]
    classic = _downgraded_group(group, [*members, joining], {joining.member_id: replaced_id}, event)
    if isinstance(classic, ErrorCode):
        return classic
    _replace(group, classic, records.group_tombstones(group, {replaced_id: joining.member_id}), event)
    if rebalances:
        rebalance.prepare_rebalance(classic, event)
    return ErrorCode.NONE


def _downgraded_group(
    group: ConsumerGroup, members: Collection[ConsumerMember], replaced_ids: Mapping[str, str], event: EventDraft
) -> ClassicGroup | ErrorCode:
    """The classic group with these members. replaced_ids: for members that get the target assignment of another member,
    the id of that other member.

    As in Kafka, GROUP_ID_NOT_FOUND if a member's subscription is too short to have a version, and UNKNOWN_SERVER_ERROR
    if a member has no target in versions that assume every member has one."""
    classic = ClassicGroup(
        group_id=group.group_id,
        state=ClassicState.STABLE,
        state_timestamp_ms=event.now,
        protocol_type=group.protocol_type,
        generation=group.group_epoch,
    )
    for member in members:
        classic.add(_downgraded(member), group.protocol_type)
    classic.protocol = classic.select_protocol()
    for member_id, row in classic.members.items():
        if not group.behavior.has_assignment_interval and replaced_ids.get(member_id, member_id) not in group.targets:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        if len(row.metadata(classic.protocol)) < _VERSION_SIZE:
            return ErrorCode.GROUP_ID_NOT_FOUND
    classic.subscribed_topics = classic.read_subscribed_topics()
    for member_id, row in [*classic.members.items()]:
        target = group.listed_target(replaced_ids.get(member_id, member_id))
        classic.members[member_id] = row._replace(
            assignment=as_blob(target, row.metadata(classic.protocol), event.image)
        )
    return classic


def _replace(group: ConsumerGroup, classic: ClassicGroup, tombstones: Sequence[Record], event: EventDraft) -> None:
    """Write the classic group in place of the consumer group, and start the sessions of its members."""
    for tombstone in tombstones:
        event.write(tombstone)
    event.write(group_record(classic, {member_id: row.assignment for member_id, row in classic.members.items()}))
    event.groups[group.group_id] = classic
    for member in group.members.values():
        timers.cancel_all(group.group_id, member.member_id, event)
    for row in classic.members.values():
        rebalance.extend_session(classic, row, event)


def _downgraded(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=tuple(OfferedProtocol(name, metadata) for name, metadata in member.classic.protocols),
    )


def as_blob(target: Mapping[bytes, Collection[int]], subscription: bytes, image: TopicImage) -> bytes:
    """A target assignment, encoded like the assignments from the leader of a classic group, in the version of the
    member's subscription."""
    partitions = {
        image.by_id[topic_id].name: list(those) for topic_id, those in target.items() if topic_id in image.by_id
    }
    version = max(0, min(int.from_bytes(subscription[:_VERSION_SIZE], "big", signed=True), 3))
    return encode_assignment(MemberAssignment(partitions=partitions, version=version))


def members_in_kafkas_order(group: ClassicGroup) -> list[str]:
    """The member ids of a classic group in the order in which Kafka iterates over them."""
    ids = [*group.members]
    return [ids[at] for at in map_order(ids, grown_capacity(group.soft.most_members))]
