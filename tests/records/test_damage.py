"""Whatever the bytes of a log are: it opens with a prefix of what was written, or says that it is damaged."""

import random
import struct

import pytest

from kgm.model.errors import DecodeError
from kgm.records.batch import decode_batches, extent
from kgm.records.log import CorruptLogError, OffsetsLog
from kgm.records.segment import file_name
from tests.protocol.cases import damaged
from tests.records.real_logs import segment_bytes


def read(directory):
    with OffsetsLog.open(directory) as log:
        found = []
        for batch in log.read():
            try:
                found.append((batch.data, batch.records))
            except DecodeError:
                found.append((batch.data, None))
        return found, log.recovered


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "compacted", "synthetic"])
def test_a_log_opens_with_a_prefix_or_not_at_all(tmp_path, kind, monkeypatch):
    """What is cut off is cut off: opening it again finds the same, and nothing more to repair."""
    monkeypatch.setattr("os.fsync", lambda fd: None)
    rng = random.Random(kind)
    data = segment_bytes(kind, 0)[0][:20_000]
    whole = decode_batches(data[: extent(data)[0]])
    path = tmp_path / file_name(0)
    path.write_bytes(data)
    assert [batch for batch, _ in read(tmp_path)[0]] == [batch.data for batch in whole]
    opened = refused = 0
    for spoiled in (piece for _ in range(2) for piece in damaged(data, rng)):
        path.write_bytes(spoiled)
        try:
            found, recovered = read(tmp_path)
        except CorruptLogError as error:
            refused += str(path) in error.message
            assert path.read_bytes() == spoiled
            continue
        opened += 1
        size = sum(len(batch) for batch, _ in found)
        assert path.read_bytes() == spoiled[:size]
        assert recovered.cut_bytes == len(spoiled) - size
        again, recovered = read(tmp_path)
        assert again == found
        assert recovered.clean
    assert opened > 50
    assert refused > 50


def test_a_fetch_may_end_in_the_middle_of_a_batch():
    data = segment_bytes("plain", 0)[0]
    batches = decode_batches(data)
    assert extent(data) == (len(data), batches[-1].last_offset + 1)
    first, second = len(batches[0].data), len(batches[1].data)
    for size in (0, 5, first - 1, first, first + 30, first + second - 1):
        assert extent(data[:size]) == ((first, batches[0].last_offset + 1) if size >= first else (0, 0))


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [(8, struct.pack(">i", 48), "length of 48"), (8, b"\xff" * 4, "length of -1"), (8, bytes(8) + b"\1", "format v1")],
)
def test_a_fetch_of_what_is_no_batch(at, value, message):
    data = segment_bytes("plain", 0)[0]
    with pytest.raises(DecodeError, match=message):
        extent(data[:at] + value + data[at + len(value) :])
