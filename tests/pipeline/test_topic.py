"""Fetching the live topic while brokers fail: every record once, or an error that says what is wrong."""

from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from kgm.java.partitions import partition_for
from kgm.model.errors import AuthorizationError, DecodeError, ErrorCode, KgmError
from kgm.pipeline import Source
from kgm.pipeline.tasks import raised_by_worker
from kgm.pipeline.topic import LiveTopic, TopicPart
from kgm.protocol.apis import ApiKey
from tests.client.faults import Edit, FaultProxy, ResetAfter, ResetBefore

GROUPS, TOPIC, LAST = 4, "fetched-orders", 60
pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def parts(kafka):
    """Partitions with records, as they are now."""
    kafka.create_topics({TOPIC: 6})
    admin = kafka.admin()
    places = [TopicPartition(TOPIC, each, 7) for each in range(6)]
    for number in range(GROUPS):
        for _ in range(5):
            wanted = [ConsumerGroupTopicPartitions(f"fetched-{number}", places)]
            for future in admin.alter_consumer_group_offsets(wanted).values():
                future.result(30)
    topic = topic_at(kafka.bootstrap)
    bounds = topic.bounds()
    mine = {partition_for(f"fetched-{number}", len(bounds)) for number in range(GROUPS)}
    ends = {number: end for number, (_, end) in bounds.items() if number in mine}
    # The topic has the records of all tests of the run; the last ones is enough.
    return topic.between({number: max(bounds[number][0], end - LAST) for number, end in ends.items()}, ends)


@pytest.fixture
def proxy(kafka):
    host, port = kafka.bootstrap.rsplit(":", 1)
    with FaultProxy((host, int(port))) as running:
        yield running


@pytest.fixture(autouse=True)
def _small_fetches(monkeypatch):
    monkeypatch.setattr("kgm.pipeline.topic._FETCH_BYTES", 400)
    monkeypatch.setattr("kgm.pipeline.topic._PAUSE_S", 0.01)


def topic_at(bootstrap):
    return LiveTopic.of(Source.parse("kafka", {"bootstrap.servers": bootstrap}))


def rows(parts):
    batches = [batch for part in parts for batch in part.records()]
    return pa.Table.from_batches(batches).sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()


def refused(code):
    def change(answer):
        for topic in answer.responses:
            for one in topic.partitions:
                one.error_code, one.records = code, b""

    return Edit(change)


def leaderless(answer):
    for topic in answer.topics:
        for one in topic.partitions:
            one.leader_id = -1


def through(proxy, parts):
    """The same parts, fetched through a proxy."""
    return [replace(part, topic=topic_at(proxy.bootstrap)) for part in parts]


MOVED = refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("api", "faults"),
    [
        (ApiKey.FETCH, [MOVED]),
        (ApiKey.FETCH, [ResetAfter(), MOVED, ResetBefore()]),
        (ApiKey.FETCH, [MOVED] * 5),
        (ApiKey.LIST_OFFSETS, [ResetBefore(), ResetAfter()]),
        (ApiKey.METADATA, [Edit(leaderless)] * 2),
    ],
    ids=["moved", "lost", "moved often", "offsets", "no leader"],
)
def test_every_record_once_whatever_fails(parts, proxy, api, faults):
    whole = rows(parts)
    assert len(whole) == len({(row["partition"], row["offset"]) for row in whole}) >= GROUPS * 6
    proxy.script(api, *faults)
    assert rows(through(proxy, parts)) == whole
    assert len(proxy.requests(ApiKey.FETCH)) > len(parts), "one fetch was enough for each partition"


def test_a_part_has_the_records_between_its_offsets(parts):
    whole = rows(parts[:1])
    first, end = parts[0].start + 2, parts[0].end - 1
    inside = rows([replace(parts[0], start=first, end=end)])
    assert inside == [row for row in whole if first <= row["offset"] < end]
    assert 0 < len(inside) < len(whole)


def test_what_stays_wrong_is_said(parts, proxy):
    parts = through(proxy, parts)
    proxy.always(ApiKey.FETCH, MOVED)
    with pytest.raises(KgmError, match="NOT_LEADER_OR_FOLLOWER"):
        rows(parts[:1])
    assert len(proxy.requests(ApiKey.FETCH)) == 6
    proxy.always(ApiKey.FETCH, refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KgmError, match="TOPIC_AUTHORIZATION_FAILED"):
        rows(parts[:1])
    assert len(proxy.requests(ApiKey.FETCH)) == 7


def test_bytes_that_are_damaged_on_the_way_are_not_taken_for_records(parts, proxy):
    parts = through(proxy, parts)

    def damage(answer):
        for topic in answer.responses:
            for one in topic.partitions:
                one.records = one.records[:-1] + bytes([one.records[-1] ^ 0xFF])

    proxy.always(ApiKey.FETCH, Edit(damage))
    with pytest.raises(DecodeError, match="checksum"):
        rows(parts[:1])


def test_the_settings_are_in_no_text():
    source = Source.parse("kafka", {"bootstrap.servers": "b:1", "sasl.jaas.config": "password=s3cret"})
    topic = LiveTopic.of(source)
    assert "s3cret" not in repr(topic) + repr(TopicPart(topic, 0, 0, 1))


def test_errors_of_workers_keep_their_kind():
    text = (
        'Job aborted\n  File "x.py", line 3\nkgm.model.errors.AuthorizationError: __consumer_offsets cannot be read\n\n'
    )
    error = raised_by_worker(RuntimeError(text))
    assert isinstance(error, AuthorizationError)
    assert str(error) == "__consumer_offsets cannot be read"
    assert raised_by_worker(RuntimeError("kgm.model.errors.Nothing: x")) is None
    assert raised_by_worker(RuntimeError("Job aborted")) is None
