"""Whole numbers in text that a broker, or someone else's file, wrote."""

from __future__ import annotations

#: The digits of the largest number that Kafka has: a long of Java.
_MOST_DIGITS = 19


def whole_number(text: str | None) -> int | None:
    """The number that a text consists of, in ASCII digits without a sign; None if it is anything else, or no text."""
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if text is not None and is_number else None
