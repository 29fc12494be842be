"""Timers for the members of a consumer group.

Every member has a session. A member must revoke partitions within its rebalance timeout; with the classic protocol, it
must rejoin within that time, and then has the same time to send SyncGroup."""

from kgm.coordinator.contract.outcome import TimerKey, TimerKind, session_key
from kgm.coordinator.contract.settings import session_timeout_ms
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import ConsumerMember
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.streams_member import StreamsMember
from kgm.records.member_states import MemberState

#: The timers of one member.
MEMBER_TIMERS = (TimerKind.SESSION, TimerKind.REBALANCE, TimerKind.MEMBER_JOIN, TimerKind.MEMBER_SYNC)


def extend_session(group_id: str, member: ConsumerMember, event: EventDraft) -> None:
    """Restart the member's session, with the broker's session timeout, or with the member's own if it uses the classic
    protocol."""
    timeout_ms = (
        session_timeout_ms(event.settings, event.configs.get(group_id))
        if member.classic is None
        else member.classic.session_timeout_ms
    )
    event.set_timer(TimerKey(TimerKind.SESSION, group_id, member.member_id), timeout_ms)


def start_rebalance(group_id: str, member: ConsumerMember | StreamsMember, event: EventDraft) -> None:
    event.set_timer(TimerKey(TimerKind.REBALANCE, group_id, member.member_id), member.rebalance_timeout_ms)


def cancel_rebalance(group_id: str, member_id: str, event: EventDraft) -> None:
    event.cancel_timer(TimerKey(TimerKind.REBALANCE, group_id, member_id))


def await_join(group_id: str, member: ConsumerMember, event: EventDraft) -> None:
    """A member that uses the classic protocol was asked to rejoin. Its timeout counts from the first time it was
    asked."""
    key = TimerKey(TimerKind.MEMBER_JOIN, group_id, member.member_id)
    if key not in event.live_timers:
        event.set_timer(key, member.rebalance_timeout_ms)


def joined(group_id: str, member_id: str, rebalance_timeout_ms: int, event: EventDraft) -> None:
    """A member that uses the classic protocol has joined, and should send SyncGroup next."""
    event.cancel_timer(TimerKey(TimerKind.MEMBER_JOIN, group_id, member_id))
    event.set_timer(TimerKey(TimerKind.MEMBER_SYNC, group_id, member_id), rebalance_timeout_ms)


def synced(group_id: str, member_id: str, event: EventDraft) -> None:
    event.cancel_timer(TimerKey(TimerKind.MEMBER_SYNC, group_id, member_id))


def cancel_all(group_id: str, member_id: str, event: EventDraft) -> None:
    """Cancel all timers of a removed member."""
    for kind in MEMBER_TIMERS:
        event.cancel_timer(TimerKey(kind, group_id, member_id))


def arm(group: ConsumerGroup, event: EventDraft) -> None:
    """After loading: start the session of every member, with the broker's session timeout, and the rebalance timeout of
    members that have partitions to revoke."""
    timeout_ms = session_timeout_ms(event.settings, event.configs.get(group.group_id))
    for member in group.members.values():
        event.set_timer(session_key(group.group_id, member.member_id), timeout_ms)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            start_rebalance(group.group_id, member, event)
