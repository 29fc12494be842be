"""Real static members while their coordinator moves from broker to broker: nobody is lost, nobody rebalances."""

import json
import threading

import pytest

from kgm.client import connect
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.server import serve_in_thread
from tests.cli.runner import kgm
from tests.kafka.java_tools import run_tool
from tests.kafka.members import JavaMembers, RdMembers, wait_settled
from tests.kafka.records import produce
from tests.server.clients.served_group import group
from tests.waiting import until

pytestmark = pytest.mark.slow

OPTIONS = {"group": "g", "topics": ["t"], "assignor": "range", "session_timeout_ms": 60_000}
DISTURBED = ("assigned", "revoked", "lost", "fatal")


@pytest.fixture
def brokers():
    """Three brokers; a failure inside fails the test."""
    warnings = []
    settings = BrokerSettings(group_initial_rebalance_delay_ms=500)
    with serve_in_thread(topics={"t": 6}, settings=settings, brokers=3, warn=warnings.append) as server:
        yield server
    assert warnings == []


def fill(server, count=60):
    """Produce records to every partition, through whichever broker there is."""
    produce(server.bootstrap, "t", (f"value-{n}" for n in range(count)), range(6), timeout_s=60)


def settled(server, *members):
    wait_settled(members, 6)
    until(lambda: group(server) is not None and group(server).state == "Stable", "the group is not stable")
    for member in members:
        until(lambda member=member: member.commit().kind == "committed", f"{member.name} could not commit")
    return group(server)


def moved(server, members, before, move):
    """Do something to the coordinator; then everybody commits, in the same generation, undisturbed."""
    seen = {member: len(member.events) for member in members}
    move()
    fill(server, 6)  # librdkafka commits only what is new
    for member in members:
        until(lambda member=member: member.commit().kind == "committed", f"{member.name} could not commit")
    after = group(server)
    assert (after.state, after.generation, after.leader) == (before.state, before.generation, before.leader)
    ids = {member.group_instance_id: member.member_id for member in before.members}
    assert {member.group_instance_id: member.member_id for member in after.members} == ids
    for member in members:
        assert [event for event in member.events[seen[member] :] if event.kind in DISTURBED] == []


def move_around(server, members):
    """Moves to every broker, and a stop and a start of the broker that coordinates."""
    before = settled(server, *members)
    for to in (1, 2, 3, 1, 3):
        moved(server, members, before, lambda to=to: server.move_coordinator("g", to))
        assert server.coordinator_of("g") == to
    for _ in range(2):
        stopped = server.coordinator_of("g")
        moved(server, members, before, lambda stopped=stopped: server.stop_broker(stopped))
        assert server.coordinator_of("g") != stopped
        moved(server, members, before, lambda stopped=stopped: server.start_broker(stopped))


def test_static_librdkafka_members_follow_their_coordinator(brokers):
    fill(brokers)
    with RdMembers(brokers.bootstrap) as members:
        move_around(brokers, [members.start(instance_id=name, **OPTIONS) for name in "abc"])


@pytest.mark.kafka
def test_static_java_and_librdkafka_members_follow_their_coordinator(brokers):
    fill(brokers)
    with JavaMembers(brokers.bootstrap) as java, RdMembers(brokers.bootstrap) as rd:
        started = [java.start(instance_id=name, **OPTIONS) for name in ("java-1", "java-2")]
        move_around(brokers, [*started, rd.start(instance_id="rd", **OPTIONS)])


def test_a_member_that_was_restarted_meanwhile_comes_back_without_a_rebalance(brokers):
    fill(brokers)
    with RdMembers(brokers.bootstrap) as members:
        a, b = (members.start(instance_id=name, **OPTIONS) for name in "ab")
        before = settled(brokers, a, b)
        owned, seen = a.assignment, len(b.events)
        a.crash()
        for to in (1, 2, 3):
            brokers.move_coordinator("g", to)
        again = members.start(instance_id="a", **OPTIONS)
        again.wait_assigned(3)
        assert again.assignment == owned
        assert group(brokers).generation == before.generation
        assert [event for event in b.events[seen:] if event.kind in DISTURBED] == []


def test_kgm_finds_its_way_while_the_coordinator_moves(brokers):
    fill(brokers)
    stop = threading.Event()

    def keep_moving():
        at = 0
        while not stop.wait(0.02):
            at += 1
            brokers.move_coordinator("g", at % 3 + 1)

    with RdMembers(brokers.bootstrap) as members:
        a, b = (members.start(instance_id=name, **OPTIONS) for name in "ab")
        settled(brokers, a, b)
        moving = threading.Thread(target=keep_moving)
        moving.start()
        try:
            for _ in range(20):
                with connect(brokers.bootstrap, timeout_ms=30_000) as cluster:
                    seen = cluster.describe_group("g")
                assert sorted(member.group_instance_id for member in seen.members) == ["a", "b"]
                assert seen.coordinator.id in (1, 2, 3)
            a.crash()
            flags = ("--yes", "--allow-live", "--assume-stopped", "-o", "json")
            arguments = ["remove-members", "g", "--instance-ids", "a", *flags]
            run = kgm(*arguments, "-b", brokers.bootstrap, "--timeout", "60s")
        finally:
            stop.set()
            moving.join()
        (row,) = json.loads(run.out)["data"]["results"]
        assert (run.code, row["result"]) in ((0, "removed"), (7, "unknown"), (7, "returned"))
        # In Kafka, too, a removal is in the log only when the rebalance that it leads to has ended: a coordinator that
        # loads the group before that has the member again.
        run = kgm(*arguments, "--ignore-missing", "-b", brokers.bootstrap, "--timeout", "60s")
        assert run.code == 0, run
        b.wait_assigned(6, timeout_s=60)
        assert [member.group_instance_id for member in group(brokers).members] == ["b"]


@pytest.mark.long
@pytest.mark.kafka
def test_kafka_reassign_partitions_moves_coordinators(brokers, tmp_path):
    partition = brokers.partition_of("g")
    fill(brokers)
    plan = tmp_path / "plan.json"

    def tool(*arguments, name="reassign.ReassignPartitionsCommand"):
        done = run_tool(f"org.apache.kafka.tools.{name}", "--bootstrap-server", brokers.bootstrap, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with RdMembers(brokers.bootstrap) as members:
        a, b = (members.start(instance_id=name, **OPTIONS) for name in "ab")
        before = settled(brokers, a, b)
        to = brokers.coordinator_of("g") % 3 + 1
        rows = [{"topic": "__consumer_offsets", "partition": partition, "replicas": [to]}]
        plan.write_text(json.dumps({"version": 1, "partitions": rows}))
        moved(brokers, (a, b), before, lambda: tool("--reassignment-json-file", str(plan), "--execute"))
        assert brokers.coordinator_of("g") == to
        verified = tool("--reassignment-json-file", str(plan), "--verify", "--preserve-throttles")
        assert f"Reassignment of partition __consumer_offsets-{partition} is completed." in verified

        other = to % 3 + 1
        rows = [{"topic": "__consumer_offsets", "partition": partition, "replicas": [other, to]}]
        plan.write_text(json.dumps({"version": 1, "partitions": rows}))
        tool("--reassignment-json-file", str(plan), "--execute")
        assert brokers.coordinator_of("g") == to  # it is still a replica
        preferred = ["--election-type", "preferred", "--topic", "__consumer_offsets", "--partition", str(partition)]
        moved(brokers, (a, b), before, lambda: tool(*preferred, name="LeaderElectionCommand"))
        assert brokers.coordinator_of("g") == other
