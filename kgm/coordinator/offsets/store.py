"""The offsets in the log, including those in open transactions, and when offsets expire (Kafka: OffsetMetadataManager).

An offset that was written in a transaction is *pending*. It becomes the committed offset when the transaction's marker
commits, unless a newer offset was written meanwhile, and is dropped if the marker aborts. A partition with a pending
offset is *unstable*. A tombstone removes the committed offset and every pending one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kgm.coordinator.contract.outcome import Millis
from kgm.coordinator.contract.topic_image import Topic
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.foreign_group import ForeignGroup
from kgm.coordinator.groups.group import Group
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.records.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from kgm.records.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record

#: (topic, partition)
TopicPartition = tuple[str, int]
NO_EXPIRY = -1
#: Approximate memory that an offset takes besides its metadata, in bytes.
OFFSET_BYTES = 400
_MILLIS_PER_MINUTE = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """One committed offset. expire_timestamp_ms: None unless a client before v5 requested a retention.

    order: increases with the position in the log; when a transaction is committed, the newer of two offsets wins."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: Millis
    expire_timestamp_ms: Millis | None = None
    topic_id: bytes = bytes(16)
    order: int = field(default=0, compare=False, repr=False)


#: Offsets by group and partition. Groups without an offset are not in it.
_ByGroup = dict[str, dict[TopicPartition, CommittedOffset]]


@dataclass(slots=True)
class Offsets:
    """All offsets, by group. Only `replay` and `end_transaction` change them.

    pending: offsets of open transactions, by producer id. unstable: the producers with a pending offset, by group and
    partition; an index of `pending`."""

    by_group: _ByGroup = field(default_factory=dict)
    pending: dict[int, _ByGroup] = field(default_factory=dict)
    unstable: dict[str, dict[TopicPartition, frozenset[int]]] = field(default_factory=dict)
    _replayed: int = field(default=0, compare=False, repr=False)

    def fork(self) -> "Offsets":
        return Offsets(
            {group_id: offsets.copy() for group_id, offsets in self.by_group.items()},
            {
                producer_id: {group_id: offsets.copy() for group_id, offsets in by_group.items()}
                for producer_id, by_group in self.pending.items()
            },
            {group_id: producers.copy() for group_id, producers in self.unstable.items()},
            self._replayed,
        )

    def of(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """The committed offsets of a group."""
        return self.by_group.get(group_id, {})

    def unstable_of(self, group_id: str) -> Mapping[TopicPartition, frozenset[int]]:
        """The partitions of a group that have a pending offset, with the producer ids."""
        return self.unstable.get(group_id, {})

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int | None = None) -> None:
        """An offset was written, in a producer's open transaction or outside any; or a tombstone, for which the
        producer makes no difference."""
        self._replayed += 1
        at = key.topic, key.partition
        if value is None:
            _remove(self.by_group, key.group, at)
            for open_in in self.unstable_of(key.group).get(at, ()):
                _remove(self.pending[open_in], key.group, at)
                if not self.pending[open_in]:
                    del self.pending[open_in]
            self._make_stable(key.group, at)
            return
        committed = CommittedOffset(
            offset=value.offset,
            leader_epoch=value.leader_epoch,
            metadata=value.metadata,
            commit_timestamp_ms=Millis(value.commit_timestamp),
            expire_timestamp_ms=None if value.expire_timestamp == NO_EXPIRY else Millis(value.expire_timestamp),
            topic_id=value.topic_id,
            order=self._replayed,
        )
        if producer_id is None:
            self.by_group.setdefault(key.group, {})[at] = committed
        else:
            self.pending.setdefault(producer_id, {}).setdefault(key.group, {})[at] = committed
            producers = self.unstable.setdefault(key.group, {})
            producers[at] = producers.get(at, frozenset()) | {producer_id}

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The marker of a producer's transaction was written. Without pending offsets it has no effect."""
        for group_id, offsets in self.pending.pop(producer_id, {}).items():
            for at, pending in offsets.items():
                self._make_stable(group_id, at, producer_id)
                known = self.of(group_id).get(at)
                if commit and (known is None or known.order < pending.order):
                    self.by_group.setdefault(group_id, {})[at] = pending

    def held_bytes(self) -> int:
        """Approximate memory that all offsets take, committed and pending, in bytes."""
        kept = (self.by_group, *self.pending.values())
        every = (one for by_group in kept for offsets in by_group.values() for one in offsets.values())
        return sum(OFFSET_BYTES + len(one.metadata) for one in every)

    def _make_stable(self, group_id: str, at: TopicPartition, producer_id: int | None = None) -> None:
        """Remove one producer, or all (None), from the producers with a pending offset for the partition."""
        producers = self.unstable.get(group_id)
        if producers is None or at not in producers:
            return
        producers[at] = frozenset() if producer_id is None else producers[at] - {producer_id}
        if not producers[at]:
            del producers[at]
        if not producers:
            del self.unstable[group_id]

    def tombstones_of(self, topics: Mapping[str, Topic], *, by_id: bool) -> list[Record]:
        """Tombstones for the offsets of deleted topics, by name. by_id: an offset that has a topic id belongs only to
        the topic with that id; otherwise the offsets of all partitions that the topic had are deleted."""
        partitions = [
            (group_id, at)
            for by_group in (self.by_group, *self.pending.values())
            for group_id, offsets in by_group.items()
            for at, row in offsets.items()
            if at[0] in topics
            and (row.topic_id in (bytes(16), topics[at[0]].topic_id) if by_id else at[1] < topics[at[0]].partitions)
        ]
        return [tombstone(group_id, at) for group_id, at in sorted(partitions)]

    def partitions_of(self, group_id: str) -> Iterator[TopicPartition]:
        """The partitions with an offset, committed or pending, sorted: the offsets that are deleted with the group."""
        return iter(sorted({*self.of(group_id), *self.unstable_of(group_id)}))


def _remove(by_group: _ByGroup, group_id: str, at: TopicPartition) -> None:
    offsets = by_group.get(group_id)
    if offsets is not None and offsets.pop(at, None) is not None and not offsets:
        del by_group[group_id]


def tombstone(group_id: str, at: TopicPartition) -> Record:
    return Record(OffsetCommitKey(group=group_id, topic=at[0], partition=at[1]), None)


def from_legacy(key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None) -> Record:
    """A record from Kafka before 0.9, as an OffsetCommit record."""
    return Record(
        OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition),
        None
        if value is None
        else OffsetCommitValue(offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp),
    )


# -- expiry


def expired_offsets(group: Group, offsets: Offsets, *, now: Millis, retention_minutes: int) -> list[TopicPartition]:
    """The offsets of a group that are past their retention, by topic and partition.

    The retention counts from when a classic group became Empty. In a Stable classic group of consumers, in a simple
    group and in a consumer or streams group it counts from the commit, for topics that no member subscribes to. In
    other groups, and for unstable partitions, offsets do not expire (Kafka: ClassicGroup.offsetExpirationCondition)."""
    since_empty = None
    match group:
        case ConsumerGroup() | StreamsGroup() | ClassicGroup(protocol_type=None):
            pass
        case ClassicGroup(state=ClassicState.EMPTY):
            since_empty = group.state_timestamp_ms
        case ClassicGroup(state=ClassicState.STABLE, uses_consumer_protocol=True) if (
            group.subscribed_topics is not None
        ):
            pass
        case ClassicGroup() | ForeignGroup():
            return []
    retention_ms = retention_minutes * _MILLIS_PER_MINUTE
    unstable = offsets.unstable_of(group.group_id)
    return sorted(
        at
        for at, committed in offsets.of(group.group_id).items()
        if at not in unstable
        and not group.is_subscribed_to(at[0])
        and _is_expired(committed, since_empty, now, retention_ms)
    )


def _is_expired(committed: CommittedOffset, since_empty: Millis | None, now: Millis, retention_ms: int) -> bool:
    if committed.expire_timestamp_ms is not None:
        return now >= committed.expire_timestamp_ms
    base = committed.commit_timestamp_ms if since_empty is None else since_empty
    return now - base >= retention_ms
