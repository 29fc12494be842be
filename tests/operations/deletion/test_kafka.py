"""Groups that real consumers left behind: what kgm deletes of them, and what the coordinator then has in its log. A real
Kafka and the embedded server have to agree in every answer and every tombstone."""

from __future__ import annotations

import json
import uuid

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kgm.client import connect
from kgm.client.delete_groups import delete_group, delete_offsets
from kgm.client.topic_log import partition_log
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.java.partitions import partition_for
from kgm.records.record import decode_record
from kgm.server import serve_in_thread
from tests.cli.runner import kgm
from tests.kafka.records import commit
from tests.waiting import until

pytestmark = [pytest.mark.shows("delete-groups"), pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(params=["Kafka 4.3", "embedded"])
def bootstrap(request):
    if request.param == "Kafka 4.3":
        yield request.getfixturevalue("kafka").bootstrap
        return
    with serve_in_thread(topics={}, settings=BrokerSettings(group_initial_rebalance_delay_ms=0)) as server:
        yield server.bootstrap


@pytest.fixture
def names(bootstrap):
    """A group that nobody has used yet, and two topics of two partitions."""
    group, *topics = (f"{what}-{uuid.uuid4().hex[:8]}" for what in ("g", "kept", "left"))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for one in admin.create_topics([NewTopic(name, 2, 1) for name in topics]).values():
        one.result(30)
    return group, *topics


def consumer(bootstrap, group, protocol="classic"):
    more = {"group.protocol": protocol}
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, **more})


def delete(bootstrap, *words):
    """(exit code, {id: (result, error)}, stderr)"""
    run = kgm("delete-groups", *words, "--yes", "--timeout", "60s", "-b", bootstrap, "-o", "json")
    rows = json.loads(run.out)["data"].get("results", []) if run.out else []
    found = {row["topic"] or row["group_id"]: (row["result"], row["error"]) for row in rows}
    return run.code, found, run.err


def tombstones(bootstrap, group):
    """(kind, topic, partition) of each record without a value that the coordinator wrote of the group, sorted."""
    with connect(bootstrap, timeout_ms=60_000) as cluster:
        topic = partition_log.look_up(cluster.brokers, cluster.deadline)
        number = partition_for(group, topic.partition_count)

        def read(connection):
            end = partition_log.end_offset(connection, number, cluster.deadline)
            fetches = partition_log.fetch_records(connection, number, 0, end, cluster.deadline)
            return [(row.key, row.value) for fetched in fetches for row in fetched.records]

        records = cluster.brokers.on_broker(topic.leaders[number].broker, read, cluster.deadline)
    keys = [decode_record(key, None).key for key, value in records if value is None]
    mine = [one for one in keys if group in (getattr(one, "group", None), getattr(one, "group_id", None))]
    return sorted((type(one).__name__, getattr(one, "topic", ""), getattr(one, "partition", -1)) for one in mine)


def test_a_group_of_consumers_that_were_no_members(bootstrap, names):
    group, kept, left = names
    commit(bootstrap, group, (kept, 0, 3), (left, 1, 4))
    code, found, err = delete(bootstrap, group)
    assert (code, found) == (6, {group: ("refused", None)})
    assert "active: its last commit was" in err
    assert tombstones(bootstrap, group) == []
    assert delete(bootstrap, group, "--idle-for", "0s")[:2] == (0, {group: ("removed", None)})
    written = [one for one in tombstones(bootstrap, group) if one[0] != "GroupMetadataKey"]
    assert written == sorted([("OffsetCommitKey", kept, 0), ("OffsetCommitKey", left, 1)])
    assert delete(bootstrap, group, "--idle-for", "0s")[:2] == (3, {group: ("absent", "GROUP_ID_NOT_FOUND")})
    assert delete(bootstrap, group, "--ignore-missing")[0] == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_member_and_one_whose_member_has_left(bootstrap, names, protocol):
    group, kept, left = names
    commit(bootstrap, group, (left, 0, 4), (left, 1, 5))
    member = consumer(bootstrap, group, protocol)
    try:
        member.subscribe([kept])
        until(lambda: member.poll(0.1) is None and len(member.assignment()) == 2, "nothing is assigned", 60)
        member.commit(offsets=[TopicPartition(kept, 0, 7)], asynchronous=False)
        code, found, err = delete(bootstrap, group, "--idle-for", "0s", "--assume-idle")
        assert (code, found, "it has 1 member" in err) == (6, {group: ("refused", None)}, True)
        code, found, err = delete(bootstrap, group, "--topic", kept, "--idle-for", "0s")
        assert (code, found, f"subscribes to topic {kept}" in err) == (6, {kept: ("refused", None)}, True)
        with connect(bootstrap, timeout_ms=60_000) as cluster:  # and what the coordinator says to that

            def ask(request, *words):
                return cluster.send_change(group, lambda one: request(one, group, *words, cluster.deadline).error_code,
                                           cluster.deadline)  # fmt: skip

            assert (ask(delete_group), ask(delete_offsets, {kept: [0]})) == (68, 86)
        assert delete(bootstrap, group, "--stale-topics", "--idle-for", "0s")[:2] == (0, {left: ("removed", None)})
        with connect(bootstrap, timeout_ms=60_000) as cluster:
            assert cluster.committed_offsets(group) == {(kept, 0): 7}
        member.poll(0)
    finally:
        member.close()
    assert delete(bootstrap, group, "--idle-for", "0s")[:2] == (0, {group: ("removed", None)})
    written = [one for one in tombstones(bootstrap, group) if one[0] == "OffsetCommitKey"]
    assert written == sorted([("OffsetCommitKey", kept, 0), ("OffsetCommitKey", left, 0), ("OffsetCommitKey", left, 1)])
    kind = "GroupMetadataKey" if protocol == "classic" else "ConsumerGroupMetadataKey"
    assert (kind, "", -1) in tombstones(bootstrap, group)


def test_offsets_of_a_group_without_members(bootstrap, names):
    group, kept, left = names
    commit(bootstrap, group, (kept, 0, 3), (left, 1, 4))
    code, found, err = delete(bootstrap, group, "--stale-topics", "--idle-for", "0s")
    assert (code, "name one with --topic" in err) == (6, True)
    asked = delete(bootstrap, group, "--topic", f"{left},none", "--idle-for", "0s", "--ignore-missing")
    assert asked[:2] == (0, {left: ("removed", None), "none": ("absent", None)})
    assert tombstones(bootstrap, group) == [("OffsetCommitKey", left, 1)]
    assert found
