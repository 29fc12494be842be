"""Heartbeat frames as members send them all the time, read without making a message of them.

Of everything that a group coordinator is sent, most are Heartbeats of a stable group. Here their bytes lead to their
fields, and to the bytes of the response, for the two versions that clients use. Whatever is unusual is left to
`kgm.protocol.wire`: other versions, tags, ids of 127 bytes and more, and malformed frames."""

import struct

from kgm.protocol.apis import ApiKey

#: The key and the version in one number, correlation id, length of the client id.
_HEADER = struct.Struct(">Iih")
_SHORT, _INT = struct.Struct(">h"), struct.Struct(">i")
_FLEXIBLE, _PLAIN = ApiKey.HEARTBEAT << 16 | 4, ApiKey.HEARTBEAT << 16 | 3
#: Length and correlation id; then header tags, throttle time, error and tags of version 4; and version 3 without tags.
_FLEXIBLE_RESPONSE, _PLAIN_RESPONSE = struct.Struct(">ii8x"), struct.Struct(">ii6x")


#: group_id, generation_id, member_id, group_instance_id; and the response without an error, with its length in front.
HeartbeatFrame = tuple[str, int, str, str | None, bytes]


def read_heartbeat(data: bytes, at: int) -> HeartbeatFrame | None:
    """The Heartbeat whose frame is `data[at:]`; None if it is something else, or nothing usual."""
    try:
        kind, correlation_id, n = _HEADER.unpack_from(data, at)
        if kind != _FLEXIBLE:
            return _read_plain(data, at) if kind == _PLAIN else None
        p = at + 10
        if n > 0:
            data[p : p + n].decode()  # else the frame is malformed
            p += n
        elif n < -1:
            return None
        if data[p]:
            return None
        p += 1
        n = data[p]  # of compact strings this is the length and one more
        group = data[p + 1 : p + n]
        p += n
        (generation_id,) = _INT.unpack_from(data, p)
        p += 4
        m = data[p]
        member = data[p + 1 : p + m]
        p += m
        i = data[p]
        instance = data[p + 1 : p + i]
        p += i or 1
        # The last byte is that of the tags. As it is in the frame, so is all that comes before it.
        if data[p] or not n or not m or n > 127 or m > 127 or i > 127:
            return None
        return (
            group.decode(),
            generation_id,
            member.decode(),
            instance.decode() if i else None,
            _FLEXIBLE_RESPONSE.pack(12, correlation_id),
        )
    except (struct.error, IndexError, ValueError):
        return None


def _read_plain(data: bytes, at: int) -> HeartbeatFrame | None:
    """The same for version 3."""
    _, correlation_id, n = _HEADER.unpack_from(data, at)
    p = at + 10
    if n < -1:
        return None
    if n > 0:
        data[p : p + n].decode()
        p += n
    (n,) = _SHORT.unpack_from(data, p)
    p += 2
    group = data[p : p + n]
    p += n
    generation_id, m = struct.unpack_from(">ih", data, p) if n >= 0 else (0, -1)
    p += 6
    member = data[p : p + m]
    p += m
    (i,) = _SHORT.unpack_from(data, p) if m >= 0 else (-2,)
    p += 2
    instance = data[p : p + i] if i >= 0 else b""
    if i < -1 or p + max(i, 0) > len(data):
        return None
    return (
        group.decode(),
        generation_id,
        member.decode(),
        None if i < 0 else instance.decode(),
        _PLAIN_RESPONSE.pack(10, correlation_id),
    )
