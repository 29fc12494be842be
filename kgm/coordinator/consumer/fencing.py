"""Members that go from a consumer group: they leave, are removed, or their time is up.

All that go at once cost one epoch. When the last member that speaks the new protocol goes, and others stay, the group
becomes a classic one, if the policy says so (Kafka: consumerGroupFenceMembers)."""

from collections import Counter
from collections.abc import Iterable

from kgm.coordinator.consumer import migration, records, timers
from kgm.coordinator.consumer.group import ConsumerGroup, counted
from kgm.coordinator.consumer.member import ConsumerMember
from kgm.coordinator.contract.event_draft import EventDraft
from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.model.errors import ErrorCode


def fence(group: ConsumerGroup, members: Iterable[ConsumerMember], step: EventDraft) -> ErrorCode:
    """Take members out of the group. Without any, nothing happens. An error if the group then cannot become the classic
    one that it is to become: they stay."""
    gone = list({member.member_id: member for member in members}.values())
    if not gone:
        return ErrorCode.NONE
    if migration.may_downgrade(group, gone, step.settings):
        error = migration.downgrade(group, gone, step)
        if error is not ErrorCode.NONE:
            step.records.clear()
        return error
    for member in gone:
        for tombstone in records.member_tombstones(group.group_id, member.member_id):
            step.write(tombstone)
        timers.cancel_all(group.group_id, member.member_id, step)
    names, matched = group.names, group.matched
    for member in gone:
        if member.subscribed_topic_names:
            names = counted(names, member.subscribed_topic_names, -1)
    for regex, count in Counter(m.subscribed_topic_regex for m in gone if m.subscribed_topic_regex).items():
        if group.regexes.get(regex) == count:
            step.write(records.regex_tombstone(group.group_id, regex))
            if regex in group.resolved:
                matched = counted(matched, group.resolved[regex].topics, -1)
    metadata_hash = step.image.hash_of({*names, *matched})
    step.write(records.epoch_record(group.group_id, group.group_epoch + 1, metadata_hash))
    return ErrorCode.NONE


def expired(group: ConsumerGroup, key: TimerKey, step: EventDraft) -> None:
    """A member's time is up: its session, what it had to give up, its JoinGroup or SyncGroup."""
    fence(group, [group.members[key.member_id]], step)


def is_of_member(kind: TimerKind) -> bool:
    return kind in (TimerKind.SESSION, TimerKind.REBALANCE, TimerKind.MEMBER_JOIN, TimerKind.MEMBER_SYNC)
