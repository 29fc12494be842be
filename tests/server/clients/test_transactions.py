"""Real transactional producers: what they send to a transaction counts once, or not at all."""

import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.server import serve_in_thread
from tests.kafka.jars import classpath
from tests.kafka.java_tools import compiled, java_command, kafka_class_path
from tests.server.served import ServedProcess
from tests.waiting import until

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

        until(read, lambda: f"only {len(found)} of {enough} records")
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


def insist(action, *arguments):
    """Repeat what librdkafka says can be repeated."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return action(*arguments, 10)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def transact(consumer, producer, found, *, commit):
    """One transaction; True if it was committed."""
    producer.begin_transaction()
    try:
        for message in found:
            producer.produce("out", message.value())
        producer.flush(10)  # or an abort might throw away what was never sent
        offsets = {}
        for message in found:
            offsets[message.partition()] = message.offset() + 1
        rows = [TopicPartition("in", partition, offset) for partition, offset in offsets.items()]
        insist(producer.send_offsets_to_transaction, rows, consumer.consumer_group_metadata())
        if commit:
            insist(producer.commit_transaction)
            return True
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
    insist(producer.abort_transaction)
    for message in reversed(found):
        consumer.seek(TopicPartition("in", message.partition(), message.offset()))
    return False


def move(bootstrap, count, between=lambda _turn: None):
    """Move `count` records in transactions, of which every third is aborted and repeated."""
    consumer, producer = mover(bootstrap)
    moved = turn = 0
    try:
        while moved < count:
            found = [message for message in consumer.consume(7, timeout=0.2) if message.error() is None]
            if found:
                turn += 1
                between(turn)
                if transact(consumer, producer, found, commit=turn % 3 != 0):
                    moved += len(found)
    finally:
        consumer.close()
    return turn


def expect_moved_once(bootstrap, count):
    assert sorted(values(bootstrap, enough=count)) == sorted(f"value-{n}" for n in range(count))


def committed(server):
    return server.inspect(lambda view: sum(row.offset for row in view.offsets("mover").values()))


def test_librdkafka_moves_records_exactly_once(brokers):
    fill(brokers.bootstrap, 60)
    turns = move(brokers.bootstrap, 60)
    assert turns > 3
    expect_moved_once(brokers.bootstrap, 60)
    assert len(values(brokers.bootstrap, level="read_uncommitted", enough=61)) > 60
    assert committed(brokers) == 60


def test_librdkafka_moves_records_while_the_coordinator_moves(brokers):
    fill(brokers.bootstrap, 60)
    move(brokers.bootstrap, 60, between=lambda turn: brokers.move_coordinator("mover", turn % 2 + 1))
    expect_moved_once(brokers.bootstrap, 60)
    until(lambda: committed(brokers) == 60, "the offsets are not there")


def send_offsets(bootstrap, count):
    """The command line of a Java program that moves records."""
    classes = compiled([Path(__file__).parent / "java" / "SendOffsets.java"], classpath("kafka"))
    return java_command("SendOffsets", bootstrap, str(count), class_path=kafka_class_path(classes))


@pytest.mark.kafka
def test_java_moves_records_exactly_once(brokers):
    fill(brokers.bootstrap, 60)
    done = subprocess.run(send_offsets(brokers.bootstrap, 60), capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.endswith("moved 60\n"), done.stdout + done.stderr
    expect_moved_once(brokers.bootstrap, 60)
    assert committed(brokers) == 60


@pytest.mark.long
@pytest.mark.kafka
def test_java_moves_records_exactly_once_over_sigkill(tmp_path):
    """The server is killed again and again while a producer moves records."""
    topics = [option for name, count in TOPICS.items() for option in ("--topic", f"{name}:{count}")]
    arguments = [*topics, "--set", "group.initial.rebalance.delay.ms=0"]
    with ServedProcess(tmp_path / "data", *arguments) as served:
        fill(served.address, 240)
        with subprocess.Popen(send_offsets(served.address, 240), stdout=subprocess.PIPE, text=True) as moving:
            turns, line = 0, ""
            try:
                for line in moving.stdout:
                    turns += line.startswith("turn ")
                    if turns in (4, 9, 14) and line.startswith("turn "):
                        served.kill()
                        served.start()
            finally:
                moving.kill()
            assert (line, turns > 14) == ("moved 240\n", True)
        expect_moved_once(served.address, 240)
        assert served.end() == 0
        assert [said for said in served.said if "truncated" not in said] == []
