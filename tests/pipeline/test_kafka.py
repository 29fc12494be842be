"""A live `__consumer_offsets` of a real broker, fetched by kgm's own client in Spark's workers."""

import json
import threading
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from kgm.history.folders import Reading, folders, raw_table
from kgm.history.rows import BronzeRawRow, CommitRow
from kgm.history.store.query import RowFilter
from kgm.history.store.sink_files import counted_files
from kgm.history.store.tables import open_store
from kgm.model.errors import AuthenticationError, NotFoundError
from kgm.pipeline import Source, build, capture
from tests.cli.runner import kgm

pytestmark = [pytest.mark.shows("Spark from Kafka"), pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]
TOPIC, PARTITIONS = "spark-orders", 10


@pytest.fixture(scope="module")
def commits(kafka):
    """Commits of twenty groups, and of one in transactions, the last of which is aborted."""
    kafka.create_topics({TOPIC: PARTITIONS})
    for number in range(20):
        commit(kafka, f"spark-{number}", 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "spark-t", "log_level": 2})
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "spark-txn", "log_level": 2})
    producer.init_transactions(30)
    for offset, end in (
        (1, producer.commit_transaction),
        (2, producer.commit_transaction),
        (3, producer.abort_transaction),
    ):
        producer.begin_transaction()
        place = TopicPartition(TOPIC, 0, offset)
        producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), 30)
        end(30)
    consumer.close()
    return kafka


def commit(kafka, group, offset):
    places = [TopicPartition(TOPIC, number, offset) for number in range(PARTITIONS)]
    admin = kafka.admin()  # a client that is dropped before its future resolves never answers
    for future in admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)]).values():
        future.result(30)


def source_of(kafka):
    return Source.parse("kafka", {"bootstrap.servers": kafka.bootstrap})


def in_segments(kafka):
    """What is in the broker's own files: items ((partition, offset), (key, value)).

    Members that other tests left behind may expire at any time, so what there is has to be asked before and after."""
    rows = raw_table(folders(kafka.log_dir()), Reading()).to_pylist()
    return {((row["partition"], row["offset"]), (row["key"], row["value"])) for row in rows}


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.long)])
def out(request, tmp_path):
    return tmp_path if request.param == "directory" else request.getfixturevalue("s3").bucket() / "history"


def test_all_records_come_once_and_more_on_the_next_run(spark, options, commits, out):
    source = source_of(commits)
    group = f"spark-3-{type(out).__name__}"
    commit(commits, group, 1)
    before = in_segments(commits)
    first = build(out, source=source, options=options)
    held = open_store(out)
    rows = held.rows(BronzeRawRow, RowFilter())
    found = {((row.partition, row.offset), (row.key, row.value)) for row in rows}
    assert before <= found <= in_segments(commits)
    assert len(rows) == len(found)
    assert first.captured.records == first.records == len(rows)
    assert {row.cluster for row in rows} == {commits.admin().list_topics(timeout=30).cluster_id}
    commit(commits, group, 2)
    stop = threading.Event()

    def on_batch(progress):
        if progress.records >= PARTITIONS:
            stop.set()

    second = capture(out, source, options=options, every_s=0.1, stop=stop, on_batch=on_batch)
    assert second.repeated == 0
    assert build(out, options=options).records == second.records >= PARTITIONS
    committed = open_store(out).rows(CommitRow, RowFilter(group_ids=(group,)))
    assert sorted(row.committed_offset for row in committed) == [1] * PARTITIONS + [2] * PARTITIONS
    transactional = open_store(out).rows(CommitRow, RowFilter(group_ids=("spark-txn",)))
    assert [row.committed_offset for row in transactional] == [1, 2]


@pytest.mark.long
def test_no_such_topic_and_no_such_broker(options, commits, tmp_path):
    with pytest.raises(NotFoundError, match="no topic nothing-here"):
        capture(tmp_path, replace(source_of(commits), topic="nothing-here"), options=options, once=True)


@pytest.mark.long
def test_with_tls_and_a_password(options, secured, tmp_path):
    """From the client.properties that Kafka's own commands take, with the rights that docs/spark.md asks for."""
    secured.allow("reader", "READ", topic="__consumer_offsets")
    secured.add_absent_member("spark-secured", "seat-1")
    properties = secured.settings("SASL_SSL", user="reader")
    file = tmp_path / "client.properties"
    file.touch(0o600)
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    out = tmp_path / "store"
    command = ["history", "capture", "--source", "kafka", "-b", properties["bootstrap.servers"], "--command-config",
               str(file), "--once", "--out", str(out), "--jars", str(options.jars), "-o", "json"]  # fmt: skip
    command += [word for key, value in options.conf.items() for word in ("--spark-conf", f"{key}={value}")]
    run = kgm(*command, timeout_s=600)
    assert (run.code, run.err) == (0, "")
    rows = open_raw(out)
    assert json.loads(run.out)["data"]["records"] == len(rows)
    assert any(b"spark-secured" in row["key"] for row in rows)
    wrong = {**properties, "sasl.jaas.config": properties["sasl.jaas.config"].replace("s3cret", "wrong")}
    with pytest.raises(AuthenticationError) as caught:
        capture(tmp_path / "other", Source.parse("kafka", wrong), options=options, once=True)
    assert "wrong-Canary" not in str(caught.value) + str(caught.value.facts) + str(caught.value.hint)


def open_raw(path):
    return [row for file in counted_files(path / "bronze" / "raw") for row in pq.read_table(file).to_pylist()]
