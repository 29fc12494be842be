"""What the coordinators of classic groups write down from now on: each rebalance that ended, each member replaced.

No API tells the generation of a classic group, and who looks now and then misses what happens in between. The topic
`__consumer_offsets` has all of it: a record of the group at the end of each rebalance, when it becomes empty, and when
a static member is replaced (Kafka: GroupMetadataValue). Reading takes READ on the topic; where that is missing, or the
broker does not give the topic away, the tail says so and stays silent."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from kgm.client.admin_client import AdminClient
from kgm.client.failures import RETRIABLE
from kgm.client.offsets_topic import last_rebalance, partition_log
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.java.partitions import partition_for
from kgm.model.errors import AuthorizationError, DecodeError, ErrorCode, KgmError, UnreachableError, error_name
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot

#: Bytes of one partition that are read at one look; what is beyond is skipped, and said to be.
MAX_BYTES: Final = 8 << 20


#: As far back as the past is read, in a partition, and by how many offsets first.
PAST_BYTES: Final = 1 << 20
_PAST_WINDOW = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A record of a classic group, as a snapshot without what records do not tell. at_ms: when it was written."""

    at_ms: int
    group: GroupSnapshot


@dataclass(slots=True, kw_only=True)
class _Partition:
    """A partition of `__consumer_offsets`. position: the next offset to read; None before the first look."""

    number: int
    group_ids: list[str] = field(default_factory=list)
    position: int | None = None


_Found: TypeAlias = list[tuple[str, Recorded]]
_ByGroup: TypeAlias = dict[str, list[Recorded]]


class GroupTail:
    """The logs of these groups, from the last record of each on."""

    def __init__(self, cluster: AdminClient, group_ids: Iterable[str]) -> None:
        self._cluster = cluster
        self._group_ids = list(group_ids)
        self._partitions: dict[int, _Partition] = {}
        self._keys: dict[bytes, str] = {}
        #: Why nothing can be read; None while it can.
        self.silent_because: str | None = None
        #: Groups of which records had to be skipped at the last look.
        self.skipped: set[str] = set()
        self.last: dict[str, Recorded] = {}

    def read(self, deadline: Deadline) -> Mapping[str, Sequence[Recorded]]:
        """What was written since the last look, by group, oldest first; at the first look the last record of each.

        Raises nothing: a look that fails is made up for by the next one."""
        return self._read(self._read_on, deadline)

    def read_back(self, deadline: Deadline) -> Mapping[str, Sequence[Recorded]]:
        """What was written lately, by group, oldest first: as far back as `PAST_BYTES` of each partition go."""
        return self._read(self._read_past, deadline)

    def _read(self, how: Callable[[_Partition, Deadline, BrokerConnection], _Found], deadline: Deadline) -> _ByGroup:
        self.skipped = set()
        try:
            leaders = self._leaders(deadline)
        except AuthorizationError:
            self.silent_because = f"no READ on Topic '{partition_log.OFFSETS_TOPIC}'"
            return {}
        except KgmError:
            return {}
        by_group: _ByGroup = {}
        for partition in self._partitions.values():
            leader = leaders.get(partition.number)
            if leader is None:
                continue
            try:
                task = partial(how, partition, deadline)
                rows = self._cluster.brokers.on_broker(leader, task, deadline)
            except KgmError as error:
                self.silent_because = _why_silent(error)
                continue
            self.silent_because = None
            for group_id, recorded in rows:
                by_group.setdefault(group_id, []).append(recorded)
                self.last[group_id] = recorded
        return by_group

    def _leaders(self, deadline: Deadline) -> dict[int, Any]:
        """The leader of each partition. Raises KgmError."""
        brokers = self._cluster.brokers
        topics = brokers.metadata([partition_log.OFFSETS_TOPIC], deadline).topics
        by_id = {broker.id: broker for broker in brokers.brokers()}
        for topic in topics:
            if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise AuthorizationError("", kafka_error=topic.error_code)
            if not topic.error_code and topic.partitions:
                self._place(len(topic.partitions))
                return {row.partition_index: by_id[row.leader_id] for row in topic.partitions if row.leader_id in by_id}
        if self.silent_because is None:
            self.silent_because = f"the brokers show no topic {partition_log.OFFSETS_TOPIC}"
        return {}

    def _place(self, partitions: int) -> None:
        if self._partitions:
            return
        for group_id in self._group_ids:
            number = partition_for(group_id, partitions)
            self._partitions.setdefault(number, _Partition(number=number)).group_ids.append(group_id)
            self._keys[partition_log.key_of(group_id)] = group_id

    def _read_on(self, partition: _Partition, deadline: Deadline, connection: BrokerConnection) -> _Found:
        """Raises KgmError; then the next look reads the same again."""
        end = partition_log.end_offset(connection, partition.number, deadline)
        if partition.position is None or end < partition.position:  # a topic that was lost and made anew starts over
            partition.position = end
            last = [(each, _last(connection, partition.number, each, deadline)) for each in partition.group_ids]
            return [(group_id, recorded) for group_id, recorded in last if recorded is not None]
        found: _Found = []
        read = 0
        for fetched in partition_log.rows(connection, partition.number, partition.position, end, deadline):
            read += fetched.size_bytes
            found += self._mine(fetched)
            if read >= MAX_BYTES and fetched.next_offset < end:
                self.skipped |= set(partition.group_ids)
                break
        partition.position = end
        return found

    def _read_past(self, partition: _Partition, deadline: Deadline, connection: BrokerConnection) -> _Found:
        """Window by window from the end, twice as many offsets each time. Raises KgmError."""
        start = partition_log.start_offset(connection, partition.number, deadline)
        end = partition.position = partition_log.end_offset(connection, partition.number, deadline)
        found: _Found = []
        window, read = _PAST_WINDOW, 0
        while end > start and read < PAST_BYTES and not deadline.expired:
            first = max(start, end - window)
            older: _Found = []
            for fetched in partition_log.rows(connection, partition.number, first, end, deadline):
                read += fetched.size_bytes
                older += self._mine(fetched)
            found = older + found
            end, window = first, window * 2
        return found

    def _mine(self, fetched: partition_log.Rows) -> _Found:
        found = []
        for key, value, at_ms in fetched.records:
            group_id = self._keys.get(key or b"")
            recorded = None if group_id is None or value is None else _recorded(group_id, value, at_ms)
            if recorded is not None:
                found.append((recorded.group.group_id, recorded))
        return found


def _why_silent(error: KgmError) -> str | None:
    """Why the log will tell nothing at the next look either; None for what passes."""
    if error.kafka_error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"no READ on Topic '{partition_log.OFFSETS_TOPIC}'"
    if isinstance(error, UnreachableError) or error.kafka_error in RETRIABLE:
        return None
    reason = error_name(error.kafka_error) if error.kafka_error else error.message
    return f"{partition_log.OFFSETS_TOPIC} cannot be read ({reason})"


def _last(connection: BrokerConnection, partition: int, group_id: str, deadline: Deadline) -> Recorded | None:
    """None as well if it takes too long: it is looked for once, and not at each look again."""
    try:
        found = last_rebalance.search(partition, group_id, deadline, connection)
    except KgmError:
        return None
    return None if found is None else _recorded(group_id, *found)


def _recorded(group_id: str, value: bytes, at_ms: int) -> Recorded | None:
    """None for a record that cannot be read."""
    from kgm.records.messages.group_metadata_value import GroupMetadataValue
    from kgm.records.record import decode_record

    try:
        decoded = decode_record(partition_log.key_of(group_id), value).value
    except DecodeError:
        return None
    if not isinstance(decoded, GroupMetadataValue):
        return None
    return Recorded(at_ms=at_ms, group=as_snapshot(group_id, decoded))


def as_snapshot(group_id: str, value: Any) -> GroupSnapshot:
    """A GroupMetadataValue as a snapshot: no coordinator, no topics, no offsets."""
    from kgm.protocol.subscription import PROTOCOL_TYPE

    readable = value.protocol_type == PROTOCOL_TYPE
    sessions = {member.session_timeout for member in value.members}
    return GroupSnapshot(
        group_id=group_id,
        type="classic",
        state="Stable" if value.members else "Empty",
        protocol_type=value.protocol_type,
        assignor=value.protocol or None,
        generation=value.generation,
        session_timeout_ms=sessions.pop() if len(sessions) == 1 else None,
        rebalance_timeout_ms=max((member.rebalance_timeout for member in value.members), default=None),
        members=tuple(_member(member, readable=readable) for member in value.members),
    )


def _member(member: Any, *, readable: bool) -> MemberSnapshot:
    from kgm.protocol.subscription import decode_assignment, decode_subscription

    topics: tuple[str, ...] = ()
    assignment: Mapping[str, Sequence[int]] = {}
    if readable:
        try:
            topics = tuple(sorted(set(decode_subscription(member.subscription).topics)))
            assignment = decode_assignment(member.assignment).partitions
        except DecodeError:  # blobs of somebody's own
            pass
    return MemberSnapshot(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id or None,
        client_id=member.client_id,
        client_host=member.client_host.removeprefix("/"),
        status="stable",
        topics=topics,
        assignment=assignment,
        protocol="classic",
    )
