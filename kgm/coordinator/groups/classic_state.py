"""The states of a classic group, what each request does in them, and the legal transitions (Kafka: ClassicGroupState).

        +-----------------> Dead <-- from every state: the shard was unloaded
        |
      Empty --> PreparingRebalance --> CompletingRebalance --> Stable
        ^              |  ^  ^                  |                |
        +--------------+  |  +------------------+                |
                          +--------------------------------------+

A group is Empty exactly while it has no members (pending ids, that is, ids that were given out but have not joined, are
not members). A JoinGroup is parked only in PreparingRebalance, a SyncGroup only in CompletingRebalance. The generation
increases by one when the group leaves PreparingRebalance, and at no other time.

In every state but Dead, a request that names its member is checked first: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, and
then ILLEGAL_GENERATION (`ClassicGroup.check_member`). The states describe what a request does if it passes.
`tests/coordinator/classic/test_states.py` tests this.
"""

import enum


class ClassicState(enum.StrEnum):
    """A state; the value is the name displayed by Kafka."""

    EMPTY = "Empty"
    """There are no members. The group may have offsets and pending ids.

    - JoinGroup: from v4 on, a dynamic newcomer is given an id with MEMBER_ID_REQUIRED. A newcomer is added, and
      PreparingRebalance starts with the initial delay, if it joins with such an id, is static, or uses a version before
      v4. Any other member id is UNKNOWN_MEMBER_ID.
    - SyncGroup, Heartbeat: UNKNOWN_MEMBER_ID.
    - LeaveGroup: removes a pending id; anything else is UNKNOWN_MEMBER_ID.
    - OffsetCommit, TxnOffsetCommit: accepted without a generation, from any client; otherwise UNKNOWN_MEMBER_ID.
    - OffsetFetch: answered. OffsetDelete: deletes. DeleteGroups: deletes the group and its offsets.
    - ConsumerGroupHeartbeat that joins: a consumer group replaces this one.
    - Alarms: session removes a pending id. Offsets expire, counted from when the group became Empty, and the group is
      deleted with the last one."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """The join phase: the group waits for its members to join.

    - JoinGroup: parked. A newcomer is added (or given an id) as in Empty, a member is updated, and a restarted static
      member takes the place of its old id. The phase ends immediately when every member has joined and no pending id is
      left; the first join phase of a group lasts until the initial delay ends. If `group.max.size` members are already
      waiting, the member is removed with GROUP_MAX_SIZE_REACHED.
    - SyncGroup: REBALANCE_IN_PROGRESS.
    - Heartbeat: REBALANCE_IN_PROGRESS; extends the session.
    - LeaveGroup: removes the member, whose parked JoinGroup is answered with UNKNOWN_MEMBER_ID; the phase may end.
    - OffsetCommit: accepted; extends the session. TxnOffsetCommit: accepted.
    - OffsetFetch: answered. OffsetDelete: deletes the offsets of topics that no member subscribes to. DeleteGroups:
      NON_EMPTY_GROUP.
    - ConsumerGroupHeartbeat that joins: the group becomes a consumer group, if the migration policy allows it; parked
      JoinGroups are answered with REBALANCE_IN_PROGRESS.
    - Alarms: session removes the member, unless it is waiting and not new; the phase may end. Join extends the initial
      delay or ends the phase: dynamic members that have not joined are removed; if no member has joined, the phase goes
      on.
    - Next: CompletingRebalance with members, Empty without. Either way the generation increases by one."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """The sync phase: the members know the generation, and wait for the leader's assignment.

    - JoinGroup: a member with unchanged protocols gets this generation's reply again. A newcomer, a changed member, or
      a restarted static member starts a rebalance. A newcomer to a full group: GROUP_MAX_SIZE_REACHED.
    - SyncGroup: parked. The leader's SyncGroup writes the group, answers all parked SyncGroups, and makes the group
      Stable.
    - Heartbeat: NONE; extends the session.
    - LeaveGroup: removes the members, and starts one rebalance for all of them.
    - OffsetCommit: REBALANCE_IN_PROGRESS. TxnOffsetCommit: accepted.
    - OffsetFetch, OffsetDelete, DeleteGroups: as in PreparingRebalance.
    - ConsumerGroupHeartbeat that joins: as in PreparingRebalance, with parked SyncGroups.
    - Alarms: session removes the member and starts a rebalance, unless the member is waiting. Sync removes every
      member, static or not, that has not sent SyncGroup, and starts a rebalance.
    - A rebalance that starts here answers parked SyncGroups with REBALANCE_IN_PROGRESS, and drops all assignments."""

    STABLE = "Stable"
    """Every member has an assignment.

    - JoinGroup: a follower with unchanged protocols gets this generation's reply again. The leader, a changed member,
      or a newcomer starts a rebalance. A restarted static member takes the place of its old id without a rebalance if
      the selected protocol stays the same, and the group is written. A newcomer to a full group:
      GROUP_MAX_SIZE_REACHED. If a scale-out is planned, a newcomer may be held back (`classic.standby`).
    - SyncGroup: answered with the assignment.
    - Heartbeat: NONE; extends the session.
    - LeaveGroup: as in CompletingRebalance; a spare may take a member's place without a rebalance (`classic.standby`).
    - OffsetCommit: accepted; extends the session. TxnOffsetCommit: accepted.
    - OffsetFetch, OffsetDelete, DeleteGroups: as in PreparingRebalance. DescribeGroups: shows protocol and metadata,
      which it does in no other state.
    - ConsumerGroupHeartbeat that joins: the group becomes a consumer group, if the migration policy allows it.
    - Alarms: session removes the member and starts a rebalance. Sync: as in CompletingRebalance, as long as a member
      has not sent SyncGroup. Offsets of topics that no member subscribes to expire, counted from their commit."""

    DEAD = "Dead"
    """The shard was unloaded, and parked requests were answered with NOT_COORDINATOR.

    - JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, TxnOffsetCommit: COORDINATOR_NOT_AVAILABLE.
    - OffsetFetch: no offsets. OffsetDelete, DeleteGroups: GROUP_ID_NOT_FOUND."""


#: The states from which each state may be entered.
VALID_PREVIOUS_STATES: dict[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.STABLE: frozenset({ClassicState.COMPLETING_REBALANCE}),
    ClassicState.DEAD: frozenset(ClassicState),
}


def can_move(before: ClassicState, after: ClassicState) -> bool:
    """Whether a group can move from one state to the other."""
    return before in VALID_PREVIOUS_STATES[after]
