"""Schemas are promises: columns are added at the end, never changed."""

import pyarrow as pa
import pytest

from kgm.history.schema import POSITION, RAW, TABLES, VERSION, arrow_type, record_schema
from kgm.protocol.struct import Field
from kgm.records.record import message_classes
from kgm.records.record_types import TYPES

#: The columns of version 1. Changing one of these lines is a new version; adding a column behind them is not.
COLUMNS = {
    "raw": "partition:int32! offset:int64! timestamp:int64 key:binary value:binary leader_epoch:int32 producer_id:int64 "
    "producer_epoch:int16 transactional:bool control:bool marker:int8",
    "silver_commit": "partition:int32! offset:int64! timestamp:int64 leader_epoch:int32 group_id:string topic:string "
    "topic_partition:int32 tombstone:bool committed_offset:int64 committed_leader_epoch:int32 metadata:string "
    "commit_timestamp:int64 expire_timestamp:int64 topic_id:binary txn:string visible_offset:int64",
    "silver_snapshot": "partition:int32! offset:int64! timestamp:int64 leader_epoch:int32 group_id:string kind:string "
    "generation:int32 protocol_type:string protocol:string leader:string state_timestamp:int64 members:int32 sync_ms:int64 "
    "contiguous:bool",
    "silver_member_change": "partition:int32! offset:int64! timestamp:int64 leader_epoch:int32 group_id:string "
    "generation:int32 kind:string member_id:string old_member_id:string group_instance_id:string client_id:string "
    "client_host:string session_timeout_ms:int32 absorbed:bool complete:bool",
    "gold_rebalance": "partition:int32! offset:int64! timestamp:int64 leader_epoch:int32 group_id:string "
    "from_generation:int32 to_generation:int32 lost_rounds:int32 moved:int32 kept:int32 stopped_min_ms:int64 "
    "stopped_max_ms:int64 complete:bool",
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_version_1(name):
    shown = " ".join(f"{each.name}:{each.type}{'' if each.nullable else '!'}" for each in TABLES[name])
    assert VERSION == 1
    assert shown.startswith(COLUMNS[name])


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
