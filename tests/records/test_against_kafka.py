"""Our logs in the hands of Kafka: its tools read them, its cleaner does to them what ours does, a broker runs on them."""

import base64
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kgm.records.log import OffsetsLog, ProducerInfo
from kgm.records.record import Record, decode_record
from tests.kafka.jars import classpath
from tests.kafka.java_tools import compiled, java_command, kafka_class_path, run_tool
from tests.protocol.cases import FromTables, rng_for, struct_differences
from tests.records.real_logs import partitions, unpack
from tests.records.test_compaction import P, Q, history

BATCH = re.compile(
    r"baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+) baseSequence: (?P<sequence>-?\d+) .*"
    r"producerId: (?P<producer>-?\d+) producerEpoch: (?P<epoch>-?\d+) partitionLeaderEpoch: (?P<leader>\d+) "
    r"isTransactional: (?P<transactional>\w+) isControl: (?P<control>\w+) deleteHorizonMs: (?P<horizon>\S+) .*"
    r"CreateTime: (?P<time>-?\d+) size: (?P<size>\d+) magic: 2 compresscodec: none crc: (?P<crc>\d+) isvalid: (?P<valid>\w+)"
)
ROW = re.compile(
    r"\| offset: (?P<offset>\d+) CreateTime: (?P<time>-?\d+) keySize: (?P<key>-?\d+) valueSize: (?P<value>-?\d+) "
    r"sequence: \S+ headerKeys: \[\] (?P<rest>.*)"
)
SEEDS = range(8)


def dumped(directory):
    """What kafka-dump-log says of a directory: (batches, records), each a dict of texts."""
    files = ",".join(map(str, sorted(directory.glob("*.log"))))
    done = run_tool("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--deep-iteration", "--files", files)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [], []
    for line in done.stdout.splitlines():
        for pattern, rows in zip((BATCH, ROW), found, strict=True):
            match = pattern.fullmatch(line)
            if match:
                rows.append(match.groupdict())
        assert line.startswith(("baseOffset", "| offset", "Dumping", "Log starting")), line
    return found


def as_batch(batch):
    return {
        "base": str(batch.base_offset),
        "last": str(batch.last_offset),
        "count": str(batch.record_count),
        "sequence": str(batch.base_sequence),
        "producer": str(batch.producer_id),
        "epoch": str(batch.producer_epoch),
        "leader": str(batch.leader_epoch),
        "transactional": str(batch.transactional).lower(),
        "control": str(batch.is_control).lower(),
        "horizon": "OptionalLong.empty"
        if batch.delete_horizon_ms is None
        else f"OptionalLong[{batch.delete_horizon_ms}]",
        "time": str(batch.max_timestamp),
        "size": str(len(batch.data)),
        "crc": str(batch.crc),
        "valid": "true",
    }


def differences(row, said):
    """A record of ours, and what the dump says of it. The dump opens consumer protocol bytes; those are left out."""
    names = {
        "offset": row.offset,
        "time": row.timestamp,
        "key": len(row.key),
        "value": -1 if row.value is None else len(row.value),
    }
    found = [f"{name}: {said[name]} is not {mine}" for name, mine in names.items() if said[name] != str(mine)]
    record = decode_record(row.key, row.value)
    key, value = said["rest"].removeprefix("key: ").split(" payload: ", 1)
    key, value = json.loads(key), None if value == "<DELETE>" else json.loads(value)
    found += struct_differences(key["data"], record.key, type(record.key), 0, "key")
    if value is None or record.value is None:
        return found + ([] if value is record.value else [f"{value} is not {record.value}"])
    for member in value["data"].get("members", ()):
        mine = next(each for each in record.value.members if each.member_id == member["memberId"])
        member["subscription"] = base64.b64encode(mine.subscription).decode()
        member["assignment"] = base64.b64encode(mine.assignment).decode()
    return found + struct_differences(value["data"], record.value, type(record.value), int(value["version"]), "value")


def random_record(rng):
    """A record of a type and at the version that brokers write, with random content."""
    from kgm.records.record import WRITTEN_VERSIONS, message_classes
    from kgm.records.record_types import TYPES, RecordType

    kind = rng.choice(sorted(set(TYPES) - {RecordType.LEGACY_OFFSET_COMMIT}))
    key_class, value_class = message_classes(kind)
    key = FromTables(key_class, 0, rng).message()
    if rng.random() < 0.2:
        return Record(key, None)
    value = FromTables(value_class, WRITTEN_VERSIONS.get(kind, 0), rng).message()
    if kind == 2:  # the dump tries to open what the members say
        value.protocol_type = "other"
    return Record(key, value)


@pytest.mark.kafka
def test_kafka_dump_log_reads_the_same(tmp_path):
    """kafka-dump-log --offsets-decoder --deep-iteration: every batch valid, every record the same; of every type."""
    rng = rng_for("dump")
    directory = tmp_path / "__consumer_offsets-0"
    with OffsetsLog.open(directory, segment_bytes=30_000, leader_epoch=3) as log:
        for at in range(300):
            producer = ProducerInfo(7, 2) if at % 3 == 1 else None
            log.append(
                [random_record(rng) for _ in range(rng.randint(1, 3))], now_ms=1_700_000_000_000 + at, producer=producer
            )
            if at % 9 == 4:
                log.append_marker(
                    ProducerInfo(7, 2), commit=at % 2 == 0, now_ms=1_700_000_000_000 + at, coordinator_epoch=1
                )
        log.flush()
        batches, rows = dumped(directory)
        assert len(log.segments) > 2
        assert batches == [as_batch(batch) for batch in log.read()]
        records = [(batch, row) for batch in log.read() for row in batch.records]
    assert len(rows) == len(records) > 500
    found = []
    for said, (batch, row) in zip(rows, records, strict=True):
        if batch.is_control:
            marker = batch.marker
            kind = "COMMIT" if marker.commit else "ABORT"
            assert said["rest"] == f"endTxnMarker: {kind} coordinatorEpoch: {marker.coordinator_epoch}"
        else:
            found += differences(row, said)
    assert found == []


def kafkas_log(segment_bytes, retention_ms, times, directories):
    """Kafka's own log on these directories (java/KafkasLog.java): [(end offset, last stable offset)]"""
    classes = compiled([Path(__file__).parent / "java" / "KafkasLog.java"], classpath("kafka"))
    command = java_command(
        "KafkasLog", str(segment_bytes), str(retention_ms), ",".join(map(str, times)), *map(str, directories),
        heap_mb=256, class_path=kafka_class_path(classes),
    )  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == ""
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]


@pytest.mark.long
@pytest.mark.kafka
def test_kafkas_cleaner_leaves_the_same_bytes(tmp_path, monkeypatch):
    """Cleaner.doClean and `compact` four times each on the same logs: the same segments, byte by byte. Then Kafka opens
    what we have compacted, as it does after a crash.

    All transactions have ended, and their producers are forgotten: of others Kafka keeps the last batch."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    times = [1_000, 1_200, 1_501, 1_702]
    ours, kafkas = [], []
    for seed in SEEDS:
        ours.append(tmp_path / f"ours-{seed}" / "__consumer_offsets-0")
        kafkas.append(tmp_path / f"kafkas-{seed}" / "__consumer_offsets-0")
        with OffsetsLog.open(ours[-1], segment_bytes=1_000) as log:
            history(log, seed, 80)
            for producer in (P, Q):
                log.append_marker(producer, commit=seed % 2 == 0, now_ms=90)
            log.roll()
        shutil.copytree(ours[-1], kafkas[-1])
    ends = kafkas_log(1_000, 500, times, kafkas)
    removed = 0
    for mine, theirs, end in zip(ours, kafkas, ends, strict=True):
        with OffsetsLog.open(mine, segment_bytes=1_000) as log:
            assert end == (log.next_offset, log.next_offset)
            for now in times:
                report = log.compact(now_ms=now, delete_retention_ms=500)
                removed += report.records_before - report.records_after
        assert {path.name: path.read_bytes() for path in mine.glob("*.log")} == {
            path.name: path.read_bytes() for path in theirs.glob("*.log")
        }
    assert removed > 700
    assert kafkas_log(1_000, 500, [], ours) == ends


@pytest.mark.long
@pytest.mark.kafka
def test_kafkas_cleaner_leaves_the_same_of_a_real_log(tmp_path):
    """The same on what a real broker wrote. One transaction in it is open: nothing behind that is cleaned."""
    ours, kafkas = [], []
    for partition in partitions("plain"):
        ours.append(unpack("plain", partition, tmp_path / "ours" / f"__consumer_offsets-{partition}"))
        with OffsetsLog.open(ours[-1]) as log:
            log.roll()
        kafkas.append(tmp_path / "kafkas" / ours[-1].name)
        shutil.copytree(ours[-1], kafkas[-1])
    now = 1_795_240_000_000
    kafkas_log(104_857_600, 0, [now, now + 1, now + 2], kafkas)
    for mine, theirs in zip(ours, kafkas, strict=True):
        with OffsetsLog.open(mine) as log:
            for time in (now, now + 1, now + 2):
                log.compact(now_ms=time, delete_retention_ms=0)
        assert {path.name: path.read_bytes() for path in mine.glob("*.log")} == {
            path.name: path.read_bytes() for path in theirs.glob("*.log")
        }, mine.name
