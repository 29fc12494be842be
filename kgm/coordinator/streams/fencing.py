"""Removes members from a streams group: they leave, or one of their timers fires (Kafka: streamsGroupFenceMember). Also
handles the group's timers."""

from kgm.coordinator.consumer import timers
from kgm.coordinator.contract.outcome import TimerKey, TimerKind, session_key
from kgm.coordinator.contract.settings import streams_setting
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.groups.streams_member import StreamsMember
from kgm.coordinator.streams import records, target
from kgm.records.member_states import TaskState


def extend_session(group_id: str, member_id: str, event: EventDraft) -> None:
    """Restart the member's session."""
    timeout_ms = streams_setting("session_timeout_ms", event.settings, event.configs.get(group_id))
    event.set_timer(session_key(group_id, member_id), timeout_ms)


def fence(group: StreamsGroup, member: StreamsMember, event: EventDraft) -> None:
    """Remove a member, which costs one epoch."""
    for tombstone in records.member_tombstones(group.group_id, member.member_id):
        event.write(tombstone)
    timers.cancel_all(group.group_id, member.member_id, event)
    event.write(
        records.epoch_record(
            group.group_id, group.group_epoch + 1, group.metadata_hash, group.validated_epoch, group.configs
        )
    )


def initial_delay_key(group_id: str) -> TimerKey:
    """The timer that holds back the first target assignment of a group, so that its members can join together."""
    return TimerKey(TimerKind.INITIAL_DELAY, group_id)


def expired(group: StreamsGroup, key: TimerKey, event: EventDraft) -> None:
    """A timer has fired: a member's session, a member's time to revoke tasks, or the initial delay."""
    if key.kind is not TimerKind.INITIAL_DELAY:
        fence(group, group.members[key.member_id], event)
        return
    is_behind = group.members and group.group_epoch > group.assignment_epoch
    if is_behind and group.configured is not None and target.is_due(group, event):
        target.write(group, group.group_epoch, None, group.configured, group.configs, event)


def arm(group: StreamsGroup, event: EventDraft) -> None:
    """After loading: start the session of every member, and the rebalance timeout of members that have tasks to
    revoke."""
    for member in group.members.values():
        extend_session(group.group_id, member.member_id, event)
        if member.state is TaskState.UNREVOKED_TASKS:
            timers.start_rebalance(group.group_id, member, event)
