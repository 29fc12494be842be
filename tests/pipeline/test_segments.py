"""Copies of a broker's folders for Spark: what is read, and where reading a growing copy goes on."""

import shutil

import pyarrow as pa
import pytest

from kgm.history.folders import Reading, folders, raw_table
from kgm.history.schema import RAW
from kgm.model.errors import UsageError
from kgm.pipeline.segments import Ends, FolderPart, SegmentFolders, slice_records
from kgm.pipeline.taking.slices import slices
from kgm.records.log import OffsetsLog

TOPIC = "__consumer_offsets"


def growing(folder, partition, counts):
    """A log of a partition; a batch of records for each count, each yield one more."""
    with OffsetsLog.open(folder / f"{TOPIC}-{partition}", segment_bytes=2000) as log:
        for count in counts:
            log.append_raw([(b"\x00\x01k%d" % number, b"v" * 40) for number in range(count)], now_ms=7)
            log.flush()
            yield log


def ends_of(partitions):
    return {number: end for number, (_, end) in partitions.bounds().items()}


def between(partitions, start, end):
    """What workers read of the slices from start to end."""
    works = slices(partitions, {number: (start.get(number, 0), last) for number, last in end.items()})
    return pa.Table.from_batches([batch for each in works for batch in slice_records(each)], schema=RAW)


def places(table):
    return list(zip(table.column("partition").to_pylist(), table.column("offset").to_pylist(), strict=True))


def test_every_partition_in_order(plain_log):
    reader = SegmentFolders(plain_log)
    parts = reader.between({}, ends_of(reader))
    assert sorted(part.number for part in parts) == [0, 1, 2, 3]
    sizes = [part.folder.size for part in parts]
    assert sizes == sorted(sizes, reverse=True)
    found = pa.Table.from_batches([batch for part in parts for batch in part.records()])
    expected = raw_table(folders(plain_log), Reading())
    assert found.sort_by([("partition", "ascending"), ("offset", "ascending")]) == expected


def test_a_growing_log_goes_on_where_it_was(tmp_path):
    reader = SegmentFolders(tmp_path)
    logs = [growing(tmp_path, 0, (3, 4, 60, 1)), growing(tmp_path, 12, (1, 60, 2, 60))]
    at, seen = {}, []
    for _ in range(4):
        for log in logs:
            next(log)
        latest = ends_of(reader)
        seen += places(between(reader, at, latest))
        at = latest
    assert at == {0: 68, 12: 123}
    assert len(folders(tmp_path)[1].segments) > 2
    assert sorted(seen) == [(0, number) for number in range(68)] + [(12, number) for number in range(123)]
    assert between(reader, at, at).num_rows == 0
    # Any of it again, as after a crash.
    assert places(between(SegmentFolders(tmp_path), {0: 66, 12: 120}, at)) == [
        (12, 120),
        (12, 121),
        (12, 122),
        (0, 66),
        (0, 67),
    ]


def test_half_a_batch_is_not_there_yet(tmp_path):
    list(growing(tmp_path, 3, (5, 5)))
    path = tmp_path / f"{TOPIC}-3" / f"{0:020}.log"
    whole = path.read_bytes()
    reader = SegmentFolders(tmp_path)
    path.write_bytes(whole[:-7])
    first = ends_of(reader)
    assert first == {3: 5}
    assert places(between(reader, {}, first)) == [(3, number) for number in range(5)]
    with path.open("ab") as file:
        file.write(whole[-7:])
    second = ends_of(reader)
    assert places(between(reader, first, second)) == [(3, number) for number in range(5, 10)]


def test_offsets_hold_when_a_segment_is_compacted_and_rewritten(tmp_path):
    list(growing(tmp_path, 0, (40, 40, 40)))
    reader = SegmentFolders(tmp_path)
    first = ends_of(reader)
    with OffsetsLog.open(tmp_path / f"{TOPIC}-0", segment_bytes=2000) as log:
        log.roll()
        log.compact(now_ms=9)
        log.append_raw([(b"\x00\x01new", b"v")], now_ms=9)
        log.flush()
    second = ends_of(reader)
    assert second == {0: 121}
    assert places(between(reader, first, second)) == [(0, 120)]


def test_damage_in_the_middle_is_said(tmp_path):
    list(growing(tmp_path, 0, (5, 5)))
    path = tmp_path / f"{TOPIC}-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 0xFF
    path.write_bytes(data)
    (folder,) = folders(tmp_path)
    with pytest.raises(UsageError, match="is damaged at byte 0"):
        list(FolderPart(folder, 0, 100).records())


def test_damage_before_which_nothing_is_new_is_said(tmp_path):
    """Nothing would be read then, so a capture of what is no log would end well."""
    for each in ("page", "flipped"):
        folder = tmp_path / each
        list(growing(folder, 0, (5,)))
        path = folder / f"{TOPIC}-0" / f"{0:020}.log"
        whole = path.read_bytes()
        path.write_bytes(b"<html></html>" * 30 if each == "page" else b"\xff" * 8 + whole[8:])
        with pytest.raises(UsageError, match="is damaged at byte 0"):
            SegmentFolders(folder).bounds()


def test_ends_are_walked_once(tmp_path):
    ends = Ends()
    for log in growing(tmp_path, 0, (5, 6, 7)):
        assert ends.of(folders(tmp_path)[0]) == log.next_offset


def test_gzipped_copies_end_as_well(plain_log, tmp_path):
    import gzip

    folder = next(each for each in folders(plain_log) if each.partition == 1)
    copy = tmp_path / folder.path.name
    copy.mkdir()
    for path in folder.segments:
        with path.open("rb") as file, gzip.open(copy / f"{path.name}.gz", "wb") as out:
            shutil.copyfileobj(file, out)
    assert ends_of(SegmentFolders(tmp_path)) == {1: Ends().of(folder)}
