"""OffsetDelete (v0) (Kafka: OffsetMetadataManager.deleteOffsets)."""

from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.foreign_group import ForeignGroup
from kgm.coordinator.groups.group import Group
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.offsets.commit import Topics, exists
from kgm.coordinator.offsets.store import Offsets, tombstone
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
    """An OffsetDelete, for topics that no member subscribes to. A partition without an offset is not an error."""
    error = _group_error(message, group)
    if error is not ErrorCode.NONE:
        event.answer(OffsetDeleteResponse(error_code=error))
        return
    assert group is not None
    committed, unstable = offsets.of(message.group_id), offsets.unstable_of(message.group_id)
    # The broker filters out nonexistent partitions before it asks the coordinator (Kafka: KafkaApis).
    unknown, existing = _sorted_out(message, topics)
    for topic in existing:
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(topic.name) else ErrorCode.NONE
        for row in topic.partitions:
            row.error_code = error
            at = (topic.name, row.partition_index)
            if error is ErrorCode.NONE and (at in committed or at in unstable):
                event.write(tombstone(message.group_id, at))
    # A topic that is named twice is answered twice, unless nonexistent partitions force a merge (Kafka:
    # OffsetDeleteResponse.Builder.merge).
    event.answer(OffsetDeleteResponse(topics=_merged([*unknown, *existing]) if unknown else existing))


def _sorted_out(
    message: OffsetDeleteRequest, topics: Topics
) -> tuple[list[OffsetDeleteResponseTopic], list[OffsetDeleteResponseTopic]]:
    """The response rows for nonexistent partitions, with each topic once, and those for existing partitions."""
    unknown: list[OffsetDeleteResponseTopic] = []
    existing: list[OffsetDeleteResponseTopic] = []
    for topic in message.topics:
        numbers = [row.partition_index for row in topic.partitions]
        for rows, error, wanted in (
            (unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
            (existing, ErrorCode.NONE, True),
        ):
            partitions = [
                OffsetDeleteResponsePartition(partition_index=number, error_code=error)
                for number in numbers
                if exists(topics, topic.name, number) is wanted
            ]
            if partitions:
                rows.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    return _merged(unknown), existing


def _merged(topics: list[OffsetDeleteResponseTopic]) -> list[OffsetDeleteResponseTopic]:
    by_name: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in topics:
        first = by_name.setdefault(topic.name, topic)
        if first is not topic:
            first.partitions += topic.partitions
    return list(by_name.values())


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
        case ConsumerGroup() | StreamsGroup():
            return ErrorCode.NONE
