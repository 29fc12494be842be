"""A real broker started on a directory that our coordinator has written, and ours started on what that broker left."""

import shutil
import time

import pytest

from kgm.coordinator.contract.outcome import Millis
from kgm.coordinator.engine import Coordinator
from kgm.model.errors import ErrorCode as E
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kgm.records.log import OffsetsLog
from tests.coordinator.harness import subscription
from tests.coordinator.loaded import replay_into
from tests.coordinator.test_recovery import OnDisk
from tests.kafka.broker import KafkaCluster
from tests.server.wire_client import WireClient
from tests.waiting import NOT_READY, until

GROUPS = ["fleet", "mixed", "left", "simple"]
LONG = {"session": 1_500_000, "rebalance": 1_500_000}


def written(log):
    """A coordinator with a life behind it: static members, some replaced; a group that was left; offsets, also in
    transactions; a deleted group; a compaction."""
    ours = OnDisk(log, group_initial_rebalance_delay_ms=1_000)
    ours.now = Millis(int(time.time() * 1_000) - 600_000)
    ours.stable("a", "b", "c", group="fleet", **LONG)
    ours.stable("x", dynamic=2, group="mixed", **LONG)
    ours.join("", "b", group="fleet", v=9, **LONG)
    log.roll()
    for at in range(20):
        ours.commit(group="simple", partition=at % 3, offset=at, metadata=f"m{at}")
    member, *_ = ours.stable("gone", group="left", **LONG)
    ours.commit(member, 1, group="left", offset=7)
    ours.leave((member, None), group="left")
    ours.stable("z", group="deleted")
    ours.sleep(60_000)
    ours.delete("deleted")
    ours.commit_in_transaction(71, "mixed", 1, 5)
    ours.end_transaction(71, commit=True)
    ours.commit_in_transaction(71, "mixed", 1, 6)
    ours.end_transaction(71, commit=False)
    log.roll()
    log.compact(now_ms=ours.now)
    ours.join("", "c", group="fleet", v=9, **LONG)
    log.flush()
    return ours


def hand_over(cluster, directory):
    """Stop the broker, and put our segments in the place of its `__consumer_offsets`, as after a crash."""
    cluster.shut_down(1)
    place = cluster.log_dir() / "__consumer_offsets-0"
    for path in place.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in directory.glob("*.log"):
        shutil.copy(path, place)
    (cluster.log_dir() / ".kafka_cleanshutdown").unlink(missing_ok=True)
    cluster.restart(1)
    return place


def port_of(cluster):
    return cluster.port


def when_loaded(client, request, version):
    """The answer to a request for several groups once the broker has loaded the partition."""
    return until(
        lambda: client.ask(request, version=version),
        "the coordinator has not loaded its partition",
        accept=lambda answer: NOT_READY.isdisjoint(row.error_code for row in answer.groups),
        every_s=0.1,
    )


def by_member(groups):
    """Members in one order: Kafka's is that of a hash map."""
    for group in groups:
        group.members.sort(key=lambda member: member.member_id)
    return groups


def offsets_of(client, ours):
    """(the broker's answer, ours): every committed offset of every group, with metadata, by topic and partition"""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in GROUPS])

    def sorted_(answer):
        return {
            group.group_id: sorted(
                (topic.name, row.partition_index, row.committed_offset, row.metadata, row.error_code)
                for topic in group.topics
                for row in topic.partitions
            )
            for group in answer.groups
        }

    return sorted_(when_loaded(client, request, 9)), sorted_(ours.got(ours.send(request, 9)))


@pytest.mark.kafka
def test_a_broker_goes_on_with_our_log_and_we_with_its(tmp_path):
    with KafkaCluster(properties={"offsets.topic.num.partitions": "1"}) as cluster:
        with OffsetsLog.open(tmp_path / "log", segment_bytes=2_000) as log:
            cluster.create_topics({"orders": 3})
            ours = written(log)
            assert len(log.segments) > 2
            place = hand_over(cluster, log.directory)
            end = log.next_offset
        with WireClient(port_of(cluster)) as client:
            answer = when_loaded(client, DescribeGroupsRequest(groups=GROUPS), 5)
            assert by_member(answer.groups) == by_member(ours.describe(*GROUPS, v=5))
            assert [len(group.members) for group in answer.groups] == [3, 3, 0, 0]
            listed = client.ask(ListGroupsRequest(), version=4).groups
            assert sorted((row.group_id, row.group_state) for row in listed) == sorted(
                (row.group_id, row.group_state) for row in ours.list(v=4)
            )
            kafkas, mine = offsets_of(client, ours)
            assert kafkas == mine
            assert [len(rows) for rows in mine.values()] == [0, 1, 1, 3]
            generations(client, ours)
            renamed = goes_on(client, ours)
        cluster.shut_down(1)
        with OffsetsLog.open(place) as log:
            assert log.next_offset > end
            again = Coordinator(new_member_id=lambda _: "nobody")
            unreadable = replay_into(again, log.read())
        assert unreadable == []
        assert again.offsets.of("fleet")["orders", 0].offset == 99
        fleet = again.group("fleet")
        assert fleet.generation == ours.generation("fleet")
        assert {member.group_instance_id: member.member_id for member in fleet.members}["a"] == renamed


def generations(client, ours):
    """No answer tells a generation, but a heartbeat with another one is refused."""
    for group in ("fleet", "mixed"):
        view = ours.engine.group(group)
        for member in view.members:
            for generation, error in ((view.generation, E.NONE), (view.generation + 1, E.ILLEGAL_GENERATION)):
                heartbeat = HeartbeatRequest(
                    group_id=group,
                    generation_id=generation,
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                )
                assert client.ask(heartbeat, version=4).error_code == error


def goes_on(client, ours):
    """A static member comes back at the broker, without a rebalance, and commits there; its new member id."""
    joined = client.ask(
        JoinGroupRequest(
            group_id="fleet",
            session_timeout_ms=LONG["session"],
            rebalance_timeout_ms=LONG["rebalance"],
            group_instance_id="a",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription())],
        ),
        version=9,
    )
    assert (joined.error_code, joined.generation_id) == (E.NONE, ours.generation("fleet"))
    assert joined.member_id not in ours.member_ids("fleet")
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=99)
    commit = OffsetCommitRequest(
        group_id="fleet",
        generation_id_or_member_epoch=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id="a",
        topics=[OffsetCommitRequestTopic(name="orders", partitions=[row])],
    )
    assert client.ask(commit, version=8).topics[0].partitions[0].error_code == E.NONE
    return joined.member_id
