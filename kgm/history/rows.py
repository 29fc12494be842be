"""One frozen dataclass for each table of `schema`: the row, with the table's columns as its fields, in their order.

What the columns mean is said in `schema`. A field that may be null is `None`; a list that an older store does not have
is empty. Nothing here needs pyarrow: `row_tables` converts rows to Arrow and back."""

from dataclasses import dataclass
from typing import ClassVar, TypedDict, TypeVar


class TableRow:
    """A row of `table`, a name of `schema.TABLES`. A class with some of the columns only is a row, too: a reader that
    needs no more declares one (`store.Tables.rows`)."""

    __slots__ = ()
    table: ClassVar[str]


AnyRow = TypeVar("AnyRow", bound=TableRow)


class RecordColumns(TypedDict):
    """The columns that every table of records begins with (`schema.POSITION`)."""

    partition: int
    offset: int
    timestamp: int
    leader_epoch: int | None


class GroupColumns(TypedDict):
    """The columns of `GroupKey`. group_type: "classic" or "consumer"."""

    partition: int
    group_id: str
    group_type: str


class GroupRecordColumns(RecordColumns, GroupColumns):
    """Both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """Which group a row is of, and the partition of `__consumer_offsets` that holds it."""

    partition: int
    group_id: str
    group_type: str

    @property
    def columns(self) -> GroupColumns:
        """The columns of a row about this group."""
        return {"partition": self.partition, "group_id": self.group_id, "group_type": self.group_type}

    def record(self, offset: int, timestamp: int, leader_epoch: int | None) -> "GroupRecord":
        """A record of this group."""
        return GroupRecord(
            partition=self.partition, offset=offset, timestamp=timestamp, leader_epoch=leader_epoch,
            group_id=self.group_id, group_type=self.group_type,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A record of a group: where it is in `__consumer_offsets`, and its time in ms since 1970 (-1 if it has none)."""

    partition: int
    offset: int
    timestamp: int
    leader_epoch: int | None
    group_id: str
    group_type: str

    @property
    def columns(self) -> GroupRecordColumns:
        """The columns of a row about this record."""
        return {
            "partition": self.partition, "offset": self.offset, "timestamp": self.timestamp,
            "leader_epoch": self.leader_epoch, "group_id": self.group_id, "group_type": self.group_type,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """An element of `schema.WHO`. seat: the member's identity (its group_instance_id, or else its member id); what:
    what it did, or what happened to it."""

    seat: str
    what: str
    member_id: str | None
    client_id: str | None
    client_host: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of a topic."""

    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdPartitions:
    """Partitions of a topic of which the id is known (16 bytes)."""

    topic_id: bytes
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseCount:
    """How many rebalances had a cause."""

    cause: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRow(TableRow):
    table: ClassVar[str] = "raw"
    partition: int
    offset: int
    timestamp: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    leader_epoch: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    transactional: bool | None = None
    control: bool | None = None
    marker: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BronzeRawRow(TableRow):
    table: ClassVar[str] = "bronze_raw"
    cluster: str
    partition: int
    offset: int
    timestamp: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    leader_epoch: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    transactional: bool | None = None
    control: bool | None = None
    marker: int | None = None
    key_type: int | None = None
    value_version: int | None = None
    source: str | None = None
    ingested_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow(TableRow):
    table: ClassVar[str] = "bronze_bad"
    partition: int
    offset: int
    timestamp: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    leader_epoch: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    transactional: bool | None = None
    control: bool | None = None
    marker: int | None = None
    key_type: int | None = None
    value_version: int | None = None
    reason: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordRow(TableRow):
    """The columns of `schema.POSITION`."""

    partition: int
    offset: int
    timestamp: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRow(_RecordRow):
    table: ClassVar[str] = "silver_commit"
    group_id: str
    topic: str
    topic_partition: int
    tombstone: bool
    committed_offset: int | None = None
    committed_leader_epoch: int | None = None
    metadata: str | None = None
    commit_timestamp: int | None = None
    expire_timestamp: int | None = None
    topic_id: bytes | None = None
    txn: str | None = None
    visible_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow(_RecordRow):
    table: ClassVar[str] = "silver_member"
    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    topics: tuple[str, ...] | None = None
    owned: tuple[TopicPartitions, ...] | None = None
    owned_generation: int | None = None
    rack_id: str | None = None
    assigned: tuple[TopicPartitions, ...] | None = None
    blob_error: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow(_RecordRow):
    table: ClassVar[str] = "silver_snapshot"
    group_id: str
    kind: str
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_timestamp: int | None = None
    members: int | None = None
    sync_ms: int | None = None
    contiguous: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberChangeRow(_RecordRow):
    table: ClassVar[str] = "silver_member_change"
    group_id: str
    generation: int
    kind: str
    member_id: str
    old_member_id: str | None = None
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    session_timeout_ms: int | None = None
    absorbed: bool | None = None
    complete: bool
    group_type: str
    seat: str
    rebalance_timeout_ms: int | None = None
    topics_added: tuple[str, ...] = ()
    topics_removed: tuple[str, ...] = ()
    partitions_before: int | None = None
    partitions_after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenureRow(TableRow):
    table: ClassVar[str] = "silver_seat"
    partition: int
    group_id: str
    group_type: str
    seat: str
    member_id: str
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    session_timeout_ms: int | None
    from_offset: int
    from_timestamp: int
    from_generation: int
    known_from: bool
    to_offset: int | None = None
    to_timestamp: int | None = None
    to_generation: int | None = None
    end_cause: str | None = None
    end_confidence: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRow(TableRow):
    table: ClassVar[str] = "silver_owner"
    partition: int
    group_id: str
    group_type: str
    topic: str | None = None
    topic_id: bytes | None = None
    topic_partition: int
    seat: str
    member_id: str
    from_offset: int
    from_timestamp: int
    from_generation: int
    known_from: bool
    to_offset: int | None = None
    to_timestamp: int | None = None
    to_earliest_timestamp: int | None = None
    to_generation: int | None = None
    exact: bool
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow(TableRow):
    table: ClassVar[str] = "silver_topic"
    partition: int
    topic_id: bytes
    topic: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpochRow(_RecordRow):
    table: ClassVar[str] = "silver_group_epoch"
    group_id: str
    epoch: int
    metadata_hash: int | None = None
    assignment_epoch: int | None = None
    assigned_offset: int | None = None
    assigned_timestamp: int | None = None
    settled_offset: int | None = None
    settled_timestamp: int | None = None
    members: int | None = None
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStateRow(_RecordRow):
    table: ClassVar[str] = "silver_member_state"
    group_id: str
    member_id: str
    group_instance_id: str | None = None
    member_epoch: int | None = None
    previous_member_epoch: int | None = None
    state: str
    assigned: tuple[TopicIdPartitions, ...] | None = None
    pending: tuple[TopicIdPartitions, ...] | None = None
    client_id: str | None = None
    client_host: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    server_assignor: str | None = None
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    classic: bool | None = None
    target: tuple[TopicIdPartitions, ...] | None = None
    listed_offset: int | None = None
    listing_capacity: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceRow(_RecordRow):
    table: ClassVar[str] = "gold_rebalance"
    group_id: str
    from_generation: int
    to_generation: int
    lost_rounds: int | None = None
    moved: int | None = None
    kept: int | None = None
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
    members_before: int | None = None
    members_after: int | None = None
    joined: int | None = None
    left: int | None = None
    replaced: int | None = None
    assigned: int | None = None
    unowned_ms: int | None = None
    stopped_partition_ms_min: int | None = None
    stopped_partition_ms_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow(_RecordRow):
    table: ClassVar[str] = "gold_event"
    group_id: str
    group_type: str
    generation: int
    event: str
    confidence: str
    who: tuple[Who, ...] = ()
    evidence: tuple[str, ...] = ()
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRow(_RecordRow):
    table: ClassVar[str] = "gold_restart"
    group_id: str
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
    session_timeout_ms: int | None
    confidence: str
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRow(_RecordRow):
    table: ClassVar[str] = "gold_alarm"
    group_id: str
    group_type: str
    alarm: str
    seat: str
    confidence: str
    count: int
    last_offset: int | None = None
    last_timestamp: int | None = None
    cleared_timestamp: int | None = None
    member_ids: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutAdviceRow(TableRow):
    table: ClassVar[str] = "gold_timeout_advice"
    partition: int
    group_id: str
    group_type: str
    timestamp: int
    now_ms: int
    restarts: int
    p50_ms: int | None = None
    p95_ms: int | None = None
    p99_ms: int | None = None
    max_ms: int | None = None
    advised_ms: int | None = None
    saved: int | None = None
    extra_stall_ms: int | None = None
    within_broker_max: bool | None = None
    verdict: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDayRow(TableRow):
    table: ClassVar[str] = "gold_group_day"
    partition: int
    group_id: str
    group_type: str
    day: int
    rebalances: int
    causes: tuple[CauseCount, ...] = ()
    lost_rounds: int
    absorbed: int
    stopped_partition_ms_min: int
    stopped_partition_ms_max: int
    moved: int
    joined: int
    left: int
    replaced: int
    members_p50: int | None = None
    members_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryRow(TableRow):
    table: ClassVar[str] = "carry"
    partition: int
    group_id: str | None
    offset: int
    version: int
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
