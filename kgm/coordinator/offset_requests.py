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
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record

#: Partitions by topic that exist; None when everything does.
Topics = Mapping[str, int] | None

_BY_TOPIC_ID_FROM = 10
_MANY_GROUPS_FROM = 8
_GROUP_NOT_FOUND_FROM = 9
_NO_OFFSET = -1


def _exists(topics: Topics, topic: str, partition: int) -> bool:
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
    if any(_exists(topics, topic.name, row.partition_index) for topic in message.topics for row in topic.partitions):
        error = _commit_error(message, group, version)
        if error is ErrorCode.NONE and group is not None:
            _extend_session(message, group, step)
    response = OffsetCommitResponse()
    for topic in message.topics:
        rows = [
            OffsetCommitResponsePartition(
                partition_index=row.partition_index,
                error_code=(error or _commit_one(message, topic.name, row, step))
                if _exists(topics, topic.name, row.partition_index)
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


def _commit_one(message: OffsetCommitRequest, topic: str, row: OffsetCommitRequestPartition, step: Step) -> ErrorCode:
    metadata = row.committed_metadata or ""
    if _java_length(metadata) > step.settings.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    retention_ms = message.retention_time_ms
    value = OffsetCommitValue(
        offset=row.committed_offset,
        leader_epoch=row.committed_leader_epoch,
        metadata=metadata,
        commit_timestamp=step.now,
        expire_timestamp=NO_EXPIRY if retention_ms == -1 else step.now + retention_ms,
    )
    step.write(Record(OffsetCommitKey(group=message.group_id, topic=topic, partition=row.partition_index), value))
    return ErrorCode.NONE


def _java_length(text: str) -> int:
    """UTF-16 units, which is what Kafka compares with offset.metadata.max.bytes."""
    return len(text) + sum(character > "\uffff" for character in text)


# -- OffsetFetch


def handle_fetch(message: OffsetFetchRequest, groups: Mapping[str, ClassicGroup], offsets: Offsets, step: Step) -> None:
    """An OffsetFetch of the partitions named, or of all that have an offset when topics is null (v2 and later).

    A group that does not exist, or is Dead, has no offsets, which is no error."""
    assert step.request is not None
    version = step.request.version
    if version >= _MANY_GROUPS_FROM:
        rows = [_fetch_group(row, _committed(row.group_id, groups, offsets), version) for row in message.groups]
        step.answer(OffsetFetchResponse(groups=rows))
        return
    committed = _committed(message.group_id, groups, offsets)
    wanted = _all(committed) if message.topics is None else [(t.name, t.partition_indexes) for t in message.topics]
    step.answer(
        OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic,
                    partitions=[
                        OffsetFetchResponsePartition(partition_index=index, **_fetched(committed.get((topic, index))))
                        for index in indexes
                    ],
                )
                for topic, indexes in wanted
            ]
        )
    )


def _committed(
    group_id: str, groups: Mapping[str, ClassicGroup], offsets: Offsets
) -> Mapping[TopicPartition, CommittedOffset]:
    group = groups.get(group_id)
    return {} if group is None or group.is_in(ClassicState.DEAD) else offsets.of(group_id)


def _fetch_group(
    group: OffsetFetchRequestGroup, committed: Mapping[TopicPartition, CommittedOffset], version: int
) -> OffsetFetchResponseGroup:
    error = ErrorCode.NONE
    if version >= _BY_TOPIC_ID_FROM:
        error, committed = ErrorCode.UNKNOWN_TOPIC_ID, {}
    wanted = (
        [(topic, bytes(16), indexes) for topic, indexes in _all(committed)]
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
                    OffsetFetchResponsePartitions(
                        partition_index=index, error_code=error, **_fetched(committed.get((topic, index)))
                    )
                    for index in indexes
                ],
            )
            for topic, topic_id, indexes in wanted
        ],
    )


def _all(committed: Mapping[TopicPartition, CommittedOffset]) -> list[tuple[str, Sequence[int]]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(committed):
        topics.setdefault(topic, []).append(partition)
    return list(topics.items())


class _Fetched(TypedDict):
    committed_offset: int
    committed_leader_epoch: int
    metadata: str


def _fetched(committed: CommittedOffset | None) -> _Fetched:
    if committed is None:
        return _Fetched(committed_offset=_NO_OFFSET, committed_leader_epoch=-1, metadata="")
    return _Fetched(
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
    committed = offsets.of(message.group_id)
    response = OffsetDeleteResponse()
    for topic in message.topics:
        rows = []
        for row in topic.partitions:
            at = (topic.name, row.partition_index)
            error = _delete_one_error(group, topics, at)
            if error is ErrorCode.NONE and at in committed:
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
    if not _exists(topics, *at):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(at[0]) else ErrorCode.NONE
