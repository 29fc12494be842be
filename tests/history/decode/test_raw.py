"""Batches side by side give what the scalar reader gives, record by record."""

import io
import random
import re

import pyarrow as pa
import pytest

from kgm.history.decode import raw
from kgm.history.decode.raw import raw_records
from kgm.history.schema import RAW
from kgm.model.errors import DecodeError
from kgm.records.batch import (
    HEADER,
    LOG_APPEND_TIME,
    Batch,
    Marker,
    ProducerInfo,
    RawRecord,
    decode_batches,
    encode_batch,
    marker_batch,
    new_batch,
)
from kgm.records.segment import BadBatch, batches
from tests.history.decode.test_real_logs import EVERY
from tests.records.real_logs import segment_bytes
from tests.selection import sized

PRODUCER = ProducerInfo(77, 3)


def expected(partition, batches):
    return [
        {
            "partition": partition, "offset": record.offset, "timestamp": record.timestamp,
            "key": None if batch.is_control else record.key, "value": None if batch.is_control else record.value,
            "leader_epoch": batch.leader_epoch, "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch, "transactional": batch.transactional,
            "control": batch.is_control, "marker": int(batch.marker.commit) if batch.marker else None,
        }
        for batch in batches
        for record in batch.records
    ]  # fmt: skip


def log(rng, count):
    """Batches of all sorts behind each other."""
    found, offset = b"", 5
    for _ in range(count):
        size = rng.choice([0, 1, 1, 2, 3, 9, 70])
        epoch = rng.randint(0, 4)
        match rng.randint(0, 5):
            case 0:
                data = marker_batch(PRODUCER, Marker(rng.random() < 0.5, 9), base_offset=offset, timestamp_ms=99)
            case 1 | 2 if size:
                deltas = sorted(rng.sample(range(3 * size), size))
                records = [
                    RawRecord(
                        offset + delta, rng.choice([-3, 1_000, 10**12, 1_001]), rng.choice([None, b"", rng.randbytes(90)]),
                        rng.choice([None, b"", rng.randbytes(9_000)]), ((b"h", None),) * (rng.random() < 0.05),
                    )
                    for delta in deltas
                ]  # fmt: skip
                data = encode_batch(
                    records, base_offset=offset, last_offset=offset + 3 * size, base_timestamp=1_000, max_timestamp=5_000,
                    leader_epoch=epoch, attributes=rng.choice([0, LOG_APPEND_TIME]),
                )  # fmt: skip
            case _:
                pairs = [(b"key", rng.choice([None, b"value" * rng.randint(0, 40)])) for _ in range(max(size, 1))]
                data = new_batch(
                    pairs,
                    base_offset=offset,
                    timestamp_ms=1_700,
                    leader_epoch=epoch,
                    producer=rng.choice([None, PRODUCER]),
                )
        found += data
        offset = decode_batches(data)[-1].last_offset + 1 + rng.randint(0, 2)
    return found


@pytest.mark.few(6)
@pytest.mark.parametrize("worth_it", [1, 4, 48, 10_000])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_any_batches(monkeypatch, seed, worth_it):
    monkeypatch.setattr(raw, "_WORTH_IT", worth_it)
    rng = random.Random(seed)
    found = decode_batches(log(rng, 120))
    table = raw_records(4, found)
    assert table.schema == RAW
    assert table.to_pylist() == expected(4, found)
    monkeypatch.setattr(raw, "_CHUNK_RECORDS", 100)
    cut = raw_records(4, found)
    assert cut.combine_chunks() == table.combine_chunks()
    assert cut.column("offset").num_chunks > 3


@pytest.mark.parametrize("worth_it", [1, 10_000])
@pytest.mark.parametrize(("kind", "partition"), EVERY)
@pytest.mark.slow
def test_real_segments(monkeypatch, kind, partition, worth_it):
    monkeypatch.setattr(raw, "_WORTH_IT", worth_it)
    batches = [batch for data in segment_bytes(kind, partition) for batch in decode_batches(data)]
    assert raw_records(partition, batches).to_pylist() == expected(partition, batches)


def test_nothing():
    assert raw_records(0, []) == RAW.empty_table()
    empty = encode_batch([], base_offset=3, last_offset=3, base_timestamp=0, max_timestamp=0)
    assert raw_records(0, decode_batches(empty)).num_rows == 0


def large(rng, size, base_offset=0):
    """One batch of records of all lengths: of a byte, of two, three and four."""
    lengths = [0, 3, 30, 45, 46, 47, 48, 60, 120, 8_100, 8_150, 8_200]
    offset, records = base_offset, []
    for _ in range(size):
        key, value = (rng.choice([None, rng.randbytes(rng.choice(lengths))]) for _ in range(2))
        records.append(RawRecord(offset, rng.choice([5, 5, -70, 10**9]), key, value))
        offset += rng.choice([1, 1, 1, 2, 90])
    return encode_batch(records, base_offset=base_offset, last_offset=offset, base_timestamp=5, max_timestamp=10**9)


@pytest.mark.parametrize("worth_it", [1, 400])
@pytest.mark.parametrize("seed", range(3))
def test_a_few_large_batches(monkeypatch, seed, worth_it):
    monkeypatch.setattr(raw, "_WORTH_IT", worth_it)
    monkeypatch.setattr(raw, "_one_by_one", None)
    rng = random.Random(f"large {seed}")
    data = large(rng, 700) + large(rng, 1, 100_000) + large(rng, 90, 100_100)
    found = decode_batches(data)
    assert raw_records(4, found).to_pylist() == expected(4, found)
    assert of_segment(data) == of_batches(data)


def test_a_record_of_more_than_a_mebibyte():
    pairs = [(b"a", b"b"), (b"k", bytes(1 << 20)), (b"c", None)]
    found = decode_batches(new_batch(pairs, base_offset=7, timestamp_ms=5))
    assert raw_records(4, found).to_pylist() == expected(4, found)


@pytest.mark.few(1)
@pytest.mark.parametrize("worth_it", [1, 400])
@pytest.mark.parametrize("size", [3, 300])
@pytest.mark.parametrize("seed", range(sized(1, 3)))
@pytest.mark.slow
def test_what_the_scalar_reader_refuses_is_refused(monkeypatch, seed, size, worth_it):
    """Bytes behind the header are changed without anybody looking at the checksum."""
    monkeypatch.setattr(raw, "_WORTH_IT", worth_it)
    rng = random.Random(seed)
    pairs = [(b"a key", b"a value"), (b"", None), (b"k" * 70, b"v" * 200)] * (size // 3)
    good = decode_batches(new_batch(pairs, base_offset=0, timestamp_ms=5))[0]
    heads = [found.start() for found in re.finditer(b"a key|k{70}", good.data)]
    for _ in range(120):
        at = rng.choice([rng.randrange(HEADER.size, len(good.data)), rng.choice(heads) - rng.randint(1, 8)])
        data = good.data[:at] + bytes([rng.choice([0, 1, 2, 127, 128, 255, rng.randrange(256)])]) + good.data[at + 1 :]
        if rng.random() < 0.3:
            data = data[:at]
        bad = Batch._make((*good[:-1], data))
        try:
            said = expected(0, [bad])
        except DecodeError:
            with pytest.raises(DecodeError):
                raw_records(0, [bad])
        else:
            assert raw_records(0, [bad]).to_pylist() == said


def test_a_table_of_many_partitions_is_one_table():
    batches = decode_batches(new_batch([(b"k", b"v")], base_offset=0, timestamp_ms=5))
    both = pa.concat_tables([raw_records(0, batches), raw_records(1, batches)])
    assert both.column("partition").to_pylist() == [0, 1]


# -- segment files


def of_segment(data, from_offset=0):
    """(rows, the position of the bad batch or None) of a segment."""
    found = []
    try:
        for batch in raw.segment_records(4, io.BytesIO(data), len(data), from_offset=from_offset):
            assert batch.schema == RAW
            found += batch.to_pylist()
    except BadBatch as bad:
        return found, (bad.position, bad.whole)
    return found, None


def of_batches(data, from_offset=0):
    found = []
    try:
        found.extend(batch for _, batch in batches(io.BytesIO(data), len(data), from_offset=from_offset))
    except BadBatch as bad:
        return expected(4, found), (bad.position, bad.whole)
    return expected(4, found), None


@pytest.mark.few(1)
@pytest.mark.parametrize("chunk", [1, 20_000, 1 << 24])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
def test_segments_whole_torn_and_damaged(monkeypatch, seed, chunk):
    monkeypatch.setattr(raw, "_CHUNK_BYTES", chunk)
    monkeypatch.setattr(raw, "_WORTH_IT", 4)
    monkeypatch.setattr(raw, "_SLOW_BATCHES", 7)
    rng = random.Random(seed)
    data = log(rng, 90)
    assert of_segment(data)[1] is None
    for spoiled in [data, data[:-1], data[:-40], data + b"\0" * 100, data + data, b"", data[:30]]:
        assert of_segment(spoiled) == of_batches(spoiled)
    for _ in range(6):
        at = rng.randrange(len(data))
        spoiled = data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]
        assert of_segment(spoiled) == of_batches(spoiled)
    assert of_segment(data, 6) == of_batches(data, 6)


@pytest.mark.parametrize(("kind", "partition"), EVERY)
@pytest.mark.slow
def test_real_segment_files(monkeypatch, kind, partition):
    monkeypatch.setattr(raw, "_WORTH_IT", 1)
    for data in segment_bytes(kind, partition):
        assert of_segment(data) == of_batches(data)
