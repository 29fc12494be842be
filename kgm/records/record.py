"""One record of `__consumer_offsets`: a key, and a value or a tombstone.

A key's bytes are the record type as int16 and the key's fields; a value's bytes are the value's version as int16 and
its fields (org.apache.kafka.coordinator.group.generated, CoordinatorRecordSerde)."""

from __future__ import annotations

import importlib
import re
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any

from kgm.model.errors import DecodeError
from kgm.protocol import codec
from kgm.protocol.struct import Message
from kgm.records.record_types import TYPES, RecordType

_SHORT = struct.Struct(">h")

#: The decoders for the key and value of a record, by the first two bytes of each (None: a tombstone).
_decoders: dict[tuple[bytes, bytes | None], tuple[Any, Any]] = {}
#: Value versions that 4.3 brokers write, if not 0 (a group's metadata stays at 3, KAFKA-16115 and KIP-915).
WRITTEN_VERSIONS = {RecordType.OFFSET_COMMIT.value: 4, RecordType.GROUP_METADATA.value: 3}


@dataclass(frozen=True, slots=True)
class Record:
    """A record; `value` None is a tombstone."""

    key: Message
    value: Message | None


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """(key bytes, value bytes), the value at the version that Kafka 4.3 brokers write."""
    kind = record.key.API_KEY
    key = _SHORT.pack(kind) + codec.encode(record.key, record.key.MIN_VERSION)
    if record.value is None:
        return key, None
    version = WRITTEN_VERSIONS.get(kind, 0)
    if getattr(record.value, "expire_timestamp", -1) != -1:
        version = 1  # the only version with an expiry: the committing client asked for a retention time
    return key, _SHORT.pack(version) + codec.encode(record.value, version)


def decode_record(key: bytes, value: bytes | None) -> Record:
    """Decode a record. Raises DecodeError for an unknown record type, an unknown value version, or malformed bytes."""
    # A log has few kinds of records, each many times, so the decoders are cached by the first bytes.
    decoders = _decoders.get((key[:2], None if value is None else value[:2]))
    if decoders is None:
        return _decode_first(key, value)
    decode_key, decode_value = decoders
    try:
        message, position = decode_key(key, 2, len(key))
        if value is None:
            return Record(message, None) if position <= len(key) else _decode_first(key, value)
        content, end = decode_value(value, 2, len(value))
    except codec.LOW_LEVEL:
        return _decode_first(key, value)
    return Record(message, content) if position <= len(key) and end <= len(value) else _decode_first(key, value)


def _decode_first(key: bytes, value: bytes | None) -> Record:
    """`decode_record` through the codec, whose errors say what is wrong."""
    kind = _short(key, "key")
    if kind not in TYPES:
        raise DecodeError(f"record type {kind} is not known")
    key_class, value_class = message_classes(kind)
    # Key schemas have only version 0; the record type in front identifies them.
    message = codec.decode(key_class, key, key_class.MIN_VERSION, offset=2, allow_trailing=True)
    if value is None:
        _decoders[key[:2], None] = codec.decoder(key_class, key_class.MIN_VERSION), None
        return Record(message, None)
    version = _short(value, "value")
    content = codec.decode(value_class, value, version, offset=2, allow_trailing=True)
    _decoders[key[:2], value[:2]] = codec.decoder(key_class, key_class.MIN_VERSION), codec.decoder(value_class, version)
    return Record(message, content)


def _short(data: bytes, what: str) -> int:
    if len(data) < _SHORT.size:
        raise DecodeError(f"a record {what} of {len(data)} bytes")
    found: int = _SHORT.unpack_from(data)[0]
    return found


@cache
def message_classes(kind: int) -> tuple[type[Message], type[Message]]:
    """The key class and value class of a record type in TYPES."""
    name = TYPES[kind]
    stem = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    key = importlib.import_module(f"kgm.records.messages.{stem}_key")
    value = importlib.import_module(f"kgm.records.messages.{stem}_value")
    return getattr(key, name + "Key"), getattr(value, name + "Value")
