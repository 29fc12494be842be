"""What coordinators record about groups from now on: each completed rebalance, each replaced member of classic groups.

No API returns the generation of a classic group, and polling misses what happens between two polls. The topic
`__consumer_offsets` has both: the coordinator writes a record of the group at the end of each rebalance, when the group
becomes empty, and when a static member is replaced (Kafka: GroupMetadataValue). For each target assignment of another
group it writes a record with its epoch (Kafka: ConsumerGroupTargetAssignmentMetadataValue and the same of streams and
share groups). Compaction can remove all of them but the last before they are read: a record that follows missing
offsets says so. Reading requires READ on the topic; if that is missing, or the broker does not serve the topic,
`unreadable_because` says so."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias

from kgm.client.admin_client import AdminClient
from kgm.client.failures import is_temporary
from kgm.client.framework_groups import connect_group
from kgm.client.in_parts import KeptGroups
from kgm.client.offsets_topic import last_rebalance
from kgm.client.topic_log import partition_log
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.clients.recognition import recognise_record
from kgm.java.partitions import partition_for
from kgm.model.client_library import ClientLibrary
from kgm.model.errors import DecodeError, KgmError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.work import CONNECT_PROTOCOL_TYPE
from kgm.protocol.subscription import PROTOCOL_TYPE, readable_assignment, readable_subscription
from kgm.records.batch import RawRecord as LogRecord
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.records.record import decode_record

#: How many bytes of one partition one poll reads; the rest is skipped, and `skipped` says so.
MAX_BYTES: Final = 8 << 20
#: How many bytes of a partition `read_back` reads unless told otherwise, and how many offsets it tries first.
PAST_BYTES: Final = 1 << 20
_PAST_WINDOW = 4_000
#: Groups whose records are packed together.
_PART: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedGroup:
    """A record of a classic group as a snapshot; what the record does not contain is None. at_ms: when it was
    written; follows_gap: as in `EndedRebalances`."""

    at_ms: int
    group: GroupSnapshot
    follows_gap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTarget:
    """A record of a target assignment. at_ms: when it was written; epoch: None if it was deleted, as it is with the
    group or when that changes to the classic protocol; follows_gap: as in `EndedRebalances`."""

    at_ms: int
    epoch: int | None
    follows_gap: bool = False


@dataclass(slots=True, kw_only=True)
class _Partition:
    """A partition of `__consumer_offsets`. position: the next offset to read; None before the first read, which looks
    for the last record of each group. interrupted_because: as `GroupRecordTail.interrupted`. known: the offset of the
    last record of each group that has one since the first read, which ended at `start`; whole_from: the offset from
    which on no record is missing."""

    number: int
    group_ids: list[str] = field(default_factory=list)
    position: int | None = None
    interrupted_because: str | None = None
    start: int = 0
    known: dict[str, int] = field(default_factory=dict)
    whole_from: int = 0


#: A record not yet decoded: its key, its value, None for a deleted target assignment, when it was written, in ms, and
#: whether it follows a gap.
RawRecord: TypeAlias = tuple[bytes, bytes | None, int, bool]
_RawRecords: TypeAlias = list[tuple[str, RawRecord]]
_ByGroup: TypeAlias = dict[str, list[RawRecord]]


class GroupRecordTail:
    """The logs of these groups, starting with the last record of each. has_targets: whether target assignments are
    read, too."""

    def __init__(self, cluster: AdminClient, group_ids: Iterable[str], *, has_targets: bool = False) -> None:
        self._cluster, self._has_targets = cluster, has_targets
        self._group_ids = list(group_ids)
        self._partition_count = 0
        self._partitions: dict[int, _Partition] = {}
        self._keys: dict[bytes, str] = {}
        self._classic_keys: set[bytes] = set()
        #: Why the log cannot be read; None while it can.
        self.unreadable_because: str | None = None
        #: Why the last read could not begin.
        self._lost_because: str | None = None
        #: Groups for which the last read skipped records.
        self.skipped: set[str] = set()

    def interrupted(self, group_id: str) -> str | None:
        """Why the last read may lack records of this group that the next one will have: a partition moved, or a broker
        did not answer."""
        if self._lost_because is not None or not self._partition_count:
            return self._lost_because
        partition = self._partitions.get(partition_for(group_id, self._partition_count))
        return None if partition is None else partition.interrupted_because

    @property
    def interrupted_because(self) -> str | None:
        """Why the last read may lack records of some of the groups; None if it lacks none."""
        reasons = (one.interrupted_because for one in self._partitions.values())
        return self._lost_because or next((why for why in reasons if why is not None), None)

    def follow(self, group_ids: Iterable[str]) -> None:
        """Follow these groups from now on. If the partition of a new group is already being read, the group's records
        from before the last read are not looked for."""
        self._group_ids = list(group_ids)
        if self._partition_count:
            self._assign_partitions(self._partition_count)

    def read(self, deadline: Deadline) -> KeptGroups[Sequence[RawRecord]]:
        """What was written since the last read, by group, oldest first. The first read returns the last record of each
        group. The records are raw, for `decoded`: for many groups, the decoded ones would not fit into memory.

        Raises nothing: after a failure, the next read starts at the same place."""
        # Groups are taken in their own order, which is one in all partitions: a part of each partition is unpacked.
        kept: KeptGroups[Sequence[RawRecord]] = KeptGroups(size=_PART)
        for by_group in self._read(self._read_on, deadline):
            for group_id, records in by_group.items():
                kept.put(group_id, records)
        return kept

    def read_back(self, deadline: Deadline, most_bytes: int = PAST_BYTES) -> Mapping[str, Sequence[RawRecord]]:
        """What was written recently, by group, oldest first: the last `most_bytes` of each partition, to be passed to
        `decoded`."""
        read_partition = partial(self._read_past, most_bytes)
        return dict(chain.from_iterable(one.items() for one in self._read(read_partition, deadline)))

    def _read(
        self, read_partition: Callable[[_Partition, Deadline, BrokerConnection], _RawRecords], deadline: Deadline
    ) -> Iterator[_ByGroup]:
        """What is read of each partition, its groups in their order."""
        self.skipped = set()
        self._lost_because = None
        try:
            topic = partition_log.look_up(self._cluster.brokers, deadline)
        except KgmError as error:
            self._lost_because = self._could_not_read(error)
            return
        if not self._partition_count:
            self._assign_partitions(topic.partition_count)
        for partition in self._partitions.values():
            leader = topic.leaders.get(partition.number)
            if leader is None:
                partition.interrupted_because = self._could_not_read(partition_log.leaderless(partition.number))
                continue
            try:
                task = partial(read_partition, partition, deadline)
                rows = self._cluster.brokers.on_broker(leader.broker, task, deadline)
            except KgmError as error:
                partition.interrupted_because = self._could_not_read(error)
                continue
            self.unreadable_because = partition.interrupted_because = None
            by_group: _ByGroup = {}
            for group_id, record in rows:
                by_group.setdefault(group_id, []).append(record)
            yield {group_id: by_group[group_id] for group_id in partition.group_ids if group_id in by_group}

    def _could_not_read(self, error: KgmError) -> str | None:
        """Why a read was interrupted; None if the next one will not succeed either."""
        why = partition_log.why_unreadable(error)
        if is_temporary(error):
            return why
        self.unreadable_because = why
        return None

    def _assign_partitions(self, partitions: int) -> None:
        before = self._partitions
        self._partition_count = partitions
        self._partitions, self._keys, self._classic_keys = {}, {}, set()
        for group_id in self._group_ids:
            number = partition_for(group_id, partitions)
            if number not in self._partitions:
                old = before.get(number) or _Partition(number=number)
                self._partitions[number] = replace(old, group_ids=[], known={})
            partition = self._partitions[number]
            partition.group_ids.append(group_id)
            if number in before and group_id in before[number].known:
                partition.known[group_id] = before[number].known[group_id]
            classic = partition_log.group_record_key(group_id)
            self._classic_keys.add(classic)
            others = partition_log.target_record_keys(group_id) if self._has_targets else []
            self._keys |= dict.fromkeys([classic, *others], group_id)

    def _read_on(self, partition: _Partition, deadline: Deadline, connection: BrokerConnection) -> _RawRecords:
        """Raises KgmError; the next read then starts at the same offset."""
        end = partition_log.end_offset(connection, partition.number, deadline)
        if partition.position is None or end < partition.position:  # the topic was deleted and created again
            partition.position = partition.start = partition.whole_from = end
            partition.known = {}
            return self._last_records(connection, partition, deadline)
        records: _RawRecords = []
        read, whole_from, known = 0, partition.whole_from, dict(partition.known)
        for fetched in partition_log.fetch_records(connection, partition.number, partition.position, end, deadline):
            read += fetched.size_bytes
            for group_id, row in self._rows_of_groups(fetched):
                gap = partition_log.last_gap(fetched.gaps, row.offset, whole_from)
                follows_gap = gap > known.get(group_id, partition.start)
                records.append((group_id, _raw(row, follows_gap=follows_gap)))
                known[group_id] = row.offset
            whole_from = partition_log.last_gap(fetched.gaps, end, whole_from)
            if read >= MAX_BYTES and fetched.next_offset < end:
                self.skipped |= set(partition.group_ids)
                whole_from = end
                break
        # Only now: after a failure, the same records are read again.
        partition.position, partition.whole_from, partition.known = end, whole_from, known
        return records

    def _read_past(
        self, most_bytes: int, partition: _Partition, deadline: Deadline, connection: BrokerConnection
    ) -> _RawRecords:
        """Raises KgmError."""
        start = partition_log.start_offset(connection, partition.number, deadline)
        end = partition.position = partition_log.end_offset(connection, partition.number, deadline)
        records: _RawRecords = []
        read = 0
        for first, window_end in partition_log.windows_back(start, end, _PAST_WINDOW):
            if read >= most_bytes or deadline.expired:
                break
            older: _RawRecords = []
            for fetched in partition_log.fetch_records(connection, partition.number, first, window_end, deadline):
                read += fetched.size_bytes
                # Compaction removes the oldest first: between two records of a group that are left, none is missing.
                rows = self._rows_of_groups(fetched)
                older += [(group_id, _raw(row, follows_gap=False)) for group_id, row in rows]
            records = older + records
        return records

    def _rows_of_groups(self, fetched: partition_log.FetchedRecords) -> Iterator[tuple[str, LogRecord]]:
        for row in fetched.records:
            if row.key in self._keys and (row.value is not None or row.key not in self._classic_keys):
                yield self._keys[row.key], row

    def _last_records(self, connection: BrokerConnection, partition: _Partition, deadline: Deadline) -> _RawRecords:
        """The last record of each group; none if the search fails: it is done once, not on each read."""
        here = set(partition.group_ids)
        keys = {key: group_id for key, group_id in self._keys.items() if group_id in here}
        try:
            last = last_rebalance.find_last_records(partition.number, keys, deadline, connection)
        except KgmError:
            partition.start = -1  # what precedes the next record of a group is not known
            return []
        return [(keys[key], (key, value, at_ms, True)) for key, (value, at_ms) in last.items()]


def _raw(row: LogRecord, *, follows_gap: bool) -> RawRecord:
    """A record that has a key."""
    assert row.key is not None
    return row.key, row.value, row.timestamp, follows_gap


def decoded(group_id: str, records: Iterable[RawRecord]) -> list[RecordedGroup]:
    """The records of a classic group, except those that cannot be decoded."""
    return [one for one in all_decoded(group_id, records) if isinstance(one, RecordedGroup)]


def all_decoded(group_id: str, records: Iterable[RawRecord]) -> list[RecordedGroup | RecordedTarget]:
    """The records of a group, except those that cannot be decoded."""
    found = [_recorded(group_id, record) for record in records]
    return [one for one in found if one is not None]


def _recorded(group_id: str, record: RawRecord) -> RecordedGroup | RecordedTarget | None:
    """The decoded record; None if it cannot be decoded."""
    key, value, at_ms, follows_gap = record
    try:
        decoded = decode_record(key, value).value
    except DecodeError:
        return None
    if decoded is None:
        return RecordedTarget(at_ms=at_ms, epoch=None, follows_gap=follows_gap)
    if isinstance(decoded, GroupMetadataValue):
        return RecordedGroup(at_ms=at_ms, group=as_snapshot(group_id, decoded), follows_gap=follows_gap)
    epoch = decoded.assignment_epoch  # type: ignore[attr-defined]
    return RecordedTarget(at_ms=at_ms, epoch=epoch, follows_gap=follows_gap)


def as_snapshot(group_id: str, value: Any) -> GroupSnapshot:
    """A GroupMetadataValue as a snapshot: no coordinator, no topics, no offsets."""
    readable = value.protocol_type == PROTOCOL_TYPE
    verdict = recognise_record(group_id, value)
    libraries = [None] * len(value.members) if verdict is None else verdict.members
    snapshot = GroupSnapshot(
        group_id=group_id,
        type="classic",
        state="Stable" if value.members else "Empty",
        protocol_type=value.protocol_type,
        assignor=value.protocol or None,
        generation=value.generation,
        members=tuple(
            _member(member, library, readable=readable)
            for member, library in zip(value.members, libraries, strict=True)
        ),
        leader_library=None if verdict is None else verdict.leader,
    )
    if value.protocol_type == CONNECT_PROTOCOL_TYPE:
        workers = connect_group([(member.subscription, member.assignment) for member in value.members])
        members = tuple(replace(one, work=work) for one, work in zip(snapshot.members, workers.work, strict=True))
        snapshot = replace(
            snapshot, members=members, leader=workers.leader, is_settled=workers.is_settled,
            rebalance_delay_ms=workers.rebalance_delay_ms,
        )  # fmt: skip
        ends = last_rebalance.end_of_delay(snapshot, value.current_state_timestamp)
        snapshot = replace(snapshot, unassigned_until=ends)
    return snapshot.with_member_timeouts(last_rebalance.recorded_timeouts_ms(value))


def _member(member: Any, library: ClientLibrary | None, *, readable: bool) -> MemberSnapshot:
    topics: tuple[str, ...] | None = None if readable else ()
    assignment: Mapping[str, Sequence[int]] = {}
    if readable and (subscription := readable_subscription(member.subscription)) is not None:
        topics = tuple(sorted(set(subscription.topics)))
        assigned = readable_assignment(member.assignment)
        assignment = {} if assigned is None else assigned.partitions
    return MemberSnapshot(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id or None,
        client_id=member.client_id,
        client_host=member.client_host.removeprefix("/"),
        status="stable",
        topics=topics,
        assignment=assignment,
        protocol="classic",
        client_library=library,
    )
