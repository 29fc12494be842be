"""What coordinators of other Kafka versions do differently, as data. The rules themselves are those of Kafka 4.3.

Up to 3.9 the coordinator is the one in Scala (`kafka.coordinator.group`), unless 3.7 to 3.9 were told to use the new
one; from 4.0 on there is only the one in Java (`org.apache.kafka.coordinator.group`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kgm.model.errors import UsageError

#: 3.7 to 3.9 have both coordinators.
LAST_WITH_SCALA = (3, 9)
FIRST_WITH_JAVA = (3, 7)


class BrokerVersion(NamedTuple):
    """A minor version of Kafka, and which of its coordinators it runs."""

    major: int
    minor: int
    has_java_coordinator: bool

    @classmethod
    def parse(cls, text: str) -> BrokerVersion:
        """`3.9`, `3.9.1` (the last number does not matter), or `3.9+new` for a 3.7 to 3.9 with the new coordinator.

        Raises UsageError."""
        number, _, variant = text.partition("+")
        parts = number.split(".")
        if not (2 <= len(parts) <= 3 and all(part.isascii() and part.isdigit() for part in parts)):
            raise UsageError(f"not a version of Kafka: {text!r}", facts=("expected: 2.8, 3.9, 3.9+new, 4.3",))
        release = int(parts[0]), int(parts[1])
        if variant and (variant != "new" or not FIRST_WITH_JAVA <= release <= LAST_WITH_SCALA):
            raise UsageError(
                f"not a version of Kafka: {text!r}", facts=("only 3.7, 3.8 and 3.9 can run the new coordinator: +new",)
            )
        if not OLDEST.release <= release <= NEWEST.release:
            raise UsageError(
                f"Kafka {text} is not known to kgm", facts=(f"known: {OLDEST} to {NEWEST}",),
            )  # fmt: skip
        return cls(*release, has_java_coordinator=release > LAST_WITH_SCALA or variant == "new")

    @classmethod
    def of_level(cls, level: int) -> BrokerVersion:
        """The version of a `level`."""
        return cls(level // 1000, level % 1000 // 10, has_java_coordinator=bool(level % 10))

    @property
    def level(self) -> int:
        """As a number: `kgm serve` reports the version that it plays as the level of a feature."""
        return self.major * 1000 + self.minor * 10 + self.has_java_coordinator

    @property
    def release(self) -> tuple[int, int]:
        return self.major, self.minor

    def __str__(self) -> str:
        is_variant = self.has_java_coordinator and self.release <= LAST_WITH_SCALA
        return f"{self.major}.{self.minor}{'+new' if is_variant else ''}"


OLDEST = BrokerVersion(2, 4, has_java_coordinator=False)
NEWEST = BrokerVersion(4, 4, has_java_coordinator=True)
#: The version whose rules are the engine's own, and what is assumed of a broker that nothing is known about.
REFERENCE = BrokerVersion(4, 3, has_java_coordinator=True)


#: The feature by which `kgm serve` reports the version that it plays.
PLAYED_VERSION_FEATURE = "kgm.kafka.version"


def releases_in_words(versions: Sequence[BrokerVersion]) -> str:
    """`3.9`, or `3.0 to 3.2` of a broker that may have any of them."""
    oldest, newest = min(versions), max(versions)
    first = f"{oldest.major}.{oldest.minor}"
    return first if oldest.release == newest.release else f"{first} to {newest.major}.{newest.minor}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorBehavior:
    """Where coordinators differ. The defaults are those of `REFERENCE`. Classes in parentheses are Kafka's, in
    `kafka.coordinator.group`, or for consumer groups in `org.apache.kafka.coordinator.group`."""

    is_scala: bool = False

    # The coordinator in Scala, in all versions

    has_scala_maps: bool = False
    """Whether the members are in a hash map of Scala's: the leader is given them, they are described and written in its
    order, and the next leader is the first one in it (GroupMetadata.members, remove, maybeElectNewJoinedLeader). Of
    protocols with equally many votes, the first one in the map that `groupBy` returns is selected (selectProtocol)."""
    describes_unstable_members: bool = True
    """Whether DescribeGroups tells the assignments of a group that is not Stable (GroupMetadata.summary)."""
    writes_new_groups: bool = True
    """Whether a group is written when it is created. If not, a group that had no generation is not written when it is
    deleted, either (GroupMetadataManager.addGroup, cleanupGroupMetadata)."""
    removes_members_together: bool = True
    """Whether the members of one LeaveGroup are removed before the rebalance begins. If not, it begins with the first
    one, and the rest leave a group that is rebalancing; and it does not begin for an id that has not joined yet
    (GroupCoordinator.handleLeaveGroup)."""
    extends_every_initial_delay: bool = True
    """Whether new members extend the initial delay of any group that was Empty. If not, only in generation 0
    (GroupCoordinator.addMemberAndRebalance)."""
    expiry_ends_initial_delay: bool = True
    """Whether the initial delay ends when the session of a member ends and all others have joined
    (InitialDelayedJoin.tryComplete)."""
    refusal_may_end_join_phase: bool = False
    """Whether the join phase ends with a member that is dropped because the group is too large, if all others have
    joined (GroupCoordinator.handleJoinGroup)."""
    sync_needs_selected_protocol: bool = False
    """Whether a SyncGroup that names a protocol is refused as inconsistent while the group has none
    (GroupCoordinator.validateSyncGroup)."""

    late_sync_extends_session: bool = False
    """Whether a SyncGroup in Stable extends the session (GroupCoordinator.doSyncGroup)."""
    replaced_members_stay_new: bool = False
    """Whether a static member that restarts in its first join phase is still new, so that its session may end while it
    waits (GroupMetadata.replaceStaticMember)."""

    has_group_configs: bool = True
    """Whether groups have configs, and clients the rights to read and write them (GroupConfig)."""
    commits_name_missing_groups: bool = True
    """Whether an OffsetCommit of a member of a group that does not exist is refused with GROUP_ID_NOT_FOUND from v9 on,
    rather than with ILLEGAL_GENERATION (GroupCoordinator.handleCommitOffsets)."""
    strips_state_filters: bool = True
    """Whether spaces around a state that ListGroups asks for are ignored (GroupCoordinator.handleListGroups)."""

    # Its earlier versions

    updates_timeouts: bool = True
    """Whether a member that joins again changes its timeouts, since 3.3 (GroupMetadata.updateMember)."""
    checks_instance_ids: bool = True
    """Whether an instance id that no member has is refused together with the id of a member, since 3.0
    (GroupCoordinator.validateCurrentMember). JoinGroup always refuses it."""
    has_sync_timer: bool = True
    """Whether members that send no SyncGroup are removed after the rebalance timeout, since 2.8 (DelayedSync)."""
    writes_replaced_members: bool = True
    """Whether a static member that replaces another one is written, and begins a rebalance in CompletingRebalance,
    since 2.6. Before, it is only answered (GroupCoordinator.updateStaticMemberAndRebalance)."""
    heartbeats_count_in_sync_phase: bool = True
    """Whether a heartbeat in CompletingRebalance extends the session, since 2.6; before, it is told to join again
    (GroupCoordinator.handleHeartbeat)."""
    unrequested_operations: int = -(2**31)
    """The authorized operations of a group in DescribeGroups if they are not requested: 0 in 2.4."""
    state_filters_ignore_case: bool = True
    """Whether the case of the states that ListGroups asks for is ignored, since 3.8
    (GroupCoordinator.handleListGroups)."""
    highest_join_version: int = 9
    """Of JoinGroup: a restarted static leader may skip the assignment since 3.2."""

    # The coordinator in Java, by minor version: `_UNTIL` and `_SINCE`. Each of these is held against Kafka's own
    # classes of these versions (tests/coordinator/lockstep/test_other_versions.py).

    has_compared_consumer_groups: bool = True
    """Whether the rules of consumer groups were compared with the version's own classes. Those of 3.7 to 3.9 were not:
    they are simulated as those of 4.0."""
    first_epoch: int = 1
    """Group and assignment epoch of a consumer group that no member has joined yet; 0 up to 4.2, where a heartbeat at
    group epoch 0 always makes it 1 (ModernGroup)."""
    has_assignment_interval: bool = True
    """Since 4.3 the next target assignment may wait (KIP-1263: group.consumer.assignment.interval.ms), and members of
    the classic protocol join again for a new assignment epoch. Up to 4.2 each new group epoch has its target at the
    next heartbeat, and these members join again for a new group epoch (classicGroupHeartbeatToConsumerGroup). So
    every member is taken to have a target: a group in which one has none, because it subscribes to an expression that
    is not resolved yet, does not turn into a classic one (ClassicGroup.fromConsumerGroup)."""
    has_assignment_epochs: bool = True
    """Since 4.3 records say in which epoch a partition was assigned, and a commit from an earlier epoch is accepted for
    partitions that the member had then (KIP-1251). Up to 4.2 it must be from the member's epoch."""
    describes_pending_revocation: bool = True
    """Since 4.3 ConsumerGroupDescribe lists the partitions that a member has to revoke as its own; up to 4.2 it leaves
    them out (ConsumerGroupMember.asConsumerGroupDescribeMember)."""
    limits_group_configs: bool = True
    """Since 4.3 a group config outside of the range that the broker allows is limited to it. Up to 4.2 such a config
    can only be from before the range was changed, and counts as it is (GroupConfig)."""
    deletes_offsets_by_topic_id: bool = True
    """Since 4.3 a deleted topic takes the offsets with its id along; up to 4.2 those with its name (onTopicsDeleted,
    onPartitionsDeleted)."""
    accepts_every_rejoin: bool = True
    """Since 4.2 a member may always join again with epoch 0. Up to 4.1 one that is in the group is FENCED_MEMBER_EPOCH,
    unless it has missed only the response to its first heartbeat (throwIfConsumerGroupMemberEpochIsInvalid)."""
    reconciles_with_subscription: bool = True
    """Since 4.2 a member is not assigned topics that it no longer subscribes to, and revokes them at once; up to 4.1
    when its next target says so (KAFKA-19431, CurrentAssignmentBuilder)."""
    frees_own_revocations: bool = True
    """Since 4.2 a partition that a member has to revoke itself is free for it (KAFKA-19449)."""
    increments_epoch_of_revocation: bool = False
    """Up to 4.1 a member that has revoked its partitions, and has others to revoke, gets the next epoch
    (CurrentAssignmentBuilder.computeNextAssignment)."""
    rebalances_without_regex: bool = True
    """Since 4.2 a member that gives up its regular expression raises the group epoch; and it gives it up when it joins
    with the classic protocol (maybeUpdateRegularExpressions)."""
    has_metadata_hash: bool = True
    """Since 4.1 a group has a hash of its topics, in the record of its epoch (KIP-1101); in 4.0 a record with the
    topics themselves, ConsumerGroupPartitionMetadata."""
    downgrades_before_target: bool = True
    """Since 4.1 the group becomes a classic group before the target assignment is computed, and rebalances, if a static
    member that joins with the classic protocol replaces the last one of the consumer protocol and changes the group. In
    4.0 it is computed, and lost with the group, which does not rebalance (classicGroupJoinToConsumerGroup)."""
    refreshes_regexes: bool = True
    """Since 4.1 regular expressions are resolved again after a time (group.consumer.regex.refresh.interval.ms)."""
    has_topic_ids_of_offsets: bool = True
    """Since 4.1 the record of an offset has the id of its topic (KIP-848, OffsetCommit v10)."""
    rebalances_for_assignor: bool = False
    """Since 4.4 a member whose choice changes the server assignor of the group raises the group epoch
    (hasPreferredServerAssignorChanged)."""
    counts_static_members_once: bool = False
    """Since 4.4 a static member may join a full group in its own place (throwIfConsumerGroupIsFull)."""
    bars_classic_members: bool = False
    """Since 4.4 no member may join a consumer group with the classic protocol if the migration policy is `disabled`
    (throwIfClassicMemberCannotJoinConsumerGroup)."""
    refuses_malformed_subscriptions: bool = False
    """Since 4.4 a JoinGroup for a consumer group whose subscription cannot be read is INCONSISTENT_GROUP_PROTOCOL;
    up to 4.3 it is UNKNOWN_SERVER_ERROR (deserializeSubscription)."""
    has_target_when_empty: bool = False
    """Since 4.4 the assignment epoch follows the group epoch when the last member goes (consumerGroupFenceMembers)."""
    keeps_target_of_replaced_member: bool = False
    """Since 4.4 no record of the target is written for a member that gets the target of the static member that it
    replaces; up to 4.3 there is a second one (UpdatedMembersAndTargetAssignmentView)."""
    has_topic_ids_in_transactions: bool = False
    """Since 4.4 the record of an offset in a transaction has the id of its topic, too (TxnOffsetCommit v6)."""
    forgets_former_instance_ids: bool = False
    """Since 4.4 a member that joins again with another group instance id gives up the former one
    (updateStaticMember)."""


_UNTIL: tuple[tuple[tuple[int, int], dict[str, Any]], ...] = (
    (LAST_WITH_SCALA, {"has_compared_consumer_groups": False}),
    (
        (4, 2),
        {
            "first_epoch": 0, "has_assignment_interval": False, "has_assignment_epochs": False,
            "describes_pending_revocation": False, "limits_group_configs": False, "deletes_offsets_by_topic_id": False,
        },
    ),
    (
        (4, 1),
        {
            "accepts_every_rejoin": False, "reconciles_with_subscription": False, "frees_own_revocations": False,
            "increments_epoch_of_revocation": True, "rebalances_without_regex": False,
        },
    ),
    (
        (4, 0),
        {
            "has_metadata_hash": False, "downgrades_before_target": False, "refreshes_regexes": False,
            "has_topic_ids_of_offsets": False,
        },
    ),
)  # fmt: skip
_SINCE: tuple[tuple[tuple[int, int], dict[str, Any]], ...] = (
    (
        (4, 4),
        {
            "rebalances_for_assignor": True, "counts_static_members_once": True, "bars_classic_members": True,
            "refuses_malformed_subscriptions": True, "has_target_when_empty": True,
            "keeps_target_of_replaced_member": True, "has_topic_ids_in_transactions": True,
            "forgets_former_instance_ids": True,
        },
    ),
)  # fmt: skip


_behaviors: dict[BrokerVersion, CoordinatorBehavior] = {}


def behavior_of(version: BrokerVersion) -> CoordinatorBehavior:
    """How the coordinator of that version behaves."""
    known = _behaviors.get(version)
    if known is None:
        known = _behaviors[version] = _behavior(version)
    return known


def _behavior(version: BrokerVersion) -> CoordinatorBehavior:
    if not version.has_java_coordinator:
        return _scala_behavior(version.release)
    changed: dict[str, Any] = {}
    for last, fields in _UNTIL:
        if version.release <= last:
            changed |= fields
    for first, fields in _SINCE:
        if version.release >= first:
            changed |= fields
    return CoordinatorBehavior(**changed)


def _scala_behavior(release: tuple[int, int]) -> CoordinatorBehavior:
    return CoordinatorBehavior(
        is_scala=True,
        has_scala_maps=True,
        describes_unstable_members=False,
        writes_new_groups=False,
        removes_members_together=False,
        extends_every_initial_delay=False,
        expiry_ends_initial_delay=False,
        refusal_may_end_join_phase=True,
        sync_needs_selected_protocol=True,
        late_sync_extends_session=True,
        replaced_members_stay_new=True,
        has_group_configs=False,
        commits_name_missing_groups=False,
        strips_state_filters=False,
        updates_timeouts=release >= (3, 3),
        checks_instance_ids=release >= (3, 0),
        has_sync_timer=release >= (2, 8),
        writes_replaced_members=release >= (2, 6),
        heartbeats_count_in_sync_phase=release >= (2, 6),
        unrequested_operations=-(2**31) if release > (2, 4) else 0,
        state_filters_ignore_case=release >= (3, 8),
        highest_join_version=9 if release >= (3, 2) else 7 if release >= (2, 5) else 6,
    )


REFERENCE_BEHAVIOR = behavior_of(REFERENCE)
