"""Record batches in format v2 (KIP-98), the unit of Kafka's logs, produce requests and fetches.

A batch is a 61-byte header and its records, which are varints and bytes, either compressed together or uncompressed.
The checksum (CRC32C) covers everything after itself, so that a broker can write the base offset and leader epoch into a
producer's batch. Formats v0 and v1 (message sets of brokers before 0.11) are refused: Kafka has not been able to write
them since 4.0.

Whatever the bytes, only DecodeError is raised, and every length is checked against the bytes available."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from kgm.model.errors import DecodeError
from kgm.records.compression import CODECS, Compression, decompress

#: base offset, length, leader epoch, magic, crc, attributes, last offset delta, base timestamp, max timestamp,
#: producer id, producer epoch, base sequence, number of records (org.apache.kafka.common.record.DefaultRecordBatch)
HEADER = struct.Struct(">qiibIhiqqqhii")
#: `length` counts the bytes after itself.
BEHIND_LENGTH = 12
LENGTH_AT = 8
LENGTH = struct.Struct(">i")
MAGIC_AT = 16
MAGIC = 2
#: The highest offset, which is also the highest that the next record of a log can be given.
MAX_OFFSET = (1 << 63) - 1
CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
#: If set, the base timestamp is the time from which tombstones and markers of this batch can be removed (KAFKA-8522).
DELETE_HORIZON = 0x40
NO_PRODUCER_ID = -1
#: The time of a record that has none.
NO_TIMESTAMP = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
#: The largest size of a decompressed batch, in bytes. Brokers accept batches of up to 1 MiB unless `message.max.bytes`
#: is set, and coordinators write no larger ones; but a compressed batch can contain more than its own size.
MAX_UNCOMPRESSED = 16 << 20
#: The most records in a compressed batch: an uncompressed one of the largest size that brokers accept has no more.
MAX_PACKED_RECORDS = 1 << 18

CRC_AT = 17
_CRC = struct.Struct(">I")
#: The crc covers a batch from here on.
ATTRIBUTES_AT = 21
#: A record has at least a length, attributes, two deltas, two lengths and a header count, of one byte each.
LEAST_RECORD = 7
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1


#: Headers of a record, (key, value) pairs.
Headers = tuple[tuple[bytes, bytes | None], ...]


class RawRecord(NamedTuple):
    """One record as it is in the log."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class ProducerInfo:
    """The transactional producer for which a batch is written."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a transaction, from a control batch."""

    commit: bool
    coordinator_epoch: int


class Batch(NamedTuple):
    """One batch: its header, and its bytes. Records are decoded when they are accessed."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    data: bytes

    @property
    def last_offset(self) -> int:
        """The offset of the last record, which compaction may have removed."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> str:
        return CODECS[self.attributes & CODEC_MASK]

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def producer(self) -> ProducerInfo | None:
        """The producer of a transactional batch, whose records count if the producer's next marker is a COMMIT; None
        for other batches."""
        return ProducerInfo(self.producer_id, self.producer_epoch) if self.transactional else None

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which its tombstones can be removed; None if the cleaner has not processed the batch yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def records(self) -> tuple[RawRecord, ...]:
        """The records, in offset order, possibly with gaps. Decodes them on each access. Raises DecodeError."""
        try:
            if self.attributes & CODEC_MASK == Compression.NONE:
                return _decode_records(self, self.data, HEADER.size)
            return _decode_records(self, self.unpacked, 0)
        except IndexError as error:
            raise DecodeError(f"the batch at offset {self.base_offset} ends in the middle of a record") from error

    @property
    def unpacked(self) -> bytes:
        """The decompressed bytes of a compressed batch's records; at most MAX_UNCOMPRESSED. Decompresses them on
        each access. Raises DecodeError."""
        if self.record_count > MAX_PACKED_RECORDS:
            raise DecodeError(
                f"the compressed batch at offset {self.base_offset} has {self.record_count} records, more than "
                f"{MAX_PACKED_RECORDS}"
            )
        return decompress(self.attributes & CODEC_MASK, self.data[HEADER.size :], limit=MAX_UNCOMPRESSED)

    @property
    def marker(self) -> Marker | None:
        """The end of a transaction, from a control batch; None for other kinds of batches. Raises DecodeError."""
        if not self.is_control or self.record_count == 0:
            return None
        record = self.records[0]
        key, value = record.key or b"", record.value or b""
        if len(key) < _MARKER_KEY.size:
            raise DecodeError(f"the control record at offset {record.offset} has a key of {len(key)} bytes")
        kind = _MARKER_KEY.unpack_from(key)[1]
        if kind not in (_ABORT, _COMMIT):
            return None
        if len(value) < _MARKER_VALUE.size:
            raise DecodeError(f"the marker at offset {record.offset} has a value of {len(value)} bytes")
        return Marker(kind == _COMMIT, _MARKER_VALUE.unpack_from(value)[1])


class ImpossibleBatchError(DecodeError):
    """A batch is complete and its checksum is right, but its header is not one that a batch can have."""


def parse_batch(data: bytes, at: int = 0) -> Batch:
    """The batch at a position, complete and with a valid checksum; its records are not decoded. Raises DecodeError,
    ImpossibleBatchError."""
    left = len(data) - at
    if left < HEADER.size:
        raise DecodeError(f"{left} bytes are not a batch, whose header has {HEADER.size}")
    header = HEADER.unpack_from(data, at)
    length = header[1]
    if header[3] != MAGIC:
        raise DecodeError(f"record format v{header[3]} is not supported, only v{MAGIC}")
    if not HEADER.size - BEHIND_LENGTH <= length <= left - BEHIND_LENGTH:
        raise DecodeError(f"a batch has a length of {length} bytes, but {left - BEHIND_LENGTH} bytes follow")
    batch = _new(Batch, (*header, data[at : at + BEHIND_LENGTH + length]))
    if checksum(batch.data[ATTRIBUTES_AT:]) != batch.crc:
        raise DecodeError("the checksum of a batch is wrong")
    if (
        not 0 <= batch.record_count <= batch.last_offset_delta + 1
        or batch.attributes & CODEC_MASK >= len(CODECS)
        or not 0 <= batch.base_offset <= MAX_OFFSET - 1 - batch.last_offset_delta
    ):
        raise ImpossibleBatchError(
            f"a batch at offset {batch.base_offset} with {batch.record_count} records, last offset delta "
            f"{batch.last_offset_delta}, attributes {batch.attributes:#x}"
        )
    return batch


def decode_batches(data: bytes) -> list[Batch]:
    """All batches in a sequence of complete batches, as in a segment file. Raises DecodeError."""
    decoded = []
    at = 0
    while at < len(data):
        batch = parse_batch(data, at)
        decoded.append(batch)
        at += len(batch.data)
    return decoded


def extent(data: bytes) -> tuple[int, int]:
    """(how many bytes the whole batches in a Fetch response take, since its last batch may be cut off; the offset after
    them, 0 if there are none). Nothing else in a batch is checked. Raises DecodeError for a length that no batch can
    have."""
    size = len(data)
    at = last = 0
    while size - at >= HEADER.size:
        length = LENGTH.unpack_from(data, at + LENGTH_AT)[0]
        if length < HEADER.size - BEHIND_LENGTH:
            parse_batch(data, at)  # raises the error that says what is wrong
            break
        if length > size - at - BEHIND_LENGTH:
            break
        last = at
        at += BEHIND_LENGTH + length
    if not at:
        return 0, 0
    header = HEADER.unpack_from(data, last)
    return at, header[0] + header[6] + 1


def encode_batch(
    records: Sequence[RawRecord], *, base_offset: int, last_offset: int, base_timestamp: int, max_timestamp: int,
    attributes: int = 0, leader_epoch: int = 0, producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH, base_sequence: int = 0,
) -> bytes:  # fmt: skip
    """An uncompressed batch. The offsets of the records ascend from base_offset to last_offset, possibly with gaps."""
    assert attributes & CODEC_MASK == 0, "batches are written uncompressed"
    parts = [b""]
    for each in records:
        _encode_record(each, base_offset, base_timestamp, parts)
    body = b"".join(parts)
    header = bytearray(
        HEADER.pack(
            base_offset, HEADER.size - BEHIND_LENGTH + len(body), leader_epoch, MAGIC, 0, attributes,
            last_offset - base_offset, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence,
            len(records),
        )
    )  # fmt: skip
    _CRC.pack_into(header, CRC_AT, checksum(bytes(header[ATTRIBUTES_AT:]) + body))
    return bytes(header) + body


def new_batch(
    pairs: Sequence[tuple[bytes, bytes | None]], *, base_offset: int, timestamp_ms: int, leader_epoch: int = 0,
    producer: ProducerInfo | None = None,
) -> bytes:  # fmt: skip
    """The batch that Kafka's coordinator builds from the records of one write: base sequence 0, with or without a
    producer (CoordinatorRuntime)."""
    return encode_batch(
        [RawRecord(base_offset + at, timestamp_ms, key, value) for at, (key, value) in enumerate(pairs)],
        base_offset=base_offset,
        last_offset=base_offset + len(pairs) - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        attributes=0 if producer is None else TRANSACTIONAL,
        leader_epoch=leader_epoch,
        producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
        producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.producer_epoch,
    )


def marker_batch(
    producer: ProducerInfo, marker: Marker, *, base_offset: int, timestamp_ms: int, leader_epoch: int = 0
) -> bytes:
    """The control batch that ends a producer's transaction (EndTransactionMarker)."""
    key = _MARKER_KEY.pack(0, _COMMIT if marker.commit else _ABORT)
    value = _MARKER_VALUE.pack(0, marker.coordinator_epoch)
    return encode_batch(
        [RawRecord(base_offset, timestamp_ms, key, value)],
        base_offset=base_offset,
        last_offset=base_offset,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        attributes=TRANSACTIONAL | CONTROL,
        leader_epoch=leader_epoch,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=NO_SEQUENCE,
    )


@cache
def checksum_function() -> Callable[[bytes], int]:
    """The function that computes CRC32C, for making many calls."""
    from fastcrc.crc32 import iscsi

    return iscsi


def checksum(data: bytes) -> int:
    """CRC32C."""
    return checksum_function()(data)


# -- records


#: Builds a named tuple from its fields in half the time that calling its class takes.
_new = tuple.__new__


def _decode_records(batch: Batch, b: bytes, p: int) -> tuple[RawRecord, ...]:
    """Decode the records. Straight-line code, because most of the time it takes to load a coordinator is spent here.
    Nearly every varint has one byte."""
    base_offset, base_timestamp, count = batch.base_offset, batch.base_timestamp, batch.record_count
    last_delta = batch.last_offset_delta
    append_time = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else None
    end = len(b)
    if count * LEAST_RECORD > end - p:
        raise DecodeError(f"a batch of {count} records in {end - p} bytes")
    key: bytes | None
    value: bytes | None
    found = []
    previous = -1
    for _ in range(count):
        byte = b[p]
        length, p = (byte >> 1, p + 1) if byte < 128 and not byte & 1 else _varint(b, p)
        stop = p + length
        if length < 0 or stop > end:
            raise DecodeError(f"a record of {length} bytes, but {end - p} are left")
        if b[p + 1] == 0:
            stamp, p = base_timestamp, p + 2
        else:
            timestamp, p = _varint(b, p + 1)
            stamp = base_timestamp + timestamp
        byte = b[p]
        delta, p = (byte >> 1, p + 1) if byte < 128 and not byte & 1 else _varint(b, p)
        byte = b[p]
        size, p = (byte >> 1, p + 1) if byte < 128 and not byte & 1 else _varint(b, p)
        if size >= 0:
            start, p = p, p + size
            key = b[start:p]
        else:
            key = None
            _check_null(size)
        byte = b[p]
        size, p = (byte >> 1, p + 1) if byte < 128 and not byte & 1 else _varint(b, p)
        if size >= 0:
            start, p = p, p + size
            value = b[start:p]
        else:
            value = None
            _check_null(size)
        headers: Headers = ()
        if b[p] == 0:
            p += 1
        else:
            headers, p = _headers(b, p, stop)
        if p != stop:
            raise DecodeError(f"the fields of a record of {length} bytes do not fill it")
        if not previous < delta <= last_delta:
            raise DecodeError(f"a record with offset delta {delta} after {previous}")
        previous = delta
        stamp = stamp if append_time is None else append_time
        found.append(_new(RawRecord, (base_offset + delta, stamp, key, value, headers)))
    if p != end:
        raise DecodeError(f"{end - p} bytes are left over after the records of a batch")
    return tuple(found)


def _varint(b: bytes, p: int) -> tuple[int, int]:
    """A zigzag varint of at most ten bytes; returns (value, next position)."""
    byte = b[p]
    p += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), p
    found = byte & 127
    shift = 7
    while True:
        byte = b[p]
        p += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return (found >> 1) ^ -(found & 1), p
        shift += 7
        if shift > 63:
            raise DecodeError("a varint is longer than ten bytes")


def _check_null(size: int) -> None:
    if size != -1:
        raise DecodeError(f"a field of {size} bytes")


def _bytes(b: bytes, p: int, stop: int) -> tuple[bytes | None, int]:
    length, p = _varint(b, p)
    end = p + length
    if length >= 0 and end <= stop:
        return b[p:end], end
    if length != -1:
        raise DecodeError(f"a field of {length} bytes, but {stop - p} are left")
    return None, p


def _headers(b: bytes, p: int, stop: int) -> tuple[Headers, int]:
    count, p = _varint(b, p)
    if not 0 <= count <= (stop - p) // 2:
        raise DecodeError(f"{count} headers in {stop - p} bytes")
    found = []
    for _ in range(count):
        key, p = _bytes(b, p, stop)
        value, p = _bytes(b, p, stop)
        if key is None:
            raise DecodeError("a header without a key")
        found.append((key, value))
    return tuple(found), p


def _encode_varint(value: int) -> bytes:
    found = value << 1 if value >= 0 else (-value << 1) - 1
    if found < 128:
        return _ONE_BYTE[found]
    out = bytearray()
    while found > 127:
        out.append(found & 127 | 128)
        found >>= 7
    out.append(found)
    return bytes(out)


_ONE_BYTE = [bytes([value]) for value in range(128)]
_NULL = _encode_varint(-1)


def _encode_record(record: RawRecord, base_offset: int, base_timestamp: int, parts: list[bytes]) -> None:
    fields = [
        b"\0",
        _encode_varint(record.timestamp - base_timestamp),
        _encode_varint(record.offset - base_offset),
        *_field(record.key),
        *_field(record.value),
        _encode_varint(len(record.headers)),
    ]
    for key, value in record.headers:
        fields += (*_field(key), *_field(value))
    parts.append(_encode_varint(sum(map(len, fields))))
    parts += fields


def _field(value: bytes | None) -> tuple[bytes, ...]:
    return (_NULL,) if value is None else (_encode_varint(len(value)), value)
