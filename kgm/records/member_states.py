"""The numbers of member states in the log: one list for consumer and share groups, and another for streams groups
(Kafka: the MemberState of the packages `modern` and `streams`)."""

import enum


class MemberState(enum.IntEnum):
    """How far the reconciliation of a member of a consumer group with its target assignment has progressed; the value
    is the number in the log. Share groups use the same numbers."""

    STABLE = 0
    """The member has nothing to revoke and nothing to wait for."""
    UNREVOKED_PARTITIONS = 1
    """The member must revoke partitions before it advances to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """The member has advanced to the next epoch, but other members have not released all of its partitions."""
    UNKNOWN = 127
    """A state from a later version of Kafka."""


class TaskState(enum.IntEnum):
    """How far the reconciliation of a member of a streams group with its target assignment has progressed; the value is
    the number in the log."""

    STABLE = 1
    """The member has nothing to revoke and nothing to wait for."""
    UNREVOKED_TASKS = 2
    """The member must revoke tasks before it advances to the next epoch."""
    UNRELEASED_TASKS = 3
    """The member has advanced to the next epoch, but other members have not released all of its tasks."""
    UNKNOWN = 127
    """A state from a later version of Kafka."""


def member_state(number: int) -> MemberState:
    return MemberState(number) if number in _MEMBER_STATES else MemberState.UNKNOWN


def task_state(number: int) -> TaskState:
    return TaskState(number) if number in _TASK_STATES else TaskState.UNKNOWN


_MEMBER_STATES = frozenset(state.value for state in MemberState)
_TASK_STATES = frozenset(state.value for state in TaskState)
