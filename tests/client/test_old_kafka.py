"""Kafka 2.2: no instance ids, one member a LeaveGroup, no types or states in listings."""

import json
import uuid

import pytest

from kgm.client import connect
from kgm.model.errors import NotFoundError
from tests.cli.runner import kgm
from tests.kafka.members import RdMembers, wait_settled
from tests.kafka.records import commit
from tests.operations.deletion.test_kafka import delete, tombstones

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
PARTITIONS = 4


@pytest.fixture(scope="module")
def old_kafka():
    from tests.kafka.broker import OldKafka

    with OldKafka() as broker:
        yield broker


@pytest.fixture
def group(old_kafka):
    """(group id, its three dynamic members)."""
    name, topic = f"g-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}"
    old_kafka.create_topics({topic: PARTITIONS})
    with RdMembers(old_kafka.bootstrap) as members:
        fleet = [members.start(group=name, topics=[topic], session_timeout_ms=20_000) for _ in range(3)]
        wait_settled(fleet, PARTITIONS)
        yield name, fleet


def test_list_and_describe(old_kafka, group):
    name, fleet = group
    with connect(old_kafka.bootstrap, timeout_ms=20_000) as cluster:
        row = next(one for one in cluster.list_groups().groups if one.group_id == name)
        assert (row.state, row.type, row.protocol_type) == (None, None, "consumer")
        found, missing = cluster.describe_groups([name, "no-such"])
        assert isinstance(missing, NotFoundError)
        assert (found.type, found.state, found.assignor) == ("classic", "Stable", "range")
        assert {one.member_id for one in found.members} == {one.member_id for one in fleet}
        assert sum(len(p) for one in found.members for p in one.assignment.values()) == PARTITIONS
        assert [one.group_id for one in cluster.list_groups(states=["stable"]).groups].count(name) == 1


def test_dynamic_members_leave_one_by_one(old_kafka, group):
    name, fleet = group
    gone = [fleet[0].member_id, fleet[1].member_id]
    fleet[0].crash()
    fleet[1].crash()
    run = kgm(
        "remove-members", name, "-b", old_kafka.bootstrap, "--member-ids", ",".join([*gone, "nobody"]), "--yes",
        "--assume-stopped",
        "--ignore-missing", "--reason", "old", "-o", "json",
    )  # fmt: skip
    assert run.code == 0, run
    assert [row["result"] for row in json.loads(run.out)["data"]["results"]] == ["removed", "removed", "absent"]
    assert "takes no reason" in run.err
    with connect(old_kafka.bootstrap, timeout_ms=20_000) as cluster:
        assert [one.member_id for one in cluster.describe_group(name).members] == [fleet[2].member_id]


def test_static_members_are_refused_with_the_reason(old_kafka, group):
    name, _ = group
    run = kgm("remove-members", name, "-b", old_kafka.bootstrap, "--instance-ids", "a", "--yes")
    assert run.code == 6
    assert "LeaveGroup: the broker supports up to v2; instance ids need v3 (Kafka 2.4)" in run.err


def test_groups_are_deleted_and_offsets_are_not(old_kafka):
    """It has no OffsetDelete."""
    group, topic = f"g-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}"
    old_kafka.create_topics({topic: 2})
    commit(old_kafka.bootstrap, group, (topic, 0, 3))
    code, _, err = delete(old_kafka.bootstrap, group, "--topic", topic, "--idle-for", "0s")
    assert (code, "does not support OffsetDelete (Kafka 2.4)" in err) == (6, True)
    code, found, err = delete(old_kafka.bootstrap, group, "--idle-for", "0s")
    assert (code, found) == (0, {group: ("removed", None)}), err
    assert ("OffsetCommitKey", topic, 0) in tombstones(old_kafka.bootstrap, group)
