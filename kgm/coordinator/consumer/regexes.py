"""Subscriptions by regular expression (KIP-848): RE2's syntax, matched in linear time, resolved beside the heartbeats.

A heartbeat that brings a new expression is answered at once. The expressions of its group are then resolved by an alarm
that is due immediately, which is what Kafka does in another thread (GroupMetadataManager.maybeUpdateRegularExpressions,
TopicRegexResolver)."""

import enum
from functools import lru_cache
from typing import Any

from kgm.coordinator.consumer import records
from kgm.coordinator.consumer.group import ConsumerGroup, Refresh, ResolvedRegex, counted
from kgm.coordinator.consumer.member import ConsumerMember
from kgm.coordinator.contract.event_draft import EventDraft
from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.coordinator.contract.topic_image import TopicImage

#: After a resolution the next one has to wait longer than this.
_REST_MS = 10_000
#: As good as never: the topics' changes are told.
METADATA_REFRESH_MS = 2**31 - 1


class RegexChange(enum.Enum):
    """What a heartbeat did to its member's regular expression."""

    NONE = enum.auto()
    UPDATED = enum.auto()
    UPDATED_AND_RESOLVED = enum.auto()
    INVALID = enum.auto()


@lru_cache(maxsize=1024)
def compiled(regex: str) -> Any | None:
    """The compiled expression, or None if it is none in RE2's syntax."""
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except (re2.error, UnicodeError):
        return None


def update(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, step: EventDraft) -> RegexChange:
    """What a change of a member means for the expressions of its group: records, and perhaps a resolution."""
    old, new = before.subscribed_topic_regex, after.subscribed_topic_regex
    change, must_resolve = RegexChange.NONE, False
    if old != new:
        change = RegexChange.UPDATED
        if old and group.regexes.get(old) == 1:
            step.write(records.regex_tombstone(group.group_id, old))
        if new and new not in group.regexes:
            if compiled(new) is None:
                return RegexChange.INVALID
            must_resolve = True
        elif (new and new in group.resolved) or (not new and old):
            change = RegexChange.UPDATED_AND_RESOLVED
    if must_resolve or group.regexes:
        _maybe_resolve(group, old, new, step, must_resolve=must_resolve)
    return change


def regex_key(group_id: str) -> TimerKey:
    return TimerKey(TimerKind.REGEX, group_id)


def _maybe_resolve(
    group: ConsumerGroup, old: str | None, new: str | None, step: EventDraft, *, must_resolve: bool
) -> None:
    if regex_key(group.group_id) in step.live:
        return
    last = group.last_resolved()
    if last is not None and step.now <= last.timestamp_ms + _REST_MS:
        return
    wanted = counted(counted(group.regexes, [old] if old else [], -1), [new] if new else [], +1)
    must_resolve |= len(wanted) != len(group.resolved)
    must_resolve |= (0 if last is None else last.version) < step.image.new_topics_version
    must_resolve |= (
        last is None or step.now > last.timestamp_ms + step.settings.group_consumer_regex_refresh_interval_ms
    )
    if must_resolve and wanted:
        step.set_timer(regex_key(group.group_id), 0)


def matching(regex: str, image: TopicImage) -> frozenset[str]:
    """The topics whose whole name an expression matches."""
    pattern = compiled(regex)
    return frozenset() if pattern is None else frozenset(name for name in image if pattern.fullmatch(name))


def resolve(group: ConsumerGroup, step: EventDraft) -> None:
    """Resolve all expressions of a group; a different result is a reason for a new target assignment."""
    image, matched, bumps = step.image, group.matched, False
    for regex in sorted(group.regexes):
        resolved = ResolvedRegex(matching(regex, image), image.version, step.now)
        before = group.resolved.get(regex)
        old_topics = frozenset[str]() if before is None else before.topics
        if old_topics != resolved.topics:
            bumps = True
            matched = counted(counted(matched, old_topics, -1), resolved.topics, +1)
        step.write(records.regex_record(group.group_id, regex, resolved))
    metadata_hash = image.hash_of({*group.names, *matched})
    if bumps or metadata_hash != group.metadata_hash:
        epoch = group.group_epoch + 1
        step.write(records.epoch_record(group.group_id, epoch, metadata_hash))
        group.refresh = Refresh(step.now + METADATA_REFRESH_MS, epoch)
