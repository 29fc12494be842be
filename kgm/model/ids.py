"""Nominal ids, so that a member id is never passed where a group instance id is meant; and how Kafka writes UUIDs."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from typing import NewType

GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)
#: `group.instance.id` (KIP-345): set by the operator, survives restarts.
InstanceId = NewType("InstanceId", str)
#: What a member is known by across restarts: its group instance id, or its member id when dynamic.
Identity = NewType("Identity", str)
#: Milliseconds, of a clock or as a span.
Millis = NewType("Millis", int)

_UUID_BYTES, _UUID_LETTERS = 16, 22


def uuid_text(uuid: bytes) -> str:
    """16 bytes as Kafka's tools print a topic id (Kafka: Uuid.toString)."""
    return urlsafe_b64encode(uuid).decode().rstrip("=")


def uuid_of(text: str) -> bytes | None:
    """The 16 bytes again; None for what is no such text."""
    try:
        found = urlsafe_b64decode(text + "==") if len(text) == _UUID_LETTERS and text.isascii() else b""
    except (Error, ValueError):
        return None
    return found if len(found) == _UUID_BYTES and uuid_text(found) == text else None
