"""Converts records of streams groups (KIP-1071) and share groups (KIP-932) to consumer-group records with the same
meaning: the coordinator handles all three with epochs, target assignments and current assignments.

A task counts as a partition of its subtopology. Partitions of a share group can have several members, so no member is
called their owner, and their assignments are not converted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

from kgm.protocol.struct import Message
from kgm.records.member_states import MemberState, TaskState, task_state
from kgm.records.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from kgm.records.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kgm.records.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kgm.records.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from kgm.records.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kgm.records.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kgm.records.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from kgm.records.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kgm.records.messages.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from kgm.records.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kgm.records.record_types import RecordType

STREAMS: Final = "streams"
SHARE: Final = "share"
#: The group type for each record type that is read here. Topology records are not: members have their topology's epoch.
GROUP_TYPES: Final = {
    RecordType.STREAMS_GROUP_METADATA: STREAMS,
    RecordType.STREAMS_GROUP_MEMBER_METADATA: STREAMS,
    RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA: STREAMS,
    RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER: STREAMS,
    RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT: STREAMS,
    RecordType.SHARE_GROUP_METADATA: SHARE,
    RecordType.SHARE_GROUP_MEMBER_METADATA: SHARE,
    RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: SHARE,
    RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: SHARE,
    RecordType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: SHARE,
}
#: The state of a consumer-group record for each state of a streams-group record.
_STATES: Final = {
    TaskState.STABLE: MemberState.STABLE,
    TaskState.UNREVOKED_TASKS: MemberState.UNREVOKED_PARTITIONS,
    TaskState.UNRELEASED_TASKS: MemberState.UNRELEASED_PARTITIONS,
    TaskState.UNKNOWN: MemberState.UNKNOWN,
}
_ID_BYTES: Final = 16


def subtopology_topic(subtopology_id: str) -> tuple[bytes, str]:
    """(id, name) of the topic that stands for a subtopology."""
    name = f"subtopology-{subtopology_id}"
    return hashlib.sha256(name.encode()).digest()[:_ID_BYTES], name


def subtopologies(value: Message | None) -> Iterator[str]:
    """The ids of the subtopologies for which a record has active tasks."""
    for name in ("active_tasks", "active_tasks_pending_revocation"):
        for row in getattr(value, name, ()):
            yield row.subtopology_id


def as_consumer_record(kind: RecordType, key: Any, value: Any) -> tuple[Message, Message | None]:
    """(key, value) of the consumer-group record. kind: one of `GROUP_TYPES`; a value of None means a tombstone."""
    match kind:
        case RecordType.STREAMS_GROUP_METADATA | RecordType.SHARE_GROUP_METADATA:
            group_key = ConsumerGroupMetadataKey(group_id=key.group_id)
            return group_key, _made(value, _group)
        case RecordType.STREAMS_GROUP_MEMBER_METADATA | RecordType.SHARE_GROUP_MEMBER_METADATA:
            member_key = ConsumerGroupMemberMetadataKey(group_id=key.group_id, member_id=key.member_id)
            return member_key, _made(value, _member)
        case RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA | RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA:
            return ConsumerGroupTargetAssignmentMetadataKey(group_id=key.group_id), _made(value, _target_epoch)
        case RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER | RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER:
            target_key = ConsumerGroupTargetAssignmentMemberKey(group_id=key.group_id, member_id=key.member_id)
            return target_key, _made(value, _target)
        case RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT:
            current_key = ConsumerGroupCurrentMemberAssignmentKey(group_id=key.group_id, member_id=key.member_id)
            return current_key, _made(value, _current_tasks)
        case _:
            current_key = ConsumerGroupCurrentMemberAssignmentKey(group_id=key.group_id, member_id=key.member_id)
            return current_key, _made(value, _current)


def _made(value: Any, make: Callable[[Any], Message]) -> Message | None:
    return None if value is None else make(value)


def _group(value: Any) -> ConsumerGroupMetadataValue:
    return ConsumerGroupMetadataValue(epoch=value.epoch, metadata_hash=value.metadata_hash)


def _target_epoch(value: Any) -> ConsumerGroupTargetAssignmentMetadataValue:
    return ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=value.assignment_epoch)


def _target(value: Any) -> ConsumerGroupTargetAssignmentMemberValue:
    rows = [
        TopicPartition(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in _tasks(getattr(value, "active_tasks", ()))
    ]
    return ConsumerGroupTargetAssignmentMemberValue(topic_partitions=rows)


def _member(value: Any) -> ConsumerGroupMemberMetadataValue:
    """In a streams group, the member's topology stands for its subscription."""
    epoch = getattr(value, "topology_epoch", None)
    topics = value.subscribed_topic_names if epoch is None else [f"topology epoch {epoch}"]
    return ConsumerGroupMemberMetadataValue(
        instance_id=getattr(value, "instance_id", None),
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=topics,
        subscribed_topic_regex=None,
        rebalance_timeout_ms=getattr(value, "rebalance_timeout_ms", -1),
        server_assignor=None,
        classic_member_metadata=None,
    )


def _current_tasks(value: Any) -> ConsumerGroupCurrentMemberAssignmentValue:
    assigned, pending = (
        [TopicPartitions(topic_id=topic_id, partitions=partitions) for topic_id, partitions in _tasks(rows)]
        for rows in (value.active_tasks, value.active_tasks_pending_revocation)
    )
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=_STATES[task_state(value.state)],
        assigned_partitions=assigned,
        partitions_pending_revocation=pending,
    )


def _current(value: Any) -> ConsumerGroupCurrentMemberAssignmentValue:
    """Of a member of a share group, whose states have the numbers of consumer groups."""
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=value.state,
        assigned_partitions=[],
        partitions_pending_revocation=[],
    )


def _tasks(rows: Iterable[Any]) -> Iterator[tuple[bytes, list[int]]]:
    """(id of the topic that stands for the subtopology, its task numbers), one for each subtopology."""
    by_id: dict[str, list[list[int]]] = {}
    for row in rows:
        by_id.setdefault(row.subtopology_id, []).append(row.partitions)
    for subtopology_id, parts in by_id.items():
        yield subtopology_topic(subtopology_id)[0], list(chain.from_iterable(parts))
