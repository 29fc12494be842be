"""How `__consumer_offsets` is searched backwards, and what is said where it cannot be read."""

from __future__ import annotations

import cramjam
import pytest

from kgm.client.failures import is_temporary
from kgm.client.topic_log import partition_log
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import DecodeError, ErrorCode, KgmError, NotFoundError, UnreachableError
from kgm.records.batch import (
    HEADER,
    Batch,
    Marker,
    ProducerInfo,
    RawRecord,
    encode_batch,
    marker_batch,
    new_batch,
    parse_batch,
)
from tests.records.test_batch import compressed


@pytest.mark.parametrize(
    ("error", "is_passing", "why"),
    [
        (partition_log.unauthorized(), False, "no READ on Topic '__consumer_offsets'"),
        (
            KgmError("x", kafka_error=ErrorCode.NOT_LEADER_OR_FOLLOWER), True,
            "__consumer_offsets cannot be read (NOT_LEADER_OR_FOLLOWER)",
        ),
        (UnreachableError("gone"), True, "__consumer_offsets cannot be read (gone)"),
        (
            KgmError("x", kafka_error=ErrorCode.UNKNOWN_SERVER_ERROR), False,
            "__consumer_offsets cannot be read (UNKNOWN_SERVER_ERROR)",
        ),
        (KgmError("odd bytes"), False, "__consumer_offsets cannot be read (odd bytes)"),
        (NotFoundError("the brokers report no topic"), False, "the brokers report no topic"),
    ],
)  # fmt: skip
def test_what_passes_and_what_stays(error, is_passing, why):
    assert is_temporary(error) is is_passing
    assert partition_log.why_unreadable(error) == why


@pytest.mark.parametrize(
    ("start", "end", "windows"),
    [
        (0, 0, []),
        (5, 8, [(5, 8)]),
        (0, 100, [(90, 100), (70, 90), (30, 70), (0, 30)]),
        (60, 100, [(90, 100), (70, 90), (60, 70)]),
    ],
)
def test_windows_go_back_from_the_end_and_leave_no_gap(start, end, windows):
    assert list(partition_log.windows_back(start, end, 10)) == windows


def test_a_fetch_that_holds_thousands_of_times_its_size_is_refused_before_it_is_unpacked(monkeypatch):
    """60 batches of 15 MiB each, in 40 kB."""
    body = new_batch([(b"k", bytes(15 << 20))], base_offset=0, timestamp_ms=0)[HEADER.size :]
    data = compressed(4, bytes(cramjam.zstd.compress(body)), 1).data * 60
    monkeypatch.setattr(partition_log, "fetch_log", lambda *_, **__: iter([(data, 60)]))
    unpacked = []
    whole = Batch.unpacked
    monkeypatch.setattr(Batch, "unpacked", property(lambda batch: unpacked.append(batch) or whole.fget(batch)))
    with pytest.raises(DecodeError, match="a fetch of partition 3 of __consumer_offsets holds"):
        list(partition_log.fetch_records(None, 3, 0, 60, Deadline.after(60_000)))
    assert len(unpacked) == 5


def batch(first, last, *offsets):
    """As the cleaner leaves it: with its first and last offset, and the records that are left."""
    rows = [RawRecord(offset, 0, b"k", b"v") for offset in offsets]
    data = encode_batch(rows, base_offset=first, last_offset=last, base_timestamp=0, max_timestamp=0)
    return parse_batch(data)


MARKER = parse_batch(
    marker_batch(ProducerInfo(7, 0), Marker(commit=True, coordinator_epoch=0), base_offset=5, timestamp_ms=0)
)


@pytest.mark.parametrize(
    ("batches", "first", "end", "gaps"),
    [
        ([batch(5, 7, 5, 6, 7), batch(8, 8, 8)], 5, 9, []),
        ([MARKER, batch(6, 6, 6)], 5, 7, []),
        ([batch(8, 9, 8, 9)], 5, 10, [8]),
        ([batch(5, 9, 6, 9)], 5, 10, [6, 9]),
        ([batch(5, 9, 5)], 5, 10, [10]),
        ([batch(5, 9)], 5, 10, [10]),
        ([batch(3, 9, 4, 6, 7, 8, 9)], 6, 10, []),  # what is missing before the first offset does not matter
        ([batch(5, 6, 5, 6), batch(9, 12, 12)], 5, 8, [8]),  # nor does what is missing behind the end
        ([batch(3, 3, 3), MARKER, batch(7, 7, 7)], 3, 8, [5, 7]),
    ],
)  # fmt: skip
def test_offsets_that_are_in_no_record_were_compacted_away(monkeypatch, batches, first, end, gaps):
    monkeypatch.setattr(partition_log, "fetch_batches", lambda *_: iter([[one] for one in batches]))
    fetched = partition_log.fetch_records(None, 3, first, end, Deadline.after(60_000))
    assert [offset for one in fetched for offset in one.gaps] == gaps
