"""Arrow schemas of every table of the history, version 1.

The tables of records are derived from the generated messages (`record_schema`): Kafka's names in snake_case, every
field of every version, Kafka's default where a version lacks the field. Everything else is spelled out here. From
version to version columns are only added, at the end, and may be null.

Times are milliseconds since 1970 in UTC, as Kafka writes them. `partition` and `offset` are those of the record in
`__consumer_offsets`; with the cluster they are the identity of a row, by which building again changes nothing. uuids
are binary of sixteen bytes (Spark has no fixed width), uint16 is int32 (Spark has no unsigned integers)."""

from functools import cache

import pyarrow as pa

from kgm.protocol.struct import Field, Message, Struct
from kgm.records.record import TYPES, message_classes

VERSION = 1

_SCALARS = {
    "int8": pa.int8(), "int16": pa.int16(), "uint16": pa.int32(), "int32": pa.int32(), "uint32": pa.int64(),
    "int64": pa.int64(), "string": pa.string(), "bytes": pa.binary(), "uuid": pa.binary(),
}  # fmt: skip

#: A record as it lies in the log. Of a transaction's end, `marker` is 1 for COMMIT and 0 for ABORT, and key and value
#: are null; it is null for everything else. Sources that cannot know leave what is nullable null.
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

#: Where a record stood: the columns in front of every table of records.
POSITION = [RAW.field(name) for name in ("partition", "offset", "timestamp", "leader_epoch")]

#: What the store of raw records adds.
BRONZE_RAW = pa.schema([
    pa.field("cluster", pa.string(), nullable=False), *RAW,
    pa.field("key_type", pa.int16()), pa.field("value_version", pa.int16()),
    pa.field("source", pa.string()), pa.field("ingested_at", pa.int64()),
])  # fmt: skip

#: Records that could not be decoded: whole, with why. `reason` is one of REASONS, `error` says it to people.
BAD = pa.schema([
    *RAW, pa.field("key_type", pa.int16()), pa.field("value_version", pa.int16()),
    pa.field("reason", pa.string(), nullable=False), pa.field("error", pa.string(), nullable=False),
])  # fmt: skip
REASONS = ("no key", "unknown type", "unknown version", "malformed")

_TOPIC_PARTITIONS = pa.list_(pa.struct([pa.field("topic", pa.string()), pa.field("partitions", pa.list_(pa.int32()))]))

#: Offset commits that count, and tombstones. `txn` is null, or "committed" or "open" (pending: no marker yet); those of
#: aborted transactions are void and not in here. visible_offset: from which record on it counts, the marker's for a
#: transaction, null while it is open. A later plain commit of the same key wins whatever its transaction's marker says.
SILVER_COMMIT = pa.schema([
    *POSITION,
    pa.field("group_id", pa.string()), pa.field("topic", pa.string()), pa.field("topic_partition", pa.int32()),
    pa.field("tombstone", pa.bool_()), pa.field("committed_offset", pa.int64()),
    pa.field("committed_leader_epoch", pa.int32()), pa.field("metadata", pa.string()),
    pa.field("commit_timestamp", pa.int64()), pa.field("expire_timestamp", pa.int64()),
    pa.field("topic_id", pa.binary()), pa.field("txn", pa.string()), pa.field("visible_offset", pa.int64()),
])  # fmt: skip

#: A member in one GroupMetadata record, subscription and assignment taken apart. Both are null when the group's
#: protocol type is not "consumer", when the bytes are empty, and when they do not parse, which `blob_error` says
#: (1 the subscription, 2 the assignment, 3 both).
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

#: A classic group as one GroupMetadata record has it (`membership.Snapshot`); contiguous: nothing that compaction may
#: have eaten lies between it and the one before.
SILVER_SNAPSHOT = pa.schema([
    *POSITION,
    pa.field("group_id", pa.string()), pa.field("kind", pa.string()), pa.field("generation", pa.int32()),
    pa.field("protocol_type", pa.string()), pa.field("protocol", pa.string()), pa.field("leader", pa.string()),
    pa.field("state_timestamp", pa.int64()), pa.field("members", pa.int32()), pa.field("sync_ms", pa.int64()),
    pa.field("contiguous", pa.bool_()),
])  # fmt: skip

#: What became of one member between two snapshots (`membership.Change`); absorbed is null where the log cannot tell.
SILVER_MEMBER_CHANGE = pa.schema([
    *POSITION,
    pa.field("group_id", pa.string()), pa.field("generation", pa.int32()), pa.field("kind", pa.string()),
    pa.field("member_id", pa.string()), pa.field("old_member_id", pa.string()),
    pa.field("group_instance_id", pa.string()), pa.field("client_id", pa.string()),
    pa.field("client_host", pa.string()), pa.field("session_timeout_ms", pa.int32()), pa.field("absorbed", pa.bool_()),
    pa.field("complete", pa.bool_()),
])  # fmt: skip

#: A rebalance that completed (`membership.Rebalance`); complete: nothing that compaction may have eaten lies within.
GOLD_REBALANCE = pa.schema([
    *POSITION,
    pa.field("group_id", pa.string()), pa.field("from_generation", pa.int32()), pa.field("to_generation", pa.int32()),
    pa.field("lost_rounds", pa.int32()), pa.field("moved", pa.int32()), pa.field("kept", pa.int32()),
    pa.field("stopped_min_ms", pa.int64()), pa.field("stopped_max_ms", pa.int64()), pa.field("complete", pa.bool_()),
])  # fmt: skip

#: Every table with a schema of its own, by name.
TABLES = {
    "raw": RAW, "bronze_raw": BRONZE_RAW, "bronze_bad": BAD, "silver_commit": SILVER_COMMIT,
    "silver_member": SILVER_MEMBER, "silver_snapshot": SILVER_SNAPSHOT, "silver_member_change": SILVER_MEMBER_CHANGE,
    "gold_rebalance": GOLD_REBALANCE,
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
    """All fields of a struct that occurs in a message, whatever their versions."""
    found = _struct_types.get(struct)
    if found is None:
        rows = [Field(*row) for row in struct.FIELDS]
        found = pa.struct([pa.field(row.name, arrow_type(cls, row.kind)) for row in rows])
        _struct_types[struct] = found
    return found


@cache
def record_schema(kind: int) -> pa.Schema:
    """The table of records of a type of TYPES: a null value, with a null version, is a tombstone. unknown_tags counts
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
