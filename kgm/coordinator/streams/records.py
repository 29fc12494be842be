"""A streams group in the log: records of the STREAMS_GROUP types (Kafka: StreamsCoordinatorRecordHelpers, and the
replay methods of GroupMetadataManager).

Only `replay` writes to a group. It accepts records in any order, as found in a partly cleaned log, where Kafka throws
an exception."""

from collections.abc import Mapping, Sequence
from typing import Final

from kgm.coordinator.groups.consumer_member import LEAVING
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.groups.streams_member import (
    NOTHING_HELD,
    ActiveTasks,
    HeldTasks,
    StreamsMember,
    TargetTasks,
    Tasks,
)
from kgm.coordinator.groups.streams_topology import StreamsTopology
from kgm.java.strings import utf16_key
from kgm.protocol.struct import Message
from kgm.records.member_states import task_state
from kgm.records.messages.streams_group_current_member_assignment_key import StreamsGroupCurrentMemberAssignmentKey
from kgm.records.messages.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
)
from kgm.records.messages.streams_group_current_member_assignment_value import TaskIds as HeldRow
from kgm.records.messages.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from kgm.records.messages.streams_group_member_metadata_value import (
    Endpoint,
    KeyValue,
    StreamsGroupMemberMetadataValue,
)
from kgm.records.messages.streams_group_metadata_key import StreamsGroupMetadataKey
from kgm.records.messages.streams_group_metadata_value import LastAssignmentConfig, StreamsGroupMetadataValue
from kgm.records.messages.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from kgm.records.messages.streams_group_target_assignment_member_value import StreamsGroupTargetAssignmentMemberValue
from kgm.records.messages.streams_group_target_assignment_member_value import TaskIds as TargetRow
from kgm.records.messages.streams_group_target_assignment_metadata_key import StreamsGroupTargetAssignmentMetadataKey
from kgm.records.messages.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from kgm.records.messages.streams_group_topology_key import StreamsGroupTopologyKey
from kgm.records.messages.streams_group_topology_value import StreamsGroupTopologyValue
from kgm.records.record import Record

#: The key types of a streams group's records.
KEYS: Final = (
    StreamsGroupMetadataKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupTopologyKey,
)


# -- to the log


def epoch_record(
    group_id: str, epoch: int, metadata_hash: int, validated_epoch: int, configs: Mapping[str, str]
) -> Record:
    """validated_epoch: the topology epoch if the topics fit the topology, otherwise -1. configs: the configs that
    assignments depend on."""
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_epoch,
        last_assignment_configs=[LastAssignmentConfig(key=key, value=configs[key]) for key in sorted(configs)],
    )
    return Record(StreamsGroupMetadataKey(group_id=group_id), value)


def topology_record(group_id: str, topology: StreamsGroupTopologyValue) -> Record:
    return Record(StreamsGroupTopologyKey(group_id=group_id), topology)


def member_record(group_id: str, member: StreamsMember) -> Record:
    """A member's metadata."""
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id or "",
        user_endpoint=None if member.endpoint is None else Endpoint(host=member.endpoint[0], port=member.endpoint[1]),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.tags],
    )
    return Record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_record(group_id: str, member_id: str, target: TargetTasks) -> Record:
    active, standby, warmup = (
        [TargetRow(subtopology_id=name, partitions=partitions) for name, partitions in listed(tasks)]
        for tasks in target
    )
    return Record(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        StreamsGroupTargetAssignmentMemberValue(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup),
    )


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    return Record(
        StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def current_record(group_id: str, member: StreamsMember) -> Record:
    """The current assignment of a member: the tasks that it has, and those that it must revoke."""
    assigned, pending = member.assigned, member.pending_revocation
    return Record(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state.value,
            active_tasks=_active_rows(assigned.active),
            standby_tasks=_rows(assigned.standby),
            warmup_tasks=_rows(assigned.warmup),
            active_tasks_pending_revocation=_active_rows(pending.active),
            standby_tasks_pending_revocation=_rows(pending.standby),
            warmup_tasks_pending_revocation=_rows(pending.warmup),
        ),
    )


def listed(tasks: Tasks) -> list[tuple[str, list[int]]]:
    """Subtopologies and their partitions, both in order."""
    return [(name, sorted(tasks[name])) for name in sorted(tasks, key=utf16_key)]


def _rows(tasks: Tasks) -> list[HeldRow]:
    return [HeldRow(subtopology_id=name, partitions=partitions) for name, partitions in listed(tasks)]


def _active_rows(tasks: ActiveTasks) -> list[HeldRow]:
    return [
        HeldRow(subtopology_id=name, partitions=partitions, assignment_epochs=[tasks[name][at] for at in partitions])
        for name, partitions in listed(tasks)
    ]


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """The tombstones of a removed member, in the order that Kafka requires on replay."""
    return [
        Record(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        Record(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        Record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group: StreamsGroup) -> list[Record]:
    """The tombstones of a removed group, which has no members."""
    group_id = group.group_id
    return [
        Record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        Record(StreamsGroupMetadataKey(group_id=group_id), None),
        Record(StreamsGroupTopologyKey(group_id=group_id), None),
    ]


# -- from the log


def ends_group(record: Record) -> bool:
    """Whether a record removes the group itself."""
    return record.value is None and isinstance(record.key, StreamsGroupMetadataKey)


def replay(group: StreamsGroup, key: Message, value: Message | None) -> None:
    """A record of this group is in the log, and it is not one that `ends_group`."""
    match key, value:
        case StreamsGroupCurrentMemberAssignmentKey(member_id=member_id), _:
            assert value is None or isinstance(value, StreamsGroupCurrentMemberAssignmentValue)
            _replay_current(group, member_id, value)
        case StreamsGroupMemberMetadataKey(member_id=member_id), StreamsGroupMemberMetadataValue():
            group.put(_with_metadata(group.members.get(member_id) or StreamsMember(member_id), value))
        case StreamsGroupMemberMetadataKey(member_id=member_id), _:
            if member_id in group.members:
                group.remove(member_id)
        case StreamsGroupTargetAssignmentMemberKey(member_id=member_id), StreamsGroupTargetAssignmentMemberValue():
            rows = value.active_tasks, value.standby_tasks, value.warmup_tasks
            group.targets[member_id] = TargetTasks(*map(_tasks, rows))
        case StreamsGroupTargetAssignmentMemberKey(member_id=member_id), _:
            group.targets.pop(member_id, None)
        case StreamsGroupTargetAssignmentMetadataKey(), StreamsGroupTargetAssignmentMetadataValue():
            group.assignment_epoch = value.assignment_epoch
            group.assignment_timestamp_ms = value.assignment_timestamp
        case StreamsGroupTargetAssignmentMetadataKey(), _:
            group.assignment_epoch, group.assignment_timestamp_ms = -1, 0
        case StreamsGroupMetadataKey(), StreamsGroupMetadataValue():
            group.group_epoch, group.metadata_hash = value.epoch, value.metadata_hash
            group.validated_epoch = value.validated_topology_epoch
            group.configs = {row.key: row.value for row in value.last_assignment_configs or ()}
        case _:
            assert isinstance(value, StreamsGroupTopologyValue | None)
            group.topology = None if value is None else StreamsTopology(value)
    if not group.members:
        group.shutdown_by = None


def _with_metadata(before: StreamsMember, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
    endpoint = value.user_endpoint
    return before._replace(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        tags=sorted_tags({row.key: row.value for row in value.client_tags}),
    )


def sorted_tags(tags: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((key, tags[key]) for key in sorted(tags, key=utf16_key))


def _replay_current(
    group: StreamsGroup, member_id: str, value: StreamsGroupCurrentMemberAssignmentValue | None
) -> None:
    member = group.members.get(member_id)
    if value is None:
        if member is not None:
            group.put(
                member._replace(
                    member_epoch=LEAVING,
                    previous_member_epoch=LEAVING,
                    assigned=NOTHING_HELD,
                    pending_revocation=NOTHING_HELD,
                )
            )
        return
    epoch = value.member_epoch
    group.put(
        (member or StreamsMember(member_id))._replace(
            member_epoch=epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=task_state(value.state),
            assigned=HeldTasks(
                _active(value.active_tasks, epoch), _tasks(value.standby_tasks), _tasks(value.warmup_tasks)
            ),
            pending_revocation=HeldTasks(
                _active(value.active_tasks_pending_revocation, epoch),
                _tasks(value.standby_tasks_pending_revocation),
                _tasks(value.warmup_tasks_pending_revocation),
            ),
        )
    )


def _tasks(rows: Sequence[HeldRow | TargetRow]) -> Tasks:
    return {row.subtopology_id: frozenset(row.partitions) for row in rows}


def _active(rows: Sequence[HeldRow], member_epoch: int) -> ActiveTasks:
    """Active tasks with the epochs in which they were assigned. Kafka before 4.3 does not write these epochs; then the
    member's epoch is used."""
    tasks: dict[str, Mapping[int, int]] = {}
    for row in rows:
        epochs = row.assignment_epochs
        if epochs is None or len(epochs) != len(row.partitions):
            epochs = [member_epoch] * len(row.partitions)
        tasks[row.subtopology_id] = dict(zip(row.partitions, epochs, strict=True))
    return tasks
