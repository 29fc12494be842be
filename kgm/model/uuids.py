"""Kafka's text for UUIDs: topic ids and cluster ids."""

from __future__ import annotations

_UUID_BYTES, _UUID_LETTERS = 16, 22


def uuid_text(uuid: bytes) -> str:
    """16 bytes as Kafka's tools print a topic id (Kafka: Uuid.toString)."""
    from binascii import b2a_base64  # what `base64` is made of

    return b2a_base64(uuid, newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")


def uuid_of(text: str) -> bytes | None:
    """The 16 bytes of such a text; None if it is not one."""
    from base64 import urlsafe_b64decode
    from binascii import Error

    try:
        uuid = urlsafe_b64decode(text + "==") if len(text) == _UUID_LETTERS and text.isascii() else b""
    except (Error, ValueError):
        return None
    return uuid if len(uuid) == _UUID_BYTES and uuid_text(uuid) == text else None
