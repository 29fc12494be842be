"""Removes members from a consumer group: they leave, are removed by an operator, or expire.

All members that are removed together cost one epoch. When the last member that uses the consumer protocol is removed,
and others remain, the group becomes a classic group if the migration policy allows it (Kafka:
consumerGroupFenceMembers)."""

from collections import Counter
from collections.abc import Iterable

from kgm.coordinator.consumer import epochs, migration, records, timers
from kgm.coordinator.contract.outcome import TimerKey
from kgm.coordinator.groups.consumer_group import ConsumerGroup, counted
from kgm.coordinator.groups.consumer_member import ConsumerMember
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.model.errors import ErrorCode


def fence(group: ConsumerGroup, members: Iterable[ConsumerMember], event: EventDraft) -> ErrorCode:
    """Remove members from the group; with no members, nothing happens. Returns an error, and changes nothing, if the
    group should become a classic group but cannot."""
    gone = list({member.member_id: member for member in members}.values())
    if not gone:
        return ErrorCode.NONE
    if migration.may_downgrade(group, gone, event.settings):
        return migration.downgrade(group, gone, event)
    for member in gone:
        for tombstone in records.member_tombstones(group.group_id, member.member_id):
            event.write(tombstone)
        timers.cancel_all(group.group_id, member.member_id, event)
    names, matched = group.names, group.matched
    for member in gone:
        if member.subscribed_topic_names:
            names = counted(names, member.subscribed_topic_names, -1)
    for regex, count in Counter(m.subscribed_topic_regex for m in gone if m.subscribed_topic_regex).items():
        if group.regexes.get(regex) == count:
            event.write(records.regex_tombstone(group.group_id, regex))
            if regex in group.resolved:
                matched = counted(matched, group.resolved[regex].topics, -1)
    epoch = epochs.write_if_changed(group, {*names, *matched}, event, bumps=True)
    if group.behavior.has_target_when_empty and len(gone) == len(group.members):
        event.write(records.target_epoch_record(group.group_id, epoch, 0))
    return ErrorCode.NONE


def expired(group: ConsumerGroup, key: TimerKey, event: EventDraft) -> None:
    """A member's timer has fired: for its session, its revocation, its JoinGroup or its SyncGroup."""
    fence(group, [group.members[key.member_id]], event)
