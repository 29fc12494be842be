"""The group before the plan: its members as processes, and the records from which the coordinator loads it."""

from collections.abc import Sequence

from kgm.assignors import is_cooperative
from kgm.coordinator.consumer import records
from kgm.coordinator.consumer.regexes import matching
from kgm.coordinator.contract.behavior import REFERENCE_BEHAVIOR, CoordinatorBehavior
from kgm.coordinator.contract.outcome import Millis, session_key
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.consumer_group import ConsumerGroup, ResolvedRegex
from kgm.coordinator.groups.consumer_member import ConsumerMember
from kgm.java.timeline_hash_map import TimelineOrder
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.record import Record
from kgm.simulation.plan.bounce_plan import GroupProtocol
from kgm.simulation.plan.client_library import consumer_of
from kgm.simulation.plan.starting_group import StartingGroup, StartingMember
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.client_profiles import PROFILES
from kgm.simulation.play.consumer_member import ScriptedConsumerMember
from kgm.simulation.play.leader import DrawCache, assignment_user_data
from kgm.simulation.play.scripted_member import ScriptedMember
from kgm.simulation.play.world import World


def scripted_member(world: World, member: StartingMember) -> ScriptedMember:
    """The process of this member, or of one that has not joined yet."""
    kind = ScriptedConsumerMember if world.group.protocol is GroupProtocol.CONSUMER else ScriptedClassicMember
    return kind(world, member, PROFILES[consumer_of(member.library, world.group.assignor)])


def load_group(
    world: World, members: Sequence[ScriptedMember], leader: ScriptedMember, seeds: Sequence[Record]
) -> None:
    """Load the group into the coordinator from these records (`seed_records`), with its members as they are. seeds:
    none if the coordinator has the group already (`Coordinator.adopt`)."""
    for member in members:
        member.be_member()
    if isinstance(leader, ScriptedClassicMember):
        leader.has_led = True
    by_heartbeat = sorted(members, key=lambda member: member.extended_ms)
    world.load(seeds, now=Millis(int(by_heartbeat[0].extended_ms)))
    loaded = world.engine.consumer_group(world.group.group_id)
    if loaded is not None and seeds:
        world.cache.loaded = world.group, loaded.copy()
    by_heartbeat[0].hand_in_first_heartbeat()  # it may begin an epoch
    if not _extend_sessions(world, by_heartbeat[1:]):
        for member in by_heartbeat[1:]:
            member.hand_in_first_heartbeat()


def _extend_sessions(world: World, members: Sequence[ScriptedMember]) -> bool:
    """Hand in the first heartbeats of these members, one after the other, if they only extend sessions; otherwise
    return False."""
    runtime, group_id, epoch = world.runtime, world.group.group_id, world.group.generation
    classic, group = world.engine.classic_group(group_id), world.engine.consumer_group(group_id)
    is_classic_calm = classic is not None and classic.state is ClassicState.STABLE and classic.generation == epoch
    is_consumer_calm = group is not None and not group.regexes and group.group_epoch == group.assignment_epoch == epoch
    is_calm = is_classic_calm or is_consumer_calm
    if not is_calm or any(member.extended_ms >= runtime.quiet_until() for member in members[-1:]):
        return False
    keys = [session_key(group_id, member.member_id) for member in members]
    runtime.suspend_timers(keys)
    first = runtime.reserve_turns(len(keys))
    runtime.resume_timers(
        (key, Millis(int(member.extended_ms) + member.session_timeout_ms), first + number)
        for number, (key, member) in enumerate(zip(keys, members, strict=True))
    )
    world.requests += len(members)
    return True


def seed_records(
    group: StartingGroup,
    leader: StartingMember,
    image: TopicImage,
    since_ms: int,
    behavior: CoordinatorBehavior = REFERENCE_BEHAVIOR,
    cache: DrawCache | None = None,
    *,
    resolved_ms: int = 0,
) -> list[Record]:
    """The records of a Stable group. leader, cache: used for a classic group only. since_ms: when it became stable.
    resolved_ms: when the broker resolved the regular expressions of a consumer group."""
    if group.protocol is GroupProtocol.CONSUMER:
        return _consumer(group, image, since_ms, behavior, resolved_ms)
    cache = DrawCache() if cache is None else cache
    data = assignment_user_data(group.assignor, leader.assigner(group.assignor), is_seen=group.has_user_data)
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=group.generation,
        protocol=group.assignor,
        leader=leader.member_id,
        current_state_timestamp=since_ms,
        members=[_classic_member(group, member, data, cache) for member in group.members],
    )
    return [Record(GroupMetadataKey(group=group.group_id), value)]


def _classic_member(
    group: StartingGroup, member: StartingMember, data: bytes | None, cache: DrawCache
) -> MemberMetadata:
    keeps = is_cooperative(group.assignor) and member.identity not in group.giving_up
    owned = member.owned if keeps else {}
    assigned = member.owned if member.listed is None else member.listed
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=cache.encode_subscription(
            member.topics,
            owned,
            None,
            group.generation - 1,
            member.rack,
            version=member.subscription_version(group.assignor),
        ),
        assignment=cache.encode_assignment(assigned, data),
    )


def _consumer(group: StartingGroup, image: TopicImage, since_ms: int, behavior: CoordinatorBehavior, resolved_ms: int
) -> list[Record]:  # fmt: skip
    """All members are at the epoch of the group and own their target assignment (KIP-848).

    The broker lists members in the order of a hash map, in one bucket the last one first, and assigns partitions in
    that order. So the members are written in reverse, and their topics and partitions in the order listed."""
    group_id, epoch = group.group_id, group.generation
    members, targets = [], []
    for member in reversed(group.members):
        listed = {t: tuple(sorted(p)) for t, p in member.owned.items() if p} if member.listed is None else member.listed
        target = {image.by_name[topic].topic_id: numbers for topic, numbers in listed.items()}
        members.append(
            ConsumerMember(
                member_id=member.member_id,
                member_epoch=epoch,
                previous_member_epoch=epoch,
                group_instance_id=member.group_instance_id,
                rack_id=member.rack,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=frozenset(member.names),
                subscribed_topic_regex=member.regex,
                server_assignor=group.vote_of(member.identity),
                assigned={topic_id: dict.fromkeys(numbers, epoch) for topic_id, numbers in target.items()},
            )
        )
        targets.append(records.target_record(group_id, member.member_id, target))
    resolved = {
        regex: ResolvedRegex(matching(regex, image), image.version, Millis(resolved_ms)) for regex in group.regexes
    }
    subscribed = {topic for member in group.members for topic in member.names}.union(
        *(found.topics for found in resolved.values())
    )
    has_hash = behavior.has_metadata_hash
    empty = ConsumerGroup.new(group_id, behavior)
    return [
        *_past_members(group),
        *(records.member_record(group_id, member) for member in members),
        *(records.regex_record(group_id, regex, resolved[regex]) for regex in sorted(resolved)),
        *(() if has_hash else (records.partition_metadata_record(group_id, image.described(subscribed)),)),
        records.epoch_record(group_id, epoch, image.hash_of(subscribed) if has_hash else 0),
        *targets,
        records.target_epoch_record(group_id, epoch, since_ms),
        *(records.current_record(empty, member) for member in members),
    ]


def _past_members(group: StartingGroup) -> list[Record]:
    """Members that joined and left when the group was larger, if the size of its hash map, which never shrinks, shows
    that it was."""
    order, count = TimelineOrder(), 0
    while order.capacity < (group.listing_capacity or 0):
        order.put(count)
        count += 1
    if count <= len(group.members):
        return []
    group_id, past = group.group_id, [f"gone-before-{number}" for number in range(count)]
    joined = [records.member_record(group_id, ConsumerMember(member_id=member_id)) for member_id in past]
    return joined + [record for member_id in past for record in records.member_tombstones(group_id, member_id)]
