"""DescribeGroups (v0-6), ListGroups (v0-5) and DeleteGroups (v0-2).

Lists are sorted by group id. DescribeGroups answers a repeated group id each time, DeleteGroups once."""

from collections.abc import Mapping

from kgm.coordinator.classic.rebalance import delete_group
from kgm.coordinator.consumer.records import group_tombstones
from kgm.coordinator.contract.api_versions import DESCRIBE_HAS_NOT_FOUND, DESCRIBE_HAS_OPERATIONS
from kgm.coordinator.contract.behavior import CoordinatorBehavior
from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.coordinator.groups.classic_group import ClassicGroup, ClassicMember
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.foreign_group import ForeignGroup
from kgm.coordinator.groups.group import Group
from kgm.coordinator.groups.streams_group import NOT_READY, StreamsGroup
from kgm.coordinator.offsets.store import Offsets
from kgm.coordinator.offsets.store import tombstone as offset_tombstone
from kgm.coordinator.streams import records as streams_records
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kgm.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse

#: All operations on a group, as a bit field: READ 3, DELETE 6, DESCRIBE 8, DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11. A
#: coordinator without an authorizer grants them all wherever it answers without an error: before DescribeGroups v6,
#: that includes groups that do not exist.
ALL_GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
_NOT_SENT = -(2**31)
#: All operations on a group, for a coordinator without group configs.
_OPERATIONS_WITHOUT_CONFIGS = 1 << 3 | 1 << 6 | 1 << 8


def authorized_operations(requested: bool, behavior: CoordinatorBehavior) -> int:  # noqa: FBT001  (a field of the request)
    if not requested:
        return behavior.unrequested_operations
    return ALL_GROUP_OPERATIONS if behavior.has_group_configs else _OPERATIONS_WITHOUT_CONFIGS


def handle_describe(message: DescribeGroupsRequest, groups: Mapping[str, Group], event: EventDraft) -> None:
    """A DescribeGroups. A group that does not exist, or is not a classic group, is described as Dead, from v6 on with
    GROUP_ID_NOT_FOUND."""
    operations = _NOT_SENT
    if event.version >= DESCRIBE_HAS_OPERATIONS:
        operations = authorized_operations(message.include_authorized_operations, event.behavior)
    described = []
    for group_id in message.groups:
        group = groups.get(group_id)
        if isinstance(group, ClassicGroup):
            described.append(_describe(group, operations, event.behavior))
        elif event.version >= DESCRIBE_HAS_NOT_FOUND:
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
    event.answer(DescribeGroupsResponse(groups=described))


def _describe(group: ClassicGroup, operations: int, behavior: CoordinatorBehavior) -> DescribedGroup:
    """Protocol and metadata are shown only when the group is Stable. Assignments are shown always, or also only then,
    depending on the version (`describes_unstable_members`)."""
    stable = group.state is ClassicState.STABLE
    protocol = group.protocol if stable else None
    has_assignments = stable or behavior.describes_unstable_members
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            _describe_member(member, protocol, has_assignments=has_assignments)
            for member in group.listed(has_scala_maps=behavior.has_scala_maps)
        ],
        authorized_operations=operations,
    )


def _describe_member(member: ClassicMember, protocol: str | None, *, has_assignments: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.metadata(protocol),
        member_assignment=member.assignment if has_assignments else b"",
    )


def handle_list(message: ListGroupsRequest, groups: Mapping[str, Group], event: EventDraft) -> None:
    """A ListGroups. The type filter ignores case; the state filter does in some versions (`state_filters_ignore_case`).
    An empty filter matches everything; an unknown type matches nothing."""
    behavior = event.behavior
    states = {(state.strip() if behavior.strips_state_filters else state) for state in message.states_filter}
    if behavior.state_filters_ignore_case:
        states = {state.lower() for state in states}
    types = {kind.lower() for kind in message.types_filter}
    listed = [
        ListedGroup(
            group_id=group_id,
            protocol_type=group.protocol_type or "",
            group_state=str(group.state),
            group_type=group.group_type,
        )
        for group_id, group in sorted(groups.items())
        if (not states or _filtered_state(group, ignores_case=behavior.state_filters_ignore_case) in states)
        and (not types or group.group_type in types)
    ]
    event.answer(ListGroupsResponse(groups=listed))


def _filtered_state(group: Group, *, ignores_case: bool) -> str:
    """The name of a group's state in a filter. As in Kafka, one state (NotReady) is spelled differently in a filter
    than in the list."""
    if isinstance(group, StreamsGroup) and group.state == NOT_READY:
        return "not_ready"
    return group.state.lower() if ignores_case else group.state


def handle_delete(
    message: DeleteGroupsRequest, groups: Mapping[str, Group], offsets: Offsets, event: EventDraft
) -> None:
    """A DeleteGroups, which writes tombstones for a group and its offsets if the group is Empty."""
    results = []
    for group_id in dict.fromkeys(message.groups_names):
        group = groups.get(group_id)
        if group is None or group.state == ClassicState.DEAD:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif not group.is_empty:
            error = ErrorCode.NON_EMPTY_GROUP
        else:
            error = ErrorCode.NONE
            write_deletion(group, offsets, event)
        results.append(DeletableGroupResult(group_id=group_id, error_code=error))
    event.answer(DeleteGroupsResponse(results=results))


def write_deletion(group: Group, offsets: Offsets, event: EventDraft) -> None:
    """Write tombstones for an Empty group and its offsets, including pending offsets."""
    for at in offsets.partitions_of(group.group_id):
        event.write(offset_tombstone(group.group_id, at))
    write_group_deletion(group, event)


def write_group_deletion(group: Group, event: EventDraft) -> None:
    """Write tombstones for an Empty group; its offsets remain."""
    match group:
        case ClassicGroup():
            delete_group(group, event)
        case ConsumerGroup():
            for tombstone in group_tombstones(group):
                event.write(tombstone)
        case StreamsGroup():
            for tombstone in streams_records.group_tombstones(group):
                event.write(tombstone)
            event.cancel_timer(TimerKey(TimerKind.INITIAL_DELAY, group.group_id))
        case ForeignGroup():
            for tombstone in group.tombstones():
                event.write(tombstone)
