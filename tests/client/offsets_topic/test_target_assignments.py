"""Rebalances of a consumer group whose epochs share target assignments (Kafka 4.3, KIP-1263): everything that counts
them counts the records of target assignments that the coordinator has written, which are read here independently."""

from __future__ import annotations

import uuid

import pytest

from kgm.client.offsets_topic.fleet_log import FleetLog
from kgm.client.poller import GroupPoller
from kgm.client.topic_log import partition_log
from kgm.history.rows import GroupDayRow
from kgm.java.partitions import partition_for
from kgm.operations.history import explain_group
from kgm.operations.history.live import LiveHistory, LiveRequest
from kgm.operations.watch.watched_group import WatchedGroup
from kgm.records.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kgm.records.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kgm.records.record import decode_record
from tests.client.joiners import Joiner, take_all
from tests.kafka.heartbeat_group import HeartbeatGroup, wait_coordinator_knows
from tests.server.wire_client import WireClient
from tests.waiting import until

pytestmark = pytest.mark.slow

TOPIC = "target-assignments"


@pytest.fixture
def crowd(broker):
    """A group of one member, which five others can join at once."""
    wait_coordinator_knows(broker.bootstrap, [TOPIC])
    wire = WireClient(broker.port)
    crowd = HeartbeatGroup(wire, f"crowd-{uuid.uuid4().hex[:8]}", [TOPIC], "uniform")
    crowd.join(f"first-{uuid.uuid4()}", None)
    crowd.heartbeat_until_stable()
    yield crowd
    wire.close()


def written(cluster, group_id):
    """(epochs of the group, epochs of its target assignments) in the log."""
    topic = partition_log.look_up(cluster.brokers, cluster.deadline)
    number = partition_for(group_id, topic.partition_count)

    def read(connection):
        end = partition_log.end_offset(connection, number, cluster.deadline)
        return [*partition_log.fetch_records(connection, number, 0, end, cluster.deadline)]

    epochs, targets = [], []
    for fetched in cluster.brokers.on_broker(topic.leaders[number].broker, read, cluster.deadline):
        for row in fetched.records:
            found = decode_record(row.key, row.value)
            if getattr(found.key, "group_id", None) != group_id:
                continue
            if isinstance(found.value, ConsumerGroupMetadataValue):
                epochs.append(found.value.epoch)
            elif isinstance(found.value, ConsumerGroupTargetAssignmentMetadataValue):
                targets.append(found.value.assignment_epoch)
    return epochs, targets


def join_at_once(cluster, crowd):
    """Five more join; returns once the last of their epochs has a target assignment."""
    for number in range(5):
        crowd.join(f"late-{number}-{uuid.uuid4()}", None)

    def is_assigned():
        crowd.heartbeat_until_stable()
        group = cluster.describe_group(crowd.group_id)
        return group.assignment_epoch == group.group_epoch

    until(is_assigned, "the epoch has no target assignment", accept=bool)


def test_top_counts_target_assignments(cluster, crowd):
    logs = [FleetLog(cluster), FleetLog(cluster)]
    logs[0].read(cluster.deadline)
    join_at_once(cluster, crowd)
    epochs, targets = written(cluster, crowd.group_id)
    assert len(set(targets)) < len(set(epochs))
    for log in logs:  # one that has read the first member's, and one that begins now
        log.read(cluster.deadline)
        found = log.of(crowd.group_id)
        assert (found.rebalances, found.are_all_known) == (len(targets), True)


def test_where_compaction_removed_target_assignments_there_may_have_been_more(cluster, crowd, monkeypatch):
    """As if a compaction had left the last target assignment only, which is all that it has to leave."""
    log = FleetLog(cluster)
    log.read(cluster.deadline)
    before = log.of(crowd.group_id).rebalances
    for _ in range(2):
        join_at_once(cluster, crowd)
    fetch_batches = partition_log.fetch_batches

    def compacted(*where):
        rows = [batch for fetched in fetch_batches(*where) for batch in fetched]
        with_target = [
            batch
            for batch in rows
            if any(row.key in partition_log.target_record_keys(crowd.group_id) for row in batch.records)
        ]
        yield [batch for batch in rows if batch not in with_target[:-1]]

    with monkeypatch.context() as patch:
        patch.setattr(partition_log, "fetch_batches", compacted)
        log.read(cluster.deadline)
    found = log.of(crowd.group_id)
    assert (found.rebalances, found.are_all_known) == (before + 1, False)
    assert len(written(cluster, crowd.group_id)[1]) > found.rebalances


def test_a_watch_counts_target_assignments(cluster, crowd):
    before = len(written(cluster, crowd.group_id)[1])
    poller, watched = GroupPoller(cluster, [crowd.group_id], budget_ms=30_000), WatchedGroup(crowd.group_id)
    watched.observe(poller.poll()[crowd.group_id], 1)
    join_at_once(cluster, crowd)
    events = watched.observe(poller.poll()[crowd.group_id], 2)
    epochs, targets = written(cluster, crowd.group_id)
    assert len(set(targets)) < len(set(epochs))
    assert (watched.rebalances, watched.rebalances_doubt) == (len(targets) - before, None)
    told = [event.after for event in events if event.kind == "epoch"]
    assert told == targets[before:]


def test_without_the_log_a_watch_knows_a_range(cluster, crowd, monkeypatch):
    before = len(written(cluster, crowd.group_id)[1])
    first = cluster.describe_group(crowd.group_id).assignment_epoch

    def refuse(*_arguments, **_more):
        raise partition_log.unauthorized()

    with monkeypatch.context() as patch:
        patch.setattr(partition_log, "look_up", refuse)
        poller, watched = GroupPoller(cluster, [crowd.group_id], budget_ms=30_000), WatchedGroup(crowd.group_id)
        watched.observe(poller.poll()[crowd.group_id], 1)
        join_at_once(cluster, crowd)
        watched.observe(poller.poll()[crowd.group_id], 2)
    epochs, targets = written(cluster, crowd.group_id)
    assert watched.rebalances <= len(targets) - before <= watched.verdict(reached=None).rebalances_max
    assert (watched.rebalances, watched.rebalances_doubt.more) == (1, epochs[-1] - first - 1)
    assert "no READ on Topic '__consumer_offsets'" in watched.rebalances_doubt.why


@pytest.mark.few(1)
def test_the_history_has_a_row_for_each_target_assignment(cluster, crowd):
    join_at_once(cluster, crowd)
    for member_id in [*crowd.epochs][1:]:
        crowd.leave(member_id)
    join_at_once(cluster, crowd)
    epochs, targets = written(cluster, crowd.group_id)
    assert len(set(targets)) < len(set(epochs))
    history = LiveHistory(cluster, LiveRequest(group_id=crowd.group_id)).read()
    rows = history.rebalances(crowd.group_id)
    assert [row.to_generation for row in rows] == targets
    assert [row.from_generation for row in rows[1:]] == targets[:-1]
    assert all(row.complete for row in rows)
    # Nothing of what raised an epoch is lost: each member that joined or left is in the row of the next assignment.
    assert (sum(row.joined for row in rows), sum(row.left for row in rows)) == (11, 5)
    assert rows[-1].members_after == 6
    assert "leave" in {cause for row in rows for cause in (row.cause, *row.also)}
    came = [who for row in rows for who in row.who if who.what in ("joined", "returned")]
    assert len(came) == 11
    explained = explain_group(history, crowd.group_id, generation=epochs[2])
    assert [row.to_generation for row in explained.rebalances] == targets
    (days,) = history.tables.rows(GroupDayRow, history.all_times(crowd.group_id))
    assert days.rebalances == len(targets)
    assert sum(count.count for count in days.causes) == len(targets)


def test_a_group_that_changes_to_the_classic_protocol_is_counted_on(broker, cluster, crowd):
    """The classic member that stays rebalances once; the change itself is no rebalance (KIP-848: online downgrade)."""
    classic = Joiner(broker.port, crowd.group_id, None, TOPIC)
    assert classic.join().error_code == 0
    (last,) = crowd.epochs
    log = FleetLog(cluster)
    poller, watched = GroupPoller(cluster, [crowd.group_id], budget_ms=30_000), WatchedGroup(crowd.group_id)
    log.read(cluster.deadline)
    watched.observe(poller.poll()[crowd.group_id], 1)
    before, epoch = log.of(crowd.group_id).rebalances, cluster.describe_group(crowd.group_id).group_epoch
    crowd.leave(last)
    assert watched.observe(poller.poll()[crowd.group_id], 2)
    take_all(classic)
    watched.observe(poller.poll()[crowd.group_id], 3)
    log.read(cluster.deadline)
    assert classic.generation == epoch + 1
    assert cluster.describe_group(crowd.group_id).type == "classic"
    assert (watched.rebalances, watched.rebalances_doubt, watched.generation) == (1, None, epoch + 1)
    assert log.of(crowd.group_id).rebalances == before + 1
    classic.close()
