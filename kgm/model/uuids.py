"""Kafka's text for UUIDs: topic ids and cluster ids."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error

_UUID_BYTES, _UUID_LETTERS = 16, 22


def uuid_text(uuid: bytes) -> str:
    """16 bytes as Kafka's tools print a topic id (Kafka: Uuid.toString)."""
    return urlsafe_b64encode(uuid).decode().rstrip("=")


def uuid_of(text: str) -> bytes | None:
    """The 16 bytes of such a text; None if it is not valid."""
    try:
        uuid = urlsafe_b64decode(text + "==") if len(text) == _UUID_LETTERS and text.isascii() else b""
    except (Error, ValueError):
        return None
    return uuid if len(uuid) == _UUID_BYTES and uuid_text(uuid) == text else None
