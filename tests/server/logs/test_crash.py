"""`kgm serve --data-dir` killed with SIGKILL: what was acknowledged is there, and static members go on."""

import random
import subprocess
import threading
import time

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kgm.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.limits import Limits
from kgm.server.logs.data_directory import DataDirectory
from tests.kafka.members import JavaMembers, RdMembers, wait_settled
from tests.kafka.records import produce
from tests.server.clients.test_failover import DISTURBED
from tests.server.served import COMMAND, PATIENCE_S, ServedProcess
from tests.server.wire_client import WireClient, batch
from tests.waiting import until

pytestmark = pytest.mark.slow

SETTINGS = ("--set", "group.initial.rebalance.delay.ms=500")
OPTIONS = {"group": "g", "topics": ["t"], "assignor": "range", "session_timeout_ms": 60_000}
#: A Java client that finds all brokers gone forgets what it knew of them (KIP-899), its topics too. A leader which polls before
#: it has read them again sees other topics than it has assigned, and rejoins.
REMEMBERS = {"metadata.recovery.strategy": "none"}


def kept(data_dir):
    """What a new process would read from the directory, which no process may have open."""
    storage = DataDirectory.open(
        data_dir, settings=BrokerSettings(), limits=Limits(), warn=print, seconds=time.monotonic
    )
    cluster = EmbeddedCluster(topics={}, storage=storage, now=0)
    groups, offsets = cluster.view.groups(), dict(cluster.view.offsets("g"))
    cluster.close()
    return {group.group_id: group for group in groups}, offsets


def committed(member, served):
    """Commit something new."""
    produce(served.address, "t", [b"x"] * 6, range(6))
    until(lambda: member.commit().kind == "committed", lambda: f"{member.name} could not commit: {member.events[-3:]}")


@pytest.mark.kafka
def test_static_members_go_on_after_sigkill(tmp_path):
    with (
        ServedProcess(tmp_path / "data", "--topic", "t:6", *SETTINGS) as served,
        JavaMembers(served.address) as java,
        RdMembers(served.address) as rd,
    ):
        members = [java.start(instance_id="java", config=REMEMBERS, **OPTIONS)]
        members += [rd.start(instance_id=name, **OPTIONS) for name in ("rd-1", "rd-2")]
        wait_settled(members, 6)
        for member in members:
            committed(member, served)
        seen = {member: len(member.events) for member in members}
        owned = {member: member.assignment for member in members}
        found = []
        for _ in range(3):
            served.kill()
            found.append(kept(served.data_dir))
            served.start()
            for member in members:
                committed(member, served)
        for member in members:
            disturbed = [event for event in member.events[seen[member] :] if event.kind in DISTURBED]
            assert disturbed == [], [each.story() for each in members]
            assert member.assignment == owned[member]
        assert served.end() == 0
        groups, offsets = kept(served.data_dir)
        first = found[0][0]["g"]
        assert first.state == "Stable"
        assert len(first.members) == 3
        for before, _ in [*found[1:], (groups, offsets)]:
            again = before["g"]
            assert (again.state, again.generation, again.leader) == ("Stable", first.generation, first.leader)
            assert [(m.group_instance_id, m.member_id, m.assignment) for m in again.members] == [
                (m.group_instance_id, m.member_id, m.assignment) for m in first.members
            ]
        assert all(offsets[at].offset > found[0][1][at].offset for at in found[0][1])
        assert [said for said in served.said if "truncated" not in said] == []


@pytest.mark.long
def test_a_member_that_restarts_during_the_outage_comes_back_to_its_partitions(tmp_path):
    with (
        ServedProcess(tmp_path / "data", "--topic", "t:6", *SETTINGS) as served,
        RdMembers(served.address) as members,
    ):
        a, b = (members.start(instance_id=name, **OPTIONS) for name in "ab")
        wait_settled([a, b], 6)
        for member in (a, b):
            committed(member, served)
        owned, seen = a.assignment, len(b.events)
        served.kill()
        a.crash()
        before = kept(served.data_dir)[0]["g"]
        served.start()
        again = members.start(instance_id="a", **OPTIONS)
        again.wait_assigned(3, timeout_s=PATIENCE_S)
        assert again.assignment == owned
        committed(b, served)
        assert [event for event in b.events[seen:] if event.kind in DISTURBED] == []
        served.kill()
        after = kept(served.data_dir)[0]["g"]
        assert (after.generation, after.state) == (before.generation, "Stable")


# -- under load


def join(group, member=""):
    return JoinGroupRequest(
        group_id=group,
        member_id=member,
        group_instance_id="i",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")],
    )


def sync(group, joined):
    return SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id="i",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"x")],
    )


class Client(threading.Thread):
    """Joins new groups, commits and produces as fast as it gets answers, and remembers the answers."""

    def __init__(self, port, number, start):
        super().__init__()
        self.port, self.number, self.at = port, number, start
        self.offset, self.produced, self.members = -1, -1, {}
        self.failure = None

    @property
    def group(self):
        return f"commits-{self.number}"

    def run(self):
        try:
            with WireClient(self.port) as client:
                while True:
                    self.once(client)
        except (EOFError, OSError):
            pass  # the server was killed
        except Exception as error:  # noqa: BLE001  (it is for the test to tell)
            self.failure = error

    def once(self, client):
        self.at += 1
        row = OffsetCommitRequestPartition(partition_index=0, committed_offset=self.at, committed_metadata="")
        topic = OffsetCommitRequestTopic(name="t", partitions=[row])
        request = OffsetCommitRequest(group_id=self.group, generation_id_or_member_epoch=-1, topics=[topic])
        assert client.ask(request, version=9).topics[0].partitions[0].error_code == 0
        self.offset = self.at
        rows = [PartitionProduceData(index=self.number, records=batch(1))]
        request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=rows)])
        row = client.ask(request, version=9).responses[0].partition_responses[0]
        assert row.error_code == 0
        self.produced = row.base_offset
        if self.at % 10 == 0:
            group = f"members-{self.number}-{self.at}"
            joined = client.ask(join(group))
            assert joined.error_code == 0
            assert client.ask(sync(group, joined)).assignment == b"x"
            self.members[group] = joined.member_id


def check(client, told):
    """Everything that was acknowledged to this client is there."""
    wanted = [OffsetFetchRequestGroup(group_id=told.group, topics=None)]
    (row,) = client.ask(OffsetFetchRequest(groups=wanted), version=9).groups[0].topics
    assert told.offset <= row.partitions[0].committed_offset <= told.at
    latest = ListOffsetsPartition(partition_index=told.number, timestamp=-1)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[latest])])
    assert client.ask(request).topics[0].partitions[0].offset > told.produced
    for group in client.ask(DescribeGroupsRequest(groups=list(told.members))).groups:
        assert (group.error_code, group.group_state) == (0, "Stable")
        assert [(m.group_instance_id, m.member_id) for m in group.members] == [("i", told.members[group.group_id])]


@pytest.mark.long
def test_what_was_acknowledged_under_load_survives_sigkill(tmp_path):
    dice = random.Random(20)
    arguments = ("--topic", "t:4", "--set", "group.initial.rebalance.delay.ms=0")
    arguments += ("--set", "offsets.topic.segment.bytes=20000", "--set", "log.cleaner.backoff.ms=100")
    starts = [0] * 4
    total = 0
    with ServedProcess(tmp_path / "data", *arguments) as served:
        for _ in range(4):
            clients = [Client(served.port, number, start) for number, start in enumerate(starts)]
            for client in clients:
                client.start()
            enough = dice.randint(10, 60)
            begun = list(starts)
            until(lambda: min(c.at - b for c, b in zip(clients, begun, strict=True)) > enough, "no progress")  # noqa: B023
            served.kill()
            for client in clients:
                client.join()
                assert client.failure is None, client.failure
            served.start()
            with WireClient(served.port) as reader:
                for client in clients:
                    check(reader, client)
            starts = [client.at for client in clients]
            total += sum(len(client.members) for client in clients)
        assert served.end() == 0
    assert total > 0
    assert [line for line in served.said if "truncated" not in line] == []


# -- the process


def test_sigterm_and_a_restart_without_any_client(tmp_path):
    with ServedProcess(tmp_path / "data", "--topic", "t:2") as served:
        first = served.address
        assert served.end() == 0
        assert served.start().address == first
        assert served.end() == 0
    assert served.said == []


def test_a_directory_in_use_is_refused(tmp_path):
    with ServedProcess(tmp_path / "data"):
        again = [*COMMAND, "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")]
        done = subprocess.run(again, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr.startswith("error: --data-dir")
    assert "in use by another process" in done.stderr


def test_a_torn_tail_is_reported_on_stderr(tmp_path):
    with ServedProcess(tmp_path / "data", "--topic", "t:4") as served:
        with WireClient(served.port) as client:
            told = Client(served.port, 0, 0)
            for _ in range(3):
                told.once(client)
        served.kill()
        (segment,) = next(iter((tmp_path / "data").glob("__consumer_offsets-*"))).glob("*.log")
        with segment.open("ab") as file:
            file.write(b"\0" * 7)
        served.start()
        with WireClient(served.port) as client:
            check(client, told)
        assert served.end() == 0
    assert len(served.said) == 1
    assert "truncated at byte" in served.said[0]
    assert served.said[0].startswith("warning: ")


def test_several_brokers_in_one_process(tmp_path):
    with ServedProcess(tmp_path / "data", "--topic", "t:4", "--brokers", "3") as served:
        produce(served.address, "t", [b"x"] * 12, range(4))
        assert served.end() == 0
    assert served.said == []
