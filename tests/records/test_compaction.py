"""Compaction keeps what a reader needs: the last record of each key, where it was, through crashes at any moment."""

import os
import random
import shutil
from pathlib import Path

import pytest

from kgm.records import compaction
from kgm.records.batch import ProducerInfo, encode_batch, new_batch
from kgm.records.compaction import CompactionReport
from kgm.records.log import CorruptLogError, OffsetsLog
from kgm.records.segment import file_name

DAY = 86_400_000


def put(log, key, value, *, now=0, producer=None):
    return log.append_raw([(key, value)], now_ms=now, producer=producer)


def rows(log):
    return [row for batch in log.read() if not batch.is_control for row in batch.records]


def state(log):
    """Key and value as whoever replays the log has them: transactions count at their marker, unless a later record of
    the key is there by then; what is open in the end is pending."""
    found, pending = {}, {}
    for batch in log.read():
        if batch.is_control:
            ended = pending.pop(batch.producer_id, {})
            for key, row in ended.items() if batch.marker.commit else ():
                if key not in found or found[key].offset < row.offset:
                    found[key] = row
        elif batch.transactional:
            pending.setdefault(batch.producer_id, {}).update({row.key: row for row in batch.records})
        else:
            for row in batch.records:
                found[row.key] = row
                if row.value is None:
                    for rest in pending.values():
                        rest.pop(row.key, None)
    return (
        {key: row.value for key, row in found.items() if row.value is not None},
        {producer: {key: row.value for key, row in rest.items()} for producer, rest in pending.items() if rest},
    )


@pytest.fixture
def log(tmp_path):
    with OffsetsLog.open(tmp_path / "log", segment_bytes=400) as opened:
        yield opened


def test_the_last_record_of_a_key_stays_where_it_was(log):
    for at in range(30):
        put(log, b"k%d" % (at % 3), b"%d" % at, now=at)
    log.roll()
    assert log.dirty_ratio == 1.0
    before = log.size
    report = log.compact(now_ms=100)
    assert [(row.offset, row.timestamp, row.key, row.value) for row in rows(log)] == [
        (27, 27, b"k0", b"27"),
        (28, 28, b"k1", b"28"),
        (29, 29, b"k2", b"29"),
    ]
    assert (report.records_before, report.records_after, report.clean_until) == (30, 3, 30)
    assert log.size < before
    assert log.dirty_ratio == 0.0
    assert log.next_offset == 30
    assert put(log, b"k0", b"new") == 30


def test_the_segment_that_is_appended_to_is_not_touched(log):
    for at in range(3):
        put(log, b"k", b"%d" % at)
    assert log.compact(now_ms=0) == CompactionReport()
    assert len(rows(log)) == 3
    assert log.dirty_ratio == 0.0


def test_batches_lose_single_records(log):
    log.append_raw([(b"a", b"1"), (b"b", b"1"), (b"a", b"2")], now_ms=7)
    put(log, b"b", b"2", now=8)
    log.roll()
    log.compact(now_ms=9)
    first, second = log.read()
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 2, 1)
    assert [(row.offset, row.timestamp, row.value) for row in first.records] == [(2, 7, b"2")]
    assert second.base_offset == 3


def test_small_segments_are_merged_the_next_time(log):
    for at in range(40):
        put(log, b"k%d" % (at % 20), b"%d" % at)
    log.roll()
    many = len(log.segments)
    log.compact(now_ms=0)
    assert len(log.segments) == many
    log.compact(now_ms=0)
    assert len(log.segments) < many
    assert state(log)[0] == {b"k%d" % (at % 20): b"%d" % at for at in range(20, 40)}


def test_tombstones_stay_until_the_retention_has_passed(log):
    put(log, b"k", b"1")
    put(log, b"k", None)
    put(log, b"other", b"1")
    for now, left in ((100, 2), (100 + DAY - 1, 2), (100 + DAY, 1)):
        log.roll()
        log.compact(now_ms=now)
        assert len(rows(log)) == left
    assert [row.key for row in rows(log)] == [b"other"]


def test_the_deadline_of_a_tombstone_is_written_into_its_batch(log):
    log.append_raw([(b"k", None), (b"l", b"1")], now_ms=5)
    log.roll()
    log.compact(now_ms=1_000, delete_retention_ms=500)
    [batch] = log.read()
    assert batch.delete_horizon_ms == 1_500
    assert [row.timestamp for row in batch.records] == [5, 5], "timestamps do not change"
    data = batch.data
    log.compact(now_ms=1_200, delete_retention_ms=500)
    assert [batch.data for batch in log.read()] == [data], "the deadline does not move"
    log.compact(now_ms=1_500)
    assert [row.key for row in rows(log)] == [b"l"]


def test_an_empty_segment_is_what_may_be_left(log):
    put(log, b"k", None)
    log.roll()
    log.compact(now_ms=0, delete_retention_ms=0)
    log.compact(now_ms=0)
    assert rows(log) == []
    assert log.next_offset == 1
    log.close()
    with OffsetsLog.open(log.directory) as again:
        assert again.next_offset == 1


def test_records_without_a_key_go(log):
    log.append_raw([(None, b"1"), (b"k", b"1")], now_ms=0)
    log.roll()
    log.compact(now_ms=0)
    assert [row.key for row in rows(log)] == [b"k"]


P, Q = ProducerInfo(1, 0), ProducerInfo(2, 0)


def test_aborted_records_go_and_supersede_nothing(log):
    put(log, b"k", b"kept")
    put(log, b"k", b"void", producer=P)
    log.append_marker(P, commit=False, now_ms=0)
    log.roll()
    log.compact(now_ms=0)
    assert [row.value for row in rows(log)] == [b"kept"]
    assert sum(batch.is_control for batch in log.read()) == 1


def test_a_marker_goes_last(log):
    """It outlives the compaction that takes its records, and then stays as long as a tombstone."""
    put(log, b"k", b"1", producer=P)
    log.append_marker(P, commit=True, now_ms=0)
    put(log, b"k", b"2")
    log.roll()
    for now, markers in ((0, 1), (10, 1), (10 + DAY - 1, 1), (10 + DAY, 0)):
        log.compact(now_ms=now)
        assert sum(batch.is_control for batch in log.read()) == markers
    assert [row.value for row in rows(log)] == [b"2"]


def test_nothing_is_touched_from_the_first_open_transaction_on(log):
    for at in range(8):
        put(log, b"k", b"%d" % at)
    log.roll()
    put(log, b"k", b"pending", producer=P)
    for at in range(8):
        put(log, b"k", b"later %d" % at)
    log.roll()
    report = log.compact(now_ms=0)
    assert report.clean_until == 8
    assert log.dirty_ratio == 0.0, "it has had its turn, and waits for more"
    assert len(rows(log)) == 1 + 9
    log.append_marker(P, commit=True, now_ms=0)
    log.compact(now_ms=0)
    assert [row.value for row in rows(log)] == [b"later 7"]


def test_a_marker_in_a_later_segment_counts(log):
    put(log, b"k", b"kept")
    put(log, b"k", b"void", producer=P)
    put(log, b"j", b"kept", producer=Q)
    log.roll()
    log.append_marker(P, commit=False, now_ms=0)
    log.append_marker(Q, commit=True, now_ms=0)
    log.compact(now_ms=0)
    assert [row.value for row in rows(log)] == [b"kept", b"kept"]


def test_other_control_batches_stay(log):
    data = encode_batch(
        [compaction.RawRecord(0, 0, b"\0\0\0\5", b"")],
        base_offset=0, last_offset=0, base_timestamp=0, max_timestamp=0, attributes=0x20,
    )  # fmt: skip
    log._write(data)
    log.roll()
    log.compact(now_ms=0)
    assert [batch.data for batch in log.read()] == [data]


def test_append_time_stays_append_time(log):
    records = [compaction.RawRecord(0, 9, b"k", b"1"), compaction.RawRecord(1, 9, b"j", b"1")]
    data = encode_batch(records, base_offset=0, last_offset=1, base_timestamp=9, max_timestamp=9, attributes=0x08)
    log._write(data)
    put(log, b"k", b"2")
    log.roll()
    log.compact(now_ms=0)
    assert [(row.offset, row.timestamp) for row in rows(log)] == [(1, 9), (2, 0)]


def test_a_reader_that_has_begun_sees_what_was_there(log):
    for at in range(30):
        put(log, b"k", b"%d" % at)
    log.roll()
    reader = log.read()
    first = next(reader)
    log.compact(now_ms=0)
    put(log, b"k", b"new")
    assert [batch.base_offset for batch in [first, *reader]] == list(range(30))


def test_indexes_of_a_compacted_segment_go(log):
    """A broker would trust them. It makes new ones."""
    for at in range(2):
        put(log, b"k", b"%d" % at)
    log.roll()
    for suffix in (".index", ".timeindex"):
        (log.directory / file_name(0, suffix)).write_bytes(b"stale")
        (log.directory / file_name(2, suffix)).write_bytes(b"good")
    log.compact(now_ms=0)
    assert sorted(path.name for path in log.directory.glob("*index")) == [
        file_name(2, ".index"),
        file_name(2, ".timeindex"),
    ]


def test_what_cannot_be_read_is_an_error_and_changes_nothing(log):
    put(log, b"k", b"1")
    good = new_batch([(b"k", b"2")] * 2, base_offset=1, timestamp_ms=0)
    bad = bytearray(good)
    bad[61:] = b"\xff" * (len(good) - 61)
    bad[17:21] = compaction_checksum(bad)
    log._write(bytes(bad))
    put(log, b"k", b"3")
    log.roll()
    before = [path.read_bytes() for path in log.segments]
    with pytest.raises(CorruptLogError, match="the batch at offset 1 is not readable"):
        log.compact(now_ms=0)
    assert [path.read_bytes() for path in log.segments] == before
    assert not list(log.directory.glob("*.cleaned"))


def compaction_checksum(data):
    from kgm.records.batch import checksum

    return checksum(bytes(data[21:])).to_bytes(4, "big")


def test_damage_is_found_before_anything_is_changed(log):
    put(log, b"k", b"1")
    put(log, b"k", b"2")
    log.roll()
    spoiled = bytearray(log.segments[0].read_bytes())
    spoiled[-1] ^= 1
    log.segments[0].write_bytes(spoiled)
    with pytest.raises(CorruptLogError, match="damaged at byte"):
        log.compact(now_ms=0)
    assert log.segments[0].read_bytes() == spoiled


def test_the_last_batch_stays_empty_and_goes_the_next_time(log):
    """So that the log does not end earlier than it did."""
    put(log, b"k", b"1", producer=P)
    log.append_marker(P, commit=False, now_ms=0)
    log.roll()
    for now in (0, 10, 10 + DAY):
        log.compact(now_ms=now)
    [batch] = log.read()
    assert (batch.base_offset, batch.record_count, batch.is_control, batch.marker) == (1, 0, True, None)
    put(log, b"k", b"2")
    log.roll()
    log.compact(now_ms=20 + DAY)
    assert [batch.base_offset for batch in log.read()] == [2]


def test_a_marker_that_cannot_be_read_is_an_error(log):
    data = encode_batch(
        [compaction.RawRecord(0, 0, b"", b"")],
        base_offset=0, last_offset=0, base_timestamp=0, max_timestamp=0, attributes=0x30,
    )  # fmt: skip
    log.segments[0].write_bytes(data)
    log.close()
    with pytest.raises(CorruptLogError, match="the batch at offset 0 is not readable"):
        OffsetsLog.open(log.directory)


# -- crashes


class Crash(BaseException):
    """Power off."""


class Disk:
    """Counts what changes the disk, and dies before the n-th of it. With `error` it fails there instead, and goes on."""

    def __init__(self, monkeypatch, dies_at, error=None):
        self.left, self.error = dies_at, error
        for owner, name in ((Path, "rename"), (Path, "unlink"), (os, "fsync")):
            monkeypatch.setattr(owner, name, self.watched(getattr(owner, name)))

    def watched(self, function):
        def call(*args, **kwargs):
            if self.left == 0:
                self.left = -1
                raise self.error or Crash
            self.left -= 1
            return function(*args, **kwargs)

        return call


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """No test here pulls the plug, so nothing has to wait for a disk."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def history(log, seed, length=60):
    """Random records of a few keys: plain ones, tombstones, and transactions of two producers."""
    rng = random.Random(seed)
    open_in = set()
    for at in range(length):
        producer = rng.choice([None, None, P, Q])
        if producer in open_in and rng.random() < 0.5:
            log.append_marker(producer, commit=rng.random() < 0.6, now_ms=at)
            open_in.discard(producer)
            continue
        if producer is not None:
            open_in.add(producer)
        value = None if producer is None and rng.random() < 0.25 else b"%d" % at
        pairs = [(b"k%d" % rng.randrange(6), value) for _ in range(rng.randint(1, 3))]
        log.append_raw(pairs, now_ms=at, producer=producer)
        if rng.random() < 0.1:
            log.roll()
    return open_in


@pytest.mark.few(6)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_any_history_means_the_same_after_any_compaction(tmp_path, seed):
    """Compactions in between, tombstones past their retention, and a restart: always the state of the whole log."""
    rng = random.Random(seed)
    with OffsetsLog.open(tmp_path / "whole") as whole, OffsetsLog.open(tmp_path / "log", segment_bytes=500) as log:
        now = 0
        for part in range(6):
            for other in (whole, log):
                history(other, (seed, part).__repr__(), 25)
            if rng.random() < 0.5:
                log.roll()
            now += rng.choice([0, 400, 1_000])
            log.compact(now_ms=now, delete_retention_ms=500)
            assert state(log) == state(whole)
            assert log.next_offset == whole.next_offset
            originals = {row.offset: row for row in rows(whole)}
            assert all(originals[row.offset] == row for row in rows(log))
        log.close()
        with OffsetsLog.open(tmp_path / "log") as again:
            assert again.recovered.clean
            assert state(again) == state(whole)


def to_be_compacted(directory, seed):
    """A log that has been compacted once, and has been written to since; its state."""
    with OffsetsLog.open(directory, segment_bytes=1_000) as log:
        for part in range(2):
            history(log, seed + part, 30)
            for producer in (P, Q):
                log.append_marker(producer, commit=part == 0, now_ms=0)
            log.roll()
            if part == 0:
                log.compact(now_ms=100, delete_retention_ms=10)
        return state(log)


def compacted_until(directory, monkeypatch, dies_at, error=None):
    """(the log after a compaction that meets a failure at its n-th change of the disk, whether it met it)"""
    log = OffsetsLog.open(directory, segment_bytes=2_000)
    with monkeypatch.context() as patch:
        Disk(patch, dies_at, error)
        try:
            log.compact(now_ms=200, delete_retention_ms=10)
        except (Crash, OSError):
            return log, True
    return log, False


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_crash_at_any_moment_of_a_compaction_loses_nothing(tmp_path, monkeypatch, seed):
    before = to_be_compacted(tmp_path / "log", seed)
    finished = dies_at = 0
    died = True
    while died:
        directory = tmp_path / f"log-{dies_at}"
        shutil.copytree(tmp_path / "log", directory)
        log, died = compacted_until(directory, monkeypatch, dies_at)
        log.close()
        with OffsetsLog.open(directory) as again:
            assert state(again) == before
            assert again.recovered.cut_bytes == 0
            finished += bool(again.recovered.finished_swaps)
            assert not list(directory.glob("*.swap")) + list(directory.glob("*.cleaned"))
        dies_at += 1
    assert dies_at > 10
    assert finished > 3, "some of the crashes left a swap to be finished"


@pytest.mark.slow
def test_a_disk_error_at_any_moment_of_a_compaction_loses_nothing(tmp_path, monkeypatch):
    """The log goes on, or, when its files are no longer what it thinks, says that it is out of use."""
    before, _ = to_be_compacted(tmp_path / "log", 2)
    out_of_use = dies_at = 0
    failed = True
    while failed:
        directory = tmp_path / f"log-{dies_at}"
        shutil.copytree(tmp_path / "log", directory)
        log, failed = compacted_until(directory, monkeypatch, dies_at, OSError(5, "Input/output error"))
        expected = before
        try:
            put(log, b"k9", b"1")
        except OSError:
            out_of_use += 1
        else:
            expected = before | {b"k9": b"1"}
            assert state(log)[0] == expected
        log.close()
        with OffsetsLog.open(directory) as again:
            assert state(again)[0] == expected
        dies_at += 1
    assert 0 < out_of_use < dies_at


def test_a_swap_that_a_broker_left_is_finished(tmp_path):
    """Kafka renames as we do: a swap counts, and covers the old segments up to its last offset; .cleaned is garbage."""
    directory = tmp_path / "log"
    with OffsetsLog.open(directory, segment_bytes=100) as log:
        for at in range(4):
            put(log, b"k", b"%d" % at)
    names = sorted(path.name for path in directory.glob("*.log"))
    assert len(names) == 4
    swap = encode_batch(
        [compaction.RawRecord(1, 0, b"k", b"1")], base_offset=1, last_offset=1, base_timestamp=0, max_timestamp=0
    )
    (directory / file_name(0, ".log.swap")).write_bytes(swap)
    (directory / file_name(2, ".log.cleaned")).write_bytes(b"half")
    (directory / "other.log.swap").write_bytes(b"")
    with OffsetsLog.open(directory) as log:
        assert [row.value for row in rows(log)] == [b"1", b"2", b"3"]
        assert log.recovered.finished_swaps == (directory / file_name(0),)
        assert not log.recovered.clean
    assert sorted(path.name for path in directory.glob("*.log")) == [names[0], *names[2:]]
    assert (directory / "other.log.swap").exists()


def test_a_damaged_swap_is_an_error(tmp_path):
    directory = tmp_path / "log"
    with OffsetsLog.open(directory) as log:
        put(log, b"k", b"1")
    (directory / file_name(0, ".log.swap")).write_bytes(b"x" * 100)
    with pytest.raises(CorruptLogError, match="swap is damaged at byte 0"):
        OffsetsLog.open(directory)
