"""Arrow schemas of every table of the history, version 1.

The tables of records are derived from the generated messages (`record_schema`): Kafka's names in snake_case, every
field of every version, Kafka's default where a version does not have the field. All other tables are built from the
classes of `rows`. New versions only add nullable columns at the end.

Times are milliseconds since 1970 in UTC, as Kafka writes them. `partition` and `offset` are those of the record in
`__consumer_offsets`; with the cluster they identify a row, so building again changes nothing. uuids are binary with
sixteen bytes (Spark has no fixed width), uint16 is int32 (Spark has no unsigned integers).

The columns `seat` and the table `silver_seat` are named after what kgm calls an identity elsewhere: the
group_instance_id of a static member, or the member id of a dynamic one."""

from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from kgm.history.row_parts import NOT_NULL
from kgm.history.rows import ROW_CLASSES
from kgm.protocol.struct import Field, Message, Struct
from kgm.records.record import message_classes
from kgm.records.record_types import TYPES

VERSION = 1

_SCALARS = {
    "int8": pa.int8(), "int16": pa.int16(), "uint16": pa.int32(), "int32": pa.int32(), "uint32": pa.int64(),
    "int64": pa.int64(), "string": pa.string(), "bytes": pa.binary(), "uuid": pa.binary(),
}  # fmt: skip

_PLAIN = {str: pa.string(), bytes: pa.binary(), bool: pa.bool_(), int: pa.int64()}


def _arrow_type(hint: Any) -> pa.DataType:
    """The type of a column's non-null values."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (one for one in get_args(hint) if one is not NoneType)
    if get_origin(hint) is Annotated:
        plain, *marks = get_args(hint)
        widths = [pa.type_for_alias(mark) for mark in marks if mark != NOT_NULL]
        return widths[0] if widths else _PLAIN[plain]
    if get_origin(hint) is tuple:
        return pa.list_(_arrow_type(get_args(hint)[0]))
    return _PLAIN[hint] if hint in _PLAIN else pa.struct(_columns(hint))


def _columns(cls: type[Any]) -> list[pa.Field]:
    hints = get_type_hints(cls, include_extras=True)
    return [
        pa.field(each.name, _arrow_type(hints[each.name]), nullable=NOT_NULL not in get_args(hints[each.name]))
        for each in fields(cls)
    ]


#: Every table with a schema of its own, by name.
TABLES = {name: pa.schema(_columns(cls)) for name, cls in ROW_CLASSES.items()}
RAW, BRONZE_RAW, BAD, CARRY = (TABLES[name] for name in ("raw", "bronze_raw", "bronze_bad", "carry"))
SILVER_COMMIT, SILVER_MEMBER, SILVER_SNAPSHOT = (
    TABLES[name] for name in ("silver_commit", "silver_member", "silver_snapshot")
)
#: The position of a record: the first columns of every table of records.
POSITION = [RAW.field(name) for name in ("partition", "offset", "timestamp", "leader_epoch")]

#: Tables of which at least one has a row for each group in the history.
TABLES_OF_GROUPS = ("silver_snapshot", "silver_group_epoch", "silver_member_state", "silver_seat", "silver_commit")

_PLACE = ("partition", "offset")
#: The key of each table's rows within a cluster. A row that is written again replaces the one with the same key: an
#: interval that was open, or a cause or bound about which later records show more.
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
    """The table of records of one of the types in TYPES. A tombstone has null for value and version. unknown_tags: the
    number of tagged fields from a newer Kafka, whose bytes are only in the raw record."""
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
