"""What the doctor says of groups whose assignment is odd, whose topic was deleted, or whose members were away, on a real
Kafka."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from kgm.client import connect
from kgm.model.snapshot_json import snapshot_from_json
from kgm.operations.doctor.diagnosis import diagnose, run_checks
from kgm.operations.doctor.group_facts import GroupFacts
from kgm.operations.watch.conditions import parse_condition
from kgm.operations.watch.timekeeper import SystemTimekeeper
from kgm.operations.watch.wait import WaitLimits, wait_for
from kgm.protocol.subscription import MemberAssignment, encode_assignment
from tests.client.joiners import Joiner
from tests.kafka.heartbeat_group import HeartbeatGroup
from tests.server.wire_client import WireClient
from tests.waiting import until

pytestmark = pytest.mark.kafka


def assigned(*partitions, topic):
    return encode_assignment(MemberAssignment(partitions={topic: list(partitions)}))


@pytest.fixture
def topic(kafka):
    name = f"odd-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({name: 2})
    return name


@pytest.fixture
def group(kafka, topic):
    """`group(bytes)`: a stable group with one member, `a`, that has this assignment."""
    joiners = []

    def make(assignment):
        joiner = Joiner(kafka.port, f"g-{topic}", "a", topic)
        joiners.append(joiner)
        assert joiner.join().error_code == 0
        assert joiner.sync({joiner.member_id: assignment}).error_code == 0
        return joiner

    yield make
    for joiner in joiners:
        joiner.close()


@pytest.fixture
def cluster(kafka):
    with connect(kafka.bootstrap, timeout_ms=60_000) as cluster:
        yield cluster


def checks(cluster, name):
    return {one.check: one for one in diagnose(cluster, [name], window_ms=0).findings}


@pytest.mark.parametrize("blob", [b"\xff\xff", b"\x00\x01\x7f\xff\xff\xff", b"\x00\x01\x00\x00\x00\x01\x00\x05ab"])
def test_bytes_that_cannot_be_decoded_are_not_nothing(cluster, group, blob):
    joiner = group(blob)
    found = checks(cluster, joiner.group)
    assert "unowned-partitions" not in found
    assert "idle-members" not in found
    assert found["unreadable-members"].about == ("a",)
    (member,) = cluster.describe_group(joiner.group).members
    assert not member.is_readable
    assert not snapshot_from_json(cluster.describe_group(joiner.group).to_json()).members[0].is_readable


def test_an_assignment_of_nothing_is_readable(cluster, group, topic):
    joiner = group(assigned(topic=topic))
    found = checks(cluster, joiner.group)
    assert "unowned-partitions" in found
    assert "unreadable-members" not in found


def test_a_partition_of_two_members_is_found(cluster, group, topic):
    """As a custom assignor may leave it."""
    joiner = group(assigned(0, 1, topic=topic))
    one = cluster.describe_group(joiner.group)
    assert "double-owners" not in checks(cluster, joiner.group)
    (member,) = one.members
    twin = replace(member, member_id="b-1", group_instance_id="b", assignment={topic: (1,)})
    both = replace(one, members=(member, twin))

    def found(group, **more):
        return {one.check: one for one in run_checks(GroupFacts(group=group, now_ms=0, **more))}

    double = found(both)["double-owners"]
    assert (double.severity, double.about, double.evidence) == ("error", (f"{topic}-1",), (f"{topic}[1]: a, b",))
    assert "double-owners" in found(both, earlier=both)
    assert "double-owners" not in found(both, earlier=one)  # a moment of a handover
    assert "double-owners" not in found(replace(both, state="PreparingRebalance"))
    assert "double-owners" not in found(replace(both, type="share"))


def test_the_offsets_of_a_deleted_topic_say_why_there_is_no_lag(kafka, cluster, group, topic):
    joiner = group(assigned(0, 1, topic=topic))
    for partition in (0, 1):
        assert joiner.commit(partition, 0) == 0
    assert "deleted-topics" not in checks(cluster, joiner.group)
    condition = [parse_condition("lag<=0")]
    limits = WaitLimits(timeout_ms=60_000, hold_ms=0, interval_ms=10)
    assert wait_for(cluster, joiner.group, condition, limits, SystemTimekeeper()).met
    admin = kafka.admin()  # which ends what it does when nothing holds it
    admin.delete_topics([topic])[topic].result(30)
    cluster.renew(60_000)
    until(lambda: cluster.describe_group(joiner.group).deleted_topics == (topic,), "the topic is still there")
    found = checks(cluster, joiner.group)
    assert found["deleted-topics"].about == (topic,)
    assert "offsets-of-other-topics" not in found
    result = wait_for(cluster, joiner.group, condition, limits, SystemTimekeeper())
    assert result.error is not None
    assert result.error.message.endswith("cannot be met: lag<=0")
    assert topic in result.error.facts[0]
    assert result.waited_ms < limits.timeout_ms


def test_a_member_of_a_consumer_group_that_came_back_under_its_id(kafka, cluster, topic):
    with WireClient(kafka.port) as wire:
        members = HeartbeatGroup(wire, f"c-{topic}", [topic], "uniform")
        for name in ("stays", "stalls", "restarts"):
            members.join(name, None)
        for name, after in (("stalls", "stalls"), ("restarts", "restarted")):
            members.leave(name)
            members.join(after, None)
        one = checks(cluster, members.group_id)["max-poll-exceeded"]
        assert one.about == ("stalls",)
        assert "max.poll.interval.ms is 1m: if that had passed, it did not poll for 1m" in one.evidence[0]
        for name in [*members.epochs]:
            members.leave(name)
