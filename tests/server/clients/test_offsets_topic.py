"""`__consumer_offsets` of the embedded server, read by real consumers and by kgm: from memory, and from a data directory;
its partition has had two leaders."""

import json
import subprocess

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from kgm.client import connect
from kgm.client.topic_log import partition_log
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.java.partitions import partition_for
from kgm.records.record import decode_record
from kgm.server import serve_in_thread
from kgm.server.contract.offsets_topic import OFFSETS_TOPIC
from tests.kafka.java_tools import java_command

pytestmark = pytest.mark.slow
PARTITION = partition_for("g", 4)
COMMITS = [(0, 1), (1, 7), (0, 2)]
TIMEOUT_S = 60


def consumer(server, **more):
    how = {"bootstrap.servers": server.bootstrap, "group.id": "g", "enable.auto.commit": False, "log_level": 0}
    return Consumer({**how, **more})


@pytest.fixture(scope="module", params=["memory", "disk"])
def server(request, tmp_path_factory):
    """Three brokers; a group has committed, and its coordinator has moved before the last commit."""
    data_dir = tmp_path_factory.mktemp("data") / "d" if request.param == "disk" else None
    settings = BrokerSettings(offsets_topic_num_partitions=4)
    with serve_in_thread(topics={"t": 2}, settings=settings, brokers=3, data_dir=data_dir) as running:
        client = consumer(running)
        for partition, offset in COMMITS:
            if (partition, offset) == COMMITS[-1]:
                running.move_coordinator("g", running.coordinator_of("g") % 3 + 1)
            client.commit(offsets=[TopicPartition("t", partition, offset)], asynchronous=False)
        client.close()
        yield running


def read_by_kgm(server):
    """(offset, timestamp, key, value) of each record, and the leader epochs of their batches."""
    with connect(server.bootstrap, timeout_ms=TIMEOUT_S * 1000) as cluster:
        topic = partition_log.look_up(cluster.brokers, cluster.deadline)
        connection = cluster.brokers.connection(topic.leaders[PARTITION].broker.address, cluster.deadline)
        ((start, end),) = partition_log.bounds(connection, [PARTITION], cluster.deadline).values()
        fetches = partition_log.fetch_batches(connection, PARTITION, start, end, cluster.deadline)
        batches = [batch for fetched in fetches for batch in fetched]
    rows = [(row.offset, row.timestamp, row.key, row.value) for batch in batches for row in batch.records]
    return rows, [batch.leader_epoch for batch in batches]


def test_kgm_reads_what_was_committed(server):
    rows, epochs = read_by_kgm(server)
    decoded = [decode_record(key, value) for _, _, key, value in rows]
    assert [(one.key.group, one.key.topic, one.key.partition, one.value.offset) for one in decoded] == [
        ("g", "t", partition, offset) for partition, offset in COMMITS
    ]
    assert [row[0] for row in rows] == [0, 1, 2]
    assert [row[1] for row in rows] == [one.value.commit_timestamp for one in decoded]
    assert epochs == [0, 0, 1]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_librdkafka_reads_the_same(server, isolation):
    """It checks the checksums."""
    reader = consumer(server, **{"isolation.level": isolation, "check.crcs": True})
    reader.assign([TopicPartition(OFFSETS_TOPIC, PARTITION, OFFSET_BEGINNING)])
    messages = reader.consume(len(COMMITS), timeout=TIMEOUT_S)
    assert [one.error() for one in messages] == [None] * len(COMMITS)
    rows = [(one.offset(), one.timestamp()[1], one.key(), one.value()) for one in messages]
    assert rows == read_by_kgm(server)[0]
    assert [one.leader_epoch() for one in messages] == [0, 0, 1]
    at = TopicPartition(OFFSETS_TOPIC, PARTITION, rows[-1][1] + 1)
    assert reader.offsets_for_times([at], timeout=TIMEOUT_S)[0].offset in (-1, len(COMMITS))
    assert reader.get_watermark_offsets(at, timeout=TIMEOUT_S) == (0, len(COMMITS))
    reader.close()


@pytest.mark.kafka
@pytest.mark.parametrize("server", ["disk"], indirect=True)
def test_javas_console_consumer_prints_it(server):
    """Kafka's own formatter of this topic says the same."""
    where = ["--bootstrap-server", server.bootstrap, "--topic", OFFSETS_TOPIC, "--partition", str(PARTITION)]
    what = ["--offset", "earliest", "--max-messages", str(len(COMMITS)), "--timeout-ms", str(TIMEOUT_S * 1000)]
    formatter = ["--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"]
    command = java_command("org.apache.kafka.tools.consumer.ConsoleConsumer", *where, *what, *formatter)
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * TIMEOUT_S, check=True)
    printed = json.loads("[" + done.stdout.replace("}{", "},{") + "]")
    assert [(one["key"]["data"], one["value"]["data"]["offset"]) for one in printed] == [
        ({"group": "g", "topic": "t", "partition": partition}, offset) for partition, offset in COMMITS
    ]
