"""When the members of a group were last active, according to the group's records in `__consumer_offsets`.

OffsetFetch shows where committed offsets are; the log shows each commit, including those that change no offset (Java's
consumers commit every interval whether or not anything was read). It also shows the rebalances of a classic group with
each member's session timeout, and what the coordinator wrote when a heartbeat changed a member of a consumer group
(KIP-848).

Timestamps are by the coordinator's clock. Reading requires READ on the topic; if that is missing, or the topic cannot
be read, `unreadable_because` says so. While a partition moves from one broker to another, the read is retried."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias

from kgm.client.admin_client import AdminClient
from kgm.client.failures import is_temporary
from kgm.client.offsets_topic.writability import Writability, writability
from kgm.client.topic_log import partition_log
from kgm.client.topic_log.partition_log import OffsetsTopic, PartitionLeader
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.java.partitions import partition_for
from kgm.model.assignment import Partitions
from kgm.model.errors import DecodeError, KgmError
from kgm.protocol.subscription import PROTOCOL_TYPE, readable_assignment
from kgm.records.batch import Batch
from kgm.records.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from kgm.records.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kgm.records.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kgm.records.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import decode_record
from kgm.records.record_types import RecordType
from kgm.records.transactions import PendingItems, TransactionEnd

#: The most bytes of the partition that are read back, plus one fetch.
MAX_BYTES: Final = 16 << 20
#: The most records of the group in one read: compressed batches can contain thousands of times their size.
MAX_RECORDS: Final = 1 << 18
#: How many offsets are read back first; each further step reads twice as many.
_FIRST_WINDOW: Final = 4_000
_KEY_HEAD: Final = struct.Struct(">hh")
#: Record types that are keyed by a group id and concern the group's members.
_TYPES: Final = (
    RecordType.OFFSET_COMMIT, RecordType.GROUP_METADATA, RecordType.CONSUMER_GROUP_MEMBER_METADATA,
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
)  # fmt: skip
_LEFT_EPOCHS: Final = (-1, -2)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """An offset commit. at_ms: when the coordinator wrote it, in ms since the epoch by its clock. A sign of life in any
    case; in a transaction, it is a commit only once the transaction is committed. offset: the committed offset.
    is_transactional: whether it is in a transaction; end: the end of that, None while it is open."""

    at_ms: int
    topic: str
    partition: int
    offset: int
    is_transactional: bool = False
    end: TransactionEnd | None = None

    @property
    def is_open(self) -> bool:
        """Whether its transaction is open."""
        return self.is_transactional and self.end is None

    @property
    def committed_ms(self) -> int | None:
        """Since when the offset counts, in ms of the coordinator's clock; None if its transaction is open, or was
        aborted."""
        if not self.is_transactional:
            return self.at_ms
        return self.end.at_ms if self.end is not None and self.end.is_committed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMember:
    """A member in a record of its classic group. Timeouts in ms."""

    member_id: str
    group_instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    assignment: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceRecord:
    """A classic group's own record, written when a rebalance ended or a static member was replaced. assignor: None if
    the group had none, or is not one of consumers."""

    at_ms: int
    generation: int
    assignor: str | None
    members: Mapping[str, RecordedMember]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecord:
    """A record that was caused by a heartbeat of a consumer group member. member_epoch: None if the record has none.
    is_revoking: whether it asks the member to give up partitions. rebalance_timeout_ms: how long the member has for
    that, if the record says so. leader_epoch: of the partition, when it was written."""

    at_ms: int
    member_id: str
    member_epoch: int | None
    leader_epoch: int = -1
    is_revoking: bool = False
    rebalance_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartureRecord:
    """What the coordinator deleted when a member of a consumer group left or was removed."""

    at_ms: int
    member_id: str


ActivityRecord: TypeAlias = CommitRecord | RebalanceRecord | MemberRecord | DepartureRecord


@dataclass(slots=True, kw_only=True)
class _LogPosition:
    """The partition with the group's records. position: the next offset to read."""

    partition: int
    leader: PartitionLeader
    position: int = 0


@dataclass(slots=True, kw_only=True)
class _ReadRecords:
    """Records of the group, oldest first, the number of bytes that were read for all groups, and when the first of
    them was written. transactions: the places in `records` of what open transactions wrote; first_ends: the first end
    of a transaction of each producer, which also ends what the producer wrote before the first record."""

    records: list[ActivityRecord] = field(default_factory=list)
    transactions: PendingItems[int] = field(default_factory=PendingItems)
    first_ends: dict[int, TransactionEnd] = field(default_factory=dict)
    size: int = 0
    began_ms: int | None = None

    def see_marker(self, batch: Batch) -> None:
        """Note the end of a transaction. Raises DecodeError."""
        ended = self.transactions.end(batch)
        if ended is not None:
            end, places = ended
            self.first_ends.setdefault(batch.producer_id, end)
            self._end(places, end)

    def end_by(self, later: Mapping[int, TransactionEnd]) -> None:
        """End open transactions with the first end of each producer in what follows these records."""
        for producer_id, places in self.transactions.pending.items():
            if producer_id in later:
                self._end(places, later[producer_id])

    def _end(self, places: Sequence[int], end: TransactionEnd) -> None:
        for place in places:
            commit = self.records[place]
            assert isinstance(commit, CommitRecord)
            self.records[place] = replace(commit, end=end)


class GroupActivity:
    """The records of one group: first past records, then new ones. with_departures: include those of departing members
    of consumer groups, which are not a sign of life. with_open: read back to the oldest open transaction, too."""

    def __init__(
        self, cluster: AdminClient, group_id: str, *, with_departures: bool = False, with_open: bool = False
    ) -> None:
        self._with_departures, self._with_open = with_departures, with_open
        self._cluster = cluster
        self._group_id = group_id
        self._keys = _KeyFilter(group_id)
        self._place: _LogPosition | None = None
        #: Why the log cannot be read; None if it can.
        self.unreadable_because: str | None = "it has not been read yet"
        #: Timestamp of the newest record of any group in the partition, in ms of the coordinator's clock.
        self.newest_ms: int | None = None
        #: Timestamp of the first record of each leader epoch, among those read.
        self._epochs_began_ms: dict[int, int] = {}
        #: From when on `read_back` has returned all records, in ms of the coordinator's clock: 0 if it has read the
        #: whole partition, None before it has read anything.
        self.known_since_ms: int | None = None
        #: Whether `read_back` has read all that open transactions wrote.
        self.has_read_open = False
        #: Whether the partition's leader changed while it was being read; the new leader restarts all sessions.
        self.has_moved = False
        #: Whether the last `read_on` found new records of any group in the partition.
        self.has_grown = False
        #: Whether all in-sync replicas had everything that the leader had when the last `read_on` began: what they lack
        #: nobody can see. None if that is not known.
        self.is_replicated: bool | None = None
        self._topic: OffsetsTopic | None = None

    @property
    def epoch_began_ms(self) -> int | None:
        """Timestamp of the first record of the current leader epoch, among those read."""
        return None if self._place is None else self._epochs_began_ms.get(self._place.leader.epoch)

    @property
    def takeovers_ms(self) -> list[int]:
        """By when a coordinator had taken over, for each leader epoch whose predecessor was read too, oldest first: the
        timestamp of its first record."""
        return [self._epochs_began_ms[epoch] for epoch in sorted(self._epochs_began_ms)[1:]]

    def begin(self, deadline: Deadline) -> None:
        """Skip past records: `read_on` starts at the current end. Raises nothing: see `unreadable_because`."""
        self._try(self._begin, deadline)

    def is_of_earlier_epoch(self, record: MemberRecord) -> bool:
        """Whether an earlier coordinator wrote the record. Its timers ended with it: one that takes over starts all of
        them again when it has read the log, before it writes anything, so by `epoch_began_ms`."""
        return self._place is not None and record.leader_epoch < self._place.leader.epoch

    def _begin(self, place: _LogPosition, deadline: Deadline, connection: BrokerConnection) -> list[ActivityRecord]:
        place.position = partition_log.end_offset(connection, place.partition, deadline)
        return []

    def read_back(self, enough: Callable[[Sequence[ActivityRecord]], bool], deadline: Deadline) -> list[ActivityRecord]:
        """The group's records, oldest first, without a gap up to now. Reads back until there are `enough` of them, or a
        limit of bytes or time is reached. Raises nothing: see `unreadable_because`."""
        return self._try(partial(self._read_back, enough), deadline)

    def read_on(self, deadline: Deadline) -> list[ActivityRecord]:
        """The group's records since the last call, oldest first. Raises nothing: see `unreadable_because`."""
        return self._try(self._read_on, deadline)

    def writability(self, deadline: Deadline) -> Writability | None:
        """Whether the partition took records when it was last read; None if it has not been read."""
        if self._topic is None or self._place is None:
            return None
        number = self._place.partition
        found = writability(self._cluster.brokers, self._topic, [number], deadline).get(number)
        return None if found is None else replace(found, is_replicated=self.is_replicated)

    def _try(
        self, read: Callable[[_LogPosition, Deadline, BrokerConnection], list[ActivityRecord]], deadline: Deadline
    ) -> list[ActivityRecord]:
        for attempt in range(1, partition_log.ATTEMPTS + 1):
            try:
                place = self._look_up(deadline)
                records = self._cluster.brokers.on_broker(place.leader.broker, partial(read, place, deadline), deadline)
            except KgmError as error:
                if attempt == partition_log.ATTEMPTS or deadline.expired or not is_temporary(error):
                    self.unreadable_because = partition_log.why_unreadable(error)
                    break
                deadline.sleep(partition_log.PAUSE_S)
            else:
                self.unreadable_because = None
                return records
        return []

    def _look_up(self, deadline: Deadline) -> _LogPosition:
        """The group's partition and its current leader. Raises KgmError."""
        topic = self._topic = partition_log.look_up(self._cluster.brokers, deadline)
        number = partition_for(self._group_id, topic.partition_count)
        leader = topic.leaders.get(number)
        if leader is None:
            raise partition_log.leaderless(number)
        place = self._place
        if place is None:
            place = self._place = _LogPosition(partition=number, leader=leader)
        elif leader != place.leader:
            self.has_moved = True
            self._epochs_began_ms.pop(leader.epoch, None)  # of a topic that was deleted and created again
            place.leader = leader
        return place

    def _read_back(
        self, enough: Callable[[Sequence[ActivityRecord]], bool], place: _LogPosition, deadline: Deadline,
        connection: BrokerConnection,
    ) -> list[ActivityRecord]:  # fmt: skip
        start = partition_log.start_offset(connection, place.partition, deadline)
        end = place.position = partition_log.end_offset(connection, place.partition, deadline)
        stable = partition_log.stable_offset(connection, place.partition, deadline) if self._with_open else end
        self.has_read_open = stable >= end
        records: list[ActivityRecord] = []
        ends: dict[int, TransactionEnd] = {}
        size = 0
        self.known_since_ms = 0 if start == end else None
        for first, window_end in partition_log.windows_back(start, end, _FIRST_WINDOW):
            if size >= MAX_BYTES or deadline.expired:
                break
            older = self._read(place, first, window_end, deadline, connection)
            size += older.size
            older.end_by(ends)
            ends |= older.first_ends
            records = older.records + records
            self.known_since_ms = 0 if first == start else older.began_ms
            self.has_read_open = first <= stable
            if self.has_read_open and enough(records):
                break
        return records

    def _read_on(self, place: _LogPosition, deadline: Deadline, connection: BrokerConnection) -> list[ActivityRecord]:
        written = self._log_end(place, deadline, connection)
        end = partition_log.end_offset(connection, place.partition, deadline)
        self.is_replicated = None if written is None else end >= written
        place.position = min(place.position, end)  # smaller after the topic was deleted and created again
        fresh = self._read(place, place.position, end, deadline, connection)
        self.has_grown = end > place.position
        place.position = end
        return fresh.records

    def _log_end(self, place: _LogPosition, deadline: Deadline, connection: BrokerConnection) -> int | None:
        """The end of the leader's log, 0 if no other replica is in sync; None if the broker does not report it. Raises
        KgmError for what may succeed later."""
        replicas = None if self._topic is None else self._topic.replicas.get(place.partition)
        if replicas is not None and replicas.in_sync <= 1:
            return 0
        try:
            return partition_log.log_end_offset(connection, place.partition, deadline)
        except KgmError as error:
            if is_temporary(error):
                raise
            return None

    def _read(
        self, place: _LogPosition, first: int, end: int, deadline: Deadline, connection: BrokerConnection
    ) -> _ReadRecords:
        read = _ReadRecords()
        for fetched in partition_log.fetch_batches(connection, place.partition, first, end, deadline):
            read.size += sum(len(batch.data) for batch in fetched)
            for batch in fetched:
                self._note_times(batch)
                if read.began_ms is None:
                    read.began_ms = batch.max_timestamp
                if not batch.is_control:
                    self._add_records(read, batch, first, end)
                elif first <= batch.base_offset < end:
                    read.see_marker(batch)
                if len(read.records) > MAX_RECORDS:
                    raise DecodeError(f"partition {place.partition} has more than {MAX_RECORDS} records of the group")
        return read

    def _note_times(self, batch: Batch) -> None:
        self.newest_ms = max(batch.max_timestamp, self.newest_ms or 0)
        began_ms = self._epochs_began_ms.get(batch.leader_epoch, batch.base_timestamp)
        self._epochs_began_ms[batch.leader_epoch] = min(began_ms, batch.base_timestamp)

    def _add_records(self, read: _ReadRecords, batch: Batch, first: int, end: int) -> None:
        """Add the group's records in a data batch."""
        for row in batch.records:
            if (
                first <= row.offset < end
                and row.key is not None
                and (row.value is not None or self._with_departures)
                and self._keys.match(row.key)
            ):
                record = _decode(row.key, row.value, row.timestamp, batch)
                if record is None:
                    continue
                if isinstance(record, CommitRecord) and record.is_transactional:
                    read.transactions.add(batch, len(read.records))
                read.records.append(record)


class _KeyFilter:
    """Tells from the bytes of a key whether it belongs to this group, without decoding: most records do not."""

    def __init__(self, group_id: str) -> None:
        encoded = group_id.encode()
        self._heads = {_KEY_HEAD.pack(kind, len(encoded)) + encoded for kind in _TYPES}
        self._size = _KEY_HEAD.size + len(encoded)

    def match(self, key: bytes) -> bool:
        return key[: self._size] in self._heads


def _decode(key: bytes, value: bytes | None, at_ms: int, batch: Batch) -> ActivityRecord | None:
    """The decoded record of a batch; None if it cannot be decoded, or does not concern a member."""
    try:
        record = decode_record(key, value)
    except DecodeError:
        return None
    match record.key, record.value:
        case ConsumerGroupMemberMetadataKey() as member, None:
            return DepartureRecord(at_ms=at_ms, member_id=member.member_id)
        case _, None:
            return None
        case OffsetCommitKey() as commit, OffsetCommitValue(offset=offset):
            return CommitRecord(
                at_ms=at_ms, topic=commit.topic, partition=commit.partition, offset=offset,
                is_transactional=batch.transactional,
            )  # fmt: skip
        case _, GroupMetadataValue() as group:
            return _rebalance(group, at_ms)
        case (
            ConsumerGroupCurrentMemberAssignmentKey() as member,
            ConsumerGroupCurrentMemberAssignmentValue() as current,
        ):
            if current.member_epoch in _LEFT_EPOCHS:
                return None
            return MemberRecord(
                at_ms=at_ms, member_id=member.member_id, member_epoch=current.member_epoch,
                leader_epoch=batch.leader_epoch, is_revoking=bool(current.partitions_pending_revocation),
            )  # fmt: skip
        case ConsumerGroupMemberMetadataKey() as member, ConsumerGroupMemberMetadataValue() as joined:
            return MemberRecord(
                at_ms=at_ms, member_id=member.member_id, member_epoch=None,
                leader_epoch=batch.leader_epoch, rebalance_timeout_ms=joined.rebalance_timeout_ms,
            )  # fmt: skip
        case _:
            return None


def _rebalance(group: GroupMetadataValue, at_ms: int) -> RebalanceRecord:
    def assignment(blob: bytes) -> Partitions:
        assigned = readable_assignment(blob) if group.protocol_type == PROTOCOL_TYPE else None
        return {} if assigned is None else assigned.partitions

    members = {
        one.member_id: RecordedMember(
            member_id=one.member_id,
            group_instance_id=one.group_instance_id or None,
            session_timeout_ms=one.session_timeout,
            rebalance_timeout_ms=one.rebalance_timeout,
            assignment=assignment(one.assignment),
        )
        for one in group.members
    }
    assignor = group.protocol or None if group.protocol_type == PROTOCOL_TYPE else None
    return RebalanceRecord(at_ms=at_ms, generation=group.generation, assignor=assignor, members=members)
