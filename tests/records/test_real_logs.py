"""Segments that a real Kafka wrote: every batch and every record as Kafka's own classes read them."""

import base64
import struct

import pytest

from kgm.model.errors import DecodeError
from kgm.records.batch import decode_batches, encode_batch
from kgm.records.log import OffsetsLog
from kgm.records.record import decode_record, encode_record
from kgm.records.record_types import TYPES, RecordType
from tests.protocol.cases import struct_differences
from tests.records.real_logs import KINDS, partitions, segment_bytes, truth, unpack

#: A group id that is not UTF-8: Java reads it with U+FFFD in it, kgm refuses it. No broker can write one.
NOT_UTF8 = b"\x00\x02\x00\x02\xff\xfe"
EVERY = [(kind, partition) for kind in KINDS for partition in partitions(kind)]


def version_of(data):
    return struct.unpack_from(">h", data)[0]


def differences(line, row):
    """What Kafka's reading of a record and ours do not agree on."""
    if "error" in line or row.key == NOT_UTF8:
        with pytest.raises(DecodeError):
            decode_record(row.key or b"", row.value)
        raw = (line["key"] or {}).get("raw"), (line["value"] or {}).get("raw")
        mine = row.key, row.value
        return [
            f"{a} is not {b!r}" for a, b in zip(raw, mine, strict=True) if a is not None and base64.b64decode(a) != b
        ]
    record = decode_record(row.key, row.value)
    key, value = line["key"], line["value"]
    found = [] if key["type"] == record.key.API_KEY else [f"type {key['type']} is not {record.key.API_KEY}"]
    found += struct_differences(key["data"], record.key, type(record.key), 0, "key")
    if value is None or record.value is None:
        return found + ([] if value is record.value else [f"{value} is not {record.value}"])
    if value["version"] != version_of(row.value):
        found.append(f"version {value['version']} is not {version_of(row.value)}")
    return found + struct_differences(value["data"], record.value, type(record.value), value["version"], "value")


def batch_differences(line, batch):
    said = line["batch"]
    mine = {"baseOffset": batch.base_offset, "codec": batch.codec}
    if batch.transactional and not batch.is_control:
        mine |= {
            "producerId": batch.producer_id,
            "producerEpoch": batch.producer_epoch,
            "baseSequence": batch.base_sequence,
        }
    return [
        f"{name}: {said[name]} is not {mine[name]}" for name in said.keys() & mine.keys() if said[name] != mine[name]
    ]


@pytest.mark.parametrize(("kind", "partition"), EVERY)
@pytest.mark.slow
def test_every_record_is_what_kafka_reads(kind, partition, tmp_path):
    """Kafka's reading is tests/data/offsets-log/*/truth.jsonl."""
    lines = truth(kind, partition)
    with OffsetsLog.open(unpack(kind, partition, tmp_path / "log")) as log:
        assert log.recovered.clean
        rows = [(batch, row) for batch in log.read() for row in batch.records]
        assert log.next_offset == max(line["offset"] for line in lines) + 1
    assert [(line["offset"], line["timestamp"]) for line in lines] == [(row.offset, row.timestamp) for _, row in rows]
    found = []
    for line, (batch, row) in zip(lines, rows, strict=True):
        assert ("control" in line) == batch.is_control
        if batch.is_control:
            marker = batch.marker
            mine = {"type": "COMMIT" if marker.commit else "ABORT", "coordinatorEpoch": marker.coordinator_epoch}
            found += [] if line["control"] == mine else [f"{line['control']} is not {mine}"]
        else:
            found += [f"offset {row.offset}: {each}" for each in differences(line, row)]
        found += [f"offset {row.offset}: {each}" for each in batch_differences(line, batch)]
    assert found == []


@pytest.mark.parametrize("kind", ["plain", "compacted"])
@pytest.mark.slow
def test_batches_are_written_as_kafka_writes_them(kind):
    """Encoding what was decoded gives Kafka's bytes, checksums included; also of batches the cleaner has rewritten."""
    for partition in partitions(kind):
        for data in segment_bytes(kind, partition):
            for batch in decode_batches(data):
                again = encode_batch(
                    batch.records,
                    base_offset=batch.base_offset,
                    last_offset=batch.last_offset,
                    base_timestamp=batch.base_timestamp,
                    max_timestamp=batch.max_timestamp,
                    attributes=batch.attributes,
                    leader_epoch=batch.leader_epoch,
                    producer_id=batch.producer_id,
                    producer_epoch=batch.producer_epoch,
                    base_sequence=batch.base_sequence,
                )
                assert again == batch.data


@pytest.mark.slow
def test_records_are_written_as_kafka_writes_them():
    """Every record of the real log is of a version that brokers write today, and encodes to the bytes it came from."""
    for partition in partitions("plain"):
        for data in segment_bytes("plain", partition):
            for batch in decode_batches(data):
                for row in () if batch.is_control else batch.records:
                    assert encode_record(decode_record(row.key, row.value)) == (row.key, row.value)


@pytest.mark.slow
def test_the_real_log_holds_what_it_is_here_for():
    """So that nobody replaces it by one that tests less."""
    seen = {
        line["key"]["type"] for partition in partitions("plain") for line in truth("plain", partition) if line["key"]
    }
    assert seen >= set(TYPES) - {RecordType.LEGACY_OFFSET_COMMIT}
    codecs = {batch.codec for data in segment_bytes("synthetic", 0) for batch in decode_batches(data)}
    assert codecs == {"none", "gzip", "snappy", "lz4", "zstd"}
