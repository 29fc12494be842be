"""States of a classic group and the legal moves between them (Kafka: ClassicGroupState).

        +-----------------> Dead <-- from every state: the shard was unloaded
        |
      Empty --> PreparingRebalance --> CompletingRebalance --> Stable
        ^              |  ^  ^                  |                |
        +--------------+  |  +------------------+                |
                          +--------------------------------------+

Rules: a group is Empty exactly while it has no members (pending ids are no members). JoinGroup is parked in
PreparingRebalance only, SyncGroup in CompletingRebalance only. The generation grows by one when PreparingRebalance is
left, and at no other time.
"""

import enum


class ClassicState(enum.StrEnum):
    """A state; the value is the name that Kafka shows."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


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
    """Whether a group may go from one state to the other."""
    return before in VALID_PREVIOUS_STATES[after]
