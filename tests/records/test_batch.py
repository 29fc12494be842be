"""Record batches: round trips, every codec, and hostile bytes."""

import gzip
import random
import struct
import sys

import cramjam
import hypothesis.strategies as st
import pytest
from hypothesis import given

from kgm.model.errors import DecodeError
from kgm.records import batch as batches
from kgm.records import compression
from kgm.records.batch import (
    HEADER,
    LOG_APPEND_TIME,
    Marker,
    ProducerInfo,
    RawRecord,
    checksum,
    decode_batches,
    encode_batch,
    marker_batch,
    new_batch,
    parse_batch,
)
from tests.protocol.cases import damaged, rng_for
from tests.records.real_logs import segment_bytes

SOME = st.one_of(st.none(), st.binary(max_size=300))
HEADERS = st.lists(st.tuples(st.binary(max_size=5), SOME), max_size=2).map(tuple)


def resealed(data):
    """The bytes with a right checksum, so that what is behind it is looked at."""
    return data[:17] + struct.pack(">I", checksum(data[21:])) + data[21:]


def compressed(codec, body, count, *, claimed=None):
    """A batch of `count` records whose body is compressed already."""
    length = HEADER.size - 12 + len(body)
    header = HEADER.pack(0, length, 0, 2, 0, codec, count - 1, 0, 0, -1, -1, -1, claimed or count)
    return parse_batch(resealed(header + body))


def body_of(count, value=b"value"):
    return new_batch([(b"key", value)] * count, base_offset=0, timestamp_ms=0)[HEADER.size :]


def xerial(blocks):
    head = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    return head + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def raw_snappy(data):
    return bytes(cramjam.snappy.compress_raw(data))


COMPRESS = {
    1: gzip.compress,
    2: lambda data: xerial([raw_snappy(data[:100]), raw_snappy(data[100:])]),
    3: lambda data: bytes(cramjam.lz4.compress(data)),
    4: lambda data: bytes(cramjam.zstd.compress(data)),
}


@given(
    base=st.integers(0, 2**62),
    rows=st.lists(st.tuples(st.integers(1, 2**20), st.integers(-(2**62), 2**62), SOME, SOME, HEADERS), max_size=8),
    base_timestamp=st.integers(-(2**61), 2**61),
)
def test_what_is_encoded_is_decoded(base, rows, base_timestamp):
    """Offsets with gaps, timestamps before the base, null keys and values, headers."""
    records, offset = [], base
    for gap, timestamp, key, value, headers in rows:
        records.append(RawRecord(offset, timestamp, key, value, headers))
        offset += gap
    data = encode_batch(records, base_offset=base, last_offset=offset, base_timestamp=base_timestamp, max_timestamp=7)
    [found] = decode_batches(data)
    assert list(found.records) == records
    assert (found.base_offset, found.last_offset, found.record_count) == (base, offset, len(records))
    assert found.data == data


def test_a_marker_says_how_a_transaction_ended():
    for marker in (Marker(commit=True, coordinator_epoch=4), Marker(commit=False, coordinator_epoch=0)):
        found = parse_batch(marker_batch(ProducerInfo(3, 2), marker, base_offset=9, timestamp_ms=5))
        assert found.marker == marker
        assert (found.is_control, found.transactional, found.producer) == (True, True, ProducerInfo(3, 2))
        assert found.base_sequence == -1
    assert parse_batch(new_batch([(b"k", b"v")], base_offset=0, timestamp_ms=0)).marker is None


def control(key, value):
    return parse_batch(
        encode_batch(
            [RawRecord(0, 0, key, value)],
            base_offset=0,
            last_offset=0,
            base_timestamp=0,
            max_timestamp=0,
            attributes=0x30,
        )
    )


def test_other_control_records_are_no_markers():
    assert control(struct.pack(">hh", 0, 2), b"").marker is None
    with pytest.raises(DecodeError, match="key of 2 bytes"):
        _ = control(b"\0\0", b"").marker
    with pytest.raises(DecodeError, match="value of 0 bytes"):
        _ = control(struct.pack(">hh", 0, 1), None).marker


def test_log_append_time_is_one_for_all():
    records = [RawRecord(0, 5, b"k", b"v"), RawRecord(1, 6, b"k", b"v")]
    data = encode_batch(
        records, base_offset=0, last_offset=1, base_timestamp=5, max_timestamp=99, attributes=LOG_APPEND_TIME
    )
    assert [row.timestamp for row in parse_batch(data).records] == [99, 99]


@pytest.mark.parametrize("codec", COMPRESS)
def test_every_codec_is_read(codec):
    found = compressed(codec, COMPRESS[codec](body_of(50)), 50)
    assert found.codec == compression.CODECS[codec]
    assert [(row.offset, row.key, row.value) for row in found.records] == [(at, b"key", b"value") for at in range(50)]


def test_snappy_without_frames_is_read():
    """librdkafka and others send bare blocks."""
    assert len(compressed(2, raw_snappy(body_of(50)), 50).records) == 50


def test_gzip_may_have_several_members():
    body = body_of(50)
    assert len(compressed(1, gzip.compress(body[:70]) + gzip.compress(body[70:]), 50).records) == 50


@pytest.mark.parametrize("codec", COMPRESS)
def test_a_bomb_is_refused(codec):
    """What comes out is bounded, exactly."""
    data = COMPRESS[codec](bytes(1_000_000))
    assert len(compression.decompress(codec, data, limit=1_000_000)) == 1_000_000
    with pytest.raises(DecodeError, match="more than 999999 bytes"):
        compression.decompress(codec, data, limit=999_999)


@pytest.mark.parametrize("codec", COMPRESS)
def test_spoiled_compression_is_a_decode_error(codec):
    data = COMPRESS[codec](body_of(30))
    for spoiled in damaged(data, rng_for("compression", codec)):
        try:
            compression.decompress(codec, spoiled, limit=1 << 20)
        except DecodeError:
            continue


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(b"abc", mtime=0)[:-3], "in the middle"),
        (xerial([])[:-1] + b"\0\0\0", "middle of a length"),
        (xerial([]) + b"\0\0\0\x09abc", "a block of 9 bytes"),
        (xerial([]) + b"\xff\xff\xff\xff", "a block of -1 bytes"),
    ],
)
def test_what_is_wrong_with_a_stream_is_said(data, message):
    with pytest.raises(DecodeError, match=message):
        compression.decompress(1 if data[:2] == b"\x1f\x8b" else 2, data, limit=1000)


def test_without_cramjam_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(DecodeError, match="needs cramjam") as caught:
        compression.decompress(4, b"", limit=10)
    assert "kafka-kgm[compression]" in caught.value.hint
    assert compression.decompress(1, gzip.compress(b"abc"), limit=10) == b"abc"


def test_unknown_codecs_are_refused():
    with pytest.raises(DecodeError, match="codec 5"):
        compression.decompress(5, b"", limit=10)
    data = bytearray(new_batch([(b"k", b"v")], base_offset=0, timestamp_ms=0))
    data[22] = 7
    with pytest.raises(DecodeError, match="attributes 0x7"):
        parse_batch(resealed(bytes(data)))


def test_offsets_that_do_not_rise_are_refused():
    rows = [RawRecord(0, 0, b"k", b"v"), RawRecord(0, 0, b"k", b"v")]
    data = encode_batch(rows, base_offset=0, last_offset=1, base_timestamp=0, max_timestamp=0)
    with pytest.raises(DecodeError, match="offset delta 0 after 0"):
        _ = parse_batch(data).records


def test_a_header_without_a_key_is_refused():
    data = encode_batch(
        [RawRecord(0, 0, b"k", b"v", ((None, b"v"),))], base_offset=0, last_offset=0, base_timestamp=0, max_timestamp=0
    )
    with pytest.raises(DecodeError, match="header without a key"):
        _ = parse_batch(data).records


def test_what_is_not_compressed_is_what_it_is():
    assert compression.decompress(0, b"abc", limit=1) == b"abc"


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_formats_are_refused(magic):
    data = bytearray(new_batch([(b"k", b"v")], base_offset=0, timestamp_ms=0))
    data[16] = magic
    with pytest.raises(DecodeError, match=f"record format v{magic}"):
        parse_batch(bytes(data))


def header_with(**changes):
    """A whole batch of two records with some header fields changed, and a right checksum."""
    data = new_batch([(b"k", b"v")] * 2, base_offset=5, timestamp_ms=0)
    names = [
        "base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta", "base_timestamp",
        "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "record_count",
    ]  # fmt: skip
    values = dict(zip(names, HEADER.unpack_from(data), strict=True)) | changes
    return resealed(HEADER.pack(*values.values()) + data[HEADER.size :])


@pytest.mark.parametrize(
    "changes",
    [
        {"length": -1}, {"length": 48}, {"length": 2**31 - 1}, {"base_offset": -1}, {"record_count": -1},
        {"record_count": 3}, {"last_offset_delta": -2, "record_count": 0}, {"last_offset_delta": 0},
    ],
)  # fmt: skip
def test_impossible_headers_are_refused(changes):
    with pytest.raises(DecodeError):
        parse_batch(header_with(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"record_count": 1, "last_offset_delta": 1},
        {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 1},
        {"record_count": 3, "last_offset_delta": 9},
    ],
)
def test_a_count_that_does_not_fit_the_records_is_refused(changes):
    with pytest.raises(DecodeError):
        _ = parse_batch(header_with(**changes)).records


def test_a_wrong_checksum_is_found():
    data = bytearray(new_batch([(b"k", b"v")], base_offset=0, timestamp_ms=0))
    data[-1] ^= 1
    with pytest.raises(DecodeError, match="checksum"):
        parse_batch(bytes(data))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "synthetic"])
def test_hostile_bytes_are_decode_errors(kind):
    """Real batches, spoiled with a right checksum: records or a DecodeError, nothing else, and nothing huge."""
    rng = rng_for("hostile", kind)
    data = segment_bytes(kind, 0)[0]
    some = decode_batches(data)
    seen = 0
    for batch in some if kind == "synthetic" else random.Random(1).sample(some, 25):
        for spoiled in damaged(batch.data, rng):
            try:
                for found in decode_batches(resealed(spoiled) if len(spoiled) > 21 else spoiled):
                    assert len(found.records) <= len(found.data) or found.codec != "none"
                    _ = found.marker
            except DecodeError:
                seen += 1
    assert seen > 100


def test_the_bound_for_compressed_batches_holds_in_decoding(monkeypatch):
    monkeypatch.setattr(batches, "MAX_UNCOMPRESSED", 100)
    found = compressed(1, gzip.compress(body_of(50)), 50)
    with pytest.raises(DecodeError, match="more than 100 bytes"):
        _ = found.records
