"""Decodes many subscriptions and assignments of the consumer protocol together: versions 0 to 3, and newer ones by
their known prefix (ConsumerProtocol.deserializeSubscription)."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgm.history.decode.message_reader import read_messages
from kgm.history.decode.vector_cursor import Buffer, Positions
from kgm.history.schema import struct_type
from kgm.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kgm.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kgm.protocol.struct import Message

_VERSION_BYTES = 2
#: The version that introduced owned partitions.
_OWNED_VERSION = 1


class DecodedBlobs(NamedTuple):
    """messages: null where the bytes are null, empty or not a valid message. versions: as written, -1 where there is
    none. failed: true for bytes that are neither empty nor a valid message."""

    messages: pa.StructArray
    versions: npt.NDArray[np.int16]
    failed: npt.NDArray[np.bool_]


def subscriptions(blobs: pa.Array) -> DecodedBlobs:
    """Decode a binary array of subscriptions: topics, user_data, owned_partitions, generation_id and rack_id."""
    return _decode(ConsumerProtocolSubscription, blobs)


def assignments(blobs: pa.Array) -> DecodedBlobs:
    """Decode a binary array of assignments: assigned_partitions (a topic can occur twice) and user_data."""
    return _decode(ConsumerProtocolAssignment, blobs)


def _decode(cls: type[Message], blobs: pa.Array) -> DecodedBlobs:
    # Members with the same subscription write the same bytes, and so do rounds in which nothing moved.
    encoded = blobs.dictionary_encode()
    different: Any = _different(cls, encoded.dictionary)
    chosen = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
    messages = pa.concat_arrays([different.messages, pa.nulls(1, different.messages.type)]).take(pa.array(chosen))
    return DecodedBlobs(messages, np.append(different.versions, -1)[chosen], np.append(different.failed, False)[chosen])


def _different(cls: type[Message], blobs: pa.Array) -> DecodedBlobs:
    buffer, start, end = Buffer.of(blobs)
    there = end - start >= _VERSION_BYTES
    written = np.where(there, buffer.view(">i2")[np.where(there, start, 0)].astype(np.int16), np.int16(-1))
    place = np.full(len(start), -1, dtype=np.int64)
    parts, count = [], 0
    for version in np.unique(np.minimum(written, cls.MAX_VERSION)[written >= 0]).tolist():
        here = np.nonzero(np.minimum(written, cls.MAX_VERSION) == version)[0]
        messages, good, _ = read_messages(cls, version, buffer, start[here] + _VERSION_BYTES, end[here])
        place[here[good]] = count + np.arange(len(good))
        parts.append(messages)
        count += len(good)
    if cls is ConsumerProtocolSubscription:
        here = np.nonzero((written == _OWNED_VERSION) & (place < 0))[0]
        messages, good = _without_owned(buffer, start[here], end[here])
        place[here[good]] = count + np.arange(len(good))
        parts.append(messages)
    messages = pa.concat_arrays(parts) if parts else pa.nulls(0, struct_type(cls, cls))
    null = place < 0
    return DecodedBlobs(messages.take(pa.array(place, mask=null)), written, null & (end > start))


def _without_owned(buffer: Buffer, start: Positions, end: Positions) -> tuple[pa.StructArray, Positions]:
    """Subscriptions of version 1 that end before the owned partitions, as kafka-go and platformatic write them: they
    are version 0, with nothing after it. Returns (messages, the index of each in the input)."""
    cls = ConsumerProtocolSubscription
    messages, good, _ = read_messages(cls, _OWNED_VERSION - 1, buffer, start + _VERSION_BYTES, end)
    lengths = np.array([_length(row["topics"], row["user_data"]) for row in messages.to_pylist()], dtype=np.int64)
    whole = lengths == (end - start)[good]
    return messages.filter(pa.array(whole)), good[whole]


def _length(topics: list[str], user_data: bytes | None) -> int:
    """The size in bytes of a version-0 subscription: its version, and two 4-byte counts before topics and user data."""
    return _VERSION_BYTES + 8 + sum(2 + len(topic.encode()) for topic in topics) + len(user_data or b"")
