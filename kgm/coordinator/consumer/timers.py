"""The timers of a consumer group's members.

Every member has a session. One that has partitions to give up has its rebalance timeout for it; a member that speaks
the classic protocol has it for joining again and for its SyncGroup."""

from kgm.coordinator.consumer.group import ConsumerGroup
from kgm.coordinator.consumer.member import ConsumerMember, MemberState
from kgm.coordinator.contract.event_draft import EventDraft
from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.coordinator.contract.settings import session_timeout_ms

_OF_MEMBERS = (TimerKind.SESSION, TimerKind.REBALANCE, TimerKind.MEMBER_JOIN, TimerKind.MEMBER_SYNC)


def extend_session(group_id: str, member: ConsumerMember, step: EventDraft) -> None:
    """Count the member's session from now on: the broker's, or its own if it speaks the classic protocol."""
    timeout_ms = (
        session_timeout_ms(step.settings, step.configs.get(group_id))
        if member.classic is None
        else member.classic.session_timeout_ms
    )
    step.set_timer(TimerKey(TimerKind.SESSION, group_id, member.member_id), timeout_ms)


def start_rebalance(group_id: str, member: ConsumerMember, step: EventDraft) -> None:
    step.set_timer(TimerKey(TimerKind.REBALANCE, group_id, member.member_id), member.rebalance_timeout_ms)


def cancel_rebalance(group_id: str, member_id: str, step: EventDraft) -> None:
    step.cancel_timer(TimerKey(TimerKind.REBALANCE, group_id, member_id))


def await_join(group_id: str, member: ConsumerMember, step: EventDraft) -> None:
    """A classic member has been told to join again; if it was told before, it counts from then."""
    key = TimerKey(TimerKind.MEMBER_JOIN, group_id, member.member_id)
    if key not in step.live:
        step.set_timer(key, member.rebalance_timeout_ms)


def joined(group_id: str, member_id: str, rebalance_timeout_ms: int, step: EventDraft) -> None:
    """A classic member has joined, and is to send SyncGroup."""
    step.cancel_timer(TimerKey(TimerKind.MEMBER_JOIN, group_id, member_id))
    step.set_timer(TimerKey(TimerKind.MEMBER_SYNC, group_id, member_id), rebalance_timeout_ms)


def synced(group_id: str, member_id: str, step: EventDraft) -> None:
    step.cancel_timer(TimerKey(TimerKind.MEMBER_SYNC, group_id, member_id))


def cancel_all(group_id: str, member_id: str, step: EventDraft) -> None:
    """The member is gone."""
    for kind in _OF_MEMBERS:
        step.cancel_timer(TimerKey(kind, group_id, member_id))


def arm(group: ConsumerGroup, step: EventDraft) -> None:
    """After loading: a whole session for everybody, of the broker's length, and the rebalance timeout for those that
    have something to give up."""
    timeout_ms = session_timeout_ms(step.settings, step.configs.get(group.group_id))
    for member in group.members.values():
        step.set_timer(TimerKey(TimerKind.SESSION, group.group_id, member.member_id), timeout_ms)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            start_rebalance(group.group_id, member, step)
