"""Kafka's `Uuid` (org.apache.kafka.common.Uuid), given as 16 bytes: hash code and order."""

import struct
from typing import Final

_INTS: Final = struct.Struct(">IIII")
_LONGS: Final = struct.Struct(">qq")


def uuid_hash(uuid: bytes) -> int:
    """`Uuid.hashCode` as an unsigned 32-bit number."""
    one, two, three, four = _INTS.unpack(uuid)
    value: int = one ^ two ^ three ^ four
    return value


def uuid_key(uuid: bytes) -> tuple[int, int]:
    """Sort key for the order of `Uuid.compareTo`: two signed numbers."""
    high, low = _LONGS.unpack(uuid)
    return high, low
