"""OffsetFetch (v1-9) (Kafka: OffsetMetadataManager.fetchOffsets, fetchAllOffsets).

v10 names topics by id, which this coordinator does not know: it is answered with UNKNOWN_TOPIC_ID, like unknown ids in
Kafka."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from kgm.coordinator.contract.api_versions import FETCH_HAS_GROUPS, FETCH_HAS_TOPIC_IDS
from kgm.coordinator.contract.topic_image import NO_ID
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.group import Group
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.offsets.fencing import check_fetch
from kgm.coordinator.offsets.store import CommittedOffset, Offsets, TopicPartition
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kgm.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_NO_OFFSET = -1
_NO_EPOCH = -1


def handle_fetch(message: OffsetFetchRequest, groups: Mapping[str, Group], offsets: Offsets, event: EventDraft) -> None:
    """An OffsetFetch for the partitions that it names, or, when topics is null (from v2 on), for all that have an
    offset.

    A group that does not exist, or is Dead, has no offsets, which is not an error. A partition with a pending offset is
    answered with UNSTABLE_OFFSET_COMMIT if require_stable is set (from v7 on), and with the committed offset
    otherwise."""
    if event.version >= FETCH_HAS_GROUPS:
        fetches = [
            _GroupFetch(row.group_id, groups, offsets, require_stable=message.require_stable) for row in message.groups
        ]
        for row, fetch in zip(message.groups, fetches, strict=True):
            fetch.check_member(row.member_id, row.member_epoch)
        rows = [_fetch_group(row, fetch, event.version) for row, fetch in zip(message.groups, fetches, strict=True)]
        event.answer(OffsetFetchResponse(groups=rows))
        return
    fetch = _GroupFetch(message.group_id, groups, offsets, require_stable=message.require_stable)
    fetch.check_member(None, _NO_EPOCH)
    wanted = fetch.all() if message.topics is None else [(t.name, t.partition_indexes) for t in message.topics]
    event.answer(
        OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic,
                    partitions=[
                        OffsetFetchResponsePartition(partition_index=index, **fetch.one((topic, index)))
                        for index in indexes
                    ],
                )
                for topic, indexes in wanted
            ]
        )
    )


def _fetch_group(group: OffsetFetchRequestGroup, fetch: "_GroupFetch", version: int) -> OffsetFetchResponseGroup:
    if fetch.group_error is not ErrorCode.NONE:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=fetch.group_error)
    if version >= FETCH_HAS_TOPIC_IDS:
        fetch.partition_error = ErrorCode.UNKNOWN_TOPIC_ID
    wanted = (
        [(topic, NO_ID, indexes) for topic, indexes in fetch.all()]
        if group.topics is None
        else [(topic.name, topic.topic_id, topic.partition_indexes) for topic in group.topics]
    )
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic,
                topic_id=topic_id,
                partitions=[
                    OffsetFetchResponsePartitions(partition_index=index, **fetch.one((topic, index)))
                    for index in indexes
                ],
            )
            for topic, topic_id, indexes in wanted
        ],
    )


class _FetchedOffset(TypedDict):
    error_code: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str


class _GroupFetch:
    """The offsets of one group for an OffsetFetch. partition_error: the error for every partition, if not NONE.
    group_error: the error for the group, if not NONE."""

    __slots__ = ("committed", "group", "group_error", "partition_error", "unstable")

    def __init__(self, group_id: str, groups: Mapping[str, Group], offsets: Offsets, *, require_stable: bool) -> None:
        group = self.group = groups.get(group_id)
        exists = group is not None and group.state is not ClassicState.DEAD
        self.partition_error = self.group_error = ErrorCode.NONE
        self.committed: Mapping[TopicPartition, CommittedOffset] = offsets.of(group_id) if exists else {}
        # As in Kafka, a Dead group has unstable partitions too: they depend on the log, not on the group.
        self.unstable = offsets.unstable_of(group_id) if require_stable else {}

    def check_member(self, member_id: str | None, epoch: int) -> None:
        """A consumer or streams group refuses a client that claims to be a member but is not, or is in another
        epoch."""
        if isinstance(self.group, ConsumerGroup | StreamsGroup):
            self.group_error = check_fetch(self.group, member_id, epoch)

    def all(self) -> list[tuple[str, Sequence[int]]]:
        """Every partition with a committed offset, but none that has only a pending offset."""
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(self.committed if self.partition_error is ErrorCode.NONE else ()):
            topics.setdefault(topic, []).append(partition)
        return list(topics.items())

    def one(self, at: TopicPartition) -> _FetchedOffset:
        error = self.partition_error
        if error is ErrorCode.NONE and at in self.unstable:
            error = ErrorCode.UNSTABLE_OFFSET_COMMIT
        committed = self.committed.get(at) if error is ErrorCode.NONE else None
        if committed is None:
            return _FetchedOffset(error_code=error, committed_offset=_NO_OFFSET, committed_leader_epoch=-1, metadata="")
        return _FetchedOffset(
            error_code=error,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )
