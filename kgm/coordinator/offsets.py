"""Committed offsets as the log says them, and when they expire (Kafka: OffsetMetadataManager, OffsetAndMetadata).

There are no transactions here, so no offset is ever unstable."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgm.coordinator.classic_group import ClassicGroup
from kgm.coordinator.classic_state import ClassicState
from kgm.coordinator.outcome import Millis
from kgm.records.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from kgm.records.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record

#: (topic, partition)
TopicPartition = tuple[str, int]
NO_EXPIRY = -1
_MILLIS_PER_MINUTE = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """One committed offset. expire_timestamp_ms: set by clients of before v5 that asked for a retention, else None."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: Millis
    expire_timestamp_ms: Millis | None = None
    topic_id: bytes = bytes(16)


@dataclass(slots=True)
class Offsets:
    """All committed offsets, by group. Written by `replay` only."""

    by_group: dict[str, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)

    def fork(self) -> "Offsets":
        return Offsets({group_id: offsets.copy() for group_id, offsets in self.by_group.items()})

    def of(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self.by_group.get(group_id, {})

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        if value is not None:
            self.by_group.setdefault(key.group, {})[key.topic, key.partition] = CommittedOffset(
                offset=value.offset,
                leader_epoch=value.leader_epoch,
                metadata=value.metadata,
                commit_timestamp_ms=Millis(value.commit_timestamp),
                expire_timestamp_ms=None if value.expire_timestamp == NO_EXPIRY else Millis(value.expire_timestamp),
                topic_id=value.topic_id,
            )
            return
        offsets = self.by_group.get(key.group)
        if offsets is not None:
            offsets.pop((key.topic, key.partition), None)
            if not offsets:
                del self.by_group[key.group]


def tombstone(group_id: str, at: TopicPartition) -> Record:
    return Record(OffsetCommitKey(group=group_id, topic=at[0], partition=at[1]), None)


def from_legacy(key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None) -> Record:
    """A record of Kafka before 0.9 in today's form."""
    return Record(
        OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition),
        None
        if value is None
        else OffsetCommitValue(offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp),
    )


# -- expiry


def expired(
    group: ClassicGroup, offsets: Mapping[TopicPartition, CommittedOffset], *, now: Millis, retention_minutes: int
) -> list[TopicPartition]:
    """The offsets of a group that are past their retention, by topic and partition.

    It counts from when the group became Empty; for a Stable consumer group, and for a simple group, from the commit,
    if nobody subscribes to the topic. Other groups keep theirs (Kafka: ClassicGroup.offsetExpirationCondition)."""
    if group.protocol_type is None:
        since_empty = None
    elif group.is_in(ClassicState.EMPTY):
        since_empty = group.state_timestamp_ms
    elif group.uses_consumer_protocol and group.subscribed_topics is not None and group.is_in(ClassicState.STABLE):
        since_empty = None
    else:
        return []
    retention_ms = retention_minutes * _MILLIS_PER_MINUTE
    return sorted(
        at
        for at, committed in offsets.items()
        if not group.is_subscribed_to(at[0]) and _is_expired(committed, since_empty, now, retention_ms)
    )


def _is_expired(committed: CommittedOffset, since_empty: Millis | None, now: Millis, retention_ms: int) -> bool:
    if committed.expire_timestamp_ms is not None:
        return now >= committed.expire_timestamp_ms
    base = committed.commit_timestamp_ms if since_empty is None else since_empty
    return now - base >= retention_ms
