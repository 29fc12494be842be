"""TxnOffsetCommit (v0-5): offsets that a producer commits as part of its transaction (KIP-98, KIP-447; Kafka:
OffsetMetadataManager.commitTransactionalOffset).

Fewer checks apply than for OffsetCommit: v0-2 do not name a member, so none is required, regardless of the state of the
group. A commit during a sync phase is accepted, and it does not extend a session. The outcome's records belong to the
producer's transaction. Whether the producer may write (its id, its epoch, whether the partition was added to the
transaction) is checked by the log and the transaction coordinator before the request gets here, as in Kafka."""

from kgm.coordinator.contract.error_responses import txn_commit_refusal
from kgm.coordinator.contract.outcome import Producer
from kgm.coordinator.contract.topic_image import NO_ID
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.foreign_group import ForeignGroup
from kgm.coordinator.groups.group import Group
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.offsets.commit import (
    Topics,
    classic_commit_error,
    exists,
    request_error,
    topic_id_of,
    write_offset,
)
from kgm.coordinator.offsets.fencing import CommitPartitionValidator, check_transactional_commit
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kgm.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_NO_PRODUCER_ID = -1


def handle_commit(message: TxnOffsetCommitRequest, group: Group | None, event: EventDraft, topics: Topics) -> None:
    """A TxnOffsetCommit. A group that does not exist is created with its first pending offset. If the transaction is
    aborted, the group remains until the retention ends.

    Nonexistent partitions are refused first. A request that names no other partitions is not checked further."""
    if message.group_id == "":
        event.answer(txn_commit_refusal(message, ErrorCode.INVALID_GROUP_ID, event.version))
        return
    if message.producer_id != _NO_PRODUCER_ID:
        event.producer = Producer(message.producer_id, message.producer_epoch)
    existing = [
        (t.name, row) for t in message.topics for row in t.partitions if exists(topics, t.name, row.partition_index)
    ]
    error = request_error(_commit_error(message, group, event) if existing else ErrorCode.NONE, existing, event)
    response = TxnOffsetCommitResponse()
    has_ids = event.settings.behavior.has_topic_ids_in_transactions
    for topic in message.topics:
        topic_id = topic_id_of(topic.name, event) if has_ids else NO_ID
        rows = [
            TxnOffsetCommitResponsePartition(
                partition_index=row.partition_index,
                error_code=(error or write_offset(message.group_id, topic.name, row, event, topic_id=topic_id))
                if exists(topics, topic.name, row.partition_index)
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for row in topic.partitions
        ]
        response.topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=rows))
    event.answer(response)


def _commit_error(
    message: TxnOffsetCommitRequest, group: Group | None, event: EventDraft
) -> ErrorCode | CommitPartitionValidator:
    generation = message.generation_id
    match group:
        case None:
            return ErrorCode.NONE if generation < 0 else ErrorCode.ILLEGAL_GENERATION
        case ForeignGroup():
            return ErrorCode.UNKNOWN_MEMBER_ID
        case ConsumerGroup() | StreamsGroup():
            instance_id = message.group_instance_id
            return check_transactional_commit(group, message.member_id, instance_id, generation, event.image)
        case ClassicGroup():
            return classic_commit_error(message, group, generation)
