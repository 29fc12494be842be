"""ConsumerGroupDescribe (v0-1): consumer groups with their epochs, and members with current and target assignments.

For a classic group the error is GROUP_ID_NOT_FOUND. Admin clients then send DescribeGroups."""

from collections.abc import Iterable, Mapping

from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import ConsumerMember
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.group import Group
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.consumer_group_describe_response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def handle_describe(
    message: ConsumerGroupDescribeRequest, groups: Mapping[str, Group], event: EventDraft, *, operations: int
) -> None:
    """operations: the authorized operations to report for each group."""
    described = []
    for group_id in message.group_ids:
        group = groups.get(group_id)
        if event.behavior.is_scala:
            described.append(DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION))
        elif group_id == "":
            described.append(DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID))
        elif isinstance(group, ConsumerGroup):
            described.append(_describe(group, event, operations))
        else:
            why = "not found" if group is None else "is not a consumer group"
            described.append(
                DescribedGroup(
                    group_id=group_id,
                    error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                    error_message=f"Group {group_id} {why}.",
                )
            )
    event.answer(ConsumerGroupDescribeResponse(groups=described))


def _describe(group: ConsumerGroup, event: EventDraft, operations: int) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or event.settings.consumer_assignors[0],
        members=[_describe_member(group, member, event.image) for member in group.in_order()],
        authorized_operations=operations,
    )


def _describe_member(group: ConsumerGroup, member: ConsumerMember, image: TopicImage) -> Member:
    current: dict[bytes, list[int]] = {}
    pending = member.pending_revocation if group.behavior.describes_pending_revocation else {}
    for assigned in (member.assigned, pending):
        for topic_id, partitions in assigned.items():
            current.setdefault(topic_id, []).extend(partitions)
    for listed in current.values():
        listed.sort()
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(current, image),
        target_assignment=_assignment(group.listed_target(member.member_id), image),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, Iterable[int]], image: TopicImage) -> Assignment:
    """The assignment, without deleted topics."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=image.by_id[topic_id].name, partitions=[*those])
            for topic_id, those in partitions.items()
            if topic_id in image.by_id
        ]
    )
