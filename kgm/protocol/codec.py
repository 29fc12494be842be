"""Encodes and decodes messages. Codecs are compiled on first use, which takes about a millisecond per message and
version.

Errors: `DecodeError` for bytes that are not a valid message, `EncodeError` for a message that cannot be encoded. Every
low-level error becomes one of these two."""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from kgm.model.errors import DecodeError, EncodeError
from kgm.protocol.compiler import compile_decoder, compile_encoder
from kgm.protocol.struct import Message

M = TypeVar("M", bound=Message)
#: What compiled code raises for malformed bytes (UnicodeDecodeError and Malformed are ValueErrors).
LOW_LEVEL = (struct.error, IndexError, ValueError, OverflowError, MemoryError)
_decoders: dict[tuple[type[Message], int], Any] = {}
_encoders: dict[tuple[type[Message], int], Any] = {}


def encode(message: Message, version: int) -> bytes:
    """The body of a message at a version. Raises EncodeError if a value does not fit its field, or if a field is set
    that this version does not have, unless Kafka marks it as ignorable."""
    cls = message.__class__
    encoder = _encoders.get((cls, version))
    if encoder is None:
        _check_version(cls, version, EncodeError)
        encoder = _encoders[cls, version] = compile_encoder(cls, version)
    parts: list[bytes] = []
    try:
        encoder(message, parts.append)
        return b"".join(parts)
    except (*LOW_LEVEL, AttributeError, TypeError) as error:
        raise EncodeError(f"{cls.__name__} v{version}: {error}") from error


def decode(cls: type[M], data: bytes, version: int, *, offset: int = 0, allow_trailing: bool = False) -> M:
    """The message in `data[offset:]`. Raises DecodeError, also for trailing bytes unless they are allowed. (Brokers
    have to allow them in requests: librdkafka sends some.)"""
    end = len(data)
    compiled = _decoders.get((cls, version)) or decoder(cls, version)
    try:
        message, position = compiled(data, offset, end)
    except LOW_LEVEL as error:
        raise DecodeError(f"{cls.__name__} v{version}: {error}") from error
    if position != end and not (allow_trailing and position < end):
        raise DecodeError(f"{cls.__name__} v{version}: {end - position} bytes are left over")
    return message  # type: ignore[no-any-return]


def decoder(cls: type[Message], version: int) -> Any:
    """The compiled function (bytes, position, end) -> (message, next position) that `decode` uses. The function raises
    the errors in LOW_LEVEL, and does not check where the message ends. Raises DecodeError for an unknown version."""
    compiled = _decoders.get((cls, version))
    if compiled is None:
        _check_version(cls, version, DecodeError)
        compiled = _decoders[cls, version] = compile_decoder(cls, version)
    return compiled


def _check_version(cls: type[Message], version: int, error: type[Exception]) -> None:
    if not cls.MIN_VERSION <= version <= cls.MAX_VERSION:
        raise error(f"{cls.__name__} has versions {cls.MIN_VERSION} to {cls.MAX_VERSION}, not {version}")
