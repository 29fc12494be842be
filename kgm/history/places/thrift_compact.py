"""Thrift's compact protocol, in which Parquet files describe themselves (https://github.com/apache/parquet-format)."""

from typing import Any, Final

import pyarrow as pa

_TRUE, _FALSE, _INT8, _INT16, _INT32, _INT64, _DOUBLE, _BINARY, _LIST, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12
_DEEPEST: Final = 8


def fields(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """(32-bit values, bytes, lists and structs by field number, None for other types; the position after them). Raises
    IndexError if the data end early, and pyarrow's ArrowInvalid for what no writer produces, so that nothing is read
    differently here than by the decoder."""
    found: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head >> 4:
            number += head >> 4
        else:
            number, at = _integer(data, at)
        if number in found or not 0 < number < 1 << 15 or depth > _DEEPEST:
            raise pa.ArrowInvalid("a Thrift structure cannot be read")
        found[number], at = (None, at) if kind in (_TRUE, _FALSE) else _value(data, at, kind, depth)
    return found, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == _INT32:
        value, at = _integer(data, at)
        if not -(1 << 31) <= value < 1 << 31:
            raise pa.ArrowInvalid("a 32-bit number has more than 32 bits")
        return value, at
    if kind in (_INT16, _INT64):
        return None, _varint(data, at)[1]
    if kind == _BINARY:
        length, at = _varint(data, at)
        if length > len(data) - at:
            raise IndexError
        return data[at : at + length], at + length
    if kind == _LIST:
        return _list(data, at, depth)
    if kind == _STRUCT:
        return fields(data, at, depth + 1)
    if kind in (_INT8, _DOUBLE):
        return None, at + (1 if kind == _INT8 else 8)
    raise pa.ArrowInvalid(f"a Thrift structure has a field of type {kind}")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    head = data[at]
    at += 1
    count, kind = head >> 4, head & 15
    if count == 15:
        count, at = _varint(data, at)
    if count > len(data) - at:  # each takes at least one byte
        raise IndexError
    found = []
    for _ in range(count):
        value, at = (None, at + 1) if kind in (_TRUE, _FALSE) else _value(data, at, kind, depth)
        found.append(value)
    return found, at


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at] & 0x7F
    shift = 0
    while data[at] & 0x80:
        at += 1
        shift += 7
        if shift > 63:
            raise pa.ArrowInvalid("a number has more than 64 bits")
        value |= (data[at] & 0x7F) << shift
    return value, at + 1
