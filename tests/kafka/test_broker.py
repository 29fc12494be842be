"""Clusters start, survive what tests do to them, and leave no process and no folder behind."""

import os
import re
import signal
import struct
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.kafka.broker import KafkaCluster, OldKafka, _ask, free_ports
from tests.waiting import is_running, until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

API_VERSIONS, LEAVE_GROUP = 18, 13


def api_versions(bootstrap):
    """{API key: (oldest, newest)} by ApiVersions v0."""
    answer = _ask(int(bootstrap.rpartition(":")[2]), API_VERSIONS, 0, b"")
    error, count = struct.unpack_from(">hi", answer)
    assert error == 0
    rows = [struct.unpack_from(">hhh", answer, 6 + 6 * i) for i in range(count)]
    return {key: (oldest, newest) for key, oldest, newest in rows}


def read_all(bootstrap, topic, count, *, partition=0):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 2})
    consumer.assign([TopicPartition(topic, partition, 0)])
    messages = consumer.consume(count, timeout=20)
    consumer.close()
    return [message.value() for message in messages]


def test_a_broker_keeps_records(kafka):
    kafka.create_topics({"keeps-records": 2})
    kafka.produce("keeps-records", [b"a", b"b"], partition=1)
    assert read_all(kafka.bootstrap, "keeps-records", 2, partition=1) == [b"a", b"b"]


def test_a_topic_that_exists_is_an_error(kafka):
    kafka.create_topics({"exists": 1})
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        kafka.create_topics({"exists": 1})


def test_versions_are_those_of_the_release(kafka):
    assert api_versions(kafka.bootstrap)[LEAVE_GROUP] == (0, 5)


@pytest.mark.long
def test_data_and_ports_survive_a_restart():
    with KafkaCluster(properties={"num.partitions": "2"}) as cluster:
        cluster.create_topics({"t": 1})
        cluster.produce("t", [b"kept"])
        bootstrap, first = cluster.bootstrap, cluster.pid(1)
        cluster.shut_down(1)
        cluster.restart(1)
        assert cluster.pid(1) != first
        assert cluster.bootstrap == bootstrap
        assert read_all(bootstrap, "t", 1) == [b"kept"]
        folder, last = cluster.folder, cluster.pid(1)
    assert not folder.exists()
    assert not is_running(last)


@pytest.mark.long
def test_a_second_listener_with_scram_users():
    with KafkaCluster(
        listeners={"SASL": "SASL_PLAINTEXT"},
        scram_users={"alice": "secret"},
    ) as cluster:
        config = {"bootstrap.servers": cluster.bootstrap_of("SASL"), "log_level": 0}
        config |= {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice"}
        assert len(AdminClient(config | {"sasl.password": "secret"}).list_topics(timeout=10).brokers) == 1
        with pytest.raises(KafkaException):
            AdminClient(config | {"sasl.password": "wrong"}).list_topics(timeout=2)


@pytest.mark.long  # tests/client/test_failover.py kills one of three
def test_one_of_three_brokers_may_be_killed():
    with KafkaCluster(3, heap_mb=256) as cluster:
        cluster.create_topics({"t": 3}, replication_factor=3)
        cluster.kill(1)
        left = ",".join(cluster.address(broker_id) for broker_id in (2, 3))
        client = admin(left)
        until(
            lambda: {p.leader for p in client.list_topics("t", timeout=10).topics["t"].partitions.values()},
            "the other brokers do not lead all partitions",
            20,
            accept=lambda leaders: leaders == {2, 3},
            every_s=0.1,
        )
        cluster.restart(1)
        cluster.produce("t", [b"x"] * 3)


def admin(bootstrap):
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


@pytest.mark.long
def test_a_start_that_fails_shows_the_log():
    with pytest.raises(RuntimeError, match=re.escape("process.roles")):
        KafkaCluster(properties={"process.roles": "cook"}).start()
    with pytest.raises(RuntimeError, match="broker ended"):
        OldKafka(properties={"log.retention.hours": "many"}).start()


@pytest.mark.long
def test_a_killed_test_run_takes_its_broker_with_it(tmp_path):
    code = (
        "import os, signal; from tests.kafka.broker import KafkaCluster; cluster = KafkaCluster().start();"
        "print(cluster.pid(1), flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    until(lambda: not is_running(int(done.stdout)), "the broker still runs", 20)


def test_free_ports_are_free_and_different():
    ports = free_ports(20)
    assert len(set(ports)) == 20
