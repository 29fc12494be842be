"""Decompression of record batches, with a limit: the result is never larger than the caller allows.

gzip needs only Python; snappy, lz4 and zstd need cramjam (the `compression` extra). Kafka's coordinators write
`__consumer_offsets` uncompressed unless `offsets.topic.compression.codec` is set."""

import enum
import importlib
import struct
import zlib
from typing import Any

from kgm.model.distribution import install_command
from kgm.model.errors import DecodeError


class Compression(enum.IntEnum):
    """A codec by its number in a batch's attributes (org.apache.kafka.common.record.CompressionType)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


#: Names of the codecs by number, as used in `compression.type`.
CODECS = tuple(codec.name.lower() for codec in Compression)
_GZIP_WINDOW = 31
#: snappy-java's stream format ("xerial"): magic, two version numbers, then blocks of an int32 length and raw snappy.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE = 16
_I32 = struct.Struct(">i")
#: The first estimate of the decompressed size, as a multiple of the compressed size, and its minimum.
_GUESS = 4
_LEAST = 1 << 16


def decompress(codec: int, data: bytes, *, limit: int) -> bytes:
    """The records of a batch compressed with codec 0-4. Raises DecodeError for bytes that are not in the codec's
    format, for more than `limit` bytes of records, and for an unknown codec."""
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _gunzip(data, limit)
        case Compression.SNAPPY:
            return _unsnappy(data, limit)
        case Compression.LZ4 | Compression.ZSTD:
            return _grow(CODECS[codec], data, limit)
        case _:
            raise DecodeError(f"compression codec {codec} is not known")


def _too_large(name: str, limit: int) -> DecodeError:
    return DecodeError(f"a batch compressed with {name} holds more than {limit} bytes")


def _gunzip(data: bytes, limit: int) -> bytes:
    """Decompress one gzip member or a sequence of them."""
    out = bytearray()
    while data:
        stream = zlib.decompressobj(_GZIP_WINDOW)
        try:
            out += stream.decompress(data, limit + 1 - len(out))
        except zlib.error as error:
            raise DecodeError(f"gzip: {error}") from error
        if len(out) > limit:
            raise _too_large("gzip", limit)
        if not stream.eof:
            raise DecodeError("gzip: the stream ends in the middle")
        data = stream.unused_data
    return bytes(out)


def _cramjam(name: str) -> Any:
    try:
        return importlib.import_module("cramjam")
    except ImportError as error:
        hint = install_command("compression")
        raise DecodeError(f"a batch is compressed with {name}, which needs cramjam", hint=hint) from error


def _unsnappy(data: bytes, limit: int) -> bytes:
    """Decompress raw snappy in snappy-java's frames, or a single block, as other clients send it."""
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unsnappy_blocks([data], limit)
    blocks = []
    at = _XERIAL_HEADER_SIZE
    while at < len(data):
        if len(data) - at < _I32.size:
            raise DecodeError("snappy: the stream ends in the middle of a length")
        (length,) = _I32.unpack_from(data, at)
        at += _I32.size
        if not 0 <= length <= len(data) - at:
            raise DecodeError(f"snappy: a block of {length} bytes, but {len(data) - at} are left")
        blocks.append(data[at : at + length])
        at += length
    return _unsnappy_blocks(blocks, limit)


def _unsnappy_blocks(blocks: list[bytes], limit: int) -> bytes:
    cramjam = _cramjam("snappy")
    out = bytearray()
    for block in blocks:
        try:
            if len(out) + cramjam.snappy.decompress_raw_len(block) > limit:
                raise _too_large("snappy", limit)
            out += cramjam.snappy.decompress_raw(block)
        except cramjam.DecompressionError as error:
            raise DecodeError(f"snappy: {error}") from error
    return bytes(out)


def _grow(name: str, data: bytes, limit: int) -> bytes:
    """Decompress into a buffer that is doubled until it is large enough, because neither format always states its
    size."""
    cramjam = _cramjam(name)
    size = min(limit, max(_GUESS * len(data), _LEAST))
    while True:
        buffer = bytearray(size)
        try:
            return bytes(memoryview(buffer)[: getattr(cramjam, name).decompress_into(data, buffer)])
        except cramjam.DecompressionError as error:
            if "write whole buffer" not in str(error):
                raise DecodeError(f"{name}: {error}") from error
            if size == limit:
                raise _too_large(name, limit) from error
        size = min(limit, size * 2)
