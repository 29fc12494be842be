"""Logs of brokers before 4.0, whose coordinator writes no record when a group begins, and of one that is upgraded."""

import pytest

from kgm.history.derive import derive
from kgm.history.folders import Reading, folders, raw_table
from kgm.model.broker_version import BrokerVersion
from tests.coordinator.harness import subscription
from tests.history.truth.consumer_lives import ConsumerLog
from tests.kafka.members import RdMembers, wait_settled
from tests.kafka.versions import broker_of

TOPIC, PARTITIONS = "events", 4
SESSION_MS = 6_000


def causes(tables, group):
    rows = [row for row in tables["gold_rebalance"].to_pylist() if row["group_id"] == group]
    return [(row["to_generation"], row["cause"]) for row in sorted(rows, key=lambda row: row["offset"])]


@pytest.mark.scenes
@pytest.mark.shows("Kafka 3.9.1", "Kafka 4.1.1")
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_log_of_an_old_broker_that_is_upgraded():
    """Kafka 3.9 with the coordinator in Scala, then 4.1 on the same folder: a group goes on, another one begins."""
    options = {"topics": [TOPIC], "protocol": "classic", "assignor": "range", "session_timeout_ms": SESSION_MS}
    with broker_of("3.9.1") as kafka:
        kafka.create_topics({TOPIC: PARTITIONS})
        with RdMembers(kafka.bootstrap) as members:
            a = members.start(group="goes-on", client_id="a", **options)
            wait_settled([a], PARTITIONS)
            b = members.start(group="goes-on", client_id="b", **options)
            wait_settled([a, b], PARTITIONS)
            b.close()
            wait_settled([a], PARTITIONS)
            a.close()
        before = derive(raw_table(folders(kafka.log_dir()), Reading())).tables
        kafka._version = "4.1.1"
        kafka.restart(1)
        with RdMembers(kafka.bootstrap) as members:
            c = members.start(group="goes-on", client_id="c", **options)
            wait_settled([c], PARTITIONS)
            d = members.start(group="begins", client_id="d", **options)
            wait_settled([d], PARTITIONS)
            c.close()
            d.close()
        tables = derive(raw_table(folders(kafka.log_dir()), Reading())).tables
    old = [(2, "join"), (3, "leave"), (4, "all-gone")]
    assert causes(before, "goes-on") == old
    assert causes(tables, "goes-on") == [*old, (5, "join"), (6, "all-gone")]
    assert causes(tables, "begins") == [(1, "join"), (2, "all-gone")]
    everything = tables["gold_rebalance"].to_pylist() + tables["gold_event"].to_pylist()
    assert not [row for row in everything if "conver" in str(row)]
    assert all(row["complete"] for row in everything)
    kinds = [row["kind"] for row in tables["silver_snapshot"].to_pylist() if row["group_id"] == "goes-on"]
    assert kinds == ["synced", "synced", "synced", "empty", "synced", "empty"]


def test_a_group_that_was_a_consumer_group_is_converted():
    """The last member of the consumer protocol leaves, and the classic one joins again (KIP-848, downgrade)."""
    log = ConsumerLog()
    log.beat("new", 0)
    old = log.classic_join(instance="static").member_id
    log.sleep(1_000)
    log.beat("new", -1)
    log.sleep(1_000)
    ticket = log.join(old, "static", v=9, protocols={"range": subscription("a")})
    log.until_answered(ticket)
    log.sync(old, log.got(ticket).generation_id, {old: b""}, "static", protocol_name="range")
    rows = derive(log.raw()).tables["gold_rebalance"].to_pylist()
    assert [(row["group_type"], row["cause"]) for row in rows] == [
        ("consumer", "join"), ("consumer", "join"), ("classic", "conversion"),
    ]  # fmt: skip


def consumer_causes(version):
    """Two members join, a topic grows, a static member restarts, and both expire."""
    log = ConsumerLog(kafka_version=BrokerVersion.parse(version))
    log.beat("a", 0, names=["a"])
    log.sleep(1_000)
    log.beat("b", 0, names=["a"], instance="i")
    log.sleep(1_000)
    log.beat("a", member_epoch(log, "a"))
    log.sleep(1_000)
    log.topics({"a": 8, "b": 3})
    log.beat("b", member_epoch(log, "b"), instance="i")
    log.sleep(1_500)
    log.beat("b", -2, instance="i")
    log.sleep(1_000)
    log.beat("c", 0, names=["a"], instance="i")
    log.sleep(60_000)
    rows = derive(log.raw()).tables["gold_rebalance"].to_pylist()
    return [(row["to_generation"], row["cause"], row["also"], row["confidence"]) for row in rows]


def member_epoch(log, member_id):
    (member,) = [member for member in log.engine.group("g").members if member.member_id == member_id]
    return member.consumer.member_epoch


@pytest.mark.parametrize(("version", "first"), [("4.0", 1), ("4.1", 1), ("4.2", 1), ("4.3", 2), ("4.4", 2)])
def test_a_consumer_group_has_the_same_history_in_each_version(version, first):
    """What the coordinators write is held against Kafka's in lockstep. 4.0 writes the topics of a group, later ones a
    hash of them; epochs begin with 1 before 4.3."""
    causes = consumer_causes(version)
    # Nobody sends a heartbeat between the two expirations, so nothing is assigned then: they are one rebalance.
    assert causes == [
        (first, "join", [], "certain"), (first + 1, "join", [], "certain"),
        (first + 2, "partition-change", [], "certain"), (first + 4, "all-gone", ["max-poll"], "likely"),
    ]  # fmt: skip
