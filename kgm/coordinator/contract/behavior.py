"""What coordinators of other Kafka versions do differently, as data. The rules themselves are those of Kafka 4.3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Final

from kgm.model.broker_version import REFERENCE, BrokerVersion

_OF: Final = "of"


def _fact(of: Callable[[BrokerVersion], Any]) -> Any:
    """of: what the coordinator of a version does."""
    return field(default=of(REFERENCE), metadata={_OF: of})


def _since(major: int, minor: int) -> Any:
    """True from this release on."""
    return _fact(lambda version: version.release >= (major, minor))


def _until(major: int, minor: int) -> Any:
    """True up to this release."""
    return _fact(lambda version: version.release <= (major, minor))


def _only_scala() -> Any:
    """True of the coordinator in Scala, in all versions."""
    return _fact(lambda version: not version.has_java_coordinator)


def _only_java() -> Any:
    """True of the coordinator in Java, in all versions."""
    return _fact(lambda version: version.has_java_coordinator)


def _steps(first: int, *steps: tuple[tuple[int, int], int]) -> Any:
    """A number that is another one from each of these releases on, oldest first."""
    return _fact(lambda version: [first, *(value for since, value in steps if version.release >= since)][-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorBehavior:
    """Where coordinators differ: each fact with the versions in which it is so, and a docstring that says what it is,
    and what is done otherwise. The defaults are those of `REFERENCE`. Classes in parentheses are Kafka's, in
    `kafka.coordinator.group`, or for consumer groups in `org.apache.kafka.coordinator.group`."""

    is_scala: bool = _only_scala()
    has_streams_groups: bool = _fact(lambda version: (4, 2) <= version.release <= (4, 3))
    """Whether streams groups can be joined (KIP-1071): where their rules were compared with the version's own classes.
    In 4.1 they are a preview, which a broker has to be told to serve (unstable.api.versions.enable): here it is not.
    Those of 4.4 were not compared: they have static members, offsets of tasks, and other standby tasks. Where there are
    no streams groups, it is as if streams.version were 0."""
    forgets_streams_settings: bool = _fact(lambda version: version.release == (4, 2))
    """A streams group that has any config has Kafka's defaults for what its configs do not say, whatever the broker's
    settings are (GroupConfigManager.updateGroupConfig)."""

    # The coordinator in Scala, in all versions

    has_scala_maps: bool = _only_scala()
    """Whether the members are in a hash map of Scala's: the leader is given them, they are described and written in its
    order, and the next leader is the first one in it (GroupMetadata.members, remove, maybeElectNewJoinedLeader). Of
    protocols with equally many votes, the first one in the map that `groupBy` returns is selected (selectProtocol)."""
    describes_unstable_members: bool = _only_java()
    """Whether DescribeGroups tells the assignments of a group that is not Stable (GroupMetadata.summary)."""
    writes_new_groups: bool = _only_java()
    """Whether a group is written when it is created. If not, a group that had no generation is not written when it is
    deleted, either (GroupMetadataManager.addGroup, cleanupGroupMetadata)."""
    removes_members_together: bool = _only_java()
    """Whether the members of one LeaveGroup are removed before the rebalance begins. If not, it begins with the first
    one, and the rest leave a group that is rebalancing; and it does not begin for an id that has not joined yet
    (GroupCoordinator.handleLeaveGroup)."""
    extends_every_initial_delay: bool = _only_java()
    """Whether new members extend the initial delay of any group that was Empty. If not, only in generation 0
    (GroupCoordinator.addMemberAndRebalance)."""
    expiry_ends_initial_delay: bool = _only_java()
    """Whether the initial delay ends when the session of a member ends and all others have joined
    (InitialDelayedJoin.tryComplete)."""
    refusal_may_end_join_phase: bool = _only_scala()
    """Whether the join phase ends with a member that is dropped because the group is too large, if all others have
    joined (GroupCoordinator.handleJoinGroup)."""
    sync_needs_selected_protocol: bool = _only_scala()
    """Whether a SyncGroup that names a protocol is refused as inconsistent while the group has none
    (GroupCoordinator.validateSyncGroup)."""
    late_sync_extends_session: bool = _only_scala()
    """Whether a SyncGroup in Stable extends the session (GroupCoordinator.doSyncGroup)."""
    replaced_members_stay_new: bool = _only_scala()
    """Whether a static member that restarts in its first join phase is still new, so that its session may end while it
    waits (GroupMetadata.replaceStaticMember)."""
    has_group_configs: bool = _only_java()
    """Whether groups have configs, and clients the rights to read and write them (GroupConfig)."""
    commits_name_missing_groups: bool = _only_java()
    """Whether an OffsetCommit of a member of a group that does not exist is refused with GROUP_ID_NOT_FOUND from v9 on,
    rather than with ILLEGAL_GENERATION (GroupCoordinator.handleCommitOffsets)."""
    strips_state_filters: bool = _only_java()
    """Whether spaces around a state that ListGroups asks for are ignored (GroupCoordinator.handleListGroups)."""

    # Its earlier versions

    updates_timeouts: bool = _since(3, 3)
    """Whether a member that joins again changes its timeouts (GroupMetadata.updateMember)."""
    checks_instance_ids: bool = _since(3, 0)
    """Whether an instance id that no member has is refused together with the id of a member
    (GroupCoordinator.validateCurrentMember). JoinGroup always refuses it."""
    has_sync_timer: bool = _since(2, 8)
    """Whether members that send no SyncGroup are removed after the rebalance timeout (DelayedSync)."""
    writes_replaced_members: bool = _since(2, 6)
    """Whether a static member that replaces another one is written, and begins a rebalance in CompletingRebalance. If
    not, it is only answered (GroupCoordinator.updateStaticMemberAndRebalance)."""
    heartbeats_count_in_sync_phase: bool = _since(2, 6)
    """Whether a heartbeat in CompletingRebalance extends the session. If not, it is told to join again
    (GroupCoordinator.handleHeartbeat)."""
    unrequested_operations: int = _steps(0, ((2, 5), -(2**31)))
    """The authorized operations of a group in DescribeGroups if they are not requested."""
    state_filters_ignore_case: bool = _fact(lambda version: version.has_java_coordinator or version.release >= (3, 8))
    """Whether the case of the states that ListGroups asks for is ignored (GroupCoordinator.handleListGroups)."""
    highest_join_version: int = _steps(6, ((2, 5), 7), ((3, 2), 9))
    """Of JoinGroup: from v9 on a restarted static leader may skip the assignment."""

    # The coordinator in Java, by minor version. Each of these is held against Kafka's own classes of these versions
    # (tests/coordinator/lockstep/test_other_versions.py).

    has_compared_consumer_groups: bool = _since(4, 0)
    """Whether the rules of consumer groups were compared with the version's own classes. Those of 3.7 to 3.9 were not:
    they are simulated as those of 4.0."""
    first_epoch: int = _steps(0, ((4, 3), 1))
    """Group and assignment epoch of a consumer or streams group that no member has joined yet; where it is 0, a
    heartbeat at group epoch 0 always makes it 1 in a consumer group (ModernGroup), and 2 in a streams group."""
    has_assignment_interval: bool = _since(4, 3)
    """The next target assignment may wait (KIP-1263: group.consumer.assignment.interval.ms and that of streams groups),
    and members of the classic protocol join again for a new assignment epoch. If not, each new group epoch has its
    target at the next heartbeat, and these members join again for a new group epoch
    (classicGroupHeartbeatToConsumerGroup). So every member is taken to have a target: a group in which one has none,
    because it subscribes to an expression that is not resolved yet, does not turn into a classic one
    (ClassicGroup.fromConsumerGroup)."""
    has_assignment_epochs: bool = _since(4, 3)
    """Records say in which epoch a partition was assigned, and a commit from an earlier epoch is accepted for
    partitions that the member had then (KIP-1251). If not, it must be from the member's epoch."""
    describes_pending_revocation: bool = _since(4, 3)
    """ConsumerGroupDescribe lists the partitions that a member has to revoke as its own. If not, it leaves them out
    (ConsumerGroupMember.asConsumerGroupDescribeMember)."""
    limits_group_configs: bool = _since(4, 3)
    """A group config outside of the range that the broker allows is limited to it. If not, such a config can only be
    from before the range was changed, and counts as it is (GroupConfig)."""
    deletes_offsets_by_topic_id: bool = _since(4, 3)
    """A deleted topic takes the offsets with its id along; if not, those with its name (onTopicsDeleted,
    onPartitionsDeleted)."""
    accepts_every_rejoin: bool = _since(4, 2)
    """A member may always join again with epoch 0. If not, one that is in the group is FENCED_MEMBER_EPOCH, unless it
    has missed only the response to its first heartbeat (throwIfConsumerGroupMemberEpochIsInvalid)."""
    reconciles_with_subscription: bool = _since(4, 2)
    """A member is not assigned topics that it no longer subscribes to, and revokes them at once; if not, when its next
    target says so (KAFKA-19431, CurrentAssignmentBuilder)."""
    frees_own_revocations: bool = _since(4, 2)
    """A partition that a member has to revoke itself is free for it (KAFKA-19449)."""
    increments_epoch_of_revocation: bool = _until(4, 1)
    """A member that has revoked its partitions, and has others to revoke, gets the next epoch
    (CurrentAssignmentBuilder.computeNextAssignment)."""
    rebalances_without_regex: bool = _since(4, 2)
    """A member that gives up its regular expression raises the group epoch; and it gives it up when it joins with the
    classic protocol (maybeUpdateRegularExpressions)."""
    has_metadata_hash: bool = _since(4, 1)
    """A group has a hash of its topics, in the record of its epoch (KIP-1101); if not, a record with the topics
    themselves, ConsumerGroupPartitionMetadata."""
    downgrades_before_target: bool = _since(4, 1)
    """The group becomes a classic group before the target assignment is computed, and rebalances, if a static member
    that joins with the classic protocol replaces the last one of the consumer protocol and changes the group. If not,
    it is computed, and lost with the group, which does not rebalance (classicGroupJoinToConsumerGroup)."""
    refreshes_regexes: bool = _since(4, 1)
    """Regular expressions are resolved again after a time (group.consumer.regex.refresh.interval.ms)."""
    has_topic_ids_of_offsets: bool = _since(4, 1)
    """The record of an offset has the id of its topic (KIP-848, OffsetCommit v10)."""
    rebalances_for_assignor: bool = _since(4, 4)
    """A member whose choice changes the server assignor of the group raises the group epoch
    (hasPreferredServerAssignorChanged)."""
    counts_static_members_once: bool = _since(4, 4)
    """A static member may join a full group in its own place (throwIfConsumerGroupIsFull)."""
    bars_classic_members: bool = _since(4, 4)
    """No member may join a consumer group with the classic protocol if the migration policy is `disabled`
    (throwIfClassicMemberCannotJoinConsumerGroup)."""
    refuses_malformed_subscriptions: bool = _since(4, 4)
    """A JoinGroup for a consumer group whose subscription cannot be read is INCONSISTENT_GROUP_PROTOCOL; if not, it is
    UNKNOWN_SERVER_ERROR (deserializeSubscription)."""
    has_target_when_empty: bool = _since(4, 4)
    """The assignment epoch follows the group epoch when the last member goes (consumerGroupFenceMembers)."""
    keeps_target_of_replaced_member: bool = _since(4, 4)
    """No record of the target is written for a member that gets the target of the static member that it replaces; if
    not, there is a second one (UpdatedMembersAndTargetAssignmentView)."""
    has_topic_ids_in_transactions: bool = _since(4, 4)
    """The record of an offset in a transaction has the id of its topic, too (TxnOffsetCommit v6)."""
    forgets_former_instance_ids: bool = _since(4, 4)
    """A member that joins again with another group instance id gives up the former one (updateStaticMember)."""


@cache
def behavior_of(version: BrokerVersion) -> CoordinatorBehavior:
    """How the coordinator of that version behaves."""
    return CoordinatorBehavior(**{each.name: each.metadata[_OF](version) for each in fields(CoordinatorBehavior)})


REFERENCE_BEHAVIOR = behavior_of(REFERENCE)
