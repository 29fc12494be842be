"""TxnOffsetCommit (v0-5): offsets that a producer commits as part of its transaction (KIP-98, KIP-447).

What is checked is less than for OffsetCommit: v0-2 say nothing of a member, so nothing is asked for, whatever the state
of the group; a commit during a sync phase is let through; and it is no sign of life of a member. The outcome's records
belong into the producer's transaction. Whether the producer may write at all (its id, its epoch, whether the partition
was added to the transaction) is for the log and the transaction coordinator to say, as in Kafka, before it comes here.
Kafka: OffsetMetadataManager.commitTransactionalOffset."""

from kgm.coordinator.classic.state import ClassicState
from kgm.coordinator.consumer.group import ConsumerGroup
from kgm.coordinator.contract.error_responses import txn_commit_refusal
from kgm.coordinator.contract.event_draft import EventDraft
from kgm.coordinator.contract.foreign_group import STREAMS, ForeignGroup
from kgm.coordinator.contract.outcome import Producer
from kgm.coordinator.offsets.fencing import AnEpochBefore, check_transactional_commit
from kgm.coordinator.offsets.requests import Group, Topics, checked_error, exists, write_offset
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kgm.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_NO_PRODUCER_ID = -1


def handle_commit(message: TxnOffsetCommitRequest, group: Group | None, step: EventDraft, topics: Topics) -> None:
    """A TxnOffsetCommit. A group that does not exist comes into being with its first pending offset, and stays when the
    transaction is aborted, until the retention takes it away.

    Partitions that do not exist are refused first, and a request without others is not looked at further."""
    assert step.request is not None
    if message.group_id == "":
        step.answer(txn_commit_refusal(message, ErrorCode.INVALID_GROUP_ID, step.request.version))
        return
    if message.producer_id != _NO_PRODUCER_ID:
        step.producer = Producer(message.producer_id, message.producer_epoch)
    there = [
        (t.name, row) for t in message.topics for row in t.partitions if exists(topics, t.name, row.partition_index)
    ]
    error = checked_error(_commit_error(message, group, step) if there else ErrorCode.NONE, there, step)
    response = TxnOffsetCommitResponse()
    for topic in message.topics:
        rows = [
            TxnOffsetCommitResponsePartition(
                partition_index=row.partition_index,
                error_code=(error or write_offset(message.group_id, topic.name, row, step))
                if exists(topics, topic.name, row.partition_index)
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for row in topic.partitions
        ]
        response.topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=rows))
    step.answer(response)


def _commit_error(message: TxnOffsetCommitRequest, group: Group | None, step: EventDraft) -> ErrorCode | AnEpochBefore:
    generation = message.generation_id
    if group is None:
        return ErrorCode.NONE if generation < 0 else ErrorCode.ILLEGAL_GENERATION
    if isinstance(group, ConsumerGroup):
        return check_transactional_commit(group, message.member_id, message.group_instance_id, generation, step.image)
    if isinstance(group, ForeignGroup):
        is_simple = group.group_type == STREAMS and generation < 0 and group.is_empty
        return ErrorCode.NONE if is_simple else ErrorCode.UNKNOWN_MEMBER_ID
    if group.is_in(ClassicState.DEAD):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.is_in(ClassicState.EMPTY):
        return ErrorCode.NONE
    if generation < 0 and message.member_id == "" and message.group_instance_id is None:
        return ErrorCode.NONE
    if error := group.check_member(message.member_id, message.group_instance_id):
        return error
    return ErrorCode.NONE if generation == group.generation else ErrorCode.ILLEGAL_GENERATION
