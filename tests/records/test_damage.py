"""Whatever the bytes of a log are: it opens with a prefix of what was written, or says that it is damaged."""

import random

import pytest

from kgm.model.errors import DecodeError
from kgm.records.batch import whole_batches
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "compacted", "synthetic"])
def test_a_log_opens_with_a_prefix_or_not_at_all(tmp_path, kind, monkeypatch):
    """What is cut off is cut off: opening it again finds the same, and nothing more to repair."""
    monkeypatch.setattr("os.fsync", lambda fd: None)
    rng = random.Random(kind)
    data = segment_bytes(kind, 0)[0][:20_000]
    whole = whole_batches(data)
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
    batches = whole_batches(data)
    first, second = len(batches[0].data), len(batches[1].data)
    for size in (0, 5, first - 1, first, first + 30, first + second - 1):
        assert whole_batches(data[:size]) == batches[: size >= first]
