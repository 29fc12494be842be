"""What is wrong with a log is found: planted holes, doubles, bytes, and transactions without an end; and nothing else is."""

import random
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgm.history.folders import Damage, Reading, folders, raw_table
from kgm.history.schema import RAW
from kgm.history.verify import Gap, OpenTransaction, verify
from kgm.model.errors import UsageError
from kgm.operations.history import HistorySource
from kgm.operations.history.raw_records import verify_source
from kgm.records.batch import new_batch
from tests.history.decode.test_real_logs import raw_log
from tests.history.random_logs import commit, random_log
from tests.history.reconstruct.test_classic_snapshots import histories
from tests.records.real_logs import groups, partitions, segment_bytes, truth


def rows_of(*rows):
    return pa.Table.from_pylist([{"partition": 0, "timestamp": 1_000 * row["offset"], **row} for row in rows], RAW)


def commits(*offsets, **more):
    rng = random.Random(1)
    return [
        {"offset": offset, **dict(zip(("key", "value"), commit(rng, "g"), strict=True)), **more} for offset in offsets
    ]


@pytest.mark.slow
def test_a_whole_log_is_sound_and_complete():
    raw = pa.concat_tables([raw_log("plain", partition) for partition in partitions("plain")])
    found = verify(raw)
    assert (found.sound, found.bad, found.records, found.unknown_tags) == (True, (), 8396, 0)
    assert [(each.missing, each.doubles, each.complete_from) for each in found.partitions] == [(0, 0, 0)] * 4
    assert sum(each.controls for each in found.partitions) == 20
    assert sum(each.records for each in (one for part in found.partitions for one in part.open_transactions)) == 6
    assert all(each.complete for each in found.groups)
    classic = {name for name, each in histories("plain").items() if each.snapshots}
    assert {each.group_id for each in found.groups if each.protocol == "classic"} == classic
    alive = {each["groupId"] for each in groups("plain") if each["type"] == "consumer"}
    assert {each.group_id for each in found.groups if each.protocol == "consumer"} >= alive
    assert found.complete_since == max(
        min(line["timestamp"] for line in truth("plain", p)) for p in partitions("plain")
    )


@pytest.mark.slow
def test_what_compaction_took_is_counted():
    raw = pa.concat_tables([raw_log("compacted", partition) for partition in partitions("compacted")])
    found = verify(raw)
    assert found.sound
    for each in found.partitions:
        there = {line["offset"] for line in truth("compacted", each.partition)}
        gone = set(range(max(there) + 1)) - there
        assert each.missing == len(gone)
        assert {offset for gap in each.gaps for offset in range(gap.start, gap.end)} == gone
        assert set(range(each.complete_from, each.end_offset)) <= there
        assert each.complete_from - 1 in gone
    assert not all(each.complete for each in found.groups)
    assert found.complete_since is not None


def test_records_that_cannot_be_read_are_counted_by_reason():
    found = verify(raw_log("synthetic", 0))
    errors = [line for line in truth("synthetic", 0) if "error" in line]
    # One group id is no UTF-8, which Java reads and kgm does not.
    assert found.bad_records == len(errors) + 1
    assert not found.sound
    assert {each.reason for each in found.bad} == {"no key", "unknown type", "unknown version", "malformed"}
    for each in found.bad:
        assert 1 <= len(each.examples) <= min(each.count, 3)
        assert all(example.error for example in each.examples)
    versions = {(each.key_type, each.value_version) for each in found.bad if each.reason == "unknown version"}
    assert {(3, 1), (1, 5), (2, 9), (1, -1)} <= versions


@pytest.mark.slow
def test_holes_and_doubles_that_were_planted():
    whole = random_log(random.Random(3), records=300, groups=1)
    rows = whole.to_pylist()
    holes = {*range(100, 105), 200}
    left = [row for row in rows if row["offset"] not in holes]
    raw = pa.Table.from_pylist([*left, *left[50:53]], RAW)
    (partition,) = verify(raw.take(pa.array(random.Random(4).sample(range(len(raw)), len(raw))))).partitions
    assert partition.gaps == (Gap(start=100, end=105), Gap(start=200, end=201))
    assert (partition.missing, partition.doubles, partition.complete_from) == (6, 3, 201)
    (group,), (before,) = verify(raw).groups, verify(whole).groups
    # In a random log generations fall, too.
    assert (group.complete, group.windows - before.windows) == (False, 2)
    assert group.complete_from > 200


def test_transactions_without_an_end():
    rows = commits(0, 1, 4, transactional=True, producer_id=7, producer_epoch=2)
    rows += commits(2, transactional=True, producer_id=8, producer_epoch=0)
    rows += [{"offset": 3, "control": True, "transactional": True, "producer_id": 8, "marker": 1}]
    (found,) = verify(rows_of(*rows)).partitions
    assert found.open_transactions == (OpenTransaction(producer_id=7, producer_epoch=2, first_offset=0, records=3),)
    assert found.controls == 1


def test_a_partition_that_begins_late():
    found = verify(rows_of(*commits(50, 51)))
    assert found.partitions[0].gaps == (Gap(start=0, end=50),)
    assert (found.complete_since, found.until) == (50_000, 51_000)
    empty = verify(RAW.empty_table())
    assert (empty.partitions, empty.complete_since, empty.until, empty.sound) == ((), None, None, True)


@pytest.mark.parametrize("harm", ["torn", "flipped"])
def test_segments_that_cannot_be_read_on(tmp_path, harm):
    """What is behind a torn tail or a wrong checksum is missing, and it is said where reading stopped."""
    data = b"".join(segment_bytes("plain", 1))
    half = len(data) // 2
    folder = tmp_path / "__consumer_offsets-1"
    folder.mkdir()
    rest = b"" if harm == "torn" else bytes([data[half] ^ 0x55]) + data[half + 1 :]
    (folder / "00000000000000000000.log").write_bytes(data[:half] + rest)
    reading = Reading()
    raw = raw_table(folders(tmp_path), reading)
    found = verify(raw, reading.damages)
    assert 0 < found.records < 1_193
    (damage,) = found.damages
    assert isinstance(damage, Damage)
    assert (damage.partition, damage.torn, found.sound) == (1, harm == "torn", harm == "torn")


def read_segments(tmp_path, **segments):
    folder = tmp_path / "__consumer_offsets-1"
    folder.mkdir()
    for name, data in segments.items():
        (folder / f"{int(name[1:]):020}.log").write_bytes(data)
    reading = Reading()
    return verify(raw_table(folders(tmp_path), reading), reading.damages)


def one_batch(base_offset, records=1):
    return new_batch([(b"\x00\x01k", b"v")] * records, base_offset=base_offset, timestamp_ms=7, leader_epoch=0)


def test_only_the_last_segment_can_be_torn(tmp_path):
    """A broker flushes a segment before it begins the next one, so records are missing from one that is cut."""
    found = read_segments(tmp_path, s0=one_batch(0) + one_batch(1)[:-3], s2=one_batch(2) + one_batch(3)[:-3])
    assert [(damage.path.name, damage.torn) for damage in found.damages] == [
        (f"{0:020}.log", False),
        (f"{2:020}.log", True),
    ]
    assert not found.sound


@pytest.mark.parametrize(
    "data",
    [
        b"<html><body>404 not found</body></html>\n" * 20,
        # The first fields of a message set, as Kafka wrote it before 0.11.
        struct.pack(">qiibb", 0, 30, 1, 1, 0) + bytes(30),
    ],
)
def test_another_kind_of_file_is_not_a_torn_segment(tmp_path, data):
    found = read_segments(tmp_path, s0=data)
    assert (found.records, found.sound, [damage.torn for damage in found.damages]) == (0, False, [False])
    assert "does not begin as a segment" in found.damages[0].reason


@pytest.mark.parametrize("start", [-5, 2**63 - 2, 2**63 - 3])
def test_a_whole_batch_with_offsets_that_no_log_has_is_damage(tmp_path, start):
    """The offsets of a log are int64, that of its next record too."""
    harmed = start.to_bytes(8, "big", signed=True) + one_batch(1, records=3)[8:]
    found = read_segments(tmp_path, s0=one_batch(0) + harmed)
    assert (found.records, found.sound, [damage.torn for damage in found.damages]) == (1, False, [False])


def test_the_highest_offsets_are_read(tmp_path):
    high = (2**63 - 4).to_bytes(8, "big") + one_batch(1, records=3)[8:]
    found = read_segments(tmp_path, s0=one_batch(0) + high)
    assert (found.records, found.damages, found.partitions[0].end_offset) == (4, (), 2**63 - 1)


@pytest.mark.parametrize("nothing", [None, -1])
def test_a_record_without_a_time(nothing):
    """A dump has null for it, a segment Kafka's NO_TIMESTAMP."""
    rows = commits(0, 1, 2)
    for row in rows:
        row["timestamp"] = nothing
    found = verify(rows_of(*rows))
    (partition,) = found.partitions
    assert (partition.first_timestamp, partition.last_timestamp, found.complete_since) == (None, None, None)
    assert (found.sound, found.records, found.until) == (True, 3, None)
    rows[1]["timestamp"] = 5_000
    (partition,) = verify(rows_of(*rows)).partitions
    assert (partition.first_timestamp, partition.last_timestamp) == (5_000, 5_000)


@pytest.mark.parametrize("number", [99_999_999_999, 2**31, -1, "01", "1x"])
def test_a_folder_whose_name_has_no_partition(tmp_path, number):
    """A partition is an int32 from 0 on, written as Kafka writes it."""
    folder = tmp_path / f"__consumer_offsets-{number}"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(one_batch(0))
    with pytest.raises(UsageError, match="holds no segments"):
        folders(tmp_path)
    read_segments(tmp_path, s0=one_batch(0))
    assert [each.partition for each in folders(tmp_path)] == [1]


def dump(tmp_path, rows):
    pq.write_table(rows_of(*rows), tmp_path / "dump.parquet")
    return verify_source(HistorySource.parse(f"parquet:{tmp_path}"))


def test_doubles_in_a_dump_are_counted(tmp_path):
    rows = commits(0, 1, 2)
    found = dump(tmp_path, [*rows, *rows])
    assert ([each.doubles for each in found.partitions], found.records, found.sound) == ([3], 3, True)


def test_different_records_at_one_place_are_not_sound(tmp_path):
    found = dump(tmp_path, [*commits(0, 1), {**commits(1)[0], "value": b"other"}])
    assert (found.sound, [damage.reason for damage in found.damages]) == (
        False,
        ["two records with offset 1 are not the same"],
    )


@pytest.mark.parametrize("place", [{"offset": -7}, {"offset": 2**63 - 1}, {"partition": -3}])
def test_a_place_that_no_log_has_is_refused(tmp_path, place):
    with pytest.raises(UsageError, match=f"{next(iter(place))} {next(iter(place.values()))}"):
        dump(tmp_path, [*commits(0), commits(1)[0] | {"timestamp": 7} | place])


def test_fields_of_a_newer_kafka_are_counted():
    key = struct.pack(">hh", 3, 1) + b"g"
    value = struct.pack(">hi", 0, 7) + b"\x01\x09\x02ab"
    found = verify(rows_of({"offset": 0, "key": key, "value": value}))
    assert (found.unknown_tags, found.sound) == (1, True)
