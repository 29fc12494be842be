"""Reading a log on disk by offset and by time: the same as from a list of all its batches."""

import os
import random

import pytest

from kgm.model.errors import DecodeError
from kgm.records.batch import decode_batches
from kgm.records.log import OffsetsLog
from kgm.server.logs.topic_log import PartitionLog
from tests.records.test_compaction import history


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def listed(log):
    """All batches in the files, read without the log."""
    whole = PartitionLog(start_offset=log.start_offset)
    whole.add(decode_batches(b"".join(path.read_bytes() for path in log.segments)))
    whole.end_offset = log.next_offset
    return whole


def everything(reader, offset, max_bytes, below):
    """All that there is from an offset on, read by read."""
    parts = []
    while data := reader.read(offset, max_bytes, at_least_one=True, below=below):
        batches = decode_batches(data)
        assert len(data) <= max_bytes or len(batches) == 1
        assert batches[0].last_offset >= offset
        parts.append(data)
        offset = batches[-1].last_offset + 1
    return b"".join(parts)


def compare(log, rng):
    whole, reader = listed(log), log.reader
    assert (reader.start_offset, reader.end_offset, reader.size) == (0, whole.end_offset, whole.size)
    assert reader.first_epoch == whole.first_epoch
    below = rng.choice([None, reader.stable_offset])
    max_bytes = rng.choice([0, 100, 700, 10**6])
    for offset in range(whole.end_offset + 1):
        expected = whole.read(offset, 10**9, at_least_one=True, below=below)
        assert everything(reader, offset, max_bytes, below) == expected
        assert reader.readable(offset, 10**9, below=below) == len(expected)
        assert reader.readable(offset, 10, below=below) == min(len(expected), 10)
    for at in range(-1, 27):
        assert reader.batch_at(at) == whole.batch_at(at)
    assert reader.latest_batch() == whole.latest_batch()


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(6))
def test_a_log_is_read_as_it_is(tmp_path, seed):
    """Several segments, blocks of several batches, gaps that compaction has left, open and aborted transactions; and the
    same after a restart."""
    rng = random.Random(seed)
    with OffsetsLog.open(tmp_path / "log", segment_bytes=6_000, leader_epoch=3) as log:
        for part in range(3):
            history(log, f"{seed} {part}", 25)
            compare(log, rng)
            log.compact(now_ms=part, delete_retention_ms=0)
            compare(log, rng)
        open_in, stable = dict(log.reader.transactions.open), log.reader.stable_offset
        log.close()
        with OffsetsLog.open(tmp_path / "log") as again:
            compare(again, rng)
            assert (again.reader.transactions.open, again.reader.stable_offset) == (open_in, stable)


def test_files_that_others_have_changed_are_an_error(tmp_path):
    with OffsetsLog.open(tmp_path / "log") as log:
        for at in range(3):
            log.append_raw([(b"k", b"%d" % at)], now_ms=at)
        (path,) = log.segments
        for content in (b"", b"\xff" * 200):
            path.write_bytes(content)
            with pytest.raises(DecodeError):
                log.reader.read(1, 1_000, at_least_one=True)
            with pytest.raises(DecodeError):
                log.reader.batch_at(2)
        path.unlink()
        with pytest.raises(FileNotFoundError):
            log.reader.read(1, 1_000, at_least_one=True)
