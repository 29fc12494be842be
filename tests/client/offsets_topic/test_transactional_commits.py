"""Offsets in transactions, of real producers: they are committed when the transaction is, and a sign of life before."""

from __future__ import annotations

import time
import uuid
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kgm.client.lag_times import latest_commits
from kgm.client.offsets_topic import member_activity
from kgm.client.offsets_topic.fleet_log import FleetLog
from kgm.client.offsets_topic.member_activity import GroupActivity
from tests.kafka.records import commit
from tests.waiting import until

TOPIC = "transactional-commits"
PATIENCE_S = 30


@pytest.fixture
def group(broker):
    """A group that has committed, and a transactional producer that commits for it."""
    name = f"tx-{uuid.uuid4().hex[:8]}"
    commit(broker.bootstrap, name, (TOPIC, 0, 1))
    settings = {"bootstrap.servers": broker.bootstrap}
    producer = Producer({**settings, "transactional.id": name})
    producer.init_transactions(PATIENCE_S)
    consumer = Consumer({**settings, "group.id": name})

    def send(offset, partition=0):
        """Begin a transaction with an offset of the group."""
        producer.begin_transaction()
        rows = [TopicPartition(TOPIC, partition, offset)]
        producer.send_offsets_to_transaction(rows, consumer.consumer_group_metadata(), PATIENCE_S)

    yield SimpleNamespace(name=name, send=send, producer=producer)
    consumer.close()


def commits(cluster, group):
    """When each partition was last committed, as the group's own log and the log of all groups have it."""
    activity, fleet = GroupActivity(cluster, group.name), FleetLog(cluster)
    found = latest_commits(activity.read_back(lambda _: False, cluster.deadline))
    assert activity.unreadable_because is None
    fleet.read(cluster.deadline)
    return found, fleet.of(group.name).committed_ms


@pytest.mark.parametrize("window", [1, member_activity._FIRST_WINDOW])
def test_an_offset_is_committed_when_its_transaction_is(cluster, group, window, monkeypatch):
    """window: with 1, an offset and its marker are read in different steps."""
    monkeypatch.setattr(member_activity, "_FIRST_WINDOW", window)
    before = commits(cluster, group)
    assert before == ({(TOPIC, 0): before[1]}, before[1])
    time.sleep(0.01)  # records of the next millisecond
    group.send(5)
    assert commits(cluster, group) == before
    group.producer.abort_transaction(PATIENCE_S)
    assert commits(cluster, group) == before
    group.send(6, partition=1)
    sent_ms = time.time() * 1000
    time.sleep(0.01)
    group.producer.commit_transaction(PATIENCE_S)
    # Kafka writes markers after it has answered the producer.
    after, last_ms = until(
        lambda: commits(cluster, group),
        "the offset is not committed",
        accept=lambda one: len(one[0]) == 2 and one[1] != before[1],
    )
    assert after == {**before[0], (TOPIC, 1): last_ms}
    assert last_ms >= sent_ms - 1


def test_a_log_that_is_read_on_has_the_end_of_what_it_saw_begin(cluster, group):
    log = FleetLog(cluster)
    group.send(5)
    log.read(cluster.deadline)
    before_ms = log.of(group.name).committed_ms
    time.sleep(0.01)
    sent_ms = time.time() * 1000
    group.producer.commit_transaction(PATIENCE_S)

    def committed_ms():
        log.read(cluster.deadline)
        return log.of(group.name).committed_ms

    assert until(committed_ms, "it is not committed", accept=lambda ms: ms != before_ms) >= sent_ms - 1


def test_what_is_not_committed_is_a_sign_of_life(cluster, group):
    activity = GroupActivity(cluster, group.name)
    activity.begin(cluster.deadline)
    group.send(5)
    (record,) = activity.read_on(cluster.deadline)
    assert (record.topic, record.partition, record.is_open, record.committed_ms) == (TOPIC, 0, True, None)
    group.producer.abort_transaction(PATIENCE_S)


def test_the_oldest_open_transaction_is_read_too(broker, cluster, group, monkeypatch):
    monkeypatch.setattr(member_activity, "_FIRST_WINDOW", 1)
    group.send(5)
    commit(broker.bootstrap, group.name, (TOPIC, 1, 2))

    def read(*, with_open):
        activity = GroupActivity(cluster, group.name, with_open=with_open)
        return activity.read_back(bool, cluster.deadline), activity.has_read_open

    assert [one.is_open for one in read(with_open=False)[0]] == [False]
    records, is_whole = read(with_open=True)
    assert ([one.is_open for one in records[-2:]], is_whole) == ([True, False], True)
    group.producer.abort_transaction(PATIENCE_S)
    records, is_whole = until(
        lambda: read(with_open=True),
        "the transaction has not ended",
        accept=lambda one: not any(record.is_open for record in one[0]),
    )
    assert is_whole
