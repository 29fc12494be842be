"""Groups of which compaction has removed records between two looks: what there may have been is a range, and a limit is
broken only by what there was at least. Kafka's own cleaner runs here as often as it can, and the test waits for it."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kgm.client import connect
from kgm.client.offsets_topic.fleet_log import FleetLog
from kgm.client.poller import GroupPoller
from kgm.client.topic_log import partition_log
from kgm.java.partitions import partition_for
from kgm.operations.export.collector import ExportRequest, GroupCollector
from kgm.operations.watch.expectations import Expectations
from kgm.operations.watch.watched_group import WatchedGroup
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.records.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.records.record import decode_record
from tests.client.joiners import Joiner, commit_without_member, leave_dead_group, take_all
from tests.kafka.heartbeat_group import PROMPT, HeartbeatGroup, wait_coordinator_knows
from tests.kafka.versions import shared_broker
from tests.server.wire_client import WireClient
from tests.waiting import until

TOPIC = "compacted-records"
#: The cleaner takes each segment as soon as the next one begins, which a record does that comes 300 ms later.
EAGER = {
    "segment.ms": "300", "min.compaction.lag.ms": "0", "delete.retention.ms": "100", "min.cleanable.dirty.ratio": "0",
}  # fmt: skip
pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def broker():
    broker = shared_broker(properties={"log.cleaner.backoff.ms": "200"})
    if TOPIC not in broker.admin().list_topics(timeout=10).topics:
        broker.create_topics({TOPIC: 2})
    leave_dead_group(broker.port, "any", TOPIC)  # creates __consumer_offsets
    set_to = AlterConfigOpType.SET
    entries = [ConfigEntry(name, value, incremental_operation=set_to) for name, value in EAGER.items()]
    resource = ConfigResource(ResourceType.TOPIC, "__consumer_offsets", incremental_configs=entries)
    admin = broker.admin()
    admin.incremental_alter_configs([resource])[resource].result(30)
    return broker


@pytest.fixture
def cluster(broker):
    with connect(broker.bootstrap, timeout_ms=60_000) as connected:
        yield connected


@pytest.fixture
def filler(broker):
    wire = WireClient(broker.port)
    yield wire
    wire.close()


class Watch:
    """Two looks at a group, by everything that counts its rebalances."""

    def __init__(self, cluster, group, **expected):
        self._cluster, self._log = cluster, FleetLog(cluster)
        self._poller = GroupPoller(cluster, [group], budget_ms=60_000)
        self._collector = GroupCollector(cluster=cluster, request=ExportRequest(names=[group]))
        self.group = WatchedGroup(group, expectations=Expectations(**expected))
        self.look()

    def look(self):
        self._cluster.renew(60_000)
        self._log.read(self._cluster.deadline)
        self.exported = self._collector.collect()
        return self.group.observe(self._poller.poll()[self.group.group_id], self.group.looks)

    @property
    def top(self):
        found = self._log.of(self.group.group_id)
        return found.rebalances, found.are_all_known

    @property
    def metrics(self):
        ((_, rebalances),) = self.exported.series.rebalances.rows
        return rebalances, self.exported.log_unread_because is None


def numbers(cluster, group):
    """The generations and target assignments of a group that the log still has, in its order."""
    cluster.renew(60_000)
    topic = partition_log.look_up(cluster.brokers, cluster.deadline)
    number = partition_for(group, topic.partition_count)

    def read(connection):
        end = partition_log.end_offset(connection, number, cluster.deadline)
        return [*partition_log.fetch_records(connection, number, 0, end, cluster.deadline)]

    found = []
    for fetched in cluster.brokers.on_broker(topic.leaders[number].broker, read, cluster.deadline):
        for row in fetched.records:
            record = decode_record(row.key, row.value)
            if isinstance(record.value, GroupMetadataValue) and record.key.group == group:
                found.append(record.value.generation)
            if isinstance(record.value, ConsumerGroupTargetAssignmentMetadataValue) and record.key.group_id == group:
                found.append(record.value.assignment_epoch)
    return found


def clean(cluster, filler, group):
    """Wait until only the last record of the group is left. Other groups' commits begin new segments meanwhile."""
    count = partition_log.look_up(cluster.brokers, cluster.deadline).partition_count
    names = (f"filler-{number}" for number in range(100))
    other = next(name for name in names if partition_for(name, count) == partition_for(group, count))

    def left():
        answer = filler.ask(commit_without_member(other, TOPIC), version=9)
        assert answer.topics[0].partitions[0].error_code == 0
        return numbers(cluster, group)

    return until(left, "the cleaner has not run", accept=lambda found: len(found) == 1, every_s=0.05)


def test_target_assignments_that_were_compacted_away_are_a_range(broker, cluster, filler):
    wait_coordinator_knows(broker.bootstrap, [TOPIC])
    wire = WireClient(broker.port)
    crowd = HeartbeatGroup(wire, f"compacted-{uuid.uuid4().hex[:8]}", [TOPIC], "uniform")
    broker.configure_group(crowd.group_id, PROMPT)
    crowd.join(f"first-{uuid.uuid4()}", None)
    crowd.heartbeat_until_stable()
    (first,) = clean(cluster, filler, crowd.group_id)
    watch = Watch(cluster, crowd.group_id, max_rebalances=4)
    before, _ = watch.top
    assert watch.metrics == (0, True)
    written = []
    for number in range(6):
        crowd.join(f"late-{number}-{uuid.uuid4()}", None)
        crowd.heartbeat_until_stable()
        last = numbers(cluster, crowd.group_id)[-1]
        assert last != [first, *written][-1]
        written.append(last)
    assert clean(cluster, filler, crowd.group_id) == written[-1:]
    events = watch.look()
    assert [one.text for one in events if one.kind == "epoch"] == [
        f"{first} -> {written[-1]}: 1 to {written[-1] - first} rebalances"
    ]
    verdict = watch.group.verdict(reached=None)
    assert verdict.rebalances == 1
    assert verdict.rebalances_max == written[-1] - first >= len(written)
    assert verdict.breach is None
    assert "compaction has removed them" in watch.group.unseen()
    assert not verdict.handovers_exact
    assert watch.top == (before + 1, False)
    assert watch.metrics == (1, False)
    # From here on nothing is missing.
    crowd.join(f"last-{uuid.uuid4()}", None)
    crowd.heartbeat_until_stable()
    watch.look()
    assert (watch.group.rebalances, watch.group.verdict(reached=None).rebalances_max) == (2, verdict.rebalances_max + 1)
    assert watch.metrics == (2, True)
    wire.close()


def test_a_generation_without_members_that_was_compacted_away_is_not_counted(broker, cluster, filler):
    """The only member leaves, and a new one joins: generation 2 has no members, and generation 3 is one rebalance."""
    group = f"compacted-{uuid.uuid4().hex[:8]}"
    old, new = (Joiner(broker.port, group, None, TOPIC) for _ in range(2))
    take_all(old)
    watch = Watch(cluster, group, max_rebalances=1)
    before, _ = watch.top
    assert watch.metrics == (0, True)
    assert watch.group.generation == 1
    row = MemberIdentity(member_id=old.member_id)
    assert old.wire.ask(LeaveGroupRequest(group_id=group, members=[row]), version=4).error_code == 0
    assert numbers(cluster, group)[-1] == 2
    take_all(new)
    assert clean(cluster, filler, group) == [3]
    events = watch.look()
    assert [one.text for one in events if one.kind == "generation"] == ["1 -> 3: 1 to 2 rebalances"]
    verdict = watch.group.verdict(reached=None)
    assert (verdict.rebalances, verdict.rebalances_max) == (1, 2)
    assert verdict.breach is None
    assert "compaction has removed them" in watch.group.unseen()
    assert not verdict.handovers_exact
    assert watch.top == (before + 1, False)
    assert watch.metrics == (1, False)
    for one in (old, new):
        one.close()
