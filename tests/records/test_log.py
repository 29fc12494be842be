"""A log on disk: what is appended is there after a crash, and what is not whole is cut and said so."""

import pytest

from kgm.records.log import LogLockedError, OffsetsLog, ProducerInfo
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record, decode_record


def commit(offset, *, group="orders", partition=0):
    key = OffsetCommitKey(group=group, topic="payments", partition=partition)
    return Record(key, OffsetCommitValue(offset=offset, commit_timestamp=1_000))


def rows(log):
    return [(batch.base_offset, [row.offset for row in batch.records]) for batch in log.read()]


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "__consumer_offsets-0"


def test_what_is_appended_is_read_in_order(directory):
    with OffsetsLog.open(directory) as log:
        assert log.append([commit(1), commit(2, partition=1)], now_ms=5) == 0
        assert log.append([commit(3)], now_ms=6) == 2
        assert log.append([], now_ms=7) == log.next_offset == 3
        log.flush()
    with OffsetsLog.open(directory) as log:
        assert log.recovered.clean
        assert log.next_offset == 3
        found = [
            (row.offset, row.timestamp, decode_record(row.key, row.value))
            for batch in log.read()
            for row in batch.records
        ]
    assert found == [(0, 5, commit(1)), (1, 5, commit(2, partition=1)), (2, 6, commit(3))]


def test_transactions_end_with_a_marker(directory):
    producer = ProducerInfo(7, 1)
    with OffsetsLog.open(directory) as log:
        log.append([commit(1)], now_ms=5, producer=producer)
        assert log.append_marker(producer, commit=True, now_ms=6, coordinator_epoch=3) == 1
        data, control = log.read()
    assert (data.transactional, data.is_control, data.producer) == (True, False, producer)
    assert control.is_control
    assert control.producer == producer
    assert control.marker.commit
    assert control.marker.coordinator_epoch == 3


def test_a_directory_has_one_owner(directory):
    with OffsetsLog.open(directory), pytest.raises(LogLockedError, match="in use"):
        OffsetsLog.open(directory)
    OffsetsLog.open(directory).close()


def test_large_batches_are_read(directory):
    """Larger than what is read at a time, and smaller ones across the edges of it."""
    sizes = [400_000, 400_000, 400_000, 3_000_000, 10, 1_048_000, 10]
    with OffsetsLog.open(directory) as log:
        for size in sizes:
            log.append_raw([(b"k", bytes(size))], now_ms=0)
        assert [len(row.value) for batch in log.read() for row in batch.records] == sizes
    with OffsetsLog.open(directory) as log:
        assert (log.start_offset, log.next_offset) == (0, len(sizes))
        assert log.size == log.segments[0].stat().st_size
