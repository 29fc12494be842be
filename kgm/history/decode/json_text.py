"""Messages in columns as JSON, as Kafka's generated converters print it (`XxxJsonConverter.write`): Kafka's names, the
fields of the version, tagged fields only where they differ from their default, bytes in base64, uuids as Kafka prints
them (URL-safe base64 without padding), every number as a number.

The text of each distinct string is made once, and columns are joined with format strings: no object is created for a
message."""

import base64
import json
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.arrow_lists import to_list
from kgm.history.decode.message_reader import default_of, field_rows
from kgm.protocol.primitives import WIDTH
from kgm.protocol.struct import Field, Message, within
from kgm.text import sanitize

NULL = "null"


def message_texts(cls: type[Message], version: int, messages: pa.StructArray) -> list[str]:
    """The JSON of each message of a class."""
    return _struct(cls, cls.__name__, version, messages)


def text(value: str) -> str:
    """A JSON string; characters that can control a terminal are escaped."""
    return sanitize.json_text(json.dumps(value, ensure_ascii=False))


def base64_text(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def kafkas_name(name: str) -> str:
    """snake_case to Kafka's camelCase."""
    first, *others = name.split("_")
    return first + "".join(other[:1].upper() + other[1:] for other in others)


def _struct(cls: type[Message], name: str, version: int, array: pa.StructArray) -> list[str]:
    shape, columns = "", []
    for row in field_rows(cls, name):
        if not within(version, row.versions):
            continue
        # Not `flatten`, which adds the parent's nulls to each child: the parent writes those itself.
        values = _values(cls, row.kind, version, array.field(row.name))
        named = f',"{kafkas_name(row.name)}":'
        if row.tag is not None and within(version, row.tagged):
            values = _unless_default(cls, row, version, named, values)
            shape += "%s"
        else:
            shape += named + "%s"
        columns.append(values)
    if not columns:
        return ["{}"] * len(array)
    shape = "{" + shape + "}"
    if shape.startswith("{,"):
        return list(map(("{" + shape[2:]).__mod__, zip(*columns, strict=True)))
    # All fields are tagged: the first one present has a comma too many.
    texts = map(shape.__mod__, zip(*columns, strict=True))
    return ["{" + each[2:] if each.startswith("{,") else each for each in texts]


def _unless_default(cls: type[Message], row: Field, version: int, named: str, values: list[str]) -> list[str]:
    default = _values(cls, row.kind, version, default_of(cls, row))[0]
    return ["" if value == default else named + value for value in values]


def _values(cls: type[Message], kind: str, version: int, array: pa.Array) -> list[str]:
    if kind in WIDTH:
        return list(map(str, to_list(array)))
    if kind in ("string", "bytes", "uuid"):
        return _different(kind, array)
    if kind.startswith("[]"):
        return _arrays(cls, kind[2:], version, array)
    return _with_nulls(_struct(cls, kind, version, array), array)


def _different(kind: str, array: pa.Array) -> list[str]:
    encoded = array.dictionary_encode()
    values = to_list(encoded.dictionary)
    texts = [*map(_TEXTS[kind], values), NULL]
    return [texts[number] for number in encoded.indices.fill_null(len(values)).to_numpy().tolist()]


def _uuid_text(value: bytes) -> str:
    return f'"{base64.urlsafe_b64encode(value).decode().rstrip("=")}"'


_TEXTS: dict[str, Any] = {"string": text, "bytes": base64_text, "uuid": _uuid_text}


def _arrays(cls: type[Message], kind: str, version: int, array: pa.ListArray) -> list[str]:
    lengths = pc.fill_null(array.value_lengths(), 0).to_numpy()
    ends = np.append(0, np.cumsum(lengths)).tolist()
    values = _values(cls, kind, version, array.flatten())
    texts = ["[" + ",".join(values[start:end]) + "]" for start, end in pairwise(ends)]
    return _with_nulls(texts, array)


def _with_nulls(texts: list[str], array: pa.Array) -> list[str]:
    if array.null_count:
        for row in np.nonzero(array.is_null().to_numpy(zero_copy_only=False))[0].tolist():
            texts[row] = NULL
    return texts
