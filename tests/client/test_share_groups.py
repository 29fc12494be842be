"""A real share group (KIP-932): its members, where it begins to read, and its lag, as Kafka's own tool says."""

import json
import tempfile
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kgm.client import connect
from tests.cli.runner import kgm
from tests.kafka.java_tools import java_command, run_tool
from tests.kafka.process import Child
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


@pytest.fixture
def consumer(kafka):
    """(group, topic, the process of a consumer of it)"""
    group, topic = f"share-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({topic: 2})
    main_class = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    command = java_command(main_class, "--bootstrap-server", kafka.bootstrap, "--topic", topic, "--group", group)
    with tempfile.TemporaryDirectory(prefix="kgm-share-") as folder:
        child = Child(command, log=Path(folder) / "log")
        yield group, topic, child
        child.kill()


def told_by_kafka(kafka, group):
    """(start offset, lag) by topic and partition; None where it tells none."""
    done = run_tool(TOOL, "--bootstrap-server", kafka.bootstrap, "--describe", "--group", group, "--offsets")
    assert done.returncode == 0, done.stderr
    titles, *rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
    found = [dict(zip(titles, row, strict=False)) for row in rows]
    return {
        (row["TOPIC"], int(row["PARTITION"])): tuple(
            None if row[title] == "-" else int(row[title]) for title in ("START-OFFSET", "LAG")
        )
        for row in found
    }


def produce(kafka, topic, count):
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(count):
        producer.produce(topic, value=b"x", partition=number % 2)
    assert producer.flush(30) == 0


def test_members_start_offsets_and_lag(kafka, consumer):
    group, topic, child = consumer
    with connect(kafka.bootstrap, timeout_ms=120_000) as cluster:

        def described():
            (found,) = cluster.describe_groups([group])
            return found

        def is_assigned():
            members = getattr(described(), "members", ())
            return [one.assignment for one in members] == [{topic: [0, 1]}]

        until(is_assigned, lambda: f"no member has both partitions: {child.log_tail()}", 60, every_s=0.2)

        def seen():
            return {(row.topic, row.partition): (row.committed, row.lag) for row in described().offsets}

        def story():
            return f"{seen()}, unread {cluster.offsets.unread_groups}, consumer: {child.log_tail()}"

        def lags():
            return {place: lag for place, (_, lag) in seen().items()}

        def has_begun():
            """It reads what is written after its first fetch, of which nothing tells."""
            produce(kafka, topic, 2)
            return [begin is None for begin, _ in seen().values()] == [False, False]

        until(has_begun, story, 60, every_s=0.5)
        until(lambda: lags() == {(topic, 0): 0, (topic, 1): 0}, story, 60, every_s=0.3)
        assert (described().type, described().members[0].topics) == ("share", (topic,))
        told = json.loads(kgm("history", "rebalances", group, "-o", "json", "-b", kafka.bootstrap).out)
        first, *_ = told["data"]["rebalances"]
        assert (first["group_type"], first["cause"], first["confidence"]) == ("share", "join", "certain")
        assert [who["member_id"] for who in first["who"]] == [described().members[0].member_id]
        child.kill()
        produce(kafka, topic, 6)
        assert told_by_kafka(kafka, group) == seen()
        assert (lags(), described().lag) == ({(topic, 0): 3, (topic, 1): 3}, 6)
