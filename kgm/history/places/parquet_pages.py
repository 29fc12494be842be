"""What the pages of a Parquet file hold, according to the header of each, before any of them is decoded.

A footer can claim anything, and a page of a few bytes can expand to 2 GiB, or to any number of values. The decoder
relies on a page's header, so the header is read here first (https://github.com/apache/parquet-format)."""

from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kgm.history.places.thrift_compact import fields

_DICTIONARY_PAGE: Final = 2
#: Where each page type's header has the number of values and their encoding: (field, field within that).
_DETAILS: Final = {0: (5, 2), _DICTIONARY_PAGE: (7, 2), 3: (8, 4)}
_DELTAS: Final = range(5, 8)
_SHARED_BEGINNINGS: Final = 7
#: How many bytes a decoder allocates up front for each value in a page of these kinds.
_AT_ONCE: Final = 16
_FIRST_READ, _LONGEST_HEADER = 512, 16 << 20


class Chunk(NamedTuple):
    """A column in a row group. values: in its data pages, including nulls. The others are bytes: size of its pages once
    decompressed, plus what is allocated up front; dictionary of its dictionary pages; shared of the pages whose values
    share prefixes."""

    values: int = 0
    size: int = 0
    dictionary: int = 0
    shared: int = 0


def bounds(column: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Where a column's pages are in the file: the first byte, and the one after the last."""
    start = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < start:
        start = column.dictionary_page_offset
    return start, start + column.total_compressed_size


def chunk_of(file: BinaryIO, column: pq.ColumnChunkMetaData) -> Chunk:
    """The pages of a column, added up. Raises pyarrow's ArrowInvalid for bytes that are not pages."""
    at, end = bounds(column)
    if not 0 <= at <= end:
        raise pa.ArrowInvalid("a column is outside of the file")
    found = Chunk()
    while at < end:
        header, length = _header(file, at)
        kind, size, compressed = (header.get(number) for number in (1, 2, 3))
        if not (isinstance(kind, int) and isinstance(size, int) and isinstance(compressed, int)) or compressed < 0:
            raise _no_page(at)
        found = _with(found, kind, max(size, compressed), header)
        at += length + compressed
    return found


def _with(found: Chunk, kind: int, size: int, header: dict[int, Any]) -> Chunk:
    values, size_of_all, dictionary, shared = found
    where, encoded_as = _DETAILS.get(kind, (0, 0))
    details = header.get(where)
    if not isinstance(details, dict):
        return Chunk(values, size_of_all + size, dictionary, shared)
    count, encoding = details.get(1), details.get(encoded_as)
    if not isinstance(count, int) or count < 0:
        raise pa.ArrowInvalid("a page has no number of values")
    if kind == _DICTIONARY_PAGE:
        return Chunk(values, size_of_all + size + _AT_ONCE * count, dictionary + size, shared)
    if encoding in _DELTAS:
        shared += size if encoding == _SHARED_BEGINNINGS else 0
        size += _AT_ONCE * count
    return Chunk(values + count, size_of_all + size, dictionary, shared)


def _header(file: BinaryIO, at: int) -> tuple[dict[int, Any], int]:
    """(fields by their numbers, size in bytes) of a page's header."""
    most = _FIRST_READ
    while True:
        file.seek(at)
        data = file.read(most)
        try:
            return fields(data, 0)
        except IndexError:
            if len(data) < most or most >= _LONGEST_HEADER:
                raise _no_page(at) from None
            most *= 8


def _no_page(at: int) -> pa.ArrowInvalid:
    return pa.ArrowInvalid(f"there is no page at byte {at}")
