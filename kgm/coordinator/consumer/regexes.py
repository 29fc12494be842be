"""Subscriptions by regular expression (KIP-848), in the syntax of RE2/J.

A heartbeat with a new expression is answered without waiting. A timer that is due immediately then resolves the group's
expressions; Kafka does this in another thread (GroupMetadataManager.maybeUpdateRegularExpressions,
TopicRegexResolver)."""

import enum

from kgm.coordinator.consumer import epochs, records
from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.groups.consumer_group import ConsumerGroup, MetadataRefresh, ResolvedRegex, counted
from kgm.coordinator.groups.consumer_member import ConsumerMember
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.java.re2j import compiled

#: The minimum time between two resolutions (Kafka: REGEX_BATCH_REFRESH_MIN_INTERVAL_MS).
RESOLVED_ONCE_MS = 10_000
#: In effect never: `topics_changed` reports every topic change.
METADATA_REFRESH_MS = 2**31 - 1


class RegexChange(enum.Enum):
    """What a request does to its member's regular expression."""

    NONE = enum.auto()
    UPDATED = enum.auto()
    UPDATED_AND_RESOLVED = enum.auto()
    INVALID = enum.auto()


def update(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, event: EventDraft) -> RegexChange:
    """A member changes from `before` to `after`: write the resulting changes to the group's expressions, and resolve
    them if necessary."""
    old, new = before.subscribed_topic_regex, after.subscribed_topic_regex
    change, must_resolve = RegexChange.NONE, False
    if old != new:
        change = RegexChange.UPDATED
        if old and group.regexes.get(old) == 1:
            event.write(records.regex_tombstone(group.group_id, old))
        if new and new not in group.regexes:
            if compiled(new) is None:
                return RegexChange.INVALID
            must_resolve = True
        elif (new and new in group.resolved) or (not new and old and group.behavior.rebalances_without_regex):
            change = RegexChange.UPDATED_AND_RESOLVED
    if must_resolve or group.regexes:
        _maybe_resolve(group, old, new, event, must_resolve=must_resolve)
    return change


def regex_key(group_id: str) -> TimerKey:
    return TimerKey(TimerKind.REGEX, group_id)


def _maybe_resolve(
    group: ConsumerGroup, old: str | None, new: str | None, event: EventDraft, *, must_resolve: bool
) -> None:
    if regex_key(group.group_id) in event.live_timers:
        return
    last = group.last_resolved()
    if last is not None and event.now <= last.timestamp_ms + RESOLVED_ONCE_MS:
        return
    wanted = counted(counted(group.regexes, [old] if old else [], -1), [new] if new else [], +1)
    must_resolve |= len(wanted) != len(group.resolved)
    must_resolve |= (0 if last is None else last.version) < event.image.new_topics_version
    if group.behavior.refreshes_regexes:
        must_resolve |= (
            last is None or event.now > last.timestamp_ms + event.settings.group_consumer_regex_refresh_interval_ms
        )
    if must_resolve and wanted:
        event.set_timer(regex_key(group.group_id), 0)


def matching(regex: str, image: TopicImage) -> frozenset[str]:
    """The topics whose full name an expression matches."""
    pattern = compiled(regex)
    return frozenset() if pattern is None else frozenset(name for name in image if pattern.fullmatch(name))


def resolve(group: ConsumerGroup, event: EventDraft) -> None:
    """Resolve all expressions of a group. A different result increments the group epoch."""
    image, matched, bumps = event.image, group.matched, False
    for regex in sorted(group.regexes):
        resolved = ResolvedRegex(matching(regex, image), image.version, event.now)
        before = group.resolved.get(regex)
        old_topics = frozenset[str]() if before is None else before.topics
        if old_topics != resolved.topics:
            bumps = True
            matched = counted(counted(matched, old_topics, -1), resolved.topics, +1)
        event.write(records.regex_record(group.group_id, regex, resolved))
    epoch = epochs.write_if_changed(group, {*group.names, *matched}, event, bumps=bumps)
    if epoch != group.group_epoch:
        group.refresh = MetadataRefresh(event.now + METADATA_REFRESH_MS, epoch)
