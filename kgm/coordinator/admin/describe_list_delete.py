"""DescribeGroups (v0-6), ListGroups (v0-5) and DeleteGroups (v0-2).

What is listed is sorted by group id. DescribeGroups answers a repeated group id each time, DeleteGroups once."""

from collections.abc import Mapping

from kgm.coordinator.classic.group import ClassicGroup, ClassicMember
from kgm.coordinator.classic.rebalance import session_key
from kgm.coordinator.classic.records import tombstone as group_tombstone
from kgm.coordinator.classic.state import ClassicState
from kgm.coordinator.consumer.group import CONSUMER, ConsumerGroup
from kgm.coordinator.consumer.records import group_tombstones
from kgm.coordinator.contract.event_draft import EventDraft
from kgm.coordinator.contract.foreign_group import ForeignGroup
from kgm.coordinator.offsets.store import Offsets
from kgm.coordinator.offsets.store import tombstone as offset_tombstone
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kgm.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from kgm.records.record import Record

#: Every right there is on a group, as a bit field: READ 3, DELETE 6, DESCRIBE 8, DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11.
#: A coordinator without an authorizer grants them all, wherever it answers without an error: so also on groups that do
#: not exist, when DescribeGroups is older than v6.
ALL_GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
_NOT_ASKED = -(2**31)
_NOT_FOUND_ERROR_FROM = 6
_CLASSIC = "classic"
Group = ClassicGroup | ConsumerGroup | ForeignGroup


def operations_shown(asked: bool) -> int:  # noqa: FBT001  (a field of the request)
    return ALL_GROUP_OPERATIONS if asked else _NOT_ASKED


def handle_describe(message: DescribeGroupsRequest, groups: Mapping[str, Group], step: EventDraft) -> None:
    """A DescribeGroups. A group that does not exist, or is no classic one, is described as Dead; from v6 on with
    GROUP_ID_NOT_FOUND."""
    assert step.request is not None
    operations = operations_shown(message.include_authorized_operations)
    described = []
    for group_id in message.groups:
        group = groups.get(group_id)
        if isinstance(group, ClassicGroup):
            described.append(_describe(group, operations))
        elif step.request.version >= _NOT_FOUND_ERROR_FROM:
            described.append(
                DescribedGroup(
                    group_id=group_id,
                    group_state=ClassicState.DEAD.value,
                    error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                    error_message=f"Group {group_id} {'not found' if group is None else 'is not a classic group'}.",
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


def handle_list(message: ListGroupsRequest, groups: Mapping[str, Group], step: EventDraft) -> None:
    """A ListGroups. Both filters ignore case; an empty one lets all through; a type that is none matches nothing."""
    states = {state.strip().lower() for state in message.states_filter}
    types = {kind.lower() for kind in message.types_filter}
    listed = [
        ListedGroup(
            group_id=group_id,
            protocol_type=_protocol_type(group),
            group_state=str(group.state),
            group_type=type_of(group),
        )
        for group_id, group in sorted(groups.items())
        if (not states or group.state.lower() in states) and (not types or type_of(group) in types)
    ]
    step.answer(ListGroupsResponse(groups=listed))


def type_of(group: Group) -> str:
    """classic, consumer, share or streams."""
    match group:
        case ClassicGroup():
            return _CLASSIC
        case ConsumerGroup():
            return CONSUMER
        case ForeignGroup():
            return group.group_type


def _protocol_type(group: Group) -> str:
    return group.group_type if isinstance(group, ForeignGroup) else group.protocol_type or ""


def handle_delete(
    message: DeleteGroupsRequest, groups: Mapping[str, Group], offsets: Offsets, step: EventDraft
) -> None:
    """A DeleteGroups: tombstones for the offsets and for the group, if it is Empty."""
    results = []
    for group_id in dict.fromkeys(message.groups_names):
        group = groups.get(group_id)
        if group is None or group.state == ClassicState.DEAD:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif not is_empty(group):
            error = ErrorCode.NON_EMPTY_GROUP
        else:
            error = ErrorCode.NONE
            write_deletion(group, offsets, step)
        results.append(DeletableGroupResult(group_id=group_id, error_code=error))
    step.answer(DeleteGroupsResponse(results=results))


def is_empty(group: Group) -> bool:
    return group.is_in(ClassicState.EMPTY) if isinstance(group, ClassicGroup) else group.is_empty


def write_deletion(group: Group, offsets: Offsets, step: EventDraft) -> None:
    """Tombstones for an Empty group and its offsets, pending ones too; ids that were given out are void with it."""
    for at in offsets.partitions_of(group.group_id):
        step.write(offset_tombstone(group.group_id, at))
    write_group_deletion(group, step)


def write_group_deletion(group: Group, step: EventDraft) -> None:
    """The same, but the offsets stay."""
    if isinstance(group, ClassicGroup):
        for member_id in group.pending_joins:
            step.cancel_timer(session_key(group, member_id))
    for tombstone in _tombstones(group):
        step.write(tombstone)


def _tombstones(group: Group) -> list[Record]:
    match group:
        case ConsumerGroup():
            return group_tombstones(group)
        case ForeignGroup():
            return group.tombstones()
        case ClassicGroup():
            return [group_tombstone(group.group_id)]
