"""The records by which a group comes into a coordinator as it stood before the plan."""

from kgm.assignors import is_cooperative
from kgm.coordinator.consumer import records
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.groups.consumer_member import ConsumerMember
from kgm.java.timeline_hash_map import TimelineOrder
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.record import Record
from kgm.simulation.plan.bounce_plan import GroupProtocol
from kgm.simulation.plan.starting_group import Origin, Seat
from kgm.simulation.play.client_profiles import Library
from kgm.simulation.play.leader import data_of_leader


def installed(origin: Origin, leader: Seat, image: TopicImage, since_ms: int) -> list[Record]:
    """Of a Stable group. leader: of a classic one. since_ms: since when it is so."""
    if origin.protocol is GroupProtocol.CONSUMER:
        return _consumer(origin, image, since_ms)
    data = data_of_leader(origin.assignor, leader.library or Library.JAVA)
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=origin.generation,
        protocol=origin.assignor,
        leader=leader.member_id,
        current_state_timestamp=since_ms,
        members=[_row(origin, seat, data) for seat in origin.seats],
    )
    return [Record(GroupMetadataKey(group=origin.group_id), value)]


def _row(origin: Origin, seat: Seat, data: bytes | None) -> MemberMetadata:
    owned = seat.owned if is_cooperative(origin.assignor) else {}
    given = seat.owned if seat.listed is None else seat.listed
    said = Subscription(
        topics=seat.topics, owned_partitions=owned, generation_id=origin.generation - 1, rack_id=seat.rack
    )
    return MemberMetadata(
        member_id=seat.member_id,
        group_instance_id=seat.group_instance_id,
        client_id=seat.client_id,
        client_host=seat.client_host,
        rebalance_timeout=origin.rebalance_timeout_ms,
        session_timeout=origin.session_timeout_ms,
        subscription=encode_subscription(said),
        assignment=encode_assignment(MemberAssignment(partitions=given, user_data=data)),
    )


def _consumer(origin: Origin, image: TopicImage, since_ms: int) -> list[Record]:
    """All members at the epoch of the group, with what they are to have (KIP-848).

    The broker lists them by a hash map, in one bucket the last one first, and hands partitions out in that order: so
    they are written in the reverse one, and their topics and partitions as they are listed."""
    group_id, epoch = origin.group_id, origin.generation
    members, targets = [], []
    for seat in reversed(origin.seats):
        listed = {t: tuple(sorted(p)) for t, p in seat.owned.items() if p} if seat.listed is None else seat.listed
        target = {image.by_name[topic].topic_id: numbers for topic, numbers in listed.items()}
        members.append(
            ConsumerMember(
                member_id=seat.member_id,
                member_epoch=epoch,
                previous_member_epoch=epoch,
                group_instance_id=seat.group_instance_id,
                rack_id=seat.rack,
                rebalance_timeout_ms=origin.rebalance_timeout_ms,
                client_id=seat.client_id,
                client_host=seat.client_host,
                subscribed_topic_names=frozenset(seat.topics),
                server_assignor=origin.assignor,
                assigned={topic_id: dict.fromkeys(numbers, epoch) for topic_id, numbers in target.items()},
            )
        )
        targets.append(records.target_record(group_id, seat.member_id, target))
    subscribed = {topic for seat in origin.seats for topic in seat.topics}
    return [
        *_gone_before(origin),
        *(records.member_record(group_id, member) for member in members),
        records.epoch_record(group_id, epoch, image.hash_of(subscribed)),
        *targets,
        records.target_epoch_record(group_id, epoch, since_ms),
        *(records.current_record(group_id, member) for member in members),
    ]


def _gone_before(origin: Origin) -> list[Record]:
    """Members that came and left when the group was larger, if the hash map tells of that: it never shrinks."""
    order, most = TimelineOrder(), 0
    while order.capacity < (origin.listing_capacity or 0):
        order.put(most)
        most += 1
    if most <= len(origin.seats):
        return []
    group_id, gone = origin.group_id, [f"gone-before-{number}" for number in range(most)]
    came = [records.member_record(group_id, ConsumerMember(member_id=member_id)) for member_id in gone]
    return came + [record for member_id in gone for record in records.member_tombstones(group_id, member_id)]
