"""What a crash leaves of a log: everything flushed is there, half a batch is cut and said so, damage is an error."""

import errno
import fcntl
import os
import random
import signal
import subprocess
import sys
import textwrap

import pytest

from kgm.model.errors import ErrorCode
from kgm.records import log as log_module
from kgm.records import segment_sizes
from kgm.records.log import BatchTooLargeError, CorruptLogError, OffsetsLog, Recovery
from kgm.records.segment import file_name
from tests import ROOT
from tests.records.test_log import commit


def write(directory, *counts, **how):
    """A log with one batch of so many records for each count; the sizes of the file after each."""
    sizes = [0]
    with OffsetsLog.open(directory, **how) as log:
        for count in counts:
            log.append([commit(log.next_offset + at) for at in range(count)], now_ms=1_000)
            sizes.append(log.size)
        log.flush()
    return sizes


def offsets(directory):
    """The records of a log, after whatever opening it repairs; and what that was."""
    with OffsetsLog.open(directory) as log:
        found = [row.offset for batch in log.read() for row in batch.records]
        assert log.next_offset == (found[-1] + 1 if found else 0)
        return found, log.recovered


@pytest.mark.slow
def test_a_log_cut_at_any_byte_has_the_batches_before(tmp_path):
    """Every byte of every batch, among them each record's boundary."""
    counts = [1, 3, 2]
    directory = tmp_path / "log"
    sizes = write(directory, *counts)
    segment_sizes.forget(directory)  # a process that is killed has not noted them
    path = directory / file_name(0)
    whole = path.read_bytes()
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        kept = max(at for at, end in enumerate(sizes) if end <= size)
        found, recovered = offsets(directory)
        assert found == list(range(sum(counts[:kept])))
        if size == sizes[kept]:
            assert recovered == Recovery()
        else:
            assert (recovered.cut_bytes, recovered.cut_batches) == (size - sizes[kept], 1)
            assert (recovered.file, recovered.position) == (path, sizes[kept])
            assert recovered.reason
        assert path.read_bytes() == whole[: sizes[kept]], "what is cut is gone, and nothing else"


@pytest.mark.parametrize("tail", [bytes(1), bytes(4096), b"\xff" * 200, b"\2" * 200], ids=["0", "zeros", "ff", "magic"])
def test_a_tail_of_rubbish_is_cut(tmp_path, tail):
    """Zeros are what some file systems leave when the power fails."""
    directory = tmp_path / "log"
    sizes = write(directory, 1, 1)
    with (directory / file_name(0)).open("ab") as file:
        file.write(tail)
    found, recovered = offsets(directory)
    assert found == [0, 1]
    assert (recovered.cut_bytes, recovered.position) == (len(tail), sizes[-1])
    assert offsets(directory) == ([0, 1], Recovery()), "it is said once"


@pytest.mark.slow
def test_a_wrong_byte_is_never_read_as_right(tmp_path):
    """Before the last batch it is an error that names the place, and nothing is cut; in the last one a torn tail.

    The offset and the leader epoch are not covered by the checksum: of them it is noticed that offsets fall."""
    directory = tmp_path / "log"
    sizes = write(directory, 2, 1, 2)
    path = directory / file_name(0)
    whole = path.read_bytes()
    rng = random.Random(3)
    for at in range(len(whole)):
        spoiled = whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
        path.write_bytes(spoiled)
        batch = max(number for number, end in enumerate(sizes) if end <= at)
        field = at - sizes[batch]
        if 12 <= field < 16 or (batch == 2 and field < 8):
            continue
        if batch == 2:
            assert offsets(directory)[0] == [0, 1, 2]
            continue
        with pytest.raises(CorruptLogError) as caught:
            OffsetsLog.open(directory)
        assert str(path) in caught.value.message
        # An offset that has become too large shows at the batch behind it.
        assert f"damaged at byte {sizes[batch]}, " in caught.value.message or field < 8
        assert path.read_bytes() == spoiled


def test_damage_in_an_older_segment_is_never_a_torn_tail(tmp_path):
    directory = tmp_path / "log"
    write(directory, 1, 1, 1, segment_bytes=100)
    first = directory / file_name(0)
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(CorruptLogError, match="damaged at byte 0, offset 0") as caught:
        OffsetsLog.open(directory)
    assert "truncate -s 0" in caught.value.hint


def test_segments_that_overlap_are_damage(tmp_path):
    directory = tmp_path / "log"
    write(directory, 3)
    (directory / file_name(2)).write_bytes(b"")
    with pytest.raises(CorruptLogError, match="begins at offset 2"):
        OffsetsLog.open(directory)


def test_damage_while_the_log_is_open_is_noticed(tmp_path):
    with OffsetsLog.open(tmp_path / "log") as log:
        log.append([commit(1)], now_ms=0)
        log.append([commit(2)], now_ms=0)
        path = log.segments[0]
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        with pytest.raises(CorruptLogError, match="offset 1: the checksum"):
            list(log.read())


def test_a_log_goes_on_where_it_was_cut(tmp_path):
    directory = tmp_path / "log"
    sizes = write(directory, 2, 2)
    os.truncate(directory / file_name(0), sizes[-1] - 1)
    with OffsetsLog.open(directory) as log:
        assert log.append([commit(9)], now_ms=0) == 2
    assert offsets(directory)[0] == [0, 1, 2]


def test_segments_are_rolled_by_size(tmp_path):
    directory = tmp_path / "log"
    with OffsetsLog.open(directory, segment_bytes=300) as log:
        for _ in range(9):
            log.append([commit(1)], now_ms=0)
        log.append([commit(1)] * 50, now_ms=0)  # larger than a segment: it gets one for itself
        log.append([commit(1)], now_ms=0)
        names = [path.name for path in log.segments]
        assert [path.stat().st_size for path in log.segments][-2] > 300
        assert all(path.stat().st_size <= 300 for path in log.segments[:-2])
        log.roll()
        log.roll()  # nothing in it: stays
        assert log.segments[-1].name == file_name(60)
    assert names[-2:] == [file_name(9), file_name(59)]
    found, recovered = offsets(directory)
    assert found == list(range(60))
    assert recovered.clean


def test_files_of_others_are_left_alone(tmp_path):
    directory = tmp_path / "log"
    write(directory, 1)
    for name in ("partition.metadata", "leader-epoch-checkpoint", "x.log", "0.log", file_name(0, ".index")):
        (directory / name).write_text("something")
    assert offsets(directory)[0] == [0]
    assert (directory / "x.log").read_text() == "something"


def test_the_leader_epoch_never_falls(tmp_path):
    directory = tmp_path / "log"
    for asked, used in ((3, 3), (1, 3), (4, 4)):
        with OffsetsLog.open(directory, leader_epoch=asked) as log:
            log.append([commit(1)], now_ms=0)
            assert log.leader_epoch == used
            assert [batch.leader_epoch for batch in log.read()][-1] == used


# -- disks that fail


@pytest.mark.slow
def test_a_full_disk_leaves_the_log_as_it_was(tmp_path):
    """The kernel itself refuses: half of the batch is written, and then no more."""
    code = """
        import resource, sys
        from pathlib import Path
        from kgm.records.log import OffsetsLog
        from tests.records.test_log import commit
        log = OffsetsLog.open(Path(sys.argv[1]))
        log.append([commit(1)], now_ms=0)
        before = log.size
        resource.setrlimit(resource.RLIMIT_FSIZE, (before + 70, resource.RLIM_INFINITY))
        try:
            log.append([commit(2), commit(3)], now_ms=0)
        except OSError as error:
            print(error.errno, log.size == before == log.segments[0].stat().st_size, log.next_offset)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print(log.append([commit(4)], now_ms=0))
        log.flush()
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "log")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(errno.EFBIG), "True", "1", "1"]
    assert offsets(tmp_path / "log") == ([0, 1], Recovery())


def failing(times=1, number=errno.ENOSPC):
    """A function that fails so often, and then is what it was."""

    def wrap(function):
        left = [times]

        def call(*args, **kwargs):
            if left[0]:
                left[0] -= 1
                raise OSError(number, os.strerror(number))
            return function(*args, **kwargs)

        return call

    return wrap


def test_a_write_that_stops_half_way_is_taken_back(tmp_path, monkeypatch):
    real = os.pwrite
    calls = []

    def half(fd, data, position):
        calls.append(position)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "full")
        return real(fd, data[:20], position)

    with OffsetsLog.open(tmp_path / "log") as log:
        log.append([commit(1)], now_ms=0)
        size = log.size
        monkeypatch.setattr(log_module.os, "pwrite", half)
        with pytest.raises(OSError, match="full"):
            log.append([commit(2)], now_ms=0)
        assert calls == [size, size + 20]
        assert log.size == log.segments[0].stat().st_size == size
        monkeypatch.setattr(log_module.os, "pwrite", lambda fd, data, position: real(fd, data[:30], position))
        assert log.append([commit(3)], now_ms=0) == 1, "writes in pieces are one batch"
    assert offsets(tmp_path / "log") == ([0, 1], Recovery())


def test_a_log_that_cannot_be_taken_back_is_out_of_use(tmp_path, monkeypatch):
    with OffsetsLog.open(tmp_path / "log") as log:
        log.append([commit(1)], now_ms=0)
        monkeypatch.setattr(log_module.os, "pwrite", failing()(os.pwrite))
        monkeypatch.setattr(log_module.os, "ftruncate", failing(number=errno.EIO)(os.ftruncate))
        with pytest.raises(OSError, match="No space"):
            log.append([commit(2)], now_ms=0)
        with pytest.raises(OSError, match="out of use"):
            log.append([commit(3)], now_ms=0)
        with pytest.raises(OSError, match="out of use"):
            log.flush()
    assert offsets(tmp_path / "log")[0] == [0]


def test_after_a_failed_flush_nobody_knows(tmp_path, monkeypatch):
    """What fsync has failed on may be gone from the cache as well: writing on would leave a hole."""
    with OffsetsLog.open(tmp_path / "log") as log:
        log.append([commit(1)], now_ms=0)
        monkeypatch.setattr(log_module.os, "fsync", failing(number=errno.EIO)(os.fsync))
        with pytest.raises(OSError, match="Input/output"):
            log.flush()
        with pytest.raises(OSError, match="out of use since"):
            log.append([commit(2)], now_ms=0)


def test_a_segment_that_cannot_be_begun_changes_nothing(tmp_path, monkeypatch):
    with OffsetsLog.open(tmp_path / "log", segment_bytes=150) as log:
        log.append([commit(1)], now_ms=0)
        monkeypatch.setattr(log_module.os, "open", failing()(os.open))
        with pytest.raises(OSError, match="No space"):
            log.append([commit(2)], now_ms=0)
        assert len(log.segments) == 1
        assert log.append([commit(2)], now_ms=0) == 1
        assert len(log.segments) == 2
    assert offsets(tmp_path / "log")[0] == [0, 1]


def test_large_batches_are_refused_where_there_is_a_limit(tmp_path):
    with OffsetsLog.open(tmp_path / "log", max_batch_bytes=200) as log:
        with pytest.raises(BatchTooLargeError) as caught:
            log.append([commit(1)] * 9, now_ms=0)
        assert caught.value.kafka_error == ErrorCode.MESSAGE_TOO_LARGE
        assert log.append([commit(1)], now_ms=0) == 0


def test_a_closed_log_takes_nothing(tmp_path):
    log = OffsetsLog.open(tmp_path / "log")
    log.close()
    log.close()
    with pytest.raises(OSError, match="closed"):
        log.append([commit(1)], now_ms=0)


def test_a_lock_that_fails_for_another_reason_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", failing(number=errno.ENOLCK)(fcntl.flock))
    with pytest.raises(OSError, match="No locks"):
        OffsetsLog.open(tmp_path / "log")


# -- kill -9

WRITER = """
    import sys
    from pathlib import Path
    from kgm.records.log import OffsetsLog
    from tests.records.test_log import commit
    log = OffsetsLog.open(Path(sys.argv[1]), segment_bytes=200_000)
    now = 0
    while True:
        for _ in range(5):
            log.append([commit(now)] * (now % 97 + 1), now_ms=now)
            now += 1
        log.flush()
        print(log.next_offset, flush=True)
"""


@pytest.mark.slow
def test_everything_flushed_survives_kill_9(tmp_path):
    """A writer is killed at whatever it is doing, eight times on the same log. Batches are whole or not there."""
    rng = random.Random(11)
    directory = tmp_path / "log"
    code = textwrap.dedent(WRITER)
    before = 0
    for _ in range(8):
        writer = subprocess.Popen(
            [sys.executable, "-c", code, str(directory)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        try:
            flushed = [int(writer.stdout.readline()) for _ in range(rng.randrange(1, 40))]
        finally:
            writer.send_signal(signal.SIGKILL)
            flushed += [int(line) for line in writer.stdout if line.endswith("\n")]
            writer.stdout.close()
            writer.wait()
        with OffsetsLog.open(directory) as log:
            assert log.next_offset >= flushed[-1] > before
            batches = list(log.read())
            assert [batch.base_offset for batch in batches[1:]] == [batch.last_offset + 1 for batch in batches[:-1]]
            assert all(batch.record_count == batch.max_timestamp % 97 + 1 for batch in batches)
            before = log.next_offset
    assert len(list(directory.glob("*.log"))) > 1
