"""Small Parquet files that hold as much as they can, made of Thrift by hand where no writer would make them."""

from __future__ import annotations

import struct

import cramjam
import pyarrow as pa
import pyarrow.parquet as pq

INT32, INT64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
BYTE_ARRAY, ZSTD, PLAIN, RLE_DICTIONARY = 6, 6, 0, 8
MAGIC = b"PAR1"


def varint(value):
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def number(value):
    return varint(value << 1)


def text(value):
    return varint(len(value)) + value


def thrift(*fields):
    """A struct of (number, type, bytes), in the order of their numbers."""
    found, last = b"", 0
    for at, kind, data in fields:
        found += bytes([(at - last) << 4 | kind]) + data
        last = at
    return found + b"\0"


def many(kind, data, count):
    """A list of `count` elements."""
    return bytes([0xF0 | kind]) + varint(count) + data


def parquet(path, columns, row_groups, *, pages=b"", rows=0):
    """A file. columns, row_groups: (Thrift, how many)."""
    schema = thrift((4, BINARY, text(b"schema")), (5, INT32, number(columns[1]))) + columns[0]
    footer = thrift(
        (1, INT32, number(2)), (2, LIST, many(STRUCT, schema, columns[1] + 1)), (3, INT64, number(rows)),
        (4, LIST, many(STRUCT, *row_groups)),
    )  # fmt: skip
    path.write_bytes(MAGIC + pages + footer + struct.pack("<I", len(footer)) + MAGIC)


def column(name):
    return thrift((1, INT32, number(BYTE_ARRAY)), (3, INT32, number(0)), (4, BINARY, text(name)))


def page(kind, body, size, values, encoding):
    """A page whose header says that it decompresses to `size` bytes."""
    details = [(1, INT32, number(values)), (2, INT32, number(encoding))]
    where = 7 if kind == 2 else 5
    if kind == 0:
        details += [(3, INT32, number(3)), (4, INT32, number(3))]
    fields = ((1, kind), (2, size), (3, len(body)))
    return thrift(*((at, INT32, number(value)) for at, value in fields), (where, STRUCT, thrift(*details))) + body


def forged_page(path, name, mib):
    """A column with a dictionary of one value of `mib` MiB, although the footer says that it has only a few bytes."""
    zeros = bytes(cramjam.zstd.compress(bytes(1 << 20), 3))
    first = bytes(cramjam.zstd.compress(struct.pack("<I", mib << 20), 3))
    dictionary = page(2, first + zeros * mib, (mib << 20) + 4, 1, PLAIN)
    indices = bytes(cramjam.zstd.compress(b"\1" + varint(2) + b"\0", 3))
    data = page(0, indices, 3, 1, RLE_DICTIONARY)
    about = thrift(
        (1, INT32, number(BYTE_ARRAY)), (2, LIST, many(INT32, number(RLE_DICTIONARY), 1)),
        (3, LIST, many(BINARY, text(name), 1)), (4, INT32, number(ZSTD)), (5, INT64, number(1)),
        (6, INT64, number(99)), (7, INT64, number(len(dictionary + data))), (9, INT64, number(4 + len(dictionary))),
        (11, INT64, number(4)),
    )  # fmt: skip
    chunk = thrift((2, INT64, number(4)), (3, STRUCT, about))
    group = thrift((1, LIST, many(STRUCT, chunk, 1)), (2, INT64, number(99)), (3, INT64, number(1)))
    parquet(path, (column(name), 1), (group, 1), pages=dictionary + data, rows=1)


def wide_schema(path, count):
    parquet(path, (column(b"") * count, count), (b"", 0))


def wide_row_group(path, count):
    group = thrift(
        (1, LIST, many(STRUCT, thrift((2, INT64, number(0))) * count, count)),
        (2, INT64, number(0)),
        (3, INT64, number(0)),
    )
    parquet(path, (column(b"x"), 1), (group, 1))


def many_row_groups(path, count):
    group = thrift((1, LIST, b"\x0c"), (2, INT64, number(0)), (3, INT64, number(1 << 40)))
    parquet(path, (column(b"x"), 1), (group * count, count), rows=1 << 50)


def same(value, count, kind=None):
    """`count` equal values, which a file stores as one."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([value], kind))


def repeated(path, columns, times=1, **options):
    """Row groups that are all the same; columns: arrays by name."""
    table = pa.table(columns)
    with pq.ParquetWriter(path, table.schema, compression="zstd", **options) as writer:
        for _ in range(times):
            writer.write_table(table)
