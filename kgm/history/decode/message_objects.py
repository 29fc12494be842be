"""Messages in columns as objects of their generated classes, for records that are processed one by one."""

from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.arrow_lists import to_list
from kgm.history.decode.message_reader import field_rows
from kgm.protocol.struct import Message


def message_objects(cls: type[Message], messages: pa.StructArray | pa.ChunkedArray) -> list[Any]:
    """An object of the class for each message, None for null."""
    array = messages.combine_chunks() if isinstance(messages, pa.ChunkedArray) else messages
    return _objects(cls, cls.__name__, array)


def _objects(cls: type[Message], name: str, array: pa.StructArray) -> list[Any]:
    struct: Any = cls if name == cls.__name__ else cls.STRUCTS[name]
    # Not `flatten`, which adds the parent's nulls to each child: those become None below.
    columns = [_values(cls, row.kind, array.field(row.name)) for row in field_rows(cls, name)]
    objects = [struct(*values) for values in zip(*columns, strict=True)] if columns else [struct() for _ in array]
    return _with_nulls(objects, array)


def _values(cls: type[Message], kind: str, array: pa.Array) -> list[Any]:
    if kind.startswith("[]"):
        ends = [0, *accumulate(to_list(pc.fill_null(array.value_lengths(), 0)))]
        elements = _values(cls, kind[2:], array.flatten())
        return _with_nulls([elements[first:behind] for first, behind in pairwise(ends)], array)
    return _objects(cls, kind, array) if kind in cls.STRUCTS else to_list(array)


def _with_nulls(values: list[Any], array: pa.Array) -> list[Any]:
    if array.null_count:
        for row in to_list(pc.indices_nonzero(array.is_null())):
            values[row] = None
    return values
