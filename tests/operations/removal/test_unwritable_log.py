"""Members that commit nothing because nobody can: the group's partition of `__consumer_offsets` has too few in-sync
replicas, and the coordinator refuses every commit, while heartbeats, descriptions and reads go on; or a replica in sync
hangs, and every commit waits for it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from kgm.java.partitions import partition_for
from kgm.model.errors import ErrorCode
from kgm.operations.change.operator import HumanOperator
from kgm.operations.removal import removal
from kgm.operations.removal.liveness import LivenessVerdict
from kgm.operations.removal.removal import PreparedRemoval
from kgm.operations.removal.request import RemovalRequest
from kgm.operations.removal.verification.second_look import StaleLivenessError
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.describe_configs_response import DescribeConfigsResourceResult
from kgm.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kgm.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kgm.server.cluster.topics import topic_id
from tests.cli.runner import kgm
from tests.client.joiners import commit_without_member
from tests.kafka.broker import KafkaCluster
from tests.kafka.members import JavaMembers, wait_settled
from tests.kafka.records import Feed
from tests.operations.removal.in_process import TOPIC, World, form_classic
from tests.server.wire_client import batch
from tests.waiting import until

ALICE = HumanOperator(name="alice", uid=1000, host="ops-1")
GROUP = "g"
OFFSETS = "__consumer_offsets"
STOPPED, UNKNOWN = LivenessVerdict.STOPPED, LivenessVerdict.UNKNOWN
REFUSED = "commits cannot be written: partition 0 of __consumer_offsets has 1 in-sync replica and min.insync.replicas 2"
NOT_KNOWN = (
    "it is not known whether commits can be written: partition 0 of __consumer_offsets has 1 in-sync replica of 2, and "
    "min.insync.replicas cannot be read"
)
TOPIC_RESOURCE = 2
#: The replica id of ListOffsets with which Kafka answers the high watermark as the latest offset.
CONSUMER = -1


class Scene:
    """Members a and b, for which records arrive and which commit every second, unless they `are_silent`.

    in_sync: how many of the two replicas of the offsets topic are; least: its min.insync.replicas, None if the login
    may not read it. hung_at: the high watermark of the offsets topic and of its partitions' committed offsets, as the other
    replica hangs; None if it does not."""

    hung_at: tuple[int, int] | None = None

    def __init__(self, *, in_sync: int = 2, least: int | None = 2) -> None:
        self.world = World()
        self.members = form_classic(self.world.cluster, GROUP, ["a", "b"])
        self.in_sync, self.least = in_sync, least
        self.are_silent = False
        self.end, self.next_s = 0, 0.0
        self.world.between = self.between
        self.world.actors.append(self.act)
        self.world.pass_by(10)

    def between(self, api: ApiKey, request: Any, deliver: Callable[[], Any]) -> Any:
        answer = deliver()
        if api is ApiKey.LIST_OFFSETS and request.replica_id == CONSUMER and self.hung_at is not None:
            for topic in answer.topics:
                for row in topic.partitions if topic.name == OFFSETS else ():
                    row.offset = min(row.offset, self.hung_at[0])
        if api is ApiKey.OFFSET_FETCH and self.hung_at is not None:
            for group in answer.groups:
                for row in (row for topic in group.topics for row in topic.partitions):
                    row.committed_offset = min(row.committed_offset, self.hung_at[1])
        if api is ApiKey.METADATA:
            for topic in answer.topics:
                for row in topic.partitions if topic.name == OFFSETS else ():
                    assert len(row.replica_nodes) == 2
                    row.isr_nodes = row.replica_nodes[: self.in_sync]
        if api is ApiKey.DESCRIBE_CONFIGS:
            for row in answer.results:
                if row.resource_type == TOPIC_RESOURCE and self.least is None:
                    row.error_code, row.configs = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []
                elif row.resource_type == TOPIC_RESOURCE:
                    value = str(self.least)
                    row.configs = [DescribeConfigsResourceResult(name="min.insync.replicas", value=value)]
        return answer

    def act(self) -> None:
        if self.world.now_s < self.next_s:
            return
        self.next_s = self.world.now_s + 1
        data = [PartitionProduceData(index=number, records=batch()) for number in (0, 1)]
        self.world.cluster.ask(
            ProduceRequest(acks=-1, topic_data=[TopicProduceData(topic_id=topic_id(TOPIC), partition_data=data)])
        )
        self.end += 1
        for number, member in enumerate(self.members if not self.are_silent else ()):
            assert member.commit(number, self.end) == 0

    def hang(self) -> None:
        """From now on the other replica takes nothing, and is in sync all the same."""
        rows = [ListOffsetsTopic(name=OFFSETS, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])]
        answer = self.world.cluster.request(ListOffsetsRequest(replica_id=CONSUMER, topics=rows))
        self.hung_at = answer.topics[0].partitions[0].offset, self.end

    def removed(self, *, meanwhile: Callable[[], None] = lambda: None) -> PreparedRemoval:
        """The prepared removal of a, after it was executed if nothing forbade it."""
        request = RemovalRequest(group_id=GROUP, instance_ids=("a",), guard_window_ms=12_000)
        with self.world.client() as client:
            prepared = removal.prepare(client, request, clock=self.world.clock)
            meanwhile()
            if prepared.refusal is None:
                removal.execute(
                    client, prepared, operator=ALICE, audit=None, sleep=self.world.pass_by, clock=self.world.clock
                )  # fmt: skip
        return prepared

    def verdict(self) -> tuple[LivenessVerdict, str]:
        """Of a."""
        (member_id,) = (prepared := self.removed()).plan.member_ids
        return prepared.guard.verdict_of(member_id), prepared.liveness[member_id].why


@pytest.mark.parametrize(("in_sync", "least"), [(2, 2), (2, None), (1, 1)])
def test_a_group_in_which_nobody_commits_any_more_has_stopped_where_commits_could_be_written(in_sync, least):
    """Its log is quiet, because nobody is left."""
    scene = Scene(in_sync=in_sync, least=least)
    scene.are_silent = True
    assert scene.verdict()[0] is STOPPED
    assert ApiKey.LEAVE_GROUP in scene.world.sent


@pytest.mark.parametrize(
    ("least", "why"),
    [
        (2, REFUSED),
        (None, NOT_KNOWN),
    ],
)
def test_nothing_is_known_of_it_where_they_could_not(least, why):
    scene = Scene(least=least)
    scene.in_sync, scene.are_silent = 1, True
    assert scene.verdict() == (UNKNOWN, why)
    assert ApiKey.LEAVE_GROUP not in scene.world.sent


def test_silence_counts_only_from_when_they_could():
    scene = Scene()
    scene.in_sync, scene.are_silent = 1, True
    whole_s = scene.world.now_s + 6

    def becomes_whole():
        if scene.world.now_s >= whole_s:
            scene.in_sync = 2

    scene.world.actors.append(becomes_whole)
    verdict, why = scene.verdict()
    assert verdict is UNKNOWN
    assert "commits could not be written while kgm watched" in why


def test_they_have_to_be_possible_still_when_the_request_is_to_be_sent():
    scene = Scene()
    scene.are_silent = True
    with pytest.raises(StaleLivenessError) as refused:
        scene.removed(meanwhile=lambda: setattr(scene, "in_sync", 1))
    assert refused.value.facts[0] == f"a: unknown: {REFUSED}"
    assert ApiKey.LEAVE_GROUP not in scene.world.sent


HANGS = (
    "it is not known whether commits can be written: an in-sync replica of partition 0 of __consumer_offsets lacks records "
    "that its leader has"
)


def test_nothing_is_known_while_a_replica_in_sync_hangs():
    """Its commits are in the leader's log only then, where nobody sees them."""
    scene = Scene()
    scene.hang()
    assert scene.verdict() == (UNKNOWN, HANGS)
    assert ApiKey.LEAVE_GROUP not in scene.world.sent


def test_silence_counts_until_a_replica_hangs():
    """Long enough for a verdict, before the commit of another group is the first that waits."""
    scene = Scene()
    scene.are_silent = True
    hangs_s = scene.world.now_s + 11.5

    def hangs() -> None:
        if scene.hung_at is None and scene.world.now_s >= hangs_s:
            scene.hang()
            scene.world.cluster.request(commit_without_member("other", TOPIC), version=9)

    scene.world.actors.append(hangs)
    assert scene.verdict()[0] is STOPPED


def test_a_replica_that_hung_and_takes_records_again_shows_the_commits_that_waited():
    scene = Scene()
    scene.hang()
    goes_on_s = scene.world.now_s + 6

    def goes_on() -> None:
        if scene.world.now_s >= goes_on_s:
            scene.hung_at = None

    scene.world.actors.append(goes_on)
    assert scene.verdict()[0] is LivenessVerdict.ALIVE


def test_a_coordinator_that_fails_before_the_rebalance_has_ended_leaves_the_member_to_its_successor():
    """Member b does not rejoin, so the rebalance does not end, and nothing about it is in the log."""
    scene = Scene()
    scene.are_silent = True
    old_id = scene.members[0].member_id

    def between(api: ApiKey, request: Any, deliver: Callable[[], Any]) -> Any:
        answer = scene.between(api, request, deliver)
        if api is ApiKey.LEAVE_GROUP:
            scene.world.cluster.fail_over()
        return answer

    scene.world.between = between
    request = RemovalRequest(group_id=GROUP, instance_ids=("a",), guard_window_ms=12_000)
    with scene.world.client() as client:
        prepared = removal.prepare(client, request, clock=scene.world.clock)
        report = removal.execute(
            client, prepared, operator=ALICE, audit=None, sleep=scene.world.pass_by, clock=scene.world.clock
        )  # fmt: skip
    assert (old_id, "a") in scene.world.cluster.members(GROUP)
    summary = prepared.summary(report.results, report.exit_code, is_dry_run=False)
    assert report.exit_code == 7
    assert summary.message == (
        "1 of 1 members of group 'g' are still there: the coordinator moved before their removal was complete"
    )
    assert summary.hint == "run the command again: the new coordinator does not know of the removal"


# -- the real thing


@pytest.mark.long
@pytest.mark.kafka
def test_a_running_java_consumer_whose_commits_kafka_refuses():
    """Its partition of the offsets topic has a follower, which is shut down, and min.insync.replicas 2."""
    with KafkaCluster(2, heap_mb=256) as brokers, JavaMembers(brokers.bootstrap) as members:
        topic = "orders"
        brokers.create_topics({topic: 2}, replication_factor=2)
        group = next(name for name in iter(lambda: f"g-{uuid.uuid4().hex[:8]}", "") if leader_of(brokers, name) == 1)
        config = {"enable.auto.commit": "true", "auto.commit.interval.ms": "1000"}
        member = members.start(
            group=group, topics=[topic], instance_id="j0", session_timeout_ms=60_000, heartbeat_interval_ms=3_000,
            config=config,
        )  # fmt: skip
        wait_settled([member], 2)
        feed = Feed(brokers.bootstrap, topic, 2)
        time.sleep(6)  # its commit interval
        require_in_sync(brokers, 2)
        brokers.shut_down(2)
        time.sleep(2)
        partition = partition_for(group, 4)
        why = f"partition {partition} of {OFFSETS} has 1 in-sync replica and min.insync.replicas 2"
        address = brokers.address(1)
        run = kgm("remove-members", group, "-i", "j0", "-y", "--guard-window", "12s", "-b", address, "-o", "json")
        (one,) = json.loads(run.out)["data"]["results"]
        assert (run.code, one["liveness"]) == (
            6, {"verdict": "unknown", "evidence": [f"commits cannot be written: {why}"]},
        )  # fmt: skip
        run = kgm("doctor", group, "-b", address, "-o", "json")
        found = {one["check"]: one for one in json.loads(run.out)["data"]["findings"]}
        assert found["commits-refused"]["message"] == f"commits cannot be written: {why}"
        assert found["commits-refused"]["severity"] == "error"
        assert "stalled-owner" not in found

        brokers.restart(2)
        run = kgm("remove-members", group, "-i", "j0", "-y", "-b", address, "-o", "json")
        (one,) = json.loads(run.out)["data"]["results"]
        assert (run.code, one["liveness"]["verdict"]) == (6, "alive")
        feed.end()


@pytest.mark.long
@pytest.mark.kafka
def test_a_running_java_consumer_whose_commits_wait_for_a_replica_that_hangs():
    """The follower of its partition of the offsets topic is suspended, and stays in sync for longer than kgm watches."""
    stays = {"broker.session.timeout.ms": "120000", "replica.lag.time.max.ms": "120000"}
    with KafkaCluster(2, stays, heap_mb=256) as brokers, JavaMembers(brokers.bootstrap) as members:
        topic = NewTopic("orders", 2, replica_assignment=[[1], [1]])
        admin = brokers.admin()  # the future stays unanswered if the client is dropped
        admin.create_topics([topic])["orders"].result(30)
        group = next(name for name in iter(lambda: f"g-{uuid.uuid4().hex[:8]}", "") if leader_of(brokers, name) == 1)
        config = {"enable.auto.commit": "true", "auto.commit.interval.ms": "1000"}
        member = members.start(
            group=group, topics=["orders"], instance_id="j0", session_timeout_ms=60_000, heartbeat_interval_ms=3_000,
            config=config,
        )  # fmt: skip
        wait_settled([member], 2)
        address = brokers.address(1)
        feed = Feed(address, "orders", 2)
        time.sleep(6)  # its commit interval
        with brokers.hanging(2):
            time.sleep(2)
            run = kgm("remove-members", group, "-i", "j0", "-y", "--guard-window", "14s", "-b", address, "-o", "json")
            (one,) = json.loads(run.out)["data"]["results"]
            partition = partition_for(group, 4)
            assert (run.code, one["liveness"]["verdict"]) == (6, "unknown")
            assert one["liveness"]["evidence"][0] == HANGS.replace("partition 0", f"partition {partition}")
        run = kgm("remove-members", group, "-i", "j0", "-y", "-b", address, "-o", "json")
        (one,) = json.loads(run.out)["data"]["results"]
        assert (run.code, one["liveness"]["verdict"]) == (6, "alive")
        feed.end()


def leader_of(brokers: KafkaCluster, group: str) -> int:
    """The broker that leads the group's partition of the offsets topic."""
    partitions = brokers.admin().list_topics(OFFSETS, timeout=10).topics[OFFSETS].partitions
    return int(partitions[partition_for(group, len(partitions))].leader)


def require_in_sync(brokers: KafkaCluster, least: int) -> None:
    """Set min.insync.replicas of the offsets topic."""
    entry = ConfigEntry("min.insync.replicas", str(least), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, OFFSETS, incremental_configs=[entry])
    admin = brokers.admin()  # the future stays unanswered if the client is dropped
    admin.incremental_alter_configs([resource])[resource].result(30)

    def is_set() -> bool:
        wanted = ConfigResource(ResourceType.TOPIC, OFFSETS)
        return bool(admin.describe_configs([wanted])[wanted].result(10)["min.insync.replicas"].value == str(least))

    until(is_set, "min.insync.replicas is not set")
