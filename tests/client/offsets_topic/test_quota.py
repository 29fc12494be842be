"""A principal with a quota reads the topic slowly, and whole."""

from __future__ import annotations

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from kgm.client import connect
from kgm.client.offsets_topic.topic_reader import TopicReader
from kgm.client.security import make_security
from tests.kafka.java_tools import run_tool

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
#: Of this test alone, and never without the quota.
USER = "throttled"
#: Bytes a second. The broker counts over 11 s, and there is more than that in the topic, so some fetches are over it.
RATE = 15_000
TOPIC, PARTITIONS, GROUPS = "quota", 25, 2
METADATA = "m" * 4_000


@pytest.fixture
def limited(secured):
    done = run_tool(
        "kafka.admin.ConfigCommand", "--bootstrap-server", secured.bootstrap, "--alter", "--entity-type", "users",
        "--entity-name", USER, "--add-config", f"consumer_byte_rate={RATE}",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    secured.allow(USER, "READ", topic="__consumer_offsets")
    secured.create_topics({TOPIC: PARTITIONS})
    places = [TopicPartition(TOPIC, number, 1, metadata=METADATA) for number in range(PARTITIONS)]
    admin = secured.admin()
    for number in range(GROUPS):
        wanted = [ConsumerGroupTopicPartitions(f"quota-{number}", places)]
        for future in admin.alter_consumer_group_offsets(wanted).values():
            errors = {place.error for place in future.result(60).topic_partitions}
            assert errors == {None}
    return secured


def test_a_fetch_over_the_quota_is_done_again(limited, monkeypatch):
    from kgm.client.topic_log import partition_log

    empty = []
    fetch = partition_log._fetch

    def counted(*arguments):
        data, throttled_ms = fetch(*arguments)
        if throttled_ms and not data:
            empty.append(throttled_ms)
        return data, throttled_ms

    monkeypatch.setattr(partition_log, "_fetch", counted)
    settings = limited.settings("SASL_SSL", user=USER)
    security, _ = make_security(settings)
    with connect(settings["bootstrap.servers"], timeout_ms=120_000, security=security) as cluster:
        parts = TopicReader(cluster, group_id=None, max_bytes=1 << 30).read(cluster.deadline)
    read = b"".join(part.data for part in parts)
    assert all(f"quota-{number}".encode() in read for number in range(GROUPS))
    assert len(read) > 11 * RATE
    assert empty, "the quota was never used up"
