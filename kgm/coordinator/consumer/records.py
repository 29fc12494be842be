"""A consumer group in the log: records of the CONSUMER_GROUP types (Kafka: GroupCoordinatorRecordHelpers, and the
replay methods of GroupMetadataManager).

Only `replay` writes to a group. It accepts records in any order, as found in a partly cleaned log, where Kafka throws
an exception."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, overload

from kgm.coordinator.consumer import target_order
from kgm.coordinator.contract.outcome import Millis
from kgm.coordinator.groups.consumer_group import ConsumerGroup, ResolvedRegex
from kgm.coordinator.groups.consumer_member import (
    LEAVING,
    NOTHING,
    Assigned,
    ClassicProtocols,
    ConsumerMember,
    ListedTarget,
)
from kgm.coordinator.groups.targets import Spans, listed
from kgm.protocol.struct import Message
from kgm.records.member_states import member_state
from kgm.records.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from kgm.records.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kgm.records.messages.consumer_group_current_member_assignment_value import TopicPartitions as AssignedRow
from kgm.records.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kgm.records.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from kgm.records.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kgm.records.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kgm.records.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from kgm.records.messages.consumer_group_partition_metadata_value import (
    ConsumerGroupPartitionMetadataValue,
    TopicMetadata,
)
from kgm.records.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from kgm.records.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from kgm.records.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from kgm.records.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from kgm.records.messages.consumer_group_target_assignment_member_value import TopicPartition as TargetRow
from kgm.records.messages.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from kgm.records.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kgm.records.record import Record

#: The key types of a consumer group's records.
KEYS: Final = (
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupRegularExpressionKey,
)


# -- to the log


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    return Record(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_record(group_id: str, member: ConsumerMember) -> Record:
    """A member's metadata, with its topic names sorted."""
    classic = member.classic
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.group_instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in classic.protocols],
        ),
    )
    return Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_record(group_id: str, member_id: str, target: ListedTarget) -> Record:
    """target: in Kafka's order (`target_order`), which is recorded nowhere else."""
    rows = [TargetRow(topic_id=topic_id, partitions=list(partitions)) for topic_id, partitions in target.items()]
    return Record(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(topic_partitions=rows),
    )


class TargetRecords(Sequence[Record]):
    """The records of targets that `range` has changed, which are made when they are read. topics, spans: see
    `Targets`; topics and members are in Kafka's order."""

    __slots__ = ("group_id", "spans", "topics")

    def __init__(self, group_id: str, topics: tuple[bytes, ...], spans: Mapping[str, Spans]) -> None:
        self.group_id = group_id
        self.topics = topics
        self.spans = spans

    def __len__(self) -> int:
        return len(self.spans)

    @overload
    def __getitem__(self, at: int) -> Record: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Record]: ...
    def __getitem__(self, at: int | slice) -> Record | Sequence[Record]:
        if isinstance(at, slice):
            return [*self][at]
        member_id = next(islice(self.spans, at, None))
        return target_record(self.group_id, member_id, listed(self.topics, self.spans[member_id]))

    def __iter__(self) -> Iterator[Record]:
        for member_id, spans in self.spans.items():
            yield target_record(self.group_id, member_id, listed(self.topics, spans))


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    return Record(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def current_record(group: ConsumerGroup, member: ConsumerMember) -> Record:
    """The current assignment of a member: the partitions that it has, and those that it must revoke."""
    has_epochs = group.behavior.has_assignment_epochs
    return Record(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group.group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state.value,
            assigned_partitions=_assigned_rows(member.assigned, has_epochs=has_epochs),
            partitions_pending_revocation=_assigned_rows(member.pending_revocation, has_epochs=has_epochs),
        ),
    )


def _assigned_rows(assigned: Assigned, *, has_epochs: bool) -> list[AssignedRow]:
    return [
        AssignedRow(
            topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values()) if has_epochs else None
        )
        for topic_id, epochs in assigned.items()
    ]


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> Record:
    return Record(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        ),
    )


def regex_tombstone(group_id: str, regex: str) -> Record:
    return Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def partition_metadata_record(group_id: str, topics: Iterable[tuple[str, bytes, int]]) -> Record:
    """The name, id and partition count of each topic of a group, as Kafka 4.0 keeps them in the log."""
    rows = [
        TopicMetadata(topic_name=name, topic_id=topic_id, num_partitions=partitions)
        for name, topic_id, partitions in sorted(topics)
    ]
    return Record(
        ConsumerGroupPartitionMetadataKey(group_id=group_id), ConsumerGroupPartitionMetadataValue(topics=rows)
    )


def partition_metadata_tombstone(group_id: str) -> Record:
    """Removes the topics of a group that Kafka 4.0 kept in the log; later versions keep a hash instead."""
    return Record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """The tombstones of a removed member, in the order that Kafka requires on replay."""
    return [
        Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group: ConsumerGroup, renamed: Mapping[str, str] | None = None) -> list[Record]:
    """The tombstones of a removed group. renamed: new ids of members whose id has just changed, by old id."""
    group_id, other = group.group_id, renamed or {}
    members = [other.get(member.member_id, member.member_id) for member in group.in_order()]
    rows = [member_tombstones(group_id, member_id) for member_id in members]
    return [
        *(row[0] for row in rows),
        *(row[1] for row in rows),
        Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(row[2] for row in rows),
        *(regex_tombstone(group_id, regex) for regex in sorted(group.resolved)),
        partition_metadata_tombstone(group_id),
        Record(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


# -- from the log


def ends_group(record: Record) -> bool:
    """Whether a record removes the group itself."""
    return record.value is None and isinstance(record.key, ConsumerGroupMetadataKey)


def replay(group: ConsumerGroup, key: Message, value: Message | None) -> None:
    """A record of this group is in the log, and it is not one that `ends_group`."""
    match key, value:
        case ConsumerGroupTargetAssignmentMemberKey(member_id=member_id), _:  # most records of an epoch
            if isinstance(value, ConsumerGroupTargetAssignmentMemberValue):
                rows = {row.topic_id: row.partitions for row in value.topic_partitions}
                group.put_target(member_id, *target_order.replayed(rows))
            else:
                group.put_target(member_id, None, {})
        case ConsumerGroupCurrentMemberAssignmentKey(member_id=member_id), _:
            assert value is None or isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
            _replay_current(group, member_id, value)
        case ConsumerGroupMemberMetadataKey(member_id=member_id), ConsumerGroupMemberMetadataValue():
            before = group.members.get(member_id) or ConsumerMember(member_id)
            group.put(_with_metadata(before, value))
        case ConsumerGroupMemberMetadataKey(member_id=member_id), _:
            if member_id in group.members:
                group.remove(member_id)
        case ConsumerGroupTargetAssignmentMetadataKey(), ConsumerGroupTargetAssignmentMetadataValue():
            group.assignment_epoch = value.assignment_epoch
            group.assignment_timestamp_ms = value.assignment_timestamp
        case ConsumerGroupTargetAssignmentMetadataKey(), _:
            group.assignment_epoch, group.assignment_timestamp_ms = -1, 0
        case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue():
            group.group_epoch, group.metadata_hash = value.epoch, value.metadata_hash
        case ConsumerGroupRegularExpressionKey(regular_expression=regex), _:
            resolved = None
            if isinstance(value, ConsumerGroupRegularExpressionValue):
                resolved = ResolvedRegex(frozenset(value.topics), value.version, Millis(value.timestamp))
            group.resolve(regex, resolved)
        case _:
            assert isinstance(value, ConsumerGroupPartitionMetadataValue | None)
            group.has_partition_metadata = value is not None
            group.partition_metadata = frozenset(
                (row.topic_name, row.topic_id, row.num_partitions) for row in (value.topics if value else ())
            )


def _with_metadata(before: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """A member with the metadata of a record."""
    classic = value.classic_member_metadata
    return before._replace(
        group_instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=_frozen(value.subscribed_topic_names, before.subscribed_topic_names),
        subscribed_topic_regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicProtocols(
            classic.session_timeout_ms, tuple([(row.name, row.metadata) for row in classic.supported_protocols])
        ),
    )


def _frozen(names: Sequence[str], before: frozenset[str]) -> frozenset[str]:
    """The names as a set; the same object as before if the names are the same."""
    now = frozenset(names)
    return before if now == before else now


def _replay_current(
    group: ConsumerGroup, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
) -> None:
    member = group.members.get(member_id)
    if value is not None:
        group.put(
            (member or ConsumerMember(member_id)).moved(
                member_state(value.state),
                value.member_epoch,
                value.previous_member_epoch,
                _assigned(value.assigned_partitions, value.member_epoch),
                _assigned(value.partitions_pending_revocation, value.member_epoch),
            )
        )
    elif member is not None:
        group.put(
            member._replace(
                member_epoch=LEAVING, previous_member_epoch=LEAVING, assigned=NOTHING, pending_revocation=NOTHING
            )
        )


def _assigned(rows: Sequence[AssignedRow], member_epoch: int) -> Assigned:
    """Partitions with the epochs in which they were assigned. Kafka before 4.3 does not write these epochs; then the
    member's epoch is used."""
    assigned: dict[bytes, dict[int, int]] = {}
    for row in rows:
        epochs = row.assignment_epochs
        if epochs is None or len(epochs) != len(row.partitions):
            epochs = [max(member_epoch, 0)] * len(row.partitions)
        assigned[row.topic_id] = dict(zip(row.partitions, epochs, strict=True))
    return assigned
