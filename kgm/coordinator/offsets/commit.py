"""OffsetCommit (v2-9) (Kafka: OffsetMetadataManager.commitOffset), and what it shares with TxnOffsetCommit.

v10 names topics by id, which this coordinator does not know: it is answered with UNKNOWN_TOPIC_ID, like unknown ids in
Kafka."""

from collections.abc import Mapping, Sequence

from kgm.coordinator.classic.rebalance import extend_session
from kgm.coordinator.contract.api_versions import COMMIT_HAS_TOPIC_IDS, COMMIT_KNOWS_CONSUMER_PROTOCOL
from kgm.coordinator.contract.error_responses import commit_refusal
from kgm.coordinator.contract.topic_image import NO_ID
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.foreign_group import ForeignGroup
from kgm.coordinator.groups.group import Group
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.offsets.fencing import CommitPartitionValidator, check_commit
from kgm.coordinator.offsets.store import NO_EXPIRY
from kgm.java.strings import string_length
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestPartition
from kgm.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kgm.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record

#: Partition counts by topic; None when every topic exists.
Topics = Mapping[str, int] | None

_NO_RETENTION = -1


def exists(topics: Topics, topic: str, partition: int) -> bool:
    """Whether a partition exists."""
    return topics is None or 0 <= partition < topics.get(topic, 0)


def handle_commit(message: OffsetCommitRequest, group: Group | None, event: EventDraft, topics: Topics) -> None:
    """An OffsetCommit. A group that does not exist is created with its first offset, as a *simple* group: Empty and
    without a protocol type.

    Nonexistent partitions are refused first. A request that names no other partitions is not checked further."""
    if event.version >= COMMIT_HAS_TOPIC_IDS:
        event.answer(commit_refusal(message, ErrorCode.UNKNOWN_TOPIC_ID))
        return
    existing = [
        (t.name, row) for t in message.topics for row in t.partitions if exists(topics, t.name, row.partition_index)
    ]
    checked: ErrorCode | CommitPartitionValidator = ErrorCode.NONE
    if existing:
        checked = _commit_error(message, group, event)
        if checked is ErrorCode.NONE and isinstance(group, ClassicGroup):
            _extend_session(message, group, event)
    error = request_error(checked, existing, event)
    response = OffsetCommitResponse()
    for topic in message.topics:
        topic_id = topic_id_of(topic.name, event)
        rows = [
            OffsetCommitResponsePartition(
                partition_index=row.partition_index,
                error_code=(
                    error or write_offset(message.group_id, topic.name, row, event, message.retention_time_ms, topic_id)
                )
                if exists(topics, topic.name, row.partition_index)
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for row in topic.partitions
        ]
        response.topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=rows))
    event.answer(response)


def _commit_error(
    message: OffsetCommitRequest, group: Group | None, event: EventDraft
) -> ErrorCode | CommitPartitionValidator:
    epoch = message.generation_id_or_member_epoch
    match group:
        case None if epoch < 0:
            return ErrorCode.NONE
        case None:
            is_new = event.version >= COMMIT_KNOWS_CONSUMER_PROTOCOL and event.behavior.commits_name_missing_groups
            return ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
        case ForeignGroup():
            return ErrorCode.GROUP_ID_NOT_FOUND
        case ConsumerGroup() | StreamsGroup():
            return check_commit(group, message.member_id, epoch, event.version, event.image)
        case ClassicGroup():
            return classic_commit_error(message, group, epoch, checks_instance_ids=event.behavior.checks_instance_ids)


def classic_commit_error(
    message: OffsetCommitRequest | TxnOffsetCommitRequest, group: ClassicGroup, generation: int, *,
    checks_instance_ids: bool = True,
) -> ErrorCode:  # fmt: skip
    """Kafka: ClassicGroup.validateOffsetCommit. checks_instance_ids: see `ClassicGroup.check_member`."""
    is_transactional = isinstance(message, TxnOffsetCommitRequest)
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.is_empty:
        return ErrorCode.NONE
    if generation < 0 and message.member_id == "" and message.group_instance_id is None:
        return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
    if error := group.check_member(
        message.member_id, message.group_instance_id, checks_instance_ids=checks_instance_ids
    ):
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    is_too_early = not is_transactional and group.state is ClassicState.COMPLETING_REBALANCE
    return ErrorCode.REBALANCE_IN_PROGRESS if is_too_early else ErrorCode.NONE


def _extend_session(message: OffsetCommitRequest, group: ClassicGroup, event: EventDraft) -> None:
    """A commit extends its member's session."""
    if group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
        extend_session(group, group.members[message.member_id], event)


def topic_id_of(topic: str, event: EventDraft) -> bytes:
    """The topic id in the record of an offset; zeros if the topic does not exist, or if the version's records have no
    topic id."""
    known = event.image.by_name.get(topic) if event.settings.behavior.has_topic_ids_of_offsets else None
    return NO_ID if known is None else known.topic_id


# -- OffsetCommit and TxnOffsetCommit


def request_error(
    checked: ErrorCode | CommitPartitionValidator,
    rows: Sequence[tuple[str, OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition]],
    event: EventDraft,
) -> ErrorCode:
    """The error for the whole request. As in Kafka, a single partition that cannot be committed from an earlier epoch
    makes the whole request fail, unless its metadata is too long."""
    if isinstance(checked, ErrorCode):
        return checked
    errors = [
        checked.check(topic, row.partition_index)
        for topic, row in rows
        if not _is_too_long(row.committed_metadata or "", event)
        or (
            event.producer
            and topic not in event.image.by_name
            and not event.settings.behavior.has_topic_ids_in_transactions
        )
    ]
    return next((error for error in errors if error is not ErrorCode.NONE), ErrorCode.NONE)


def write_offset(
    group_id: str,
    topic: str,
    row: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    event: EventDraft,
    retention_ms: int = _NO_RETENTION,
    topic_id: bytes = NO_ID,
) -> ErrorCode:
    """Write one offset, unless its metadata is too long."""
    metadata = row.committed_metadata or ""
    if _is_too_long(metadata, event):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    value = OffsetCommitValue(
        offset=row.committed_offset,
        leader_epoch=row.committed_leader_epoch,
        metadata=metadata,
        commit_timestamp=event.now,
        expire_timestamp=NO_EXPIRY if retention_ms == _NO_RETENTION else event.now + retention_ms,
        topic_id=topic_id,
    )
    event.write(Record(OffsetCommitKey(group=group_id, topic=topic, partition=row.partition_index), value))
    return ErrorCode.NONE


def _is_too_long(metadata: str, event: EventDraft) -> bool:
    """Kafka compares the length in UTF-16 code units with offset.metadata.max.bytes."""
    return string_length(metadata) > event.settings.offset_metadata_max_bytes
