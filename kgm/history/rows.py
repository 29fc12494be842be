"""One frozen dataclass for each table of the history: the row, with the table's columns as its fields, in their order.

A nullable field can be `None`; a list that an older store does not have is empty. Integer columns have 64 bits unless
the field says otherwise. Nothing here needs pyarrow: `schema` builds the tables' schemas from these classes,
`row_tables` converts rows to Arrow and back."""

from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar

from kgm.history.row_parts import (
    CauseCount,
    Int8,
    Int16,
    Int32,
    Offset,
    Partition,
    Required,
    TopicIdPartitions,
    TopicPartitions,
    Who,
)


class TableRow:
    """A row of `table`, a name in `schema.TABLES`. A class with only some of the columns is a row, too: a reader that
    needs no more declares one (`store.Tables.rows`)."""

    __slots__ = ()
    table: ClassVar[str]


AnyRow = TypeVar("AnyRow", bound=TableRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordRow(TableRow):
    """The columns with which every table of group records begins."""

    partition: Partition
    offset: Offset
    timestamp: int
    leader_epoch: Int32 | None = None
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRow(TableRow):
    """A record as it is in the log. At the end of a transaction `marker` is 1 for COMMIT and 0 for ABORT, and key and
    value are null; `marker` is null for all other records. Columns that a source does not have are null."""

    table: ClassVar[str] = "raw"
    partition: Partition
    offset: Offset
    timestamp: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    leader_epoch: Int32 | None = None
    producer_id: int | None = None
    producer_epoch: Int16 | None = None
    transactional: bool | None = None
    control: bool | None = None
    marker: Int8 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BronzeRawRow(TableRow):
    """Raw records in a store, with the columns that the store adds."""

    table: ClassVar[str] = "bronze_raw"
    cluster: Required
    partition: Partition
    offset: Offset
    timestamp: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    leader_epoch: Int32 | None = None
    producer_id: int | None = None
    producer_epoch: Int16 | None = None
    transactional: bool | None = None
    control: bool | None = None
    marker: Int8 | None = None
    key_type: Int16 | None = None
    value_version: Int16 | None = None
    source: str | None = None
    ingested_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow(RawRow):
    """A record that cannot be decoded, in full. reason: "no key", "unknown type", "unknown version" or "malformed";
    error: the decoder's message."""

    table: ClassVar[str] = "bronze_bad"
    key_type: Int16 | None = None
    value_version: Int16 | None = None
    reason: Required
    error: Required


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRow(_RecordRow):
    """Offset commits that count, and tombstones. `txn` is null, or "committed" or "open" (pending: no marker yet);
    commits of aborted transactions are void and not in the table. visible_offset: the offset from which the commit
    counts, which is the marker's for a transaction; null while that is open. A later plain commit of the same key wins,
    wherever the marker is, and so does a later tombstone."""

    table: ClassVar[str] = "silver_commit"
    topic: str
    topic_partition: Int32
    tombstone: bool
    committed_offset: int | None = None
    committed_leader_epoch: Int32 | None = None
    metadata: str | None = None
    commit_timestamp: int | None = None
    expire_timestamp: int | None = None
    topic_id: bytes | None = None
    txn: str | None = None
    visible_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow(_RecordRow):
    """A member in one GroupMetadata record, with its decoded subscription and assignment. Both are null if the group's
    protocol type is not "consumer", if the bytes are empty, and if they do not parse; in the last case `blob_error` has
    a number (1: the subscription, 2: the assignment, 3: both)."""

    table: ClassVar[str] = "silver_member"
    generation: Int32
    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: Int32
    session_timeout_ms: Int32
    topics: tuple[str, ...] | None = None
    owned: tuple[TopicPartitions, ...] | None = None
    owned_generation: Int32 | None = None
    rack_id: str | None = None
    assigned: tuple[TopicPartitions, ...] | None = None
    blob_error: Int8 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow(_RecordRow):
    """A classic group as of one GroupMetadata record (`classic_snapshots.Snapshot`). contiguous: compaction cannot have
    removed a record between it and the previous one."""

    table: ClassVar[str] = "silver_snapshot"
    kind: str
    generation: Int32
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_timestamp: int | None = None
    members: Int32 | None = None
    sync_ms: int | None = None
    contiguous: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberChangeRow(_RecordRow):
    """How one member changed between two snapshots (`classic_snapshots.MemberChange`); absorbed is null if the log does
    not show it. For a group of the consumer protocol, the record is the member's; generation is the group's epoch at
    the time. group_type, here and in every table: "classic" or "consumer", as in ListGroups."""

    table: ClassVar[str] = "silver_member_change"
    generation: Int32
    kind: str
    member_id: str
    old_member_id: str | None = None
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    session_timeout_ms: Int32 | None = None
    absorbed: bool | None = None
    complete: bool
    group_type: str
    seat: str
    rebalance_timeout_ms: Int32 | None = None
    topics_added: tuple[str, ...] = ()
    topics_removed: tuple[str, ...] = ()
    partitions_before: Int32 | None = None
    partitions_after: Int32 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenureRow(TableRow):
    """A tenure: one member id under one identity, from the first record that has it to the first that no longer does. A
    null `to` is the end of what was read. known_from: whether no record before the first one is missing. end_cause: one
    of `verdict.Cause`, or "replaced" if another process took over the instance id without a rebalance."""

    table: ClassVar[str] = "silver_seat"
    partition: Partition
    group_id: str
    group_type: str
    seat: str
    member_id: str
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    session_timeout_ms: Int32 | None
    from_offset: int
    from_timestamp: int
    from_generation: Int32
    known_from: bool
    to_offset: int | None = None
    to_timestamp: int | None = None
    to_generation: Int32 | None = None
    end_cause: str | None = None
    end_confidence: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRow(TableRow):
    """The time in which an identity owns a partition, across rebalances that do not move it. exact: true for a group of
    the consumer protocol, whose records show when a partition is released. For a classic group `to` is the latest
    possible time, and to_earliest that of the last commit before it. topic is null if only the id is known;
    `silver_topic` may have its name. place: the topic's name, or in a group of the consumer protocol its id as Kafka
    writes ids."""

    table: ClassVar[str] = "silver_owner"
    partition: Partition
    group_id: str
    group_type: str
    topic: str | None = None
    topic_id: bytes | None = None
    topic_partition: Int32
    seat: str
    member_id: str
    from_offset: int
    from_timestamp: int
    from_generation: Int32
    known_from: bool
    to_offset: int | None = None
    to_timestamp: int | None = None
    to_earliest_timestamp: int | None = None
    to_generation: Int32 | None = None
    exact: bool
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow(TableRow):
    """The names of topic ids, as far as commits and records of older brokers show them."""

    table: ClassVar[str] = "silver_topic"
    partition: Partition
    topic_id: bytes
    topic: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpochRow(_RecordRow):
    """An epoch of a group of the consumer protocol (KIP-848), or of a streams or share group: the record that raised
    it, the target assignment of this or a later epoch that followed it (`assigned_`), and the record at which all
    members had that (`settled_`); both are null until then. members: null if some may have left with records that are
    missing. group_type: null in an older store, which has consumer groups only."""

    table: ClassVar[str] = "silver_group_epoch"
    epoch: Int32
    metadata_hash: int | None = None
    assignment_epoch: Int32 | None = None
    assigned_offset: int | None = None
    assigned_timestamp: int | None = None
    settled_offset: int | None = None
    settled_timestamp: int | None = None
    members: Int32 | None = None
    complete: bool
    group_type: str | None = None


#: The `GroupEpochRow.group_type` of consumer groups.
CONSUMER_EPOCHS: Final = (None, "consumer")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStateRow(_RecordRow):
    """What a member of a group of the consumer protocol has, according to its own record. state: "stable", "unrevoked",
    "unreleased", "unknown", or "away" (member epoch -2: a static member that stopped and keeps its place); "gone" is
    the tombstone. From client_id on: content of the member's other record, null if compaction has removed that.
    classic: whether the member uses the classic protocol. From target on, everything that determines the order in which
    the broker lists the group: the target assignment with topics and partitions in the order of its record; the record
    since which the member has been in the broker's member map without interruption; and the size of that map's table,
    null if the records do not show it."""

    table: ClassVar[str] = "silver_member_state"
    member_id: str
    group_instance_id: str | None = None
    member_epoch: Int32 | None = None
    previous_member_epoch: Int32 | None = None
    state: str
    assigned: tuple[TopicIdPartitions, ...] | None = None
    pending: tuple[TopicIdPartitions, ...] | None = None
    client_id: str | None = None
    client_host: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 | None = None
    server_assignor: str | None = None
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    classic: bool | None = None
    target: tuple[TopicIdPartitions, ...] | None = None
    listed_offset: int | None = None
    listing_capacity: Int32 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceRow(_RecordRow):
    """A rebalance that completed (`classic_snapshots.Rebalance`; for a group with epochs, each target assignment,
    with the epochs since the one before, or the epoch that leaves the group without members; its record is that of the
    last epoch). moved, kept: partitions with an owner after it that is another one than their last, or the same;
    that one may have given them up in an earlier rebalance, as in a cooperative one, and for a group of the consumer
    protocol both are owners by the target assignment. complete: compaction cannot have removed a record within it.
    cause: one of `verdict.Cause`; also: further causes of the same rebalance; confidence, of all of them together:
    "certain", "likely", "possible", and "unknown" with cause "unknown". evidence: what in the log shows it, one
    sentence each. source: "log", or "broker log" if the broker's own log gives the reason (then reason has its words,
    and inferred_cause and inferred_confidence what was inferred from the records). stopped_min_ms, stopped_max_ms: how
    long a partition was stopped, at least and at most. stopped_partition_ms: the sum over the partitions, minimum and
    maximum; for a group of the consumer protocol it is exact, once all partitions have owners again. Commits give the
    maximum, which is null as long as one of the partitions has not been committed before and after the rebalance."""

    table: ClassVar[str] = "gold_rebalance"
    from_generation: Int32
    to_generation: Int32
    lost_rounds: Int32 | None = None
    moved: Int32 | None = None
    kept: Int32 | None = None
    stopped_min_ms: int | None = None
    stopped_max_ms: int | None = None
    complete: bool
    group_type: str
    cause: str
    confidence: str
    also: tuple[str, ...] = ()
    who: tuple[Who, ...] = ()
    evidence: tuple[str, ...] = ()
    source: str
    reason: str | None = None
    inferred_cause: str | None = None
    inferred_confidence: str | None = None
    sync_ms: int | None = None
    protocol: str | None = None
    members_before: Int32 | None = None
    members_after: Int32 | None = None
    joined: Int32 | None = None
    left: Int32 | None = None
    replaced: Int32 | None = None
    assigned: Int32 | None = None
    unowned_ms: int | None = None
    stopped_partition_ms_min: int | None = None
    stopped_partition_ms_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow(_RecordRow):
    """What happened to a group without a rebalance: a bounce that was absorbed, a static member that is away and keeps
    its place, a group that was removed or changed its type. event: one of `verdict.GroupEventKind`."""

    table: ClassVar[str] = "gold_event"
    group_type: str
    generation: Int32
    event: str
    confidence: str
    who: tuple[Who, ...] = ()
    evidence: tuple[str, ...] = ()
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRow(_RecordRow):
    """A process that left and came back with the same instance id, or with the same client id and host. down: when it
    stopped, as a range; up: when it was a member again. Null bounds are unknown."""

    table: ClassVar[str] = "gold_restart"
    group_type: str
    seat: str
    static: bool
    old_member_id: str | None = None
    member_id: str
    client_id: str
    client_host: str
    down_at_min: int | None = None
    down_at_max: int | None = None
    up_at: int
    min_ms: int | None = None
    max_ms: int | None = None
    absorbed: bool | None = None
    session_timeout_ms: Int32 | None
    confidence: str
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRow(_RecordRow):
    """Something to look at. alarm: one of `alarms.AlarmKind`; offset, timestamp: of the record at which it was first
    raised; it is over once cleared_timestamp is set. The seat "" stands for the whole group."""

    table: ClassVar[str] = "gold_alarm"
    group_type: str
    alarm: str
    seat: str
    confidence: str
    count: Int32
    last_offset: int | None = None
    last_timestamp: int | None = None
    cleared_timestamp: int | None = None
    member_ids: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutAdviceRow(TableRow):
    """The session timeout that a group's restarts call for. advised_ms is null unless verdict is "raise", "lower" or
    "keep"; saved: how many of the rebalances it would have prevented; extra_stall_ms: how much longer the partitions of
    a member that really died would have had no consumer."""

    table: ClassVar[str] = "gold_timeout_advice"
    partition: Partition
    group_id: str
    group_type: str
    timestamp: int
    now_ms: Int32
    restarts: Int32
    p50_ms: int | None = None
    p95_ms: int | None = None
    p99_ms: int | None = None
    max_ms: int | None = None
    advised_ms: Int32 | None = None
    saved: Int32 | None = None
    extra_stall_ms: int | None = None
    within_broker_max: bool | None = None
    verdict: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDayRow(TableRow):
    """A group's day (UTC, as its first millisecond), by the records' timestamps. stopped_partition_ms_max: null if the
    log gives no bound for one of its rebalances."""

    table: ClassVar[str] = "gold_group_day"
    partition: Partition
    group_id: str
    group_type: str
    day: int
    rebalances: Int32
    causes: tuple[CauseCount, ...] = ()
    lost_rounds: Int32
    absorbed: Int32
    stopped_partition_ms_min: int
    stopped_partition_ms_max: int | None = None
    moved: Int32
    joined: Int32
    left: Int32
    replaced: Int32
    members_p50: Int32 | None = None
    members_max: Int32 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryRow(TableRow):
    """The state needed to continue after an offset: a row for each partition (group_id null) and one for each of its
    groups. `kgm.history.carry` writes and reads it; each version replaces the previous one completely."""

    table: ClassVar[str] = "carry"
    partition: Partition
    group_id: str | None
    offset: int
    version: Int32
    state: bytes


#: The class of each table.
ROW_CLASSES: dict[str, type[TableRow]] = {
    cls.table: cls
    for cls in (
        RawRow, BronzeRawRow, BadRow, CommitRow, MemberRow, SnapshotRow, MemberChangeRow, TenureRow, OwnerRow, TopicRow,
        GroupEpochRow, MemberStateRow, RebalanceRow, EventRow, RestartRow, AlarmRow, TimeoutAdviceRow, GroupDayRow,
        CarryRow,
    )
}  # fmt: skip
