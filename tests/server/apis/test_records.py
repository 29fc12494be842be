"""Produce, Fetch and ListOffsets without sockets."""

import pytest

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kgm.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kgm.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kgm.server.cluster.topics import topic_id
from kgm.server.contract.exchange import CloseConnection, NoResponse
from kgm.server.contract.limits import Limits
from tests.server.broker_driver import Driver
from tests.server.wire_client import batch

UNKNOWN_ID = b"\x11" * 16


def produce(*records, topic="t", partition=0, acks=-1, **more):
    parts = [PartitionProduceData(index=partition, records=b"".join(records))]
    data = TopicProduceData(name=topic, topic_id=topic_id(topic), partition_data=parts)
    return ProduceRequest(transactional_id=more.get("transactional_id"), acks=acks, topic_data=[data])


def produced(driver, request, version=13):
    row = driver.ask(request, version=version).responses[0].partition_responses[0]
    return ErrorCode(row.error_code).name if row.error_code else row.base_offset


def fetch(offset=0, *, topic="t", partitions=(0,), wait_ms=0, min_bytes=1, max_bytes=2**31 - 1, each=2**20, **more):
    parts = [
        FetchPartition(
            partition=p,
            fetch_offset=offset,
            partition_max_bytes=each,
            current_leader_epoch=more.get("leader_epoch", -1),
        )
        for p in partitions
    ]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=more.get("session_id", 0),
        session_epoch=more.get("session_epoch", -1),
        topics=[FetchTopic(topic=topic, topic_id=topic_id(topic), partitions=parts)],
    )


def rows(response):
    return [part for topic in response.responses for part in topic.partitions]


# -- Produce


@pytest.mark.parametrize("version", range(3, 14))
def test_what_was_produced_can_be_fetched(version):
    driver = Driver()
    assert produced(driver, produce(batch(2), batch(1)), version) == 0
    assert produced(driver, produce(batch(1)), version) == 3
    row = rows(driver.ask(fetch(0)))[0]
    assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (4, 4, 0)
    assert len(row.records) == len(batch(2) + batch(1) + batch(1))


@pytest.mark.parametrize(
    ("request_", "version", "error"),
    [
        (produce(batch(), topic="nope"), 12, "UNKNOWN_TOPIC_OR_PARTITION"),
        (produce(batch(), topic="nope"), 13, "UNKNOWN_TOPIC_ID"),
        (produce(batch(), partition=3), 13, "UNKNOWN_TOPIC_OR_PARTITION"),
        (produce(batch(), partition=-1), 13, "UNKNOWN_TOPIC_OR_PARTITION"),
        (produce(batch(), acks=2), 13, "INVALID_REQUIRED_ACKS"),
        (produce(batch(), transactional_id="x"), 13, "INVALID_PRODUCER_ID_MAPPING"),
        (produce(b"garbage"), 13, "CORRUPT_MESSAGE"),
        (produce(batch(magic=0)), 13, "UNSUPPORTED_FOR_MESSAGE_FORMAT"),
    ],
)
def test_what_cannot_be_produced(request_, version, error):
    driver = Driver()
    assert produced(driver, request_, version) == error
    assert rows(driver.ask(fetch(0)))[0].high_watermark == 0


def test_acks_0_gets_no_answer_and_an_error_ends_the_connection():
    driver = Driver()
    done = driver.send(produce(batch(), acks=0))
    assert isinstance(driver.events[done], NoResponse)
    assert rows(driver.ask(fetch(0)))[0].high_watermark == 1
    failed = driver.events[driver.send(produce(b"garbage", acks=0))]
    assert isinstance(failed, CloseConnection)
    assert "CORRUPT_MESSAGE" in failed.reason


# -- Fetch


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_of_fetch(version):
    driver = Driver()
    produced(driver, produce(batch()))
    row = rows(driver.ask(fetch(0, partitions=(0, 1, 5)), version=version))
    assert [(r.partition_index, r.error_code, r.high_watermark, len(r.records or b"")) for r in row] == [
        (0, 0, 1, len(batch())),
        (1, 0, 0, 0),
        (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, 0),
    ]


@pytest.mark.parametrize(
    ("request_", "version", "error"),
    [
        (fetch(topic="nope"), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (fetch(topic="nope"), 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (fetch(2), 13, ErrorCode.OFFSET_OUT_OF_RANGE),
        (fetch(-1), 13, ErrorCode.OFFSET_OUT_OF_RANGE),
        (fetch(leader_epoch=1), 13, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_an_error_is_answered_at_once_however_long_the_client_would_wait(request_, version, error):
    driver = Driver()
    produced(driver, produce(batch()))
    request_.max_wait_ms = 10_000
    assert rows(driver.ask(request_, version=version))[0].error_code == error


def test_what_was_dropped_is_out_of_range():
    one = len(batch())
    driver = Driver(limits=Limits(topic_max_bytes=one))
    for _ in range(3):
        produced(driver, produce(batch()))
    row = rows(driver.ask(fetch(0)))[0]
    assert (row.error_code, row.log_start_offset, row.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, 2, 3)
    assert len(rows(driver.ask(fetch(2)))[0].records) == one


def test_size_limits_hold_except_for_the_first_batch():
    one = len(batch())
    driver = Driver(limits=Limits(fetch_max_bytes=3 * one))
    for partition in range(3):
        for _ in range(3):
            produced(driver, produce(batch(), partition=partition))

    def sizes(request):
        return [len(r.records) // one for r in rows(driver.ask(request))]

    everything = (0, 1, 2)
    assert sizes(fetch(partitions=everything)) == [3, 0, 0]
    assert sizes(fetch(partitions=everything, each=one)) == [1, 1, 1]
    assert sizes(fetch(partitions=everything, max_bytes=2 * one, each=one)) == [1, 1, 0]
    assert sizes(fetch(partitions=everything, max_bytes=1)) == [1, 0, 0]
    assert sizes(fetch(partitions=everything, each=1)) == [1, 0, 0]
    assert sizes(fetch(partitions=everything, max_bytes=-1, each=-1)) == [1, 0, 0]


def test_there_are_no_fetch_sessions():
    driver = Driver()
    opened = driver.ask(fetch(session_epoch=0))
    assert (opened.error_code, opened.session_id) == (0, 0)
    assert driver.ask(fetch(session_id=5, session_epoch=3)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


# -- waiting


def test_a_fetch_waits_until_there_is_something():
    driver = Driver()
    waiting = driver.send(fetch(partitions=(1, 2), wait_ms=500))
    other = driver.send(fetch(partitions=(0,), wait_ms=500))
    assert driver.events == {}
    driver.advance(499)
    produced(driver, produce(batch(), partition=2))
    assert [len(r.records) for r in rows(driver.answer(waiting))] == [0, len(batch())]
    assert other not in driver.events
    driver.advance(1)
    assert [r.records for r in rows(driver.answer(other))] == [b""]


def test_a_fetch_waits_for_as_much_as_it_asks_for():
    driver = Driver()
    produced(driver, produce(batch()))
    one = len(batch())
    waiting = driver.send(fetch(wait_ms=500, min_bytes=one + 1))
    assert driver.events.keys() == {1}
    produced(driver, produce(batch()))
    assert len(rows(driver.answer(waiting))[0].records) == 2 * one


def test_a_fetch_does_not_wait_for_more_than_it_can_get():
    one = len(batch())
    driver = Driver(limits=Limits(fetch_max_bytes=one))
    produced(driver, produce(batch()))
    waiting = driver.send(fetch(wait_ms=500, min_bytes=2**31 - 1))
    driver.advance(500)
    assert len(rows(driver.answer(waiting))[0].records) == one


def test_no_fetch_waits_longer_than_a_minute():
    driver = Driver()
    waiting = driver.send(fetch(wait_ms=2**31 - 1))
    driver.advance(59_999)
    assert driver.events == {}
    driver.advance(1)
    assert rows(driver.answer(waiting))[0].records == b""


def test_the_gone_leave_no_alarms_behind():
    driver = Driver()
    kept = driver.send(fetch(wait_ms=30_000))
    for _ in range(5_000):
        driver.cluster.disconnected(driver.send(fetch(wait_ms=60_000)))
    assert len(driver.cluster.records._deadlines) < 1_100
    driver.advance(30_000)
    assert driver.events.keys() == {kept}
    driver.advance(60_000)
    assert driver.events.keys() == {kept}


# -- ListOffsets


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [(-1, (-1, 5)), (-2, (-1, 0)), (-3, (900, 1)), (0, (100, 0)), (101, (900, 1)), (901, (-1, -1)), (-5, (-1, -1))],
)
def test_offsets_by_time(version, timestamp, expected):
    driver = Driver()
    produced(driver, produce(batch(1, timestamp=100), batch(2, timestamp=900), batch(2, timestamp=300)))
    parts = [ListOffsetsPartition(partition_index=p, timestamp=timestamp) for p in (0, 9)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=parts)])
    row, unknown = driver.ask(request, version=version).topics[0].partitions
    assert (row.error_code, (row.timestamp, row.offset)) == (0, expected)
    assert row.leader_epoch == (0 if version >= 4 and expected[1] >= 0 else -1)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
