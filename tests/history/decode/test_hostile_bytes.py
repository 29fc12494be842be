"""Nothing that a log may hold makes reading it fail in another way than it says, or take more memory than it is worth."""

import random
import struct

import pyarrow as pa
import pytest

from kgm.history.decode.ndjson import lines
from kgm.history.derive import derive
from kgm.history.folders import Reading, folders, raw_table
from kgm.history.schema import RAW
from kgm.history.verify import verify
from kgm.model.errors import KgmError
from kgm.records.batch import checksum, decode_batches, new_batch
from tests.history.decode.test_real_logs import raw_log
from tests.history.random_logs import random_log
from tests.history.reconstruct.log_replay import timelines
from tests.history.reconstruct.slow_timelines import slow_histories
from tests.history.reconstruct.test_timelines import told
from tests.protocol.cases import damaged
from tests.records.real_logs import segment_bytes


def harmed(rng, table, share):
    """The same records, some of them with other bytes in key or value."""
    rows = table.to_pylist()
    for row in rows:
        if rng.random() < share and row["key"]:
            name = rng.choice(["key", "value", "value", "value"])
            row[name] = rng.choice(list(damaged(row[name] or b"", rng)))
    return pa.Table.from_pylist(rows, RAW)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
def test_records_of_a_real_log_with_wrong_bytes(seed):
    """Whatever can still be read is told as the plain fold tells it, and everything else goes through."""
    rng = random.Random(f"hostile {seed}")
    real = raw_log("plain", seed)
    raw = harmed(rng, real.slice(rng.randrange(600), 500), 0.3)
    assert told(timelines(raw)) == slow_histories(raw)
    assert len(list(lines(raw, all_batches=True))) == len(raw)
    found = verify(raw)
    assert found.bad_records > 0
    assert found.records == len(raw)
    assert set(derive(raw).tables) >= {"silver_commit", "gold_rebalance"}


@pytest.mark.slow
def test_random_groups_with_wrong_bytes():
    rng = random.Random("hostile groups")
    for _ in range(2):
        raw = harmed(rng, random_log(rng, records=150, odd=True, holes=0.1), 0.2)
        assert told(timelines(raw)) == slow_histories(raw)
        assert set(derive(raw).tables) >= {"silver_commit", "gold_rebalance"}


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
def test_segments_with_wrong_bytes(tmp_path, seed):
    """Bits flipped, bytes cut out, put in and repeated, anywhere: what can be read is read, and the rest is noted."""
    rng = random.Random(f"segments {seed}")
    data = b"".join(segment_bytes("compacted", seed))
    folder = tmp_path / f"__consumer_offsets-{seed}"
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    spoilt = [each for each in damaged(data, rng) if each]
    for each in rng.sample(spoilt, 8):
        path.write_bytes(each)
        reading = Reading()
        try:
            raw = raw_table(folders(tmp_path), reading)
        except KgmError:
            continue
        assert reading.damages or len(raw)
        assert verify(raw, reading.damages).records == len(raw)
        assert len(list(lines(raw, all_batches=True))) == len(raw)


@pytest.mark.slow
def test_several_segments_in_any_form_are_one_log(tmp_path):
    """Cut into segments at any batch, it is the same log."""
    rng = random.Random("segments")
    data = b"".join(segment_bytes("plain", 0))
    batches = list(decode_batches(data))
    whole = raw_log("plain", 0)
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    cuts = sorted({0, *rng.sample(range(1, len(batches)), 4)})
    for start, stop in zip(cuts, [*cuts[1:], len(batches)], strict=True):
        (folder / f"{batches[start].base_offset:020d}.log").write_bytes(
            b"".join(each.data for each in batches[start:stop])
        )
    reading = Reading()
    raw = raw_table(folders(tmp_path), reading)
    assert reading.damages == []
    assert told(timelines(raw)) == told(timelines(whole))
    assert list(lines(raw)) == list(lines(whole))


def claims(count, tail):
    """A GroupMetadata value that says to have so many members."""
    text = struct.pack(">h", 8) + b"consumer"
    head = struct.pack(">h", 3) + text + struct.pack(">i", 1) + struct.pack(">hh", -1, -1) + struct.pack(">q", 0)
    return head + struct.pack(">i", count) + bytes(tail)


@pytest.mark.few(1)
@pytest.mark.parametrize("count", [2**31 - 1, 100_000, -5])
def test_lengths_that_lie_cost_nothing(count):
    """Each of 300 values of 40 kB says that there are many members in it."""
    key = struct.pack(">hh", 2, 1) + b"g"
    rows = [
        {"partition": 0, "offset": at, "timestamp": at, "key": key, "value": claims(count, 40_000)} for at in range(300)
    ]
    raw = pa.Table.from_pylist(rows, RAW)
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    found = verify(raw)
    assert found.bad_records == 300
    assert found.groups == ()
    assert pool.bytes_allocated() - before < 200 << 20
    assert len(list(lines(raw))) == 300


def test_a_batch_that_says_too_much(tmp_path):
    """The count of records in a batch, with a checksum that fits."""
    data = bytearray(new_batch([(b"\0\2\0\1g", None)], base_offset=0, timestamp_ms=5))
    struct.pack_into(">i", data, 57, 2**31 - 1)
    struct.pack_into(">I", data, 17, checksum(bytes(data[21:])))
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(data)
    reading = Reading()
    raw = raw_table(folders(tmp_path), reading)
    assert len(raw) == 0
    assert len(reading.damages) == 1
