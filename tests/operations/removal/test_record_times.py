"""Records that look old, on a real broker: whoever stamps them, their producer (CreateTime) or the broker (LogAppendTime),
only what kgm sees arrive is evidence of silence."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import NewTopic

from tests.cli.runner import kgm
from tests.waiting import until

pytestmark = pytest.mark.kafka


def polled(consumer):
    """The next record. A broker may not know a topic yet that was just created: what librdkafka returns then is an
    error."""
    record = consumer.poll(0.2)
    return None if record is None or record.error() is not None else record


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_an_old_record_proves_nothing_of_a_member_that_works_on_it(kafka, kind):
    """A mirror writes it to a consumer that commits often and was idle: kgm neither believes the producer's time nor its
    own first look at the record."""
    topic = group = f"record-times-{kind}"
    new = NewTopic(topic, 1, 1, config={"message.timestamp.type": kind})
    admin = kafka.admin()
    admin.create_topics([new], operation_timeout=30)[topic].result(30)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    consumer = Consumer({
        "bootstrap.servers": kafka.bootstrap, "group.id": group, "group.instance.id": "a", "enable.auto.commit": False,
        "auto.offset.reset": "earliest", "session.timeout.ms": 45_000,
    })  # fmt: skip
    consumer.subscribe([topic])

    def produce(age_ms=0):
        producer.produce(topic, b"x", timestamp=round(time.time() * 1000) - age_ms)
        assert producer.flush(30) == 0

    try:
        for _ in range(6):
            produce()
            record = until(lambda: polled(consumer), "no record comes")
            consumer.commit(record, asynchronous=False)
        produce(age_ms=3_600_000)
        record = until(lambda: polled(consumer), "no record comes")
        age_ms = time.time() * 1000 - record.timestamp()[1]
        assert (age_ms > 3_000_000) == (kind == "CreateTime")
        done = kgm("remove-members", group, "-i", "a", "-b", kafka.bootstrap, "--yes", "-o", "json")
        assert done.code == 6, done.err
        assert "it is not known whether a is alive" in done.err
        assert "none arrived while kgm watched" in done.err
    finally:
        consumer.close()
