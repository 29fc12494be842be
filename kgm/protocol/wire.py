"""Frames: a header and a body. A *frame* does not include its four-byte length.

Request header v1 (v2 if the API's version is flexible), response header v0 (v1 if flexible). ApiVersions responses
always have header v0, because the client does not know yet what the broker supports (KIP-511)."""

from __future__ import annotations

import struct
from typing import NamedTuple, TypeVar

from kgm.model.errors import DecodeError
from kgm.protocol import codec
from kgm.protocol.apis import API, ApiKey
from kgm.protocol.primitives import read_tags
from kgm.protocol.struct import Message

M = TypeVar("M", bound=Message)

_REQUEST = struct.Struct(">hhih")
_LENGTH = struct.Struct(">i")
_API_VERSIONS = int(ApiKey.API_VERSIONS)  # an IntEnum compares slowly


class RequestHeader(NamedTuple):
    """The header of a request. body_at: the offset of the body in the frame. (A named tuple, since one is created for
    every request.)"""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_at: int


def encode_request(message: Message, *, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request frame."""
    if client_id is None:
        client, length = b"", -1
    else:
        client = client_id.encode()
        length = len(client)
    header = _REQUEST.pack(message.API_KEY, version, correlation_id, length) + client
    tags = b"\0" if version >= message.FLEXIBLE_FROM else b""
    return header + tags + codec.encode(message, version)


def _after_tags(frame: bytes, at: int) -> int:
    """The offset after the tag section of a header, which is nearly always empty. Raises the errors of
    codec.LOW_LEVEL."""
    return at + 1 if frame[at] == 0 else read_tags(frame, at, len(frame))[1]


def decode_request_header(frame: bytes) -> RequestHeader:
    """Only the header, which is enough to answer an unknown version. Raises DecodeError."""
    try:
        key, version, correlation_id, length = _REQUEST.unpack_from(frame)
        at = _REQUEST.size + max(length, 0)
        if at > len(frame) or length < -1:
            raise DecodeError(f"client id of {length} bytes in a frame of {len(frame)}")
        client_id = None if length < 0 else frame[_REQUEST.size : at].decode()
        info = API.get(key)
        # An ApiVersions request of an unknown version has a flexible header, too; its body is then not decoded.
        if info is not None and version >= info.flexible_from:
            at = _after_tags(frame, at)
    except codec.LOW_LEVEL as error:
        raise DecodeError(f"request header: {error}") from error
    return RequestHeader(key, version, correlation_id, client_id, at)


def encode_response(message: Message, *, version: int, correlation_id: int) -> bytes:
    """A response frame."""
    if version >= message.FLEXIBLE_FROM and message.API_KEY != _API_VERSIONS:
        return _LENGTH.pack(correlation_id) + b"\0" + codec.encode(message, version)
    return _LENGTH.pack(correlation_id) + codec.encode(message, version)


def correlation_of(frame: bytes) -> int:
    """The correlation id of a response frame. Raises DecodeError."""
    if len(frame) < _LENGTH.size:
        raise DecodeError(f"a response of {len(frame)} bytes has no header")
    correlation_id: int = _LENGTH.unpack_from(frame)[0]
    return correlation_id


def decode_response(cls: type[M], frame: bytes, *, version: int) -> tuple[int, M]:
    """(correlation id, response). Raises DecodeError."""
    correlation_id = correlation_of(frame)
    at = _LENGTH.size
    if version >= cls.FLEXIBLE_FROM and cls.API_KEY != _API_VERSIONS:
        try:
            at = _after_tags(frame, at)
        except codec.LOW_LEVEL as error:
            raise DecodeError(f"response header: {error}") from error
    return correlation_id, codec.decode(cls, frame, version, offset=at, allow_trailing=True)


def framed(frame: bytes) -> bytes:
    """The frame with its length prefix, as it is sent on a connection."""
    return _LENGTH.pack(len(frame)) + frame
