"""Requests read as a broker reads them."""

from __future__ import annotations

from dataclasses import dataclass

from kgm.protocol import codec
from kgm.protocol.apis import request_class
from kgm.protocol.struct import Message
from kgm.protocol.wire import decode_request_header


@dataclass(frozen=True, slots=True)
class RequestFrame:
    """A decoded request with its header."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    message: Message


def decode_request(frame: bytes) -> RequestFrame:
    """A complete request. Trailing bytes are allowed, as in Kafka. Raises DecodeError."""
    header = decode_request_header(frame)
    cls = request_class(header.api_key)
    message = codec.decode(cls, frame, header.version, offset=header.body_at, allow_trailing=True)
    return RequestFrame(header.api_key, header.version, header.correlation_id, header.client_id, message)
