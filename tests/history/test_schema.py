"""Schemas are promises: columns are added at the end, never changed. Each table has a class of rows."""

import pyarrow as pa
import pytest

from kgm.history.rows import ROW_CLASSES
from kgm.history.schema import POSITION, RAW, TABLES, VERSION, arrow_type, record_schema
from kgm.protocol.struct import Field
from kgm.records.record import message_classes
from kgm.records.record_types import TYPES

#: The columns of version 1. Changing one of these lines is a new version; adding a column behind them is not.
COLUMNS = {
    "raw": "partition:int32! offset:int64! timestamp:int64 key:binary value:binary leader_epoch:int32 "
    "producer_id:int64 producer_epoch:int16 transactional:bool control:bool marker:int8",
    "bronze_raw": "cluster:string! partition:int32! offset:int64! timestamp:int64 key:binary value:binary "
    "leader_epoch:int32 producer_id:int64 producer_epoch:int16 transactional:bool control:bool marker:int8 "
    "key_type:int16 value_version:int16 source:string ingested_at:int64",
    "bronze_bad": "partition:int32! offset:int64! timestamp:int64 key:binary value:binary leader_epoch:int32 "
    "producer_id:int64 producer_epoch:int16 transactional:bool control:bool marker:int8 key_type:int16 "
    "value_version:int16 reason:string! error:string!",
    "silver_commit": "partition:int32! offset:int64! timestamp:int64 leader_epoch:int32 group_id:string topic:string "
    "topic_partition:int32 tombstone:bool committed_offset:int64 committed_leader_epoch:int32 metadata:string "
    "commit_timestamp:int64 expire_timestamp:int64 topic_id:binary txn:string visible_offset:int64",
    "silver_member": "partition:int32! offset:int64! timestamp:int64 leader_epoch:int32 group_id:string "
    "generation:int32 member_id:string group_instance_id:string client_id:string client_host:string "
    "rebalance_timeout_ms:int32 session_timeout_ms:int32 topics:list<string> "
    "owned:list<struct<topic:string,partitions:list<int32>>> owned_generation:int32 rack_id:string "
    "assigned:list<struct<topic:string,partitions:list<int32>>> blob_error:int8",
    "silver_snapshot": "partition:int32! offset:int64! timestamp:int64 leader_epoch:int32 group_id:string kind:string "
    "generation:int32 protocol_type:string protocol:string leader:string state_timestamp:int64 members:int32 "
    "sync_ms:int64 contiguous:bool",
    "silver_member_change": "partition:int32! offset:int64! timestamp:int64 leader_epoch:int32 group_id:string "
    "generation:int32 kind:string member_id:string old_member_id:string group_instance_id:string client_id:string "
    "client_host:string session_timeout_ms:int32 absorbed:bool complete:bool group_type:string seat:string "
    "rebalance_timeout_ms:int32 topics_added:list<string> topics_removed:list<string> partitions_before:int32 "
    "partitions_after:int32",
    "silver_seat": "partition:int32! group_id:string group_type:string seat:string member_id:string "
    "group_instance_id:string client_id:string client_host:string session_timeout_ms:int32 from_offset:int64 "
    "from_timestamp:int64 from_generation:int32 known_from:bool to_offset:int64 to_timestamp:int64 "
    "to_generation:int32 end_cause:string end_confidence:string",
    "silver_owner": "partition:int32! group_id:string group_type:string topic:string topic_id:binary "
    "topic_partition:int32 seat:string member_id:string from_offset:int64 from_timestamp:int64 from_generation:int32 "
    "known_from:bool to_offset:int64 to_timestamp:int64 to_earliest_timestamp:int64 to_generation:int32 exact:bool "
    "place:string",
    "silver_topic": "partition:int32! topic_id:binary topic:string offset:int64",
    "silver_group_epoch": "partition:int32! offset:int64! timestamp:int64 leader_epoch:int32 group_id:string "
    "epoch:int32 metadata_hash:int64 assignment_epoch:int32 assigned_offset:int64 assigned_timestamp:int64 "
    "settled_offset:int64 settled_timestamp:int64 members:int32 complete:bool",
    "silver_member_state": "partition:int32! offset:int64! timestamp:int64 leader_epoch:int32 group_id:string "
    "member_id:string group_instance_id:string member_epoch:int32 previous_member_epoch:int32 state:string "
    "assigned:list<struct<topic_id:binary,partitions:list<int32>>> "
    "pending:list<struct<topic_id:binary,partitions:list<int32>>> client_id:string client_host:string rack_id:string "
    "rebalance_timeout_ms:int32 server_assignor:string topics:list<string> regex:string classic:bool "
    "target:list<struct<topic_id:binary,partitions:list<int32>>> listed_offset:int64 listing_capacity:int32",
    "gold_rebalance": "partition:int32! offset:int64! timestamp:int64 leader_epoch:int32 group_id:string "
    "from_generation:int32 to_generation:int32 lost_rounds:int32 moved:int32 kept:int32 stopped_min_ms:int64 "
    "stopped_max_ms:int64 complete:bool group_type:string cause:string confidence:string also:list<string> "
    "who:list<struct<seat:string,what:string,member_id:string,client_id:string,client_host:string>> "
    "evidence:list<string> source:string reason:string inferred_cause:string inferred_confidence:string sync_ms:int64 "
    "protocol:string members_before:int32 members_after:int32 joined:int32 left:int32 replaced:int32 assigned:int32 "
    "unowned_ms:int64 stopped_partition_ms_min:int64 stopped_partition_ms_max:int64",
    "gold_event": "partition:int32! offset:int64! timestamp:int64 leader_epoch:int32 group_id:string "
    "group_type:string generation:int32 event:string confidence:string "
    "who:list<struct<seat:string,what:string,member_id:string,client_id:string,client_host:string>> "
    "evidence:list<string> complete:bool",
    "gold_restart": "partition:int32! offset:int64! timestamp:int64 leader_epoch:int32 group_id:string "
    "group_type:string seat:string static:bool old_member_id:string member_id:string client_id:string "
    "client_host:string down_at_min:int64 down_at_max:int64 up_at:int64 min_ms:int64 max_ms:int64 absorbed:bool "
    "session_timeout_ms:int32 confidence:string complete:bool",
    "gold_alarm": "partition:int32! offset:int64! timestamp:int64 leader_epoch:int32 group_id:string "
    "group_type:string alarm:string seat:string confidence:string count:int32 last_offset:int64 last_timestamp:int64 "
    "cleared_timestamp:int64 member_ids:list<string> evidence:list<string>",
    "gold_timeout_advice": "partition:int32! group_id:string group_type:string timestamp:int64 now_ms:int32 "
    "restarts:int32 p50_ms:int64 p95_ms:int64 p99_ms:int64 max_ms:int64 advised_ms:int32 saved:int32 "
    "extra_stall_ms:int64 within_broker_max:bool verdict:string advice:string",
    "gold_group_day": "partition:int32! group_id:string group_type:string day:int64 rebalances:int32 "
    "causes:list<struct<cause:string,count:int32>> lost_rounds:int32 absorbed:int32 stopped_partition_ms_min:int64 "
    "stopped_partition_ms_max:int64 moved:int32 joined:int32 left:int32 replaced:int32 members_p50:int32 "
    "members_max:int32",
    "carry": "partition:int32! group_id:string offset:int64 version:int32 state:binary",
}  # fmt: skip


def short(kind):
    return str(kind).replace("<item: ", "<").replace(" ", "")


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_version_1(name):
    shown = " ".join(f"{each.name}:{short(each.type)}{'' if each.nullable else '!'}" for each in TABLES[name])
    assert VERSION == 1
    assert shown.startswith(COLUMNS[name])


@pytest.mark.parametrize("name", TABLES)
def test_each_table_has_a_class_of_rows(name):
    cls = ROW_CLASSES[name]
    assert cls.table == name
    assert cls.__dataclass_params__.frozen
    assert "__slots__" in vars(cls)
    assert COLUMNS.keys() == TABLES.keys()


@pytest.mark.parametrize("kind", TYPES)
def test_tables_of_records_have_every_field_of_the_messages(kind):
    schema = record_schema(kind)
    assert schema.names[:4] == [each.name for each in POSITION]
    for name, cls in zip(("key", "value"), message_classes(kind), strict=True):
        rows = [Field(*row) for row in cls.FIELDS]
        assert [(each.name, each.type) for each in schema.field(name).type] == [
            (row.name, arrow_type(cls, row.kind)) for row in rows
        ]
    assert schema.metadata[b"kgm.history.schema"] == b"1"
    assert pa.ipc.read_schema(schema.serialize()) == schema


def test_what_is_stored_begins_with_what_is_read():
    assert TABLES["bronze_raw"].names[1 : 1 + len(RAW)] == RAW.names
    assert TABLES["bronze_bad"].names[: len(RAW)] == RAW.names
