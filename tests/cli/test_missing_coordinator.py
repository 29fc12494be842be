"""A coordinator that is not available until the time has run out: the partition of `__consumer_offsets` that it belongs
to is named, with its leader, since no time limit helps where that is what is wrong."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import ErrorCode
from kgm.protocol.apis import ApiKey
from kgm.server import serve_in_thread
from tests.cli.runner import kgm
from tests.client.faults import Edit, FaultProxy

pytestmark = pytest.mark.slow

GROUP = "orders-billing"


@pytest.fixture(scope="module")
def server():
    with serve_in_thread(topics={"t": 1}, settings=BrokerSettings(offsets_topic_num_partitions=7)) as running:
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": GROUP})
        consumer.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
        consumer.close()
        yield running


@pytest.fixture
def proxy(server):
    host, _, port = server.bootstrap.rpartition(":")
    with FaultProxy((host, int(port))) as running:
        yield running


def unavailable(code):
    """What FindCoordinator answers of every group."""

    def change(answer):
        for row in answer.coordinators:
            row.error_code, row.node_id = code, -1

    return Edit(change)


def partition(change):
    """Metadata with a change of the group's partition."""

    def edit(answer):
        for topic in answer.topics:
            if topic.name == "__consumer_offsets":
                change(topic)

    return Edit(edit)


def leaderless(topic):
    for row in topic.partitions:
        row.leader_id, row.replica_nodes = -1, [4, 5]


def absent(topic):
    topic.error_code, topic.partitions = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []


def denied(topic):
    topic.error_code, topic.partitions = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []


def described(proxy):
    run = kgm("describe", GROUP, "-b", proxy.bootstrap, "--timeout", "4s")
    assert run.code == 5
    return run.err


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
)
def test_the_partition_and_its_leader_are_named(server, proxy, code):
    proxy.always(ApiKey.FIND_COORDINATOR, unavailable(code))
    err = described(proxy)
    assert f"error: the coordinator of group '{GROUP}' is not available: {code.name} for 4000 ms" in err
    number = server.partition_of(GROUP)
    assert f"partition {number}, led by broker 1 (" in err
    assert "longer --timeout" not in err
    assert "kafka-topics.sh --describe --topic __consumer_offsets" in err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (leaderless, "has no leader; its replicas are on 4, 5"),
        (absent, "and the topic does not exist"),
        (denied, "on which this login has no DESCRIBE"),
    ],
)
def test_what_is_wrong_with_it_is_said(proxy, change, why):
    proxy.always(ApiKey.FIND_COORDINATOR, unavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    proxy.always(ApiKey.METADATA, partition(change))
    assert why in described(proxy)


def test_doctor_has_it_as_a_finding(proxy):
    proxy.always(ApiKey.FIND_COORDINATOR, unavailable(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    run = kgm("doctor", GROUP, "--window", "0s", "-b", proxy.bootstrap, "--timeout", "4s")
    assert run.code == 8
    assert "coordinator-unavailable" in run.out
    assert "led by broker 1 (" in run.out
