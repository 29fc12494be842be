"""Small inputs that hold as much as they can: 1 MiB never takes more than 512 MiB of memory, whatever is in it."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice

import cramjam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgm.history.folders import Reading, folders, raw_table
from kgm.history.in_process import derive_source
from kgm.model.errors import DecodeError, RefusedError
from kgm.records.batch import BEHIND_LENGTH, HEADER, MAX_PACKED_RECORDS, RawRecord, encode_batch, parse_batch
from kgm.records.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kgm.records.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record, encode_record
from tests.records.test_batch import resealed

pytestmark = pytest.mark.slow

ZSTD = 4
MOST_KIB = 512 << 10
PER_BATCH = 50_000
#: Runs kgm in a process whose peak of memory is its own: that of getrusage begins with what its parent had.
CHILD = """
import pathlib, re, sys
from kgm.cli.main import run
code = run(sys.argv[1:])
print(code, re.search("VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1])
"""


def zipped(pairs, first=0, headers=()):
    """A batch of these (key, value) pairs, compressed with zstd."""
    rows = [RawRecord(first + at, 1_000, key, value, headers) for at, (key, value) in enumerate(pairs)]
    plain = encode_batch(
        rows, base_offset=first, last_offset=first + len(rows) - 1, base_timestamp=1_000, max_timestamp=1_000
    )
    body = bytes(cramjam.zstd.compress(plain[HEADER.size :], 3))
    header = list(HEADER.unpack_from(plain))
    header[1], header[5] = HEADER.size - BEHIND_LENGTH + len(body), ZSTD
    return resealed(HEADER.pack(*header) + body)


def pair(key, value):
    return encode_record(Record(key, value))


def commits(count):
    """A group each, with one commit."""
    _, value = pair(OffsetCommitKey(group="g", topic="t", partition=0), OffsetCommitValue(offset=1, commit_timestamp=1))
    for number in range(count):
        yield pair(OffsetCommitKey(group=f"{number:x}", topic="t", partition=0), None)[0], value


def groups(count):
    """Classic groups without members."""
    _, value = pair(GroupMetadataKey(group="g"), GroupMetadataValue(protocol_type="consumer", generation=1))
    for number in range(count):
        yield pair(GroupMetadataKey(group=f"{number:x}"), None)[0], value


def members(records, count):
    """One group that has other members in each record."""
    for record in range(records):
        rows = [MemberMetadata(member_id=f"{record:x}-{at:x}") for at in range(count)]
        yield pair(
            GroupMetadataKey(group="g"), GroupMetadataValue(protocol_type="consumer", generation=record, members=rows)
        )


def consumers(count):
    """Members of one group of the consumer protocol."""
    for number in range(count):
        key = ConsumerGroupMemberMetadataKey(group_id="g", member_id=f"{number:x}")
        yield pair(key, ConsumerGroupMemberMetadataValue(subscribed_topic_names=["t"]))


def write(tmp_path, pairs, **more):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    first = 0
    with path.open("wb") as out:
        rest = iter(pairs)
        while some := list(islice(rest, PER_BATCH)):
            out.write(zipped(some, first, **more))
            first += len(some)
    assert path.stat().st_size <= 1 << 20
    return folder


def history_of(folder, *command, kind="segments"):
    """(exit code, peak of memory in KiB) of a process that reads it. kind: of the source, or "store"."""
    where = f"{kind}:{folder.parent if kind == 'segments' else folder}"
    source = ["--store", str(folder)] if kind == "store" else ["--source", where]
    words = ["history", *(command or ["rebalances"]), *source]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    code, peak_kib = done.stdout.split()[-2:]
    return int(code), int(peak_kib)


#: As many as are accepted, about.
HEAVY = {
    "commits": lambda: commits(144_000),
    "groups": lambda: groups(26_000),
    "members of one record": lambda: members(1, 95_000),
    "members of many records": lambda: members(100, 950),
    "consumers": lambda: consumers(26_000),
    "all": lambda: (*commits(60_000), *members(20, 1_200), *groups(4_000), *consumers(4_000)),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", HEAVY)
def test_what_is_accepted_of_a_small_input_fits_into_memory(kind, tmp_path):
    code, peak_kib = history_of(write(tmp_path, HEAVY[kind]()))
    assert code == 0
    assert peak_kib < MOST_KIB


@pytest.mark.parametrize(
    "command", ["rebalances", *(pytest.param(name, marks=pytest.mark.long) for name in ("decode", "verify"))]
)
def test_gigabytes_in_a_small_file_are_refused_before_they_are_there(command, tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    batch = zipped([(b"\0\1", bytes(15 << 20))])
    _, *header = HEADER.unpack_from(batch)  # the checksum does not cover the offset
    data = b"".join(HEADER.pack(number, *header) + batch[HEADER.size :] for number in range(60))
    (folder / "00000000000000000000.log").write_bytes(data)
    code, peak_kib = history_of(folder, command)
    assert code == 6
    assert peak_kib < MOST_KIB


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [lambda: commits(165_000), lambda: groups(40_000), lambda: consumers(40_000), lambda: members(1, 250_000)],
    ids=["commits", "groups", "consumers", "members"],
)
def test_more_than_that_is_refused(kind, tmp_path):
    with pytest.raises(RefusedError, match="holds more than one process can read"):
        raw_table(folders(write(tmp_path, kind())), Reading())


@pytest.mark.long
def test_records_with_headers_are_bounded_too(tmp_path):
    """They are read one by one."""
    folder = write(tmp_path, ((b"\0\1", b"") for _ in range(144_000)), headers=((b"", b""),))
    code, peak_kib = history_of(folder)
    assert code == 0
    assert peak_kib < MOST_KIB


@pytest.mark.long
def test_a_compressed_batch_has_no_more_records_than_one_that_is_not():
    batch = parse_batch(zipped([(b"", b"")] * (MAX_PACKED_RECORDS + 1)))
    with pytest.raises(DecodeError, match=f"{MAX_PACKED_RECORDS + 1} records, more than {MAX_PACKED_RECORDS}"):
        _ = batch.records


KEY, _ = next(iter(commits(1)))


def same(value, count):
    """So many values that are one in a file."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([value]))


def write_parquet(folder, keys, values, **options):
    """Records of one partition, as a dump has them."""
    count = len(keys)
    columns = {"partition": pa.array([0] * count, pa.int32()), "offset": pa.array(range(count), pa.int64()),
               "timestamp": pa.array([1] * count, pa.int64()), "key": keys, "value": values}  # fmt: skip
    pq.write_table(pa.table(columns), folder / "a.parquet", compression="zstd", **options)
    assert (folder / "a.parquet").stat().st_size <= 1 << 20
    return folder


def pairs_in_parquet(folder, pairs):
    keys, values = zip(*pairs, strict=True)
    return write_parquet(folder, pa.array(keys), pa.array(values))


@pytest.mark.long
@pytest.mark.parametrize("kind", HEAVY)
def test_what_is_accepted_of_a_small_parquet_file_fits_into_memory(kind, tmp_path):
    code, peak_kib = history_of(pairs_in_parquet(tmp_path, HEAVY[kind]()), kind="parquet")
    assert code == 0
    assert peak_kib < MOST_KIB


#: Of each way in which Parquet writes what repeats once.
REPEATED = {
    "dictionary": lambda folder: write_parquet(folder, same(KEY, 100_000), same(bytes(900_000), 100_000)),
    "runs": lambda folder: write_parquet(folder, same(KEY, 500_000), same(b"x", 500_000)),
    "compressed": lambda folder: write_parquet(folder, pa.array([KEY]), pa.array([bytes(80 << 20)]), use_dictionary=False),
    "shared beginnings": lambda folder: write_parquet(
        folder, pa.array([KEY] * 5_000), pa.array([bytes(200_000) + b"%d" % at for at in range(5_000)]), use_dictionary=False,
        column_encoding={"key": "PLAIN", "value": "DELTA_BYTE_ARRAY"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", ["rebalances", pytest.param("verify", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[] if way == "dictionary" else pytest.mark.long) for way in REPEATED]
)
def test_gigabytes_in_a_small_parquet_file_are_refused_before_they_are_there(way, command, tmp_path):
    code, peak_kib = history_of(REPEATED[way](tmp_path), command, kind="parquet")
    assert code == 6
    assert peak_kib < MOST_KIB


@pytest.mark.parametrize("way", ["dictionary", "runs"])
def test_a_delta_table_is_read_as_its_files_are(way, tmp_path):
    REPEATED[way](tmp_path)
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{0:020}.json").write_text('{"add": {"path": "a.parquet"}}\n')
    with pytest.raises(RefusedError, match="holds more than one process can read"):
        derive_source("delta", tmp_path, most_bytes=1 << 30)
