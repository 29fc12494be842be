"""Arrow schemas of every table of the history, version 1.

The tables of records are derived from the generated messages (`record_schema`): Kafka's names in snake_case, every
field of every version, Kafka's default where a version does not have the field. Everything else is spelled out here,
and `rows` has a class for each table. From version to version columns are only added, at the end, and may be null.

Times are milliseconds since 1970 in UTC, as Kafka writes them. `partition` and `offset` are those of the record in
`__consumer_offsets`; with the cluster they identify a row, so building again changes nothing. uuids are binary of
sixteen bytes (Spark has no fixed width), uint16 is int32 (Spark has no unsigned integers).

The columns `seat` and the table `silver_seat` are named after what kgm calls an identity elsewhere: the
group_instance_id of a static member, or the member id of a dynamic one."""

from functools import cache

import pyarrow as pa

from kgm.protocol.struct import Field, Message, Struct
from kgm.records.record import message_classes
from kgm.records.record_types import TYPES

VERSION = 1

_SCALARS = {
    "int8": pa.int8(), "int16": pa.int16(), "uint16": pa.int32(), "int32": pa.int32(), "uint32": pa.int64(),
    "int64": pa.int64(), "string": pa.string(), "bytes": pa.binary(), "uuid": pa.binary(),
}  # fmt: skip

#: A record as it is in the log. At the end of a transaction `marker` is 1 for COMMIT and 0 for ABORT, and key and value
#: are null; `marker` is null for all other records. Columns that a source does not know are null.
RAW = pa.schema([
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.int64()),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("leader_epoch", pa.int32()),
    pa.field("producer_id", pa.int64()),
    pa.field("producer_epoch", pa.int16()),
    pa.field("transactional", pa.bool_()),
    pa.field("control", pa.bool_()),
    pa.field("marker", pa.int8()),
])  # fmt: skip

#: Where a record is: the first columns of every table of records.
POSITION = [RAW.field(name) for name in ("partition", "offset", "timestamp", "leader_epoch")]

#: Raw records in a store, with what the store adds.
BRONZE_RAW = pa.schema([
    pa.field("cluster", pa.string(), nullable=False), *RAW,
    pa.field("key_type", pa.int16()), pa.field("value_version", pa.int16()),
    pa.field("source", pa.string()), pa.field("ingested_at", pa.int64()),
])  # fmt: skip

#: Records that cannot be decoded, whole. `reason` is one of REASONS, `error` the message of the decoder.
BAD = pa.schema([
    *RAW, pa.field("key_type", pa.int16()), pa.field("value_version", pa.int16()),
    pa.field("reason", pa.string(), nullable=False), pa.field("error", pa.string(), nullable=False),
])  # fmt: skip
REASONS = ("no key", "unknown type", "unknown version", "malformed")

_TOPIC_PARTITIONS = pa.list_(pa.struct([pa.field("topic", pa.string()), pa.field("partitions", pa.list_(pa.int32()))]))

#: Offset commits that count, and tombstones. `txn` is null, or "committed" or "open" (pending: no marker yet); those of
#: aborted transactions are void and not in the table. visible_offset: the record from which on it counts, which is the
#: marker for a transaction; null while that is open. A later plain commit of the same key wins, whatever the marker is.
SILVER_COMMIT = pa.schema([
    *POSITION,
    pa.field("group_id", pa.string()), pa.field("topic", pa.string()), pa.field("topic_partition", pa.int32()),
    pa.field("tombstone", pa.bool_()), pa.field("committed_offset", pa.int64()),
    pa.field("committed_leader_epoch", pa.int32()), pa.field("metadata", pa.string()),
    pa.field("commit_timestamp", pa.int64()), pa.field("expire_timestamp", pa.int64()),
    pa.field("topic_id", pa.binary()), pa.field("txn", pa.string()), pa.field("visible_offset", pa.int64()),
])  # fmt: skip

#: A member in one GroupMetadata record, its subscription and assignment decoded. Both are null when the group's
#: protocol type is not "consumer", when the bytes are empty, and when they do not parse, for which `blob_error` has a
#: number (1: the subscription, 2: the assignment, 3: both).
SILVER_MEMBER = pa.schema([
    *POSITION,
    pa.field("group_id", pa.string()), pa.field("generation", pa.int32()), pa.field("member_id", pa.string()),
    pa.field("group_instance_id", pa.string()), pa.field("client_id", pa.string()),
    pa.field("client_host", pa.string()),
    pa.field("rebalance_timeout_ms", pa.int32()), pa.field("session_timeout_ms", pa.int32()),
    pa.field("topics", pa.list_(pa.string())), pa.field("owned", _TOPIC_PARTITIONS),
    pa.field("owned_generation", pa.int32()), pa.field("rack_id", pa.string()),
    pa.field("assigned", _TOPIC_PARTITIONS), pa.field("blob_error", pa.int8()),
])  # fmt: skip

#: A classic group as one GroupMetadata record has it (`classic_snapshots.Snapshot`). contiguous: compaction cannot have
#: removed a record between it and the one before.
SILVER_SNAPSHOT = pa.schema([
    *POSITION,
    pa.field("group_id", pa.string()), pa.field("kind", pa.string()), pa.field("generation", pa.int32()),
    pa.field("protocol_type", pa.string()), pa.field("protocol", pa.string()), pa.field("leader", pa.string()),
    pa.field("state_timestamp", pa.int64()), pa.field("members", pa.int32()), pa.field("sync_ms", pa.int64()),
    pa.field("contiguous", pa.bool_()),
])  # fmt: skip

#: What became of one member between two snapshots (`classic_snapshots.MemberChange`); absorbed is null where the log
#: does not tell. For a group of the consumer protocol, the record is the member's; generation is the group's epoch
#: then. group_type, here and in every table: "classic" or "consumer", as in ListGroups.
SILVER_MEMBER_CHANGE = pa.schema([
    *POSITION,
    pa.field("group_id", pa.string()), pa.field("generation", pa.int32()), pa.field("kind", pa.string()),
    pa.field("member_id", pa.string()), pa.field("old_member_id", pa.string()),
    pa.field("group_instance_id", pa.string()), pa.field("client_id", pa.string()),
    pa.field("client_host", pa.string()), pa.field("session_timeout_ms", pa.int32()), pa.field("absorbed", pa.bool_()),
    pa.field("complete", pa.bool_()), pa.field("group_type", pa.string()), pa.field("seat", pa.string()),
    pa.field("rebalance_timeout_ms", pa.int32()), pa.field("topics_added", pa.list_(pa.string())),
    pa.field("topics_removed", pa.list_(pa.string())), pa.field("partitions_before", pa.int32()),
    pa.field("partitions_after", pa.int32()),
])  # fmt: skip

#: The members involved in something. seat: the identity; what: what the member did, or what happened to it.
WHO = pa.list_(pa.struct([
    pa.field("seat", pa.string()), pa.field("what", pa.string()), pa.field("member_id", pa.string()),
    pa.field("client_id", pa.string()), pa.field("client_host", pa.string()),
]))  # fmt: skip

#: A rebalance that completed (`classic_snapshots.Rebalance`; of a group of the consumer protocol each epoch but the
#: first). complete: compaction cannot have removed a record within it. cause: one of `verdict.Cause`; also: other
#: causes that came together with it; confidence: "certain", "likely", "possible", and "unknown" with cause "unknown".
#: evidence: what in the log says so, one sentence each. source: "log", or "broker log" if the broker's own log says why
#: (then reason has its words, and inferred_cause and inferred_confidence what was inferred from the records).
#: stopped_partition_ms: the sum over the partitions, minimum and maximum; for a group of the consumer protocol it is
#: exact, when all partitions have owners again.
GOLD_REBALANCE = pa.schema([
    *POSITION,
    pa.field("group_id", pa.string()), pa.field("from_generation", pa.int32()), pa.field("to_generation", pa.int32()),
    pa.field("lost_rounds", pa.int32()), pa.field("moved", pa.int32()), pa.field("kept", pa.int32()),
    pa.field("stopped_min_ms", pa.int64()), pa.field("stopped_max_ms", pa.int64()), pa.field("complete", pa.bool_()),
    pa.field("group_type", pa.string()), pa.field("cause", pa.string()), pa.field("confidence", pa.string()),
    pa.field("also", pa.list_(pa.string())), pa.field("who", WHO), pa.field("evidence", pa.list_(pa.string())),
    pa.field("source", pa.string()), pa.field("reason", pa.string()), pa.field("inferred_cause", pa.string()),
    pa.field("inferred_confidence", pa.string()),
    pa.field("sync_ms", pa.int64()), pa.field("protocol", pa.string()), pa.field("members_before", pa.int32()),
    pa.field("members_after", pa.int32()), pa.field("joined", pa.int32()), pa.field("left", pa.int32()),
    pa.field("replaced", pa.int32()), pa.field("assigned", pa.int32()), pa.field("unowned_ms", pa.int64()),
    pa.field("stopped_partition_ms_min", pa.int64()), pa.field("stopped_partition_ms_max", pa.int64()),
])  # fmt: skip

#: What happened to a group without a rebalance: a bounce that was absorbed, a static member that is away and keeps its
#: place, a group that was removed or got the other type. event: one of `verdict.GroupEventKind`.
GOLD_EVENT = pa.schema([
    *POSITION,
    pa.field("group_id", pa.string()), pa.field("group_type", pa.string()), pa.field("generation", pa.int32()),
    pa.field("event", pa.string()), pa.field("confidence", pa.string()), pa.field("who", WHO),
    pa.field("evidence", pa.list_(pa.string())), pa.field("complete", pa.bool_()),
])  # fmt: skip

#: A tenure: one member id under one identity, from the first record that has it to the first that does not have it any
#: more. A null `to` is the end of what was read. known_from: whether nothing is missing before the first record.
#: end_cause: one of `verdict.Cause`, or "replaced" when another process took over the instance id without a rebalance.
SILVER_SEAT = pa.schema([
    pa.field("partition", pa.int32(), nullable=False), pa.field("group_id", pa.string()),
    pa.field("group_type", pa.string()), pa.field("seat", pa.string()), pa.field("member_id", pa.string()),
    pa.field("group_instance_id", pa.string()), pa.field("client_id", pa.string()),
    pa.field("client_host", pa.string()), pa.field("session_timeout_ms", pa.int32()),
    pa.field("from_offset", pa.int64()), pa.field("from_timestamp", pa.int64()),
    pa.field("from_generation", pa.int32()), pa.field("known_from", pa.bool_()),
    pa.field("to_offset", pa.int64()), pa.field("to_timestamp", pa.int64()), pa.field("to_generation", pa.int32()),
    pa.field("end_cause", pa.string()), pa.field("end_confidence", pa.string()),
])  # fmt: skip

#: The time in which an identity owns a partition, across rebalances that do not move it. exact: true for a group of the
#: consumer protocol, whose records tell when a partition is given up. For a classic group `to` is the latest possible
#: moment, and to_earliest the last commit before it. topic is null where only the id is known; `silver_topic` may have
#: its name. place: the topic's name, or in a group of the consumer protocol its id as Kafka writes ids.
SILVER_OWNER = pa.schema([
    pa.field("partition", pa.int32(), nullable=False), pa.field("group_id", pa.string()),
    pa.field("group_type", pa.string()), pa.field("topic", pa.string()), pa.field("topic_id", pa.binary()),
    pa.field("topic_partition", pa.int32()), pa.field("seat", pa.string()), pa.field("member_id", pa.string()),
    pa.field("from_offset", pa.int64()), pa.field("from_timestamp", pa.int64()),
    pa.field("from_generation", pa.int32()), pa.field("known_from", pa.bool_()),
    pa.field("to_offset", pa.int64()), pa.field("to_timestamp", pa.int64()),
    pa.field("to_earliest_timestamp", pa.int64()), pa.field("to_generation", pa.int32()), pa.field("exact", pa.bool_()),
    pa.field("place", pa.string()),
])  # fmt: skip

#: The names of topic ids, as far as commits and records of older brokers tell them.
SILVER_TOPIC = pa.schema([
    pa.field("partition", pa.int32(), nullable=False), pa.field("topic_id", pa.binary()),
    pa.field("topic", pa.string()), pa.field("offset", pa.int64()),
])  # fmt: skip

#: An epoch of a group of the consumer protocol (KIP-848): the record that raised it, the target assignment of this or a
#: later epoch that answered it (`assigned_`), and the record at which all members had that (`settled_`); null before.
SILVER_GROUP_EPOCH = pa.schema([
    *POSITION,
    pa.field("group_id", pa.string()), pa.field("epoch", pa.int32()), pa.field("metadata_hash", pa.int64()),
    pa.field("assignment_epoch", pa.int32()), pa.field("assigned_offset", pa.int64()),
    pa.field("assigned_timestamp", pa.int64()), pa.field("settled_offset", pa.int64()),
    pa.field("settled_timestamp", pa.int64()), pa.field("members", pa.int32()), pa.field("complete", pa.bool_()),
])  # fmt: skip

_TOPIC_ID_PARTITIONS = pa.list_(
    pa.struct([pa.field("topic_id", pa.binary()), pa.field("partitions", pa.list_(pa.int32()))])
)

#: What a member of a group of the consumer protocol has, by its own record. state: "stable", "unrevoked", "unreleased",
#: "unknown", or "away" (member epoch -2: a static member that stopped and keeps its place); "gone" is the tombstone.
#: From client_id on: what the member's other record says, null where compaction has removed that. classic: whether the
#: member uses the classic protocol. From target on, what the order in which the broker lists the group depends on:
#: the target assignment with topics and partitions as its record has them; the record since which the member is in the
#: broker's map of members without a break; and the size of that map's table, null where the records do not tell it.
SILVER_MEMBER_STATE = pa.schema([
    *POSITION,
    pa.field("group_id", pa.string()), pa.field("member_id", pa.string()), pa.field("group_instance_id", pa.string()),
    pa.field("member_epoch", pa.int32()), pa.field("previous_member_epoch", pa.int32()), pa.field("state", pa.string()),
    pa.field("assigned", _TOPIC_ID_PARTITIONS), pa.field("pending", _TOPIC_ID_PARTITIONS),
    pa.field("client_id", pa.string()), pa.field("client_host", pa.string()), pa.field("rack_id", pa.string()),
    pa.field("rebalance_timeout_ms", pa.int32()), pa.field("server_assignor", pa.string()),
    pa.field("topics", pa.list_(pa.string())), pa.field("regex", pa.string()), pa.field("classic", pa.bool_()),
    pa.field("target", _TOPIC_ID_PARTITIONS), pa.field("listed_offset", pa.int64()),
    pa.field("listing_capacity", pa.int32()),
])  # fmt: skip

#: A process that went and came back with the same instance id, or with the same client id and host. down: when it
#: stopped, as a range; up: when it was a member again. Null bounds are unknown.
GOLD_RESTART = pa.schema([
    *POSITION,
    pa.field("group_id", pa.string()), pa.field("group_type", pa.string()), pa.field("seat", pa.string()),
    pa.field("static", pa.bool_()), pa.field("old_member_id", pa.string()), pa.field("member_id", pa.string()),
    pa.field("client_id", pa.string()), pa.field("client_host", pa.string()),
    pa.field("down_at_min", pa.int64()), pa.field("down_at_max", pa.int64()), pa.field("up_at", pa.int64()),
    pa.field("min_ms", pa.int64()), pa.field("max_ms", pa.int64()), pa.field("absorbed", pa.bool_()),
    pa.field("session_timeout_ms", pa.int32()), pa.field("confidence", pa.string()), pa.field("complete", pa.bool_()),
])  # fmt: skip

#: Something to look at. alarm: one of `alarms.AlarmKind`; offset, timestamp: of the record at which it was first
#: raised; it is over when cleared_timestamp is set. The seat "" stands for the whole group.
GOLD_ALARM = pa.schema([
    *POSITION,
    pa.field("group_id", pa.string()), pa.field("group_type", pa.string()), pa.field("alarm", pa.string()),
    pa.field("seat", pa.string()), pa.field("confidence", pa.string()), pa.field("count", pa.int32()),
    pa.field("last_offset", pa.int64()), pa.field("last_timestamp", pa.int64()),
    pa.field("cleared_timestamp", pa.int64()), pa.field("member_ids", pa.list_(pa.string())),
    pa.field("evidence", pa.list_(pa.string())),
])  # fmt: skip

#: Which session timeout the restarts of a group ask for. advised_ms is null where verdict is not "raise", "lower" or
#: "keep"; saved: how many of the rebalances it would have prevented; extra_stall_ms: how much longer the partitions of
#: a member that really died would have had no consumer.
GOLD_TIMEOUT_ADVICE = pa.schema([
    pa.field("partition", pa.int32(), nullable=False), pa.field("group_id", pa.string()),
    pa.field("group_type", pa.string()), pa.field("timestamp", pa.int64()), pa.field("now_ms", pa.int32()),
    pa.field("restarts", pa.int32()), pa.field("p50_ms", pa.int64()), pa.field("p95_ms", pa.int64()),
    pa.field("p99_ms", pa.int64()), pa.field("max_ms", pa.int64()), pa.field("advised_ms", pa.int32()),
    pa.field("saved", pa.int32()), pa.field("extra_stall_ms", pa.int64()), pa.field("within_broker_max", pa.bool_()),
    pa.field("verdict", pa.string()), pa.field("advice", pa.string()),
])  # fmt: skip

#: A group's day (UTC, as its first millisecond), by the time of the records.
GOLD_GROUP_DAY = pa.schema([
    pa.field("partition", pa.int32(), nullable=False), pa.field("group_id", pa.string()),
    pa.field("group_type", pa.string()), pa.field("day", pa.int64()), pa.field("rebalances", pa.int32()),
    pa.field("causes", pa.list_(pa.struct([pa.field("cause", pa.string()), pa.field("count", pa.int32())]))),
    pa.field("lost_rounds", pa.int32()), pa.field("absorbed", pa.int32()),
    pa.field("stopped_partition_ms_min", pa.int64()), pa.field("stopped_partition_ms_max", pa.int64()),
    pa.field("moved", pa.int32()), pa.field("joined", pa.int32()), pa.field("left", pa.int32()),
    pa.field("replaced", pa.int32()), pa.field("members_p50", pa.int32()), pa.field("members_max", pa.int32()),
])  # fmt: skip

#: What has to be kept of everything up to an offset to go on behind it: a row for each partition (group_id null) and
#: one for each of its groups. `kgm.history.carry` writes and reads it; each replaces the one before as a whole.
CARRY = pa.schema([
    pa.field("partition", pa.int32(), nullable=False), pa.field("group_id", pa.string()),
    pa.field("offset", pa.int64()), pa.field("version", pa.int32()), pa.field("state", pa.binary()),
])  # fmt: skip

#: Every table with a schema of its own, by name.
TABLES = {
    "raw": RAW, "bronze_raw": BRONZE_RAW, "bronze_bad": BAD, "silver_commit": SILVER_COMMIT,
    "silver_member": SILVER_MEMBER, "silver_snapshot": SILVER_SNAPSHOT, "silver_member_change": SILVER_MEMBER_CHANGE,
    "silver_seat": SILVER_SEAT, "silver_owner": SILVER_OWNER, "silver_topic": SILVER_TOPIC,
    "silver_group_epoch": SILVER_GROUP_EPOCH, "silver_member_state": SILVER_MEMBER_STATE,
    "gold_rebalance": GOLD_REBALANCE, "gold_event": GOLD_EVENT, "gold_restart": GOLD_RESTART, "gold_alarm": GOLD_ALARM,
    "gold_timeout_advice": GOLD_TIMEOUT_ADVICE, "gold_group_day": GOLD_GROUP_DAY, "carry": CARRY,
}  # fmt: skip

#: Tables of which at least one has a row of each group that is in the history.
TABLES_OF_GROUPS = ("silver_snapshot", "silver_group_epoch", "silver_member_state", "silver_seat", "silver_commit")

_PLACE = ("partition", "offset")
#: The key of each table's rows within a cluster. A row that is written again replaces the one with its key: an interval
#: that was open, or a cause or bound of which later records say more.
KEYS = {
    "raw": _PLACE, "bronze_raw": ("cluster", *_PLACE), "bronze_bad": _PLACE, "silver_commit": _PLACE,
    "silver_member": (*_PLACE, "member_id"), "silver_snapshot": _PLACE,
    "silver_member_change": (*_PLACE, "kind", "member_id"),
    "silver_seat": ("partition", "group_id", "seat", "member_id", "from_offset"),
    "silver_owner": ("partition", "group_id", "place", "topic_partition", "seat", "from_offset"),
    "silver_topic": ("partition", "topic_id", "topic"), "silver_group_epoch": _PLACE, "silver_member_state": _PLACE,
    "gold_rebalance": _PLACE, "gold_event": (*_PLACE, "event"), "gold_restart": (*_PLACE, "member_id"),
    "gold_alarm": (*_PLACE, "alarm", "seat"), "gold_timeout_advice": ("partition", "group_id"),
    "gold_group_day": ("partition", "group_id", "day"), "carry": ("partition", "group_id"),
}  # fmt: skip
_struct_types: dict[type[Struct], pa.StructType] = {}


def arrow_type(cls: type[Message], kind: str) -> pa.DataType:
    """The type of a field of this kind in a message of this class."""
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind.startswith("[]"):
        return pa.list_(arrow_type(cls, kind[2:]))
    return struct_type(cls, cls.STRUCTS[kind])


def struct_type(cls: type[Message], struct: type[Struct]) -> pa.StructType:
    """The type of a struct that occurs in a message, with the fields of all versions."""
    known = _struct_types.get(struct)
    if known is None:
        rows = [Field(*row) for row in struct.FIELDS]
        known = pa.struct([pa.field(row.name, arrow_type(cls, row.kind)) for row in rows])
        _struct_types[struct] = known
    return known


@cache
def record_schema(kind: int) -> pa.Schema:
    """The table of records of a type of TYPES. A tombstone has null for value and version. unknown_tags: the number of
    tagged fields of a newer Kafka, whose bytes are in the raw record only."""
    key, value = message_classes(kind)
    return pa.schema(
        [
            *POSITION,
            pa.field("producer_id", pa.int64()),
            pa.field("producer_epoch", pa.int16()),
            pa.field("transactional", pa.bool_()),
            pa.field("key", struct_type(key, key)),
            pa.field("version", pa.int16()),
            pa.field("value", struct_type(value, value)),
            pa.field("unknown_tags", pa.int32()),
        ],
        metadata={"kgm.history.schema": str(VERSION), "kgm.history.record": TYPES[kind]},
    )
