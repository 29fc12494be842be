"""What coordinators of other Kafka versions do differently, as data. The rules themselves follow Kafka 4.3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Final

from kgm.model.broker_version import REFERENCE, BrokerVersion

_OF: Final = "of"


def _fact(of: Callable[[BrokerVersion], Any]) -> Any:
    """of: returns what the coordinator of a given version does."""
    return field(default=of(REFERENCE), metadata={_OF: of})


def _since(major: int, minor: int) -> Any:
    """True from this release on."""
    return _fact(lambda version: version.release >= (major, minor))


def _until(major: int, minor: int) -> Any:
    """True up to this release."""
    return _fact(lambda version: version.release <= (major, minor))


def _only_scala() -> Any:
    """True for the Scala coordinator, in all versions."""
    return _fact(lambda version: not version.has_java_coordinator)


def _only_java() -> Any:
    """True for the Java coordinator, in all versions."""
    return _fact(lambda version: version.has_java_coordinator)


def _steps(first: int, *steps: tuple[tuple[int, int], int]) -> Any:
    """A number that changes with each of these releases, oldest first."""
    return _fact(lambda version: [first, *(value for since, value in steps if version.release >= since)][-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorBehavior:
    """Where coordinators differ: each fact with the versions in which it holds, and a docstring that says what it
    means, and what other versions do instead. The defaults are for `REFERENCE`. Classes in parentheses are Kafka's, in
    `kafka.coordinator.group`, or for consumer groups in `org.apache.kafka.coordinator.group`."""

    is_scala: bool = _only_scala()
    has_streams_groups: bool = _fact(lambda version: (4, 2) <= version.release <= (4, 3))
    """Whether streams groups can be joined (KIP-1071): true where their rules were compared with the version's own
    classes. In 4.1 they are a preview, which a broker serves only if unstable.api.versions.enable is set: here it is
    not. 4.4 was not compared: its streams groups have static members, task offsets, and different standby tasks. Where
    there are no streams groups, the coordinator acts as if streams.version were 0."""
    forgets_streams_settings: bool = _fact(lambda version: version.release == (4, 2))
    """A streams group that has any config uses Kafka's defaults for those it does not set, regardless of the broker's
    settings (GroupConfigManager.updateGroupConfig)."""

    # The Scala coordinator, in all versions

    has_scala_maps: bool = _only_scala()
    """Whether the members are kept in a Scala hash map: the leader's member list, descriptions and records follow its
    order, and the next leader is the first member in it (GroupMetadata.members, remove, maybeElectNewJoinedLeader). If
    protocols are tied for the most votes, the first one in the map that `groupBy` returns is selected
    (selectProtocol)."""
    describes_unstable_members: bool = _only_java()
    """Whether DescribeGroups shows the assignments of a group that is not Stable (GroupMetadata.summary)."""
    writes_new_groups: bool = _only_java()
    """Whether a group is written when it is created. If not, the deletion of a group that never had a generation is not
    written either (GroupMetadataManager.addGroup, cleanupGroupMetadata)."""
    removes_members_together: bool = _only_java()
    """Whether all members in a LeaveGroup are removed before the rebalance begins. If not, it begins with the first
    one, and the rest leave a group that is already rebalancing; and an id that has not joined yet does not start one
    (GroupCoordinator.handleLeaveGroup)."""
    extends_every_initial_delay: bool = _only_java()
    """Whether new members extend the initial delay of every group that was Empty. If not, they do so only in generation
    0 (GroupCoordinator.addMemberAndRebalance)."""
    expiry_ends_initial_delay: bool = _only_java()
    """Whether the initial delay ends when a member's session ends and all others have joined
    (InitialDelayedJoin.tryComplete)."""
    refusal_may_end_join_phase: bool = _only_scala()
    """Whether the join phase ends when a member is dropped because the group is too large, if all others have joined
    (GroupCoordinator.handleJoinGroup)."""
    sync_needs_selected_protocol: bool = _only_scala()
    """Whether a SyncGroup that names a protocol is refused as inconsistent while the group has none
    (GroupCoordinator.validateSyncGroup)."""
    late_sync_extends_session: bool = _only_scala()
    """Whether a SyncGroup in Stable extends the session (GroupCoordinator.doSyncGroup)."""
    replaced_members_stay_new: bool = _only_scala()
    """Whether a static member that restarts in its first join phase is still new, so that its session can end while it
    waits (GroupMetadata.replaceStaticMember)."""
    has_group_configs: bool = _only_java()
    """Whether groups have configs, and clients have the rights to read and write them (GroupConfig)."""
    commits_name_missing_groups: bool = _only_java()
    """Whether an OffsetCommit from a member of a group that does not exist is refused with GROUP_ID_NOT_FOUND from v9
    on, rather than with ILLEGAL_GENERATION (GroupCoordinator.handleCommitOffsets)."""
    strips_state_filters: bool = _only_java()
    """Whether ListGroups ignores spaces around the states in its filter (GroupCoordinator.handleListGroups)."""

    # The Scala coordinator, earlier versions

    updates_timeouts: bool = _since(3, 3)
    """Whether a member that rejoins can change its timeouts (GroupMetadata.updateMember)."""
    checks_instance_ids: bool = _since(3, 0)
    """Whether a request is refused if it names a member id along with an instance id that no member has
    (GroupCoordinator.validateCurrentMember). JoinGroup is always refused then."""
    has_sync_timer: bool = _since(2, 8)
    """Whether members that send no SyncGroup are removed after the rebalance timeout (DelayedSync)."""
    writes_replaced_members: bool = _since(2, 6)
    """Whether a static member that replaces another one is written, and starts a rebalance in CompletingRebalance. If
    not, it only gets a reply (GroupCoordinator.updateStaticMemberAndRebalance)."""
    heartbeats_count_in_sync_phase: bool = _since(2, 6)
    """Whether a heartbeat in CompletingRebalance extends the session. If not, the member is asked to rejoin
    (GroupCoordinator.handleHeartbeat)."""
    unrequested_operations: int = _steps(0, ((2, 5), -(2**31)))
    """The authorized operations of a group in DescribeGroups if they are not requested."""
    state_filters_ignore_case: bool = _fact(lambda version: version.has_java_coordinator or version.release >= (3, 8))
    """Whether ListGroups ignores the case of the states in its filter (GroupCoordinator.handleListGroups)."""
    highest_join_version: int = _steps(6, ((2, 5), 7), ((3, 2), 9))
    """The highest version of JoinGroup: from v9 on a restarted static leader can skip the assignment."""

    # The Java coordinator, by minor version. Each of these is compared with Kafka's own classes of these versions
    # (tests/coordinator/lockstep/test_other_versions.py).

    has_compared_consumer_groups: bool = _since(4, 0)
    """Whether the rules of consumer groups were compared with the version's own classes. 3.7 to 3.9 were not compared:
    their consumer groups are simulated as in 4.0."""
    removes_consumer_members: bool = _since(4, 0)
    """Whether a LeaveGroup removes members of consumer groups; earlier versions answer UNKNOWN_MEMBER_ID
    (KAFKA-18188)."""
    first_epoch: int = _steps(0, ((4, 3), 1))
    """Group and assignment epoch of a consumer or streams group that no member has joined yet. Where it is 0, a
    heartbeat at group epoch 0 always raises the epoch to 1 in a consumer group (ModernGroup), and to 2 in a streams
    group."""
    has_assignment_interval: bool = _since(4, 3)
    """The next target assignment can wait (KIP-1263: group.consumer.assignment.interval.ms and its counterpart for
    streams groups), and members that use the classic protocol rejoin for a new assignment epoch. If not, each new group
    epoch gets its target at the next heartbeat, and these members rejoin for a new group epoch
    (classicGroupHeartbeatToConsumerGroup). So every member is assumed to have a target: a group cannot become a classic
    group while a member has none because its regular expression is not resolved yet
    (ClassicGroup.fromConsumerGroup)."""
    has_assignment_epochs: bool = _since(4, 3)
    """Records say in which epoch a partition was assigned, and a commit from an earlier epoch is accepted for
    partitions that the member already had then (KIP-1251). If not, it must be from the member's epoch."""
    describes_pending_revocation: bool = _since(4, 3)
    """ConsumerGroupDescribe lists the partitions that a member must revoke as still assigned to it. If not, it leaves
    them out (ConsumerGroupMember.asConsumerGroupDescribeMember)."""
    limits_group_configs: bool = _since(4, 3)
    """A group config outside the range that the broker allows is limited to the range. If not, such a config can only
    be from before the range was changed, and is used as it is (GroupConfig)."""
    deletes_offsets_by_topic_id: bool = _since(4, 3)
    """Deleting a topic also deletes the offsets with its id; if not, the offsets with its name (onTopicsDeleted,
    onPartitionsDeleted)."""
    accepts_every_rejoin: bool = _since(4, 2)
    """A member can always rejoin with epoch 0. If not, a member that is still in the group gets FENCED_MEMBER_EPOCH,
    unless it has only missed the response to its first heartbeat (throwIfConsumerGroupMemberEpochIsInvalid)."""
    reconciles_with_subscription: bool = _since(4, 2)
    """A member is not assigned topics that it no longer subscribes to, and revokes them immediately; if not, it revokes
    them when its next target says so (KAFKA-19431, CurrentAssignmentBuilder)."""
    frees_own_revocations: bool = _since(4, 2)
    """A partition that a member must revoke counts as free for that member itself (KAFKA-19449)."""
    increments_epoch_of_revocation: bool = _until(4, 1)
    """A member that has revoked its partitions, and now has others to revoke, gets the next epoch
    (CurrentAssignmentBuilder.computeNextAssignment)."""
    rebalances_without_regex: bool = _since(4, 2)
    """A member that drops its regular expression raises the group epoch; joining with the classic protocol also drops
    it (maybeUpdateRegularExpressions)."""
    has_metadata_hash: bool = _since(4, 1)
    """The epoch record of a group has a hash of its topics (KIP-1101); if not, there is a record with the topics
    themselves, ConsumerGroupPartitionMetadata."""
    downgrades_before_target: bool = _since(4, 1)
    """If a static member that joins with the classic protocol replaces the last member that uses the consumer protocol,
    and changes the group, the group becomes a classic group before the target assignment is computed, and rebalances.
    If not, the target is computed, and lost with the group, which does not rebalance
    (classicGroupJoinToConsumerGroup)."""
    refreshes_regexes: bool = _since(4, 1)
    """Regular expressions are resolved again at an interval (group.consumer.regex.refresh.interval.ms)."""
    has_topic_ids_of_offsets: bool = _since(4, 1)
    """The record of an offset has the id of its topic (KIP-848, OffsetCommit v10)."""
    rebalances_for_assignor: bool = _since(4, 4)
    """A member raises the group epoch if its choice changes the group's server assignor
    (hasPreferredServerAssignorChanged)."""
    counts_static_members_once: bool = _since(4, 4)
    """A static member can rejoin a full group in its own place (throwIfConsumerGroupIsFull)."""
    bars_classic_members: bool = _since(4, 4)
    """No member can join a consumer group with the classic protocol if the migration policy is `disabled`
    (throwIfClassicMemberCannotJoinConsumerGroup)."""
    refuses_malformed_subscriptions: bool = _since(4, 4)
    """A JoinGroup for a consumer group is refused with INCONSISTENT_GROUP_PROTOCOL if its subscription cannot be read;
    if not, with UNKNOWN_SERVER_ERROR (deserializeSubscription)."""
    has_target_when_empty: bool = _since(4, 4)
    """The assignment epoch follows the group epoch when the last member is removed (consumerGroupFenceMembers)."""
    keeps_target_of_replaced_member: bool = _since(4, 4)
    """No second target record is written for a member that keeps the target of the static member it replaces; if not,
    there is one (UpdatedMembersAndTargetAssignmentView)."""
    has_topic_ids_in_transactions: bool = _since(4, 4)
    """The record of an offset in a transaction also has the id of its topic (TxnOffsetCommit v6)."""
    forgets_former_instance_ids: bool = _since(4, 4)
    """A member that rejoins with another group instance id gives up the previous one (updateStaticMember)."""


@cache
def behavior_of(version: BrokerVersion) -> CoordinatorBehavior:
    """How the coordinator of that version behaves."""
    return CoordinatorBehavior(**{each.name: each.metadata[_OF](version) for each in fields(CoordinatorBehavior)})


REFERENCE_BEHAVIOR = behavior_of(REFERENCE)
