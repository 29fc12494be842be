"""DescribeGroups (v0-6), ListGroups (v0-5), DeleteGroups (v0-2) and ConsumerGroupDescribe (v0-1).

What is listed is sorted by group id. DescribeGroups answers a repeated group id each time, DeleteGroups once."""

from collections.abc import Mapping

from kgm.coordinator.classic_group import ClassicGroup, ClassicMember
from kgm.coordinator.classic_records import tombstone as group_tombstone
from kgm.coordinator.classic_round import session_key
from kgm.coordinator.classic_state import ClassicState
from kgm.coordinator.offsets import Offsets
from kgm.coordinator.offsets import tombstone as offset_tombstone
from kgm.coordinator.step import Step
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from kgm.protocol.messages.consumer_group_describe_response import DescribedGroup as DescribedConsumerGroup
from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kgm.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse

#: Every right there is on a group, as a bit field: READ 3, DELETE 6, DESCRIBE 8, DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11.
#: A coordinator without an authorizer grants them all, wherever it answers without an error: so also on groups that do
#: not exist, when DescribeGroups is older than v6.
ALL_GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
_NOT_ASKED = -(2**31)
_NOT_FOUND_ERROR_FROM = 6
_CLASSIC = "classic"


def _operations(asked: bool) -> int:  # noqa: FBT001  (a field of the request)
    return ALL_GROUP_OPERATIONS if asked else _NOT_ASKED


def handle_describe(message: DescribeGroupsRequest, groups: Mapping[str, ClassicGroup], step: Step) -> None:
    """A DescribeGroups. A group that does not exist is described as Dead; from v6 on with GROUP_ID_NOT_FOUND."""
    assert step.request is not None
    operations = _operations(message.include_authorized_operations)
    described = []
    for group_id in message.groups:
        group = groups.get(group_id)
        if group is not None:
            described.append(_describe(group, operations))
        elif step.request.version >= _NOT_FOUND_ERROR_FROM:
            described.append(
                DescribedGroup(
                    group_id=group_id,
                    group_state=ClassicState.DEAD.value,
                    error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                    error_message=f"Group {group_id} not found.",
                )
            )
        else:
            described.append(
                DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value, authorized_operations=operations)
            )
    step.answer(DescribeGroupsResponse(groups=described))


def _describe(group: ClassicGroup, operations: int) -> DescribedGroup:
    """Protocol and metadata are shown when the group is Stable only; assignments always."""
    stable = group.is_in(ClassicState.STABLE)
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[_describe_member(member, group.protocol if stable else None) for member in group.members.values()],
        authorized_operations=operations,
    )


def _describe_member(member: ClassicMember, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.metadata(protocol),
        member_assignment=member.assignment,
    )


def handle_list(message: ListGroupsRequest, groups: Mapping[str, ClassicGroup], step: Step) -> None:
    """A ListGroups. Both filters ignore case; an empty one lets all through; a type that is none matches nothing."""
    states = {state.strip().lower() for state in message.states_filter}
    types = {kind.lower() for kind in message.types_filter}
    listed = [
        ListedGroup(
            group_id=group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=_CLASSIC,
        )
        for group_id, group in sorted(groups.items())
        if (not states or group.state.value.lower() in states) and (not types or _CLASSIC in types)
    ]
    step.answer(ListGroupsResponse(groups=listed))


def handle_delete(
    message: DeleteGroupsRequest, groups: Mapping[str, ClassicGroup], offsets: Offsets, step: Step
) -> None:
    """A DeleteGroups: tombstones for the offsets and for the group, if it is Empty."""
    results = []
    for group_id in dict.fromkeys(message.groups_names):
        group = groups.get(group_id)
        if group is None or group.is_in(ClassicState.DEAD):
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif not group.is_in(ClassicState.EMPTY):
            error = ErrorCode.NON_EMPTY_GROUP
        else:
            error = ErrorCode.NONE
            write_deletion(group, offsets, step)
        results.append(DeletableGroupResult(group_id=group_id, error_code=error))
    step.answer(DeleteGroupsResponse(results=results))


def write_deletion(group: ClassicGroup, offsets: Offsets, step: Step) -> None:
    """Tombstones for an Empty group and its offsets, pending ones too; ids that were given out are void with it."""
    for at in offsets.partitions_of(group.group_id):
        step.write(offset_tombstone(group.group_id, at))
    step.write(group_tombstone(group.group_id))
    for member_id in group.pending_joins:
        step.cancel_timer(session_key(group, member_id))


def handle_consumer_group_describe(
    message: ConsumerGroupDescribeRequest, groups: Mapping[str, ClassicGroup], step: Step
) -> None:
    """A ConsumerGroupDescribe. Classic groups are not found by it: admin clients then turn to DescribeGroups."""
    described = []
    for group_id in message.group_ids:
        if group_id == "":
            described.append(DescribedConsumerGroup(error_code=ErrorCode.INVALID_GROUP_ID))
            continue
        why = "is not a consumer group" if group_id in groups else "not found"
        described.append(
            DescribedConsumerGroup(
                group_id=group_id,
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} {why}.",
            )
        )
    step.answer(ConsumerGroupDescribeResponse(groups=described))
