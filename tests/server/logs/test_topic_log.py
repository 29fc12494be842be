import struct

import pytest

from kgm.model.errors import ErrorCode
from kgm.server.logs.topic_log import TopicLogs, parse_batches
from tests.server.wire_client import batch


def logs(topic_max_bytes=10_000, total_max_bytes=100_000):
    return TopicLogs(topic_max_bytes=topic_max_bytes, total_max_bytes=total_max_bytes)


def append(to, *batches, topic="t", partition=0):
    return to.append(topic, partition, parse_batches(b"".join(batches)))


def offsets(data):
    """Base offsets and leader epochs of the batches in `data`."""
    found = []
    while data:
        base, length, epoch = struct.unpack_from(">qii", data)
        found.append((base, epoch))
        data = data[12 + length :]
    return found


def test_batches_get_offsets_in_order_and_keep_their_bytes():
    store = logs()
    assert append(store, batch(3), batch(2)) == 0
    assert append(store, batch(1)) == 5
    log = store.get("t", 0)
    assert (log.start_offset, log.end_offset) == (0, 6)
    data = log.read(0, 10_000, at_least_one=True)
    assert offsets(data) == [(0, 0), (3, 0), (5, 0)]
    assert data[16 : len(batch(3))] == batch(3)[16:]


def test_a_read_begins_with_the_batch_that_holds_the_offset():
    store = logs()
    append(store, batch(3), batch(2), batch(1))
    log = store.get("t", 0)
    assert offsets(log.read(2, 10_000, at_least_one=True)) == [(0, 0), (3, 0), (5, 0)]
    assert offsets(log.read(3, 10_000, at_least_one=True)) == [(3, 0), (5, 0)]
    assert log.read(6, 10_000, at_least_one=True) == b""


def test_a_read_keeps_to_its_size_but_for_the_first_batch():
    store = logs()
    append(store, batch(1), batch(1), batch(1))
    log = store.get("t", 0)
    one = len(batch(1))
    assert len(log.read(0, 2 * one, at_least_one=True)) == 2 * one
    assert len(log.read(0, 2 * one - 1, at_least_one=True)) == one
    assert len(log.read(0, 1, at_least_one=True)) == one
    assert log.read(0, one - 1, at_least_one=False) == b""
    assert log.readable(0, 10_000) == 3 * one
    assert log.readable(2, 10_000) == one


def test_the_oldest_batches_make_room_within_a_topic():
    one = len(batch(1))
    store = logs(topic_max_bytes=3 * one)
    for partition in (0, 0, 1, 0):
        append(store, batch(1), partition=partition)
    assert (store.get("t", 0).start_offset, store.get("t", 0).end_offset) == (1, 3)
    assert (store.get("t", 1).start_offset, store.get("t", 1).end_offset) == (0, 1)
    assert store.total_bytes == 3 * one


def test_all_topics_together_are_bounded_and_no_other_topic_pays():
    one = len(batch(1))
    store = logs(total_max_bytes=2 * one)
    append(store, batch(1), topic="a")
    append(store, batch(1), topic="b")
    append(store, batch(1), topic="b")
    assert store.get("a", 0).start_offset == 0
    assert store.get("b", 0).start_offset == 1
    append(store, batch(9, size=one), topic="c")
    assert (store.get("c", 0).start_offset, store.get("c", 0).end_offset) == (9, 9)
    assert store.total_bytes == 2 * one


def test_times_are_found():
    store = logs()
    append(store, batch(2, timestamp=100), batch(2, timestamp=300))
    log = store.get("t", 0)
    assert [log.batch_at(at).base_offset for at in (0, 100, 101, 300)] == [0, 0, 2, 2]
    assert log.batch_at(301) is None
    assert log.latest_batch().base_offset == 2


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (b"short", ErrorCode.CORRUPT_MESSAGE),
        (batch()[:-1], ErrorCode.CORRUPT_MESSAGE),
        (batch() + b"x", ErrorCode.CORRUPT_MESSAGE),
        (batch(magic=1), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (batch(count=0), ErrorCode.CORRUPT_MESSAGE),
        (batch(attributes=0x10), ErrorCode.INVALID_RECORD),
        (batch(attributes=0x20), ErrorCode.INVALID_RECORD),
        (batch()[:8] + struct.pack(">i", -1) + batch()[12:], ErrorCode.CORRUPT_MESSAGE),
        (batch()[:8] + struct.pack(">i", 0x7FFFFFFF) + batch()[12:], ErrorCode.CORRUPT_MESSAGE),
        (batch()[:23] + struct.pack(">i", 7) + batch()[27:], ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_what_is_no_batch_is_refused(data, error):
    assert parse_batches(data) is error


def test_a_partition_that_was_never_written_is_empty():
    log = logs().get("t", 3)
    assert (log.start_offset, log.end_offset) == (0, 0)
    assert log.read(0, 100, at_least_one=True) == b""
    assert (log.batch_at(0), log.latest_batch()) == (None, None)
