"""OffsetCommit (v2-9), OffsetFetch (v1-9) and OffsetDelete (v0) for classic groups.

v10 of the first two names topics by id, which this coordinator does not know: it is answered with UNKNOWN_TOPIC_ID,
as Kafka answers for ids that it does not know."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from kgm.coordinator.classic_group import ClassicGroup
from kgm.coordinator.classic_round import extend_session
from kgm.coordinator.classic_state import ClassicState
from kgm.coordinator.offsets import NO_EXPIRY, CommittedOffset, Offsets, TopicPartition, tombstone
from kgm.coordinator.refusals import commit_refusal
from kgm.coordinator.step import Step
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestPartition
from kgm.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kgm.protocol.messages.offset_delete_request import OffsetDeleteRequest
from kgm.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kgm.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kgm.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kgm.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequestPartition
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record

#: Partitions by topic that exist; None when everything does.
Topics = Mapping[str, int] | None

_BY_TOPIC_ID_FROM = 10
_MANY_GROUPS_FROM = 8
_GROUP_NOT_FOUND_FROM = 9
_NO_OFFSET = -1
NO_RETENTION = -1


def exists(topics: Topics, topic: str, partition: int) -> bool:
    """Whether a partition exists, as far as the coordinator was told."""
    return topics is None or 0 <= partition < topics.get(topic, 0)


# -- OffsetCommit


def handle_commit(message: OffsetCommitRequest, group: ClassicGroup | None, step: Step, topics: Topics) -> None:
    """An OffsetCommit. A group that does not exist comes into being with its first offset, as a *simple* group:
    Empty and without a protocol type.

    Partitions that do not exist are refused first, and a request without others is not looked at further."""
    assert step.request is not None
    version = step.request.version
    if version >= _BY_TOPIC_ID_FROM:
        step.answer(commit_refusal(message, ErrorCode.UNKNOWN_TOPIC_ID))
        return
    error = ErrorCode.NONE
    if any(exists(topics, topic.name, row.partition_index) for topic in message.topics for row in topic.partitions):
        error = _commit_error(message, group, version)
        if error is ErrorCode.NONE and group is not None:
            _extend_session(message, group, step)
    response = OffsetCommitResponse()
    for topic in message.topics:
        rows = [
            OffsetCommitResponsePartition(
                partition_index=row.partition_index,
                error_code=(error or write_offset(message.group_id, topic.name, row, step, message.retention_time_ms))
                if exists(topics, topic.name, row.partition_index)
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for row in topic.partitions
        ]
        response.topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=rows))
    step.answer(response)


def _commit_error(message: OffsetCommitRequest, group: ClassicGroup | None, version: int) -> ErrorCode:
    generation = message.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if version >= _GROUP_NOT_FOUND_FROM else ErrorCode.ILLEGAL_GENERATION
    if group.is_in(ClassicState.DEAD):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.is_in(ClassicState.EMPTY):
        return ErrorCode.NONE
    if generation < 0 and message.member_id == "" and message.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if error := group.check_member(message.member_id, message.group_instance_id):
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.REBALANCE_IN_PROGRESS if group.is_in(ClassicState.COMPLETING_REBALANCE) else ErrorCode.NONE


def _extend_session(message: OffsetCommitRequest, group: ClassicGroup, step: Step) -> None:
    """A commit is a sign of life of a member."""
    if group.is_in(ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
        extend_session(group, step, group.members[message.member_id])


def write_offset(
    group_id: str,
    topic: str,
    row: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    step: Step,
    retention_ms: int = NO_RETENTION,
) -> ErrorCode:
    """Write one offset, unless its metadata is too long."""
    metadata = row.committed_metadata or ""
    if _java_length(metadata) > step.settings.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    value = OffsetCommitValue(
        offset=row.committed_offset,
        leader_epoch=row.committed_leader_epoch,
        metadata=metadata,
        commit_timestamp=step.now,
        expire_timestamp=NO_EXPIRY if retention_ms == NO_RETENTION else step.now + retention_ms,
    )
    step.write(Record(OffsetCommitKey(group=group_id, topic=topic, partition=row.partition_index), value))
    return ErrorCode.NONE


def _java_length(text: str) -> int:
    """UTF-16 units, which is what Kafka compares with offset.metadata.max.bytes."""
    return len(text) + sum(character > "\uffff" for character in text)


# -- OffsetFetch


def handle_fetch(message: OffsetFetchRequest, groups: Mapping[str, ClassicGroup], offsets: Offsets, step: Step) -> None:
    """An OffsetFetch of the partitions named, or of all that have an offset when topics is null (v2 and later).

    A group that does not exist, or is Dead, has no offsets, which is no error. With require_stable (v7 and later) a
    partition with a pending offset is answered with UNSTABLE_OFFSET_COMMIT; without it, with the committed offset."""
    assert step.request is not None
    version = step.request.version
    if version >= _MANY_GROUPS_FROM:
        asked = [_Fetch(row.group_id, groups, offsets, require_stable=message.require_stable) for row in message.groups]
        rows = [_fetch_group(row, fetch, version) for row, fetch in zip(message.groups, asked, strict=True)]
        step.answer(OffsetFetchResponse(groups=rows))
        return
    fetch = _Fetch(message.group_id, groups, offsets, require_stable=message.require_stable)
    wanted = fetch.all() if message.topics is None else [(t.name, t.partition_indexes) for t in message.topics]
    step.answer(
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


def _fetch_group(group: OffsetFetchRequestGroup, fetch: "_Fetch", version: int) -> OffsetFetchResponseGroup:
    if version >= _BY_TOPIC_ID_FROM:
        fetch.error = ErrorCode.UNKNOWN_TOPIC_ID
    wanted = (
        [(topic, bytes(16), indexes) for topic, indexes in fetch.all()]
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


class _Fetched(TypedDict):
    error_code: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str


class _Fetch:
    """What one group has to say to an OffsetFetch. error: nothing but this, for every partition."""

    __slots__ = ("committed", "error", "unstable")

    def __init__(
        self, group_id: str, groups: Mapping[str, ClassicGroup], offsets: Offsets, *, require_stable: bool
    ) -> None:
        group = groups.get(group_id)
        exists = group is not None and not group.is_in(ClassicState.DEAD)
        self.error = ErrorCode.NONE
        self.committed: Mapping[TopicPartition, CommittedOffset] = offsets.of(group_id) if exists else {}
        # Asked of the log, not of the group, in Kafka too: also a Dead group has unstable partitions.
        self.unstable = offsets.unstable_of(group_id) if require_stable else {}

    def all(self) -> list[tuple[str, Sequence[int]]]:
        """Every partition with a committed offset; not those that have a pending one only."""
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(self.committed if self.error is ErrorCode.NONE else ()):
            topics.setdefault(topic, []).append(partition)
        return list(topics.items())

    def one(self, at: TopicPartition) -> _Fetched:
        error = self.error
        if error is ErrorCode.NONE and at in self.unstable:
            error = ErrorCode.UNSTABLE_OFFSET_COMMIT
        committed = self.committed.get(at) if error is ErrorCode.NONE else None
        if committed is None:
            return _Fetched(error_code=error, committed_offset=_NO_OFFSET, committed_leader_epoch=-1, metadata="")
        return _Fetched(
            error_code=error,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )


# -- OffsetDelete


def handle_delete(
    message: OffsetDeleteRequest, group: ClassicGroup | None, offsets: Offsets, step: Step, topics: Topics
) -> None:
    """An OffsetDelete: of topics that no member subscribes to. Partitions without an offset are no error."""
    error = _delete_error(message, group)
    if error is not ErrorCode.NONE:
        step.answer(OffsetDeleteResponse(error_code=error))
        return
    assert group is not None
    committed, unstable = offsets.of(message.group_id), offsets.unstable_of(message.group_id)
    response = OffsetDeleteResponse()
    for topic in message.topics:
        rows = []
        for row in topic.partitions:
            at = (topic.name, row.partition_index)
            error = _delete_one_error(group, topics, at)
            if error is ErrorCode.NONE and (at in committed or at in unstable):
                step.write(tombstone(message.group_id, at))
            rows.append(OffsetDeleteResponsePartition(partition_index=row.partition_index, error_code=error))
        response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=rows))
    step.answer(response)


def _delete_error(message: OffsetDeleteRequest, group: ClassicGroup | None) -> ErrorCode:
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.is_in(ClassicState.DEAD):
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_in(ClassicState.EMPTY) and not group.uses_consumer_protocol:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _delete_one_error(group: ClassicGroup, topics: Topics, at: TopicPartition) -> ErrorCode:
    if not exists(topics, *at):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(at[0]) else ErrorCode.NONE
