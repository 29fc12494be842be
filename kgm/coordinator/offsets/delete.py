"""OffsetDelete (v0) (Kafka: OffsetMetadataManager.deleteOffsets)."""

from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.foreign_group import ForeignGroup
from kgm.coordinator.groups.group import Group
from kgm.coordinator.offsets.commit import Topics, exists
from kgm.coordinator.offsets.store import Offsets, TopicPartition, tombstone
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.offset_delete_request import OffsetDeleteRequest
from kgm.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle_delete(
    message: OffsetDeleteRequest, group: Group | None, offsets: Offsets, event: EventDraft, topics: Topics
) -> None:
    """An OffsetDelete, of topics that no member subscribes to. A partition without an offset is not an error."""
    error = _group_error(message, group)
    if error is not ErrorCode.NONE:
        event.answer(OffsetDeleteResponse(error_code=error))
        return
    assert group is not None
    committed, unstable = offsets.of(message.group_id), offsets.unstable_of(message.group_id)
    response = OffsetDeleteResponse()
    for topic in message.topics:
        rows = []
        for row in topic.partitions:
            at = (topic.name, row.partition_index)
            error = _partition_error(group, topics, at)
            if error is ErrorCode.NONE and (at in committed or at in unstable):
                event.write(tombstone(message.group_id, at))
            rows.append(OffsetDeleteResponsePartition(partition_index=row.partition_index, error_code=error))
        response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=rows))
    event.answer(response)


def _group_error(message: OffsetDeleteRequest, group: Group | None) -> ErrorCode:
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    match group:
        case None | ClassicGroup(state=ClassicState.DEAD):
            return ErrorCode.GROUP_ID_NOT_FOUND
        case ClassicGroup():
            is_allowed = group.is_empty or group.uses_consumer_protocol
            return ErrorCode.NONE if is_allowed else ErrorCode.NON_EMPTY_GROUP
        case ForeignGroup():
            return ErrorCode.NONE if group.is_empty else ErrorCode.NON_EMPTY_GROUP
        case ConsumerGroup():
            return ErrorCode.NONE


def _partition_error(group: Group, topics: Topics, at: TopicPartition) -> ErrorCode:
    if not exists(topics, *at):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(at[0]) else ErrorCode.NONE
