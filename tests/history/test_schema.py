"""Schemas are promises: columns are added at the end, never changed. Rows have the columns of their tables."""

from dataclasses import fields
from types import NoneType, UnionType
from typing import get_args, get_origin, get_type_hints

import pyarrow as pa
import pytest

from kgm.history.rows import ROW_CLASSES
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


#: What a field of a row is for each type of column.
PYTHON_TYPES = {
    pa.int8(): int, pa.int16(): int, pa.int32(): int, pa.int64(): int, pa.string(): str, pa.binary(): bytes,
    pa.bool_(): bool,
}  # fmt: skip


def field_type(hint):
    """(the type of a field without None, whether it may be None)."""
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    return (kinds[0], True) if isinstance(hint, UnionType) else (hint, False)


def check_field(name, hint, column):
    kind, optional = field_type(hint)
    assert optional <= column.nullable, name
    if pa.types.is_list(column.type):
        assert get_origin(kind) is tuple, name
        (element, _), inner = get_args(kind), column.type.value_type
        if pa.types.is_struct(inner):
            check_fields(element, list(inner))
        else:
            assert element is PYTHON_TYPES[inner], name
    else:
        assert kind is PYTHON_TYPES[column.type], name


def check_fields(cls, columns):
    hints = get_type_hints(cls)
    assert [field.name for field in fields(cls)] == [column.name for column in columns]
    for column in columns:
        check_field(f"{cls.__name__}.{column.name}", hints[column.name], column)


@pytest.mark.parametrize("name", TABLES)
def test_rows_have_the_columns_of_their_table(name):
    cls = ROW_CLASSES[name]
    assert cls.table == name
    assert cls.__dataclass_params__.frozen
    assert "__slots__" in vars(cls)
    check_fields(cls, list(TABLES[name]))
    assert ROW_CLASSES.keys() == TABLES.keys()


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
