"""What coordinators write of all groups: each rebalance and each commit is seen, and what was not read is not known."""

from __future__ import annotations

import time
import uuid

import pytest

from kgm.client.offsets_topic import fleet_log
from kgm.client.offsets_topic.fleet_log import WINDOW_MS, FleetLog
from kgm.client.topic_log import partition_log
from tests.client.joiners import Joiner, take_all
from tests.kafka.heartbeat_group import HeartbeatGroup
from tests.server.wire_client import WireClient

TOPIC = "fleet-log"


@pytest.fixture
def member(broker):
    joiner = Joiner(broker.port, f"log-{uuid.uuid4().hex[:8]}", "a", TOPIC)
    take_all(joiner)
    yield joiner
    joiner.close()


def test_every_generation_of_a_classic_group_is_a_rebalance(cluster, member):
    log = FleetLog(cluster)
    take_all(member)
    log.read(cluster.deadline)
    assert log.unreadable_because is None
    found = log.of(member.group)
    assert found.rebalances == member.generation == 2
    assert found.most_members == 1
    # Other tests on the broker may have written more into the partition than is read.
    assert found.rebalances_since_ms == max(found.read_ms - WINDOW_MS, found.known_since_ms)
    take_all(member)
    log.read(cluster.deadline)
    log.read(cluster.deadline)  # nothing is counted twice
    assert log.of(member.group).rebalances == member.generation == 3


def test_a_static_member_that_is_replaced_is_no_rebalance(cluster, broker, member):
    logs = [FleetLog(cluster), FleetLog(cluster)]
    logs[0].read(cluster.deadline)
    again = Joiner(broker.port, member.group, "a", TOPIC)
    assert again.join().error_code == 0
    again.close()
    assert again.generation == member.generation == 1
    for log in logs:  # one that has read the generation before, and one that begins with both records
        log.read(cluster.deadline)
        assert log.of(member.group).rebalances == 1


def test_the_time_of_the_last_commit(cluster, member):
    log = FleetLog(cluster)
    log.read(cluster.deadline)
    assert log.of(member.group).committed_ms is None
    before_ms = time.time() * 1000 - 1
    assert member.commit(0, 0) == 0
    after_ms = time.time() * 1000 + 1
    log.read(cluster.deadline)
    assert before_ms <= log.of(member.group).committed_ms <= after_ms
    log.keep([])
    assert log.of(member.group).committed_ms is None


def test_epochs_of_a_consumer_group(cluster, broker):
    wire = WireClient(broker.port)
    group = HeartbeatGroup(wire, f"log-{uuid.uuid4().hex[:8]}", [TOPIC], "uniform")
    log = FleetLog(cluster)
    epochs = []
    for name in ("a", "b", "c"):
        group.join(f"{name}-{uuid.uuid4()}", None)
        group.heartbeat_until_stable()
        log.read(cluster.deadline)
        epochs.append((cluster.describe_group(group.group_id).assignment_epoch, log.of(group.group_id).rebalances))
    wire.close()
    (first, counted), *others = epochs
    assert counted >= 1
    assert others
    assert [epoch - first for epoch, _ in others] == [more - counted for _, more in others]


def test_of_a_partition_with_much_to_read_the_last_records_are(cluster, member, monkeypatch):
    """What is older than what was read is not known, and is not counted."""
    time.sleep(0.01)  # records of the next millisecond
    for _ in range(30):
        assert member.commit(0, 0) == 0
    monkeypatch.setattr(fleet_log, "MOST_RECORDS", 10)
    log = FleetLog(cluster)
    log.read(cluster.deadline)
    found = log.of(member.group)
    assert found.committed_ms >= found.known_since_ms
    assert found.read_ms - found.known_since_ms < WINDOW_MS
    assert (found.rebalances, found.rebalances_since_ms) == (0, found.known_since_ms)
    take_all(member)
    log.read(cluster.deadline)
    assert log.of(member.group).rebalances == 1


def test_a_read_that_is_long_enough_goes_on_where_it_ended(cluster, member):
    log = FleetLog(cluster)
    for _ in range(50):
        turns = iter([False, True])
        log.read(cluster.deadline, lambda turns=turns: next(turns))
    assert log.of(member.group).rebalances == 1


def test_what_cannot_be_read_is_not_known(cluster, member, monkeypatch):
    log = FleetLog(cluster)

    def refuse(*_arguments, **_more):
        raise partition_log.unauthorized()

    with monkeypatch.context() as patch:
        patch.setattr(partition_log, "look_up", refuse)
        log.read(cluster.deadline)
    assert log.unreadable_because == "no READ on Topic '__consumer_offsets'"
    assert log.of(member.group).read_ms is None
    log.read(cluster.deadline)
    assert (log.unreadable_because, log.of(member.group).rebalances) == (None, 1)
    with monkeypatch.context() as patch:
        patch.setattr(partition_log, "fetch_batches", refuse)
        take_all(member)
        log.read(cluster.deadline)
    assert log.of(member.group).read_ms is None
    log.read(cluster.deadline)
    assert log.of(member.group).rebalances == 2
