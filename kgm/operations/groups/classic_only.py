"""Consumer groups (KIP-848) in which only members of the classic protocol run, so that nobody gets them an assignment.

Since Kafka 4.3 the coordinator computes a target assignment when it answers a ConsumerGroupHeartbeat or a JoinGroup,
and a Heartbeat of the classic protocol asks its member to rejoin only once there is a newer assignment. So if all that
run use the classic protocol, a new group epoch stays without an assignment until one of them rejoins for another
reason, or another member joins. Up to 4.2, a Heartbeat asks for that as soon as there is a new group epoch
(GroupMetadataManager.classicGroupHeartbeatToConsumerGroup)."""

from __future__ import annotations

from collections.abc import Iterable

from kgm.coordinator.contract.behavior import behavior_of
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot

#: What that means, in words.
NO_NEW_ASSIGNMENT = "heartbeats of the classic protocol get a consumer group no new assignment (Kafka 4.3 and later)"


def run_only_classic(group: GroupSnapshot, members: Iterable[MemberSnapshot]) -> bool:
    """Whether all of these members of the group that are not away use the classic protocol, although it is a consumer
    group. False for brokers before 4.0, which do not report a member's protocol."""
    return group.type == "consumer" and {one.protocol for one in members if one.status != "away"} == {"classic"}


def may_wait_for_a_join(group: GroupSnapshot, members: Iterable[MemberSnapshot]) -> bool:
    """Whether a group with these members may get no new assignment until one joins or rejoins. True also if the
    broker's version is not known."""
    versions = group.kafka_versions or ()
    is_older = bool(versions) and not any(behavior_of(version).has_assignment_interval for version in versions)
    return run_only_classic(group, members) and not is_older
