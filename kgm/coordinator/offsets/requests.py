"""OffsetCommit (v2-9), OffsetFetch (v1-9) and OffsetDelete (v0).

v10 of the first two names topics by id, which this coordinator does not know: it is answered with UNKNOWN_TOPIC_ID,
as Kafka answers for ids that it does not know."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from kgm.coordinator.classic.group import ClassicGroup
from kgm.coordinator.classic.rebalance import extend_session
from kgm.coordinator.classic.state import ClassicState
from kgm.coordinator.consumer.group import ConsumerGroup
from kgm.coordinator.contract.error_responses import commit_refusal
from kgm.coordinator.contract.event_draft import EventDraft
from kgm.coordinator.contract.foreign_group import STREAMS, ForeignGroup
from kgm.coordinator.contract.topic_image import NO_ID
from kgm.coordinator.offsets.fencing import AnEpochBefore, check_commit, check_fetch
from kgm.coordinator.offsets.store import NO_EXPIRY, CommittedOffset, Offsets, TopicPartition, tombstone
from kgm.java.strings import string_length
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
Group = ClassicGroup | ConsumerGroup | ForeignGroup

_BY_TOPIC_ID_FROM = 10
_MANY_GROUPS_FROM = 8
_GROUP_NOT_FOUND_FROM = 9
_NO_OFFSET = -1
_NO_EPOCH = -1
NO_RETENTION = -1


def exists(topics: Topics, topic: str, partition: int) -> bool:
    """Whether a partition exists, as far as the coordinator was told."""
    return topics is None or 0 <= partition < topics.get(topic, 0)


# -- OffsetCommit


def handle_commit(message: OffsetCommitRequest, group: Group | None, step: EventDraft, topics: Topics) -> None:
    """An OffsetCommit. A group that does not exist comes into being with its first offset, as a *simple* group:
    Empty and without a protocol type.

    Partitions that do not exist are refused first, and a request without others is not looked at further."""
    assert step.request is not None
    version = step.request.version
    if version >= _BY_TOPIC_ID_FROM:
        step.answer(commit_refusal(message, ErrorCode.UNKNOWN_TOPIC_ID))
        return
    there = [
        (t.name, row) for t in message.topics for row in t.partitions if exists(topics, t.name, row.partition_index)
    ]
    checked: ErrorCode | AnEpochBefore = ErrorCode.NONE
    if there:
        checked = _commit_error(message, group, step)
        if checked is ErrorCode.NONE and isinstance(group, ClassicGroup):
            _extend_session(message, group, step)
    error = checked_error(checked, there, step)
    response = OffsetCommitResponse()
    for topic in message.topics:
        rows = [
            OffsetCommitResponsePartition(
                partition_index=row.partition_index,
                error_code=(
                    error
                    or write_offset(
                        message.group_id, topic.name, row, step, message.retention_time_ms, _topic_id(topic.name, step)
                    )
                )
                if exists(topics, topic.name, row.partition_index)
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for row in topic.partitions
        ]
        response.topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=rows))
    step.answer(response)


def checked_error(
    checked: ErrorCode | AnEpochBefore,
    rows: Sequence[tuple[str, OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition]],
    step: EventDraft,
) -> ErrorCode:
    """The error of the whole request: one partition that may not be committed from an earlier epoch is enough, as in
    Kafka, if its metadata is short enough to be looked at."""
    if isinstance(checked, ErrorCode):
        return checked
    errors = [
        checked.check(topic, row.partition_index)
        for topic, row in rows
        if not is_too_long(row.committed_metadata or "", step) or (step.producer and topic not in step.image.by_name)
    ]
    return next((error for error in errors if error is not ErrorCode.NONE), ErrorCode.NONE)


def _topic_id(topic: str, step: EventDraft) -> bytes:
    known = step.image.by_name.get(topic)
    return NO_ID if known is None else known.topic_id


def _commit_error(message: OffsetCommitRequest, group: Group | None, step: EventDraft) -> ErrorCode | AnEpochBefore:
    assert step.request is not None
    version = step.request.version
    epoch = message.generation_id_or_member_epoch
    if group is None:
        if epoch < 0:
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if version >= _GROUP_NOT_FOUND_FROM else ErrorCode.ILLEGAL_GENERATION
    if isinstance(group, ForeignGroup):
        return _foreign_commit_error(group, epoch)
    if isinstance(group, ConsumerGroup):
        return check_commit(group, message.member_id, epoch, version, step.image)
    if group.is_in(ClassicState.DEAD):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if epoch < 0 and group.is_in(ClassicState.EMPTY):
        return ErrorCode.NONE
    if epoch < 0 and message.member_id == "" and message.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if error := group.check_member(message.member_id, message.group_instance_id):
        return error
    if epoch != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.REBALANCE_IN_PROGRESS if group.is_in(ClassicState.COMPLETING_REBALANCE) else ErrorCode.NONE


def _foreign_commit_error(group: ForeignGroup, epoch: int) -> ErrorCode:
    """Members of other kinds of groups are not known here: offsets of those without any can be set."""
    if group.group_type != STREAMS:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if epoch < 0 and group.is_empty else ErrorCode.UNKNOWN_MEMBER_ID


def _extend_session(message: OffsetCommitRequest, group: ClassicGroup, step: EventDraft) -> None:
    """A commit is a sign of life of a member."""
    if group.is_in(ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
        extend_session(group, step, group.members[message.member_id])


def write_offset(
    group_id: str,
    topic: str,
    row: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    step: EventDraft,
    retention_ms: int = NO_RETENTION,
    topic_id: bytes = NO_ID,
) -> ErrorCode:
    """Write one offset, unless its metadata is too long."""
    metadata = row.committed_metadata or ""
    if is_too_long(metadata, step):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    value = OffsetCommitValue(
        offset=row.committed_offset,
        leader_epoch=row.committed_leader_epoch,
        metadata=metadata,
        commit_timestamp=step.now,
        expire_timestamp=NO_EXPIRY if retention_ms == NO_RETENTION else step.now + retention_ms,
        topic_id=topic_id,
    )
    step.write(Record(OffsetCommitKey(group=group_id, topic=topic, partition=row.partition_index), value))
    return ErrorCode.NONE


def is_too_long(metadata: str, step: EventDraft) -> bool:
    """Kafka compares the length in UTF-16 code units with offset.metadata.max.bytes."""
    return string_length(metadata) > step.settings.offset_metadata_max_bytes


# -- OffsetFetch


def handle_fetch(message: OffsetFetchRequest, groups: Mapping[str, Group], offsets: Offsets, step: EventDraft) -> None:
    """An OffsetFetch of the partitions named, or of all that have an offset when topics is null (v2 and later).

    A group that does not exist, or is Dead, has no offsets, which is no error. With require_stable (v7 and later) a
    partition with a pending offset is answered with UNSTABLE_OFFSET_COMMIT; without it, with the committed offset."""
    assert step.request is not None
    version = step.request.version
    if version >= _MANY_GROUPS_FROM:
        asked = [_Fetch(row.group_id, groups, offsets, require_stable=message.require_stable) for row in message.groups]
        for row, fetch in zip(message.groups, asked, strict=True):
            fetch.check_member(row.member_id, row.member_epoch)
        rows = [_fetch_group(row, fetch, version) for row, fetch in zip(message.groups, asked, strict=True)]
        step.answer(OffsetFetchResponse(groups=rows))
        return
    fetch = _Fetch(message.group_id, groups, offsets, require_stable=message.require_stable)
    fetch.check_member(None, _NO_EPOCH)
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
    if fetch.refusal is not ErrorCode.NONE:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=fetch.refusal)
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
    """What one group has to say to an OffsetFetch. error: nothing but this, for every partition. refusal: nothing but
    this, for all."""

    __slots__ = ("committed", "error", "group", "refusal", "unstable")

    def __init__(self, group_id: str, groups: Mapping[str, Group], offsets: Offsets, *, require_stable: bool) -> None:
        group = self.group = groups.get(group_id)
        exists = group is not None and not (isinstance(group, ClassicGroup) and group.is_in(ClassicState.DEAD))
        self.error = self.refusal = ErrorCode.NONE
        self.committed: Mapping[TopicPartition, CommittedOffset] = offsets.of(group_id) if exists else {}
        # Asked of the log, not of the group, in Kafka too: also a Dead group has unstable partitions.
        self.unstable = offsets.unstable_of(group_id) if require_stable else {}

    def check_member(self, member_id: str | None, epoch: int) -> None:
        """Consumer groups let nobody see their offsets who takes itself for a member and is none, or a stale one."""
        if isinstance(self.group, ConsumerGroup):
            self.refusal = check_fetch(self.group, member_id, epoch)

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
    message: OffsetDeleteRequest, group: Group | None, offsets: Offsets, step: EventDraft, topics: Topics
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


def _delete_error(message: OffsetDeleteRequest, group: Group | None) -> ErrorCode:
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if isinstance(group, ConsumerGroup):
        return ErrorCode.NONE
    if isinstance(group, ForeignGroup):
        return ErrorCode.NONE if group.is_empty else ErrorCode.NON_EMPTY_GROUP
    if group is None or group.is_in(ClassicState.DEAD):
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_in(ClassicState.EMPTY) and not group.uses_consumer_protocol:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _delete_one_error(group: Group, topics: Topics, at: TopicPartition) -> ErrorCode:
    if not exists(topics, *at):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_subscribed = not isinstance(group, ForeignGroup) and group.is_subscribed_to(at[0])
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
