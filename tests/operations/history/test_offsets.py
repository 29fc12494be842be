"""What happened to committed offsets, as a real Kafka and the embedded server write it: live, and from segments."""

import json
import shutil
import uuid

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from kgm.client import connect
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.java.partitions import partition_for
from kgm.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kgm.server import serve_in_thread
from tests.cli.runner import kgm
from tests.server.wire_client import WireClient
from tests.waiting import until

pytestmark = [pytest.mark.shows("history"), pytest.mark.slow, pytest.mark.timeout(120)]


def commit(consumer, topic, partition, offset):
    consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)


def play(bootstrap, admin, group, kept, gone):
    """A member commits, jumps back, and sees a topic deleted; when it has left, an admin resets one offset and deletes
    another. kept, gone: topics of 3 partitions and of 1. Returns the member's id."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        consumer.subscribe([kept, gone])
        until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 4, "nothing is assigned", 60)
        for partition, offset in ((0, 5), (0, 8), (0, 6), (1, 4), (2, 4)):
            commit(consumer, kept, partition, offset)
        commit(consumer, gone, 0, 3)
        member = consumer.memberid()
        (deleted,) = admin.delete_topics([gone]).values()
        deleted.result(30)
        with connect(bootstrap, timeout_ms=60_000) as cluster:
            until(lambda: (gone, 0) not in cluster.committed_offsets(group), f"{gone} has an offset", 30)
    finally:
        consumer.close()
    at = ConsumerGroupTopicPartitions(group, [TopicPartition(kept, 0, 1)])
    (done,) = admin.alter_consumer_group_offsets([at]).values()
    done.result(30)
    wire = WireClient(int(bootstrap.rpartition(":")[2]))
    partitions = [OffsetDeleteRequestPartition(partition_index=2)]
    topics = [OffsetDeleteRequestTopic(name=kept, partitions=partitions)]
    answer = wire.ask(OffsetDeleteRequest(group_id=group, topics=topics))
    wire.socket.close()
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
    return member


def asked(*words):
    run = kgm("history", "offsets", *words, "-o", "json")
    assert (run.code, run.err) == (0, ""), run.err
    return json.loads(run.out)["data"]


def told(data):
    """(topic, partition, what, before, after, commits, by, identity, confidence) of each change."""
    names = ("topic", "partition", "what", "before", "after", "commits", "by", "identity", "confidence")
    return [tuple(one[name] for name in names) for one in data["changes"]]


def expected(kept, gone, member_id, gone_is):
    """What `play` did. gone_is: how sure it is that the topic was deleted."""
    member, outsider = ("member", member_id, "certain"), ("not-a-member", None, "likely")
    return sorted(
        [
            (kept, 0, "committed", None, 8, 2, *member),
            (kept, 0, "jumped-back", 8, 6, 1, *member),
            (kept, 0, "reset", 6, 1, 1, *outsider),
            (kept, 1, "committed", None, 4, 1, *member),
            (kept, 2, "committed", None, 4, 1, *member),
            (kept, 2, "offsets-deleted", 4, None, 0, None, None, "certain"),
            (gone, 0, "committed", None, 3, 1, *member),
            (gone, 0, "topic-deleted", 3, None, 0, None, None, gone_is),
        ],
        key=lambda row: row[:2],
    )


@pytest.mark.kafka
def test_on_a_real_kafka_live_and_from_its_segments(kafka, tmp_path):
    name = f"offsets-{uuid.uuid4().hex[:8]}"
    kept, gone, admin = f"{name}-kept", f"{name}-gone", kafka.admin()
    kafka.create_topics({kept: 3, gone: 1})
    kafka.produce(kept, [b"x"] * 10, partition=1)
    member = play(kafka.bootstrap, admin, name, kept, gone)
    for future in admin.delete_records([TopicPartition(kept, 1, 7)]).values():
        future.result(30)
    live = asked(name, "-b", kafka.bootstrap)
    assert told(live) == expected(kept, gone, member, "certain")
    assert {(one["topic"], one["partition"], one["committed"], one["lost"]) for one in live["offsets"]} == {
        (kept, 0, 1, 0), (kept, 1, 4, 3),
    }  # fmt: skip
    assert all(one["expires"] is not None and "became empty" in one["rule"] for one in live["offsets"])
    assert live["retention_ms"] == 7 * 24 * 3_600_000  # Kafka's default

    folders = sorted(kafka.log_dir().glob("__consumer_offsets-*"))
    folder = kafka.log_dir() / f"__consumer_offsets-{partition_for(name, len(folders))}"
    shutil.copytree(folder, tmp_path / folder.name)
    copied = asked(name, "--source", f"segments:{tmp_path}")
    assert told(copied) == expected(kept, gone, member, "likely")
    assert {(one["partition"], one["lost"], one["expires"]) for one in copied["offsets"]} == {
        (0, None, None), (1, None, None),
    }  # fmt: skip
    given = asked(name, "--source", f"segments:{tmp_path}", "--retention", "168h", "--topic", kept, "--partition", "1")
    assert told(given) == [row for row in expected(kept, gone, member, "likely") if row[:2] == (kept, 1)]
    assert [one["expires"] for one in given["offsets"]] == [
        one["expires"] for one in live["offsets"] if one["partition"] == 1
    ]


@pytest.mark.kafka
def test_a_group_that_an_admin_deletes(kafka):
    name, admin = f"offsets-{uuid.uuid4().hex[:8]}", kafka.admin()
    kafka.create_topics({name: 1})
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": name})
    commit(consumer, name, 0, 2)
    consumer.close()
    (deleted,) = admin.delete_consumer_groups([name]).values()
    deleted.result(30)
    committed, gone = told(asked(name, "-b", kafka.bootstrap))
    assert committed[2:7] == ("committed", None, 2, 1, "not-a-member")
    assert gone[2:] == ("group-deleted", 2, None, 0, None, None, "certain")


def test_on_the_embedded_server():
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with serve_in_thread(topics={"kept": 3, "gone": 1}, settings=settings) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
        member = play(server.bootstrap, admin, "g", "kept", "gone")
        live = asked("g", "-b", server.bootstrap)
    assert told(live) == expected("kept", "gone", member, "certain")
    assert [(one["partition"], one["committed"]) for one in live["offsets"]] == [(0, 1), (1, 4)]
