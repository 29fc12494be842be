"""Real transactional producers: what they send to a transaction counts once, or not at all."""

import os
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kgm.coordinator.settings import BrokerSettings
from kgm.server import serve_in_thread
from tests.kafka.jars import classpath
from tests.kafka.java_tools import compiled, java_command
from tests.server.served import until

pytestmark = pytest.mark.slow

TOPICS = {"in": 3, "out": 3}
QUIET = {"log_level": 0}
PATIENCE_S = 60


@pytest.fixture
def brokers():
    warnings = []
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with serve_in_thread(topics=TOPICS, settings=settings, brokers=2, warn=warnings.append) as server:
        yield server
    assert warnings == []


def fill(bootstrap, count):
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    for n in range(count):
        producer.produce("in", f"value-{n}", partition=n % 3)
    assert producer.flush(PATIENCE_S) == 0


def values(bootstrap, *, level="read_committed", group="reader", enough):
    """Everything in topic "out", read until there is enough and a little longer."""
    options = {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": level, "enable.auto.commit": False}
    consumer = Consumer({**options, "auto.offset.reset": "earliest", **QUIET})
    try:
        consumer.assign([TopicPartition("out", n, 0) for n in range(3)])
        found = []

        def read():
            found.extend(m.value().decode() for m in consumer.consume(500, timeout=0.5) if m.error() is None)
            return len(found) >= enough

        until(read, f"only {len(found)} of {enough} records")
        read()
        return found
    finally:
        consumer.close()


def mover(bootstrap):
    """A consumer and a producer that moves what it reads."""
    reading = {
        "bootstrap.servers": bootstrap,
        "group.id": "mover",
        "group.instance.id": "m",
        "enable.auto.commit": False,
    }
    reading |= {"auto.offset.reset": "earliest", "isolation.level": "read_committed", **QUIET}
    consumer = Consumer(reading)
    consumer.subscribe(["in"])
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "mover-tx", **QUIET})
    producer.init_transactions(PATIENCE_S)
    return consumer, producer


def move(bootstrap, count, between=lambda _turn: None):
    """Move `count` records in transactions, of which every third is aborted and repeated."""
    consumer, producer = mover(bootstrap)
    moved = turn = 0
    try:
        while moved < count:
            found = [message for message in consumer.consume(7, timeout=0.2) if message.error() is None]
            if not found:
                continue
            turn += 1
            between(turn)
            producer.begin_transaction()
            for message in found:
                producer.produce("out", message.value())
            offsets = {}
            for message in found:
                offsets[message.partition()] = message.offset() + 1
            rows = [TopicPartition("in", partition, offset) for partition, offset in offsets.items()]
            producer.send_offsets_to_transaction(rows, consumer.consumer_group_metadata(), PATIENCE_S)
            if turn % 3 == 0:
                producer.abort_transaction(PATIENCE_S)
                for message in reversed(found):
                    consumer.seek(TopicPartition("in", message.partition(), message.offset()))
            else:
                producer.commit_transaction(PATIENCE_S)
                moved += len(found)
    finally:
        consumer.close()
    return turn


def expect_moved_once(bootstrap, count):
    assert sorted(values(bootstrap, enough=count)) == sorted(f"value-{n}" for n in range(count))


def committed(server):
    return server.inspect(lambda view: sum(row.offset for row in view.of("mover").values()))


def test_librdkafka_moves_records_exactly_once(brokers):
    fill(brokers.bootstraps, 60)
    turns = move(brokers.bootstraps, 60)
    assert turns > 3
    expect_moved_once(brokers.bootstraps, 60)
    assert len(values(brokers.bootstraps, level="read_uncommitted", enough=61)) > 60
    assert committed(brokers) == 60


def test_librdkafka_moves_records_while_the_coordinator_moves(brokers):
    fill(brokers.bootstraps, 60)
    partition = brokers.partition_of("mover")
    move(brokers.bootstraps, 60, between=lambda turn: brokers.move_coordinator(partition, turn % 2 + 1))
    expect_moved_once(brokers.bootstraps, 60)
    until(lambda: committed(brokers) == 60, "the offsets are not there")


@pytest.mark.kafka
def test_java_moves_records_exactly_once(brokers):
    fill(brokers.bootstraps, 60)
    path = compiled([Path(__file__).parent / "java" / "SendOffsets.java"], classpath("kafka"))
    command = java_command(
        "SendOffsets", brokers.bootstraps, "60", class_path=os.pathsep.join([str(path), classpath("kafka")])
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.startswith("moved "), done.stdout + done.stderr
    expect_moved_once(brokers.bootstraps, 60)
    assert committed(brokers) == 60
