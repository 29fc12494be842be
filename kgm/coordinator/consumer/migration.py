"""A classic group that becomes a consumer group, and back, while its members live (KIP-848).

Up: the first ConsumerGroupHeartbeat that joins. The generation becomes every epoch, what the leader assigned becomes
target and current assignment, and the members go on speaking the classic protocol (`classic_members`).
Down: the last member of the new protocol goes, or a static one comes back with the classic protocol. The target
becomes what a leader had assigned, and the members have to join again.
Kafka: convertToConsumerGroup, ConsumerGroup.fromClassicGroup, convertToClassicGroup, ClassicGroup.fromConsumerGroup."""

from collections.abc import Collection, Mapping, Sequence

from kgm.coordinator.classic import rebalance as rounds
from kgm.coordinator.classic import standby
from kgm.coordinator.classic.group import ClassicGroup, ClassicMember, Protocol
from kgm.coordinator.classic.records import group_record
from kgm.coordinator.classic.records import tombstone as classic_tombstone
from kgm.coordinator.classic.state import ClassicState
from kgm.coordinator.consumer import records, timers
from kgm.coordinator.consumer.group import ConsumerGroup
from kgm.coordinator.consumer.member import Assigned, ClassicProtocols, ConsumerMember, Listed
from kgm.coordinator.contract.event_draft import EventDraft
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.java.hash_map import grown_capacity, map_order
from kgm.model.errors import DecodeError, ErrorCode
from kgm.protocol.subscription import (
    MemberAssignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)

_VERSION_SIZE = 2

# -- up


def upgrade(group: ClassicGroup, step: EventDraft) -> ConsumerGroup | str:
    """The consumer group that a classic group with members becomes, with the records that make it so; or why not, ""
    if Kafka breaks over it: a group that has never ended a join phase has no protocol, and somebody who has come since
    the last one need not have that."""
    why = _upgrade_refusal(group, step.settings)
    if why:
        return why
    draft = step.draft(group)
    send_away(draft, step)
    if group.protocol is None and group.members:
        return ""
    upgraded = _upgraded_group(group, step.image)
    if isinstance(upgraded, str):
        return upgraded
    group_id, generation = group.group_id, group.generation
    members = upgraded.in_order()
    names = {name for member in members for name in member.subscribed_topic_names}
    epochs = [
        records.epoch_record(group_id, generation, step.image.hash_of(names)),
        *(records.target_record(group_id, member.member_id, _as_listed(member.assigned)) for member in members),
        records.target_epoch_record(group_id, generation, 0),
    ]
    for record in epochs:
        records.replay(upgraded, record.key, record.value)
    step.write(classic_tombstone(group_id))
    for record in (
        *(records.member_record(group_id, member) for member in members),
        *epochs,
        *(records.current_record(group_id, member) for member in members),
    ):
        step.write(record)
    _end(draft, step)
    for member in members:
        timers.extend_session(group_id, member, step)
    return upgraded


def _upgrade_refusal(group: ClassicGroup, settings: BrokerSettings) -> str:
    if not settings.may_upgrade:
        return f"Classic group {group.group_id} may not be upgraded: group.consumer.migration.policy."
    if not group.uses_consumer_protocol:
        return f"Classic group {group.group_id} is not a group of consumers."
    if len(group.members) > settings.group_consumer_max_size:
        return f"Classic group {group.group_id} has more members than a consumer group may have."
    return ""


def _upgraded_group(group: ClassicGroup, image: TopicImage) -> ConsumerGroup | str:
    """The members, put in Kafka's order of them; or why they cannot be taken over. (The log has them in the order in
    which this group goes through them, so that the one that is replayed from it may go through them in another.)"""
    found = ConsumerGroup(group_id=group.group_id)
    for member_id in kafkas_order(group):
        member = group.members[member_id]
        if all(offered.name != group.protocol for offered in member.protocols):
            return ""
        try:
            assignment = decode_assignment(member.assignment, is_listed=True)
            subscription = decode_subscription(member.metadata(group.protocol))
        except DecodeError:
            return f"Classic group {group.group_id} has a member whose subscription or assignment is malformed."
        if assignment.user_data:
            return f"Classic group {group.group_id} uses an assignor of its own, whose user data would be lost."
        upgraded = _upgraded(member, subscription, assignment, group.generation, image)
        if any(not held.keys().isdisjoint(found.partition_epochs.get(t, ())) for t, held in upgraded.assigned.items()):
            return ""  # assigned twice
        found.put(upgraded)
    return found


def _upgraded(
    member: ClassicMember, said: Subscription, given: MemberAssignment, generation: int, image: TopicImage
) -> ConsumerMember:
    return ConsumerMember(
        member_id=member.member_id,
        member_epoch=generation,
        previous_member_epoch=generation,
        group_instance_id=member.group_instance_id,
        rack_id=said.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=frozenset(said.topics),
        assigned={
            image.by_name[name].topic_id: dict.fromkeys(partitions, generation)
            for name, partitions in given.partitions.items()
            if name in image.by_name
        },
        classic=ClassicProtocols(
            member.session_timeout_ms, tuple((row.name, row.metadata) for row in member.protocols)
        ),
    )


def _as_listed(assigned: Assigned) -> Listed:
    """As the leader has written it, which is the order in which maps and sets of it are filled."""
    return {topic_id: tuple(partitions) for topic_id, partitions in assigned.items()}


def send_away(draft: ClassicGroup, step: EventDraft) -> None:
    """Whoever waits is to join again, even if nothing comes of the upgrade, as in Kafka."""
    for member_id in [*draft.parked_joins]:
        rounds.answer_join(draft, step, member_id, ErrorCode.REBALANCE_IN_PROGRESS, echo=member_id)
    for member_id in [*draft.parked_syncs]:
        rounds.answer_sync(draft, step, member_id, ErrorCode.REBALANCE_IN_PROGRESS)


def _end(draft: ClassicGroup, step: EventDraft) -> None:
    """The classic group is no more: nobody is held back for it, and pending ids are void."""
    standby.dismiss_all(draft, step, ErrorCode.REBALANCE_IN_PROGRESS)
    step.cancel_timer(rounds.join_key(draft))
    step.cancel_timer(rounds.sync_key(draft))
    for member_id in draft.pending_joins:
        step.cancel_timer(rounds.session_key(draft, member_id))


# -- down


def may_downgrade(group: ConsumerGroup, gone: Sequence[ConsumerMember], settings: BrokerSettings) -> bool:
    """Whether the group becomes a classic one when these go."""
    left = len(group.members) - len(gone)
    return group.only_classic_without(gone) and left > 0 and settings.may_downgrade and left <= settings.group_max_size


def may_downgrade_for(group: ConsumerGroup, replaced: ConsumerMember, settings: BrokerSettings) -> bool:
    """Whether the group becomes a classic one when this static member comes back with the classic protocol."""
    return (
        replaced.classic is None
        and group.only_classic_without([replaced])
        and settings.may_downgrade
        and len(group.members) <= settings.group_max_size
    )


def downgrade(group: ConsumerGroup, gone: Sequence[ConsumerMember], step: EventDraft) -> ErrorCode:
    """The group becomes a classic one without these members, and its members have to join again."""
    for tombstone in records.group_tombstones(group):
        step.write(tombstone)
    ids = {member.member_id for member in gone}
    left = [member for member in group.in_order() if member.member_id not in ids]
    return _convert(group, left, {}, step, rebalances=True)


def downgrade_with(
    group: ConsumerGroup, joining: ConsumerMember, replaced_id: str, step: EventDraft, *, rebalances: bool
) -> ErrorCode:
    """Likewise with a static member that has just taken the place of the last one that spoke the new protocol. Kafka
    goes by the instance id, and breaks where that member has joined under another one since."""
    if group.members[replaced_id].group_instance_id != joining.group_instance_id:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    for tombstone in records.group_tombstones(group, {replaced_id: joining.member_id}):
        step.write(tombstone)
    members = [member for member in group.in_order() if member.member_id != replaced_id]
    return _convert(group, [*members, joining], {joining.member_id: replaced_id}, step, rebalances=rebalances)


def _convert(
    group: ConsumerGroup,
    members: Collection[ConsumerMember],
    seats: Mapping[str, str],
    step: EventDraft,
    *,
    rebalances: bool,
) -> ErrorCode:
    """seats: whose target a member gets that is not in its own place.

    GROUP_ID_NOT_FOUND, which is what Kafka says, if a member's subscription is so short that it has no version."""
    classic = ClassicGroup(
        group_id=group.group_id,
        state=ClassicState.STABLE,
        previous_state=ClassicState.DEAD,
        state_timestamp_ms=step.now,
        protocol_type=group.protocol_type,
        generation=group.group_epoch,
    )
    for member in members:
        classic.add(_downgraded(member), group.protocol_type)
    classic.protocol = classic.select_protocol()
    if any(len(row.metadata(classic.protocol)) < _VERSION_SIZE for row in classic.members.values()):
        return ErrorCode.GROUP_ID_NOT_FOUND
    classic.subscribed_topics = classic.read_subscribed_topics()
    for member_id, row in [*classic.members.items()]:
        target = group.listed_target(seats.get(member_id, member_id))
        classic.members[member_id] = row._replace(
            assignment=as_blob(target, row.metadata(classic.protocol), step.image)
        )
    step.write(group_record(classic, {member_id: row.assignment for member_id, row in classic.members.items()}))
    step.groups[group.group_id] = classic
    for member in group.members.values():
        timers.cancel_all(group.group_id, member.member_id, step)
    for row in classic.members.values():
        rounds.extend_session(classic, step, row)
    if rebalances:
        rounds.prepare_rebalance(classic, step)
    return ErrorCode.NONE


def _downgraded(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=tuple(Protocol(name, metadata) for name, metadata in member.classic.protocols),
    )


def as_blob(target: Mapping[bytes, Collection[int]], subscription: bytes, image: TopicImage) -> bytes:
    """A target as the leader of a classic group would write it, in the version of the member's subscription."""
    partitions = {
        image.by_id[topic_id].name: list(those) for topic_id, those in target.items() if topic_id in image.by_id
    }
    version = max(0, min(int.from_bytes(subscription[:_VERSION_SIZE], "big", signed=True), 3))
    return encode_assignment(MemberAssignment(partitions=partitions, version=version))


def kafkas_order(group: ClassicGroup) -> list[str]:
    """The member ids of a classic group as Kafka goes through them."""
    ids = [*group.members]
    return [ids[at] for at in map_order(ids, grown_capacity(group.most_members))]
