"""Building blocks of the compiled codec: fixed-width packers, unsigned varints and length checks.

Every length is checked against the bytes available before anything of that length is created. Functions here raise
`Malformed` or one of the low-level errors in `codec.LOW_LEVEL`; `codec` turns them all into `DecodeError`."""

import struct

FIXED = {
    "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "float64": "d",
}  # fmt: skip
WIDTH = {kind: struct.calcsize(">" + letter) for kind, letter in FIXED.items()}
#: Encoded unsigned varints below 1,024, the most frequent lengths.
SMALL_UVARINTS = [bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7]) for n in range(1024)]
MAX_UVARINT = 0xFFFFFFFF


class Malformed(ValueError):  # noqa: N818  (it never leaves the package)
    """The bytes are not a message of the expected kind. The text says what is wrong, and where."""


def uvarint(value: int) -> bytes:
    """Encode 0 <= value < 2**32 as an unsigned varint (KIP-482)."""
    if 0 <= value < 1024:
        return SMALL_UVARINTS[value]
    if not 0 <= value <= MAX_UVARINT:
        raise ValueError(f"{value} is not an unsigned varint of 32 bits")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: bytes, position: int) -> tuple[int, int]:
    """Decode an unsigned varint of at most five bytes; returns (value, next position)."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > MAX_UVARINT:
                raise Malformed(f"unsigned varint {value} before byte {position} is above 32 bits")
            return value, position
        shift += 7
        if shift > 28:
            raise Malformed(f"unsigned varint before byte {position} is longer than five bytes")


def bad_length(what: str, length: int, position: int, end: int) -> Malformed:
    """The error for a length that is larger than the number of bytes left."""
    return Malformed(f"{what} has length {length} at byte {position}, but {end - position} bytes are left")


def read_tags(buffer: bytes, position: int, end: int) -> tuple[list[tuple[int, int, int]], int]:
    """Decode a tag section into (tag, start, stop) triples, tags strictly ascending; returns (triples, next
    position)."""
    count, position = read_uvarint(buffer, position)
    if count > (end - position) // 2:
        raise bad_length("a tag section", count, position, end)
    triples = []
    last = -1
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        if tag <= last:
            raise Malformed(f"tag {tag} at byte {position} comes after tag {last}")
        if size > end - position:
            raise bad_length(f"tag {tag}", size, position, end)
        last = tag
        triples.append((tag, position, position + size))
        position += size
    return triples, position


def write_tags(known: list[tuple[int, bytes]], unknown: tuple[tuple[int, bytes], ...]) -> bytes:
    """Encode a tag section: known tags that are not at their default, and unknown tags that a newer Kafka has sent."""
    tags = sorted([*known, *unknown])
    parts = [uvarint(len(tags))]
    last = -1
    for tag, data in tags:
        if tag == last:
            raise ValueError(f"tag {tag} occurs twice")
        last = tag
        parts += (uvarint(tag), uvarint(len(data)), data)
    return b"".join(parts)
