"""Segments that were compressed: damaged ones are reported as others are, and small ones that hold much cost little."""

import gzip
import json
import random
import subprocess
import sys
import zlib

import cramjam
import pytest

from kgm.history.folders import Reading, folders, raw_table
from kgm.model.errors import RefusedError
from kgm.records.batch import new_batch
from tests.records.real_logs import DATA, segment_bytes
from tests.records.test_batch import compressed
from tests.records.test_batch import resealed as with_checksum

NAME = "00000000000000000000.log.gz"
PACKED = (DATA / "plain" / "__consumer_offsets-1" / NAME).read_bytes()
#: Reads a folder in a process of its own, whose peak of memory is not that of another test.
CHILD = """
import json, pathlib, resource, sys
from kgm.history.folders import Reading, folders, raw_table
from kgm.model.errors import KgmError
import kgm.records.compression, cramjam
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
reading, before = Reading(), peak()
try:
    rows = len(raw_table(folders(pathlib.Path(sys.argv[1])), reading))
except KgmError as error:
    rows = error.message
print(json.dumps({"rows": rows, "mib": (peak() - before) / 1024, "damages": [one.reason for one in reading.damages]}))
"""


@pytest.fixture
def packed(tmp_path):
    folder = tmp_path / "__consumer_offsets-1"
    folder.mkdir()
    return folder / NAME


def read(path):
    reading = Reading()
    raw = raw_table(folders(path.parent), reading)
    return dict(zip(raw.column("offset").to_pylist(), raw.column("value").to_pylist(), strict=True)), reading.damages


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_wrong_bits_are_damage_like_any_other(packed, seed):
    """What is read is what was written, and where something is missing, that is noted."""
    packed.write_bytes(PACKED)
    whole, damages = read(packed)
    assert (len(whole), damages) == (len(set(whole)), [])
    rng = random.Random(f"bits {seed}")
    missing = 0
    for _ in range(100):
        data = bytearray(PACKED)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        packed.write_bytes(data)
        found, damages = read(packed)
        assert found.items() <= whole.items()
        assert found == whole or damages
        missing += found != whole
    assert missing > 50


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 1000, len(PACKED) // 2, len(PACKED) - 8, len(PACKED) - 1])
def test_a_file_that_ends_early_is_read_as_far_as_it_goes(packed, size):
    packed.write_bytes(PACKED)
    whole, _ = read(packed)
    packed.write_bytes(PACKED[:size])
    found, damages = read(packed)
    assert found.items() <= whole.items()
    assert len(found) > 100 or size < len(PACKED) // 2
    assert [damage.reason for damage in damages] == ["gzip: the file ends in the middle"] * (size > 0)
    assert not any(damage.torn for damage in damages)


def test_several_members_with_zeros_after_them_are_one_segment(packed):
    (data,) = segment_bytes("plain", 1)
    packed.write_bytes(PACKED)
    whole, _ = read(packed)
    packed.write_bytes(
        b"".join(gzip.compress(data[at : at + 5_000]) for at in range(0, len(data), 5_000)) + bytes(700_000)
    )
    assert read(packed) == (whole, [])


def gzipped(start, mebibytes):
    """gzip of a start and so many MiB of zeros."""
    stream = zlib.compressobj(9, wbits=31)
    zeros = bytes(1 << 20)
    return b"".join([stream.compress(start), *(stream.compress(zeros) for _ in range(mebibytes)), stream.flush()])


def batch_of(codec, body):
    return compressed(codec, body, 1).data


def many_batches():
    """Valid ones, each of 8 MiB, in a file of less than a MiB."""
    value = bytes(8 << 20)
    batches = []
    for offset in range(70):
        plain = new_batch([(b"\0\2\0\1g", value)], base_offset=offset, timestamp_ms=1)
        data = bytearray(plain[:61] + bytes(cramjam.zstd.compress(plain[61:])))
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
        data[22] = 4
        batches.append(with_checksum(bytes(data)))
    return b"".join(batches)


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (NAME, lambda: gzipped(b"", 1024), "no batch at byte 0"),
        pytest.param(NAME, lambda: gzipped(gzip.decompress(PACKED), 1024), "no batch at byte", marks=pytest.mark.long),
        pytest.param(NAME, lambda: gzipped(b"\0" * 8 + (31 << 20).to_bytes(4, "big") + b"\0\0\0\0\2", 1024), "no batch at byte", marks=pytest.mark.long),
        (NAME[:-3], lambda: batch_of(1, gzipped(b"", 127)), "compressed with gzip holds more than"),
        (NAME[:-3], lambda: batch_of(4, bytes(cramjam.zstd.compress(bytes(127 << 20)))), "compressed with zstd holds more"),
    ],
    ids=["zeros", "zeros-behind", "large-batch", "gzip-batch", "zstd-batch"],
)  # fmt: skip
def test_a_small_file_that_holds_much_costs_little(packed, name, content, reason):
    path = packed.with_name(name)
    path.write_bytes(content())
    assert path.stat().st_size < 2 << 20
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(packed.parent)], capture_output=True, text=True, check=True, timeout=120
    )
    found = json.loads(done.stdout)
    assert reason in found["damages"][0]
    assert found["mib"] < 64, found


@pytest.mark.long
@pytest.mark.slow
def test_many_small_batches_that_hold_much_are_refused(packed):
    path = packed.with_name(NAME[:-3])
    path.write_bytes(many_batches())
    assert path.stat().st_size < 1 << 20
    with pytest.raises(RefusedError, match="holds more than one process can read"):
        raw_table(folders(packed.parent), Reading(), most_bytes=20 << 20)
