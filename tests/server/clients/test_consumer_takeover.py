"""kgm serve goes on with the consumer groups that a real broker has left on disk, and the broker with what kgm serve has
made of them: epochs, assignments, seats, regular expressions, offsets, groups of both kinds of members."""

import shutil

import pytest

from kgm.model.errors import ErrorCode as E
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kgm.protocol.messages.sync_group_request import SyncGroupRequest
from kgm.protocol.subscription import Subscription, encode_subscription
from kgm.records.log import OffsetsLog
from tests.kafka.broker import KafkaCluster
from tests.kafka.java_tools import run_tool
from tests.server.served import ServedProcess
from tests.server.wire_client import WireClient
from tests.waiting import NOT_READY, until

pytestmark = [pytest.mark.slow, pytest.mark.kafka]

OFFSETS = "__consumer_offsets-0"
TOPICS = {"t": 6, "u": 2}
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.consumer.session.timeout.ms": "60000",
    "group.consumer.assignment.interval.ms": "0",
}


class Broker:
    """Requests to whoever coordinates now; members by name, with what they know."""

    def __init__(self, port):
        self.client = WireClient(port)

    def beat(self, member, epoch, *, group="g", instance=None, names=None, regex=None, owned=None):
        joins = epoch == 0
        if owned is not None:
            owned = [TopicPartitions(topic_id=topic, partitions=held) for topic, held in owned.items()]
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=names or ([] if joins else None),
            subscribed_topic_regex=regex,
            topic_partitions=[] if joins else owned,
        )
        answer = self.when_there(request, lambda answer: answer.error_code)
        assert answer.error_code == 0, answer
        return answer

    def when_there(self, request, error_in):
        """The answer once the coordinator is there and loaded."""
        return until(
            lambda: self.client.ask(request),
            "the coordinator is not there",
            accept=lambda answer: error_in(answer) not in NOT_READY,
            every_s=0.1,
        )

    def epoch_of(self, member, group="g"):
        return next(row.member_epoch for row in self.described(group)[0].members if row.member_id == member)

    def settle(self, *members, group="g"):
        """Let members heartbeat, giving up what they have to, until the group is stable."""

        def is_stable():
            for member in members:
                row = next(row for row in self.described(group)[0].members if row.member_id == member)
                owned = {part.topic_id: part.partitions for part in row.assignment.topic_partitions}
                wanted = {part.topic_id: set(part.partitions) for part in row.target_assignment.topic_partitions}
                kept = {at: [p for p in held if p in wanted.get(at, ())] for at, held in owned.items()}
                self.beat(member, row.member_epoch, group=group, owned=kept)
            return self.described(group)[0].group_state == "Stable"

        until(is_stable, f"{group} is not stable")

    def described(self, *groups):
        """Once it is there, with members in one order: Kafka's is that of a hash map."""
        request = ConsumerGroupDescribeRequest(group_ids=list(groups))
        found = self.when_there(request, lambda answer: max(row.error_code for row in answer.groups)).groups
        for group in found:
            group.members.sort(key=lambda member: member.member_id)
            for member in group.members:
                member.subscribed_topic_names.sort()
                for side in (member.assignment, member.target_assignment):
                    side.topic_partitions.sort(key=lambda row: row.topic_name)
                    for row in side.topic_partitions:
                        row.partitions.sort()
        return found

    def offsets(self, group="g"):
        answer = self.client.ask(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]), version=9
        ).groups[0]
        assert answer.error_code == 0
        return {(r.name, p.partition_index): p.committed_offset for r in answer.topics for p in r.partitions}

    def commit(self, member, offset, *, group="g", topic="t"):
        row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member,
            generation_id_or_member_epoch=self.epoch_of(member, group),
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[row])],
        )
        assert self.client.ask(request, version=9).topics[0].partitions[0].error_code == 0

    def join_classic(self, group, instance):
        """A member that speaks the classic protocol; its id and generation."""
        metadata = encode_subscription(Subscription(topics=("t",), version=1))
        joined = self.client.ask(
            JoinGroupRequest(
                group_id=group,
                session_timeout_ms=60_000,
                rebalance_timeout_ms=60_000,
                group_instance_id=instance,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
            )
        )
        assert joined.error_code == 0
        found = {"group_id": group, "member_id": joined.member_id, "generation_id": joined.generation_id}
        sync = SyncGroupRequest(**found, protocol_type="consumer", protocol_name="range")
        assert self.client.ask(sync).error_code == 0
        return found


def topic_ids(client):
    answer = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in TOPICS]))
    return {row.name: row.topic_id for row in answer.topics}


def live(kafka):
    """A group with a static member that was replaced and one that subscribes by a regular expression; and one of both
    kinds of members."""
    kafka.beat("s1", 0, instance="one", names=["t"])
    kafka.beat("s1", -2, instance="one")
    kafka.beat("s2", 0, instance="one", names=["t"])
    kafka.beat("r", 0, regex="t|u.*")

    def knows_all_topics():
        """The coordinator hears of new topics a moment after the broker does."""
        for member in ("s2", "r"):
            kafka.beat(member, kafka.epoch_of(member))
        (group,) = kafka.described("g")
        targets = [row for member in group.members for row in member.target_assignment.topic_partitions]
        return sum(len(row.partitions) for row in targets) == sum(TOPICS.values())

    until(knows_all_topics, "the topics are not known")
    kafka.settle("s2", "r")
    kafka.commit("s2", 5)
    kafka.beat("n", 0, group="mixed", names=["t"])
    classic = kafka.join_classic("mixed", "old")
    kafka.beat("gone", 0, group="left", names=["t"])
    kafka.commit("gone", 3, group="left")
    kafka.beat("gone", -1, group="left")
    return classic


def go_on(ours, kafkas, classic):
    """kgm serve, with what the broker has left: the same, and everybody goes on."""
    assert ours.described("g", "mixed", "left") == kafkas
    assert (ours.offsets("g"), ours.offsets("left")) == ({("t", 0): 5}, {("t", 0): 3})
    g, mixed, _ = kafkas
    nothing_new(ours, g)
    assert ours.client.ask(HeartbeatRequest(**classic)).error_code in (E.NONE, E.REBALANCE_IN_PROGRESS)
    assert mixed.group_epoch == ours.described("mixed")[0].group_epoch
    # A seat changes its owner without a new epoch; somebody comes; the other group becomes a classic one.
    ours.beat("s2", -2, instance="one")
    ours.beat("s3", 0, instance="one", names=["t"])
    assert ours.described("g")[0].group_epoch == g.group_epoch
    ours.beat("m", 0, names=["t", "u"])
    ours.settle("s3", "r", "m")
    nothing_new(ours, ours.described("g")[0])
    ours.commit("s3", 8)
    ours.beat("n", -1, group="mixed")


def nothing_new(broker, group):
    """The members of a stable group heartbeat, and hear that they have what they are to have."""
    for row in group.members:
        answer = broker.beat(row.member_id, row.member_epoch, instance=row.instance_id)
        assert answer.member_epoch == group.group_epoch, (row, answer)
        if answer.assignment is not None:
            told = {part.topic_id: sorted(part.partitions) for part in answer.assignment.topic_partitions}
            assert told == {part.topic_id: part.partitions for part in row.assignment.topic_partitions}


def hand_over(data_dir, cluster):
    """Our segments in the place of the broker's, as after a crash."""
    place = cluster.log_dir() / OFFSETS
    for path in place.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in (data_dir / OFFSETS).glob("*.log"):
        shutil.copy(path, place)
    (cluster.log_dir() / ".kafka_cleanshutdown").unlink(missing_ok=True)
    cluster.restart(1)


def dumped(folder):
    """kafka-dump-log on our segments: how many records it shows."""
    files = ",".join(map(str, sorted(folder.glob("*.log"))))
    done = run_tool("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--deep-iteration", "--files", files)
    assert done.returncode == 0, done.stderr[-2000:]
    return [line for line in done.stdout.splitlines() if line.startswith("| offset")]


@pytest.mark.long
def test_a_broker_and_kgm_serve_take_over_consumer_groups_from_each_other(tmp_path):
    data_dir = tmp_path / "data"
    with KafkaCluster(properties=SETTINGS) as cluster:
        cluster.create_topics(TOPICS)
        kafka = Broker(cluster.port)
        ids = topic_ids(kafka.client)
        classic = live(kafka)
        kafkas = kafka.described("g", "mixed", "left")
        assert [row.group_state for row in kafkas] == ["Stable", "Reconciling", "Empty"]
        assert {member.member_type for member in kafkas[1].members} == {0, 1}
        kafka.client.close()
        cluster.shut_down(1)

        for name in (OFFSETS, "t-0", "u-0"):
            shutil.copytree(cluster.log_dir() / name, data_dir / name)
        flags = [f"--topic={name}:{count}" for name, count in TOPICS.items()]
        flags += [f"--set={name}={value}" for name, value in SETTINGS.items()]
        with ServedProcess(data_dir, *flags) as served:
            ours = Broker(served.port)
            assert topic_ids(ours.client) == ids
            go_on(ours, kafkas, classic)
            (left,) = ours.described("g")
            offsets = ours.offsets()
            mixed = ours.client.ask(DescribeGroupsRequest(groups=["mixed"])).groups
            assert mixed[0].group_state == "PreparingRebalance"
            ours.client.close()
            assert served.end() == 0
            assert served.said == []

        with OffsetsLog.open(data_dir / OFFSETS) as log:
            records = sum(len(batch.records) for batch in log.read())
        assert len(dumped(data_dir / OFFSETS)) == records
        hand_over(data_dir, cluster)
        kafka = Broker(cluster.port)
        assert kafka.described("g") == [left]
        assert (kafka.offsets(), offsets) == ({("t", 0): 8}, {("t", 0): 8})
        nothing_new(kafka, left)
        (classic_group,) = kafka.client.ask(DescribeGroupsRequest(groups=["mixed"])).groups
        assert [m.group_instance_id for m in classic_group.members] == ["old"]
        kafka.client.close()
