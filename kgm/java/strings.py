"""Java's strings, which are sequences of UTF-16 code units: hash code, length and order."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

INT_MASK: Final = 0xFFFFFFFF
# A simulation hashes the same member ids and topic names over and over.
_CACHE_SIZE: Final = 1 << 16
_LAST_SINGLE_UNIT: Final = "\uffff"


@lru_cache(maxsize=_CACHE_SIZE)
def string_hash(text: str) -> int:
    """`String.hashCode` as an unsigned 32-bit number."""
    units: Iterable[int]
    if text.isascii():
        units = text.encode("ascii")
    else:
        raw = utf16_key(text)
        units = (raw[i] << 8 | raw[i + 1] for i in range(0, len(raw), 2))
    value = 0
    for unit in units:
        value = (31 * value + unit) & INT_MASK
    return value


def signed_string_hash(text: str) -> int:
    """`String.hashCode` as Java returns it, a signed 32-bit number."""
    value = string_hash(text)
    return value - (1 << 32) if value >> 31 else value


def string_length(text: str) -> int:
    """`String.length`: the number of UTF-16 code units."""
    return len(text) + sum(character > _LAST_SINGLE_UNIT for character in text)


def is_blank(text: str) -> bool:
    """`String.trim().isEmpty()`: whether the text has nothing but spaces and ASCII control characters. Other white
    space, which Python's `strip` would also remove, counts as text."""
    return all(character <= " " for character in text)


def utf16_key(text: str) -> bytes:
    """Sort key with which Python orders strings as `String.compareTo` does: by UTF-16 code unit."""
    return text.encode("utf-16-be", "surrogatepass")


def string_order(texts: Sequence[str]) -> list[int]:
    """Positions of `texts` in the order of `String.compareTo`; equal texts keep their order."""
    # Python compares by code point, which gives the same order below the surrogates.
    keys: Sequence[str | bytes] = texts if "".join(texts).isascii() else [utf16_key(text) for text in texts]
    return sorted(range(len(texts)), key=keys.__getitem__)
