"""A topic that Java members find when they join again: their own regular expressions match it, and no API shows them."""

import uuid

import pytest

from kgm.client import connect
from kgm.client.leave_group import MemberToRemove
from kgm.model.errors import KgmError
from kgm.operations.bounce.group import live_group
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan
from tests.kafka.members import JavaMembers
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.kafka]
NAMES = ("x1", "x2", "x3")


def owners(group):
    return {
        (topic, number): member.identity
        for member in group.members
        for topic, numbers in member.assignment.items()
        for number in numbers
    }


def described(cluster, group_id, members, partitions):
    """The group, once it is stable with so many members that own so many partitions."""
    cluster.renew()
    (group,) = cluster.describe_groups([group_id], offsets=False)
    if isinstance(group, KgmError):
        return None
    is_there = group.state == "Stable" and len(group.members) == members and len(owners(group)) == partitions
    return group if is_there else None


def test_members_bring_a_new_topic_with_the_next_rebalance(kafka):
    prefix, group_id = f"t{uuid.uuid4().hex[:8]}", f"g-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({f"{prefix}-a": 5, f"{prefix}-b": 3})
    members = JavaMembers(kafka.bootstrap)
    try:
        started = {
            name: members.start(
                group=group_id, topics=[f"^{prefix}-.*"], instance_id=name, assignor="roundrobin",
                session_timeout_ms=10_000, heartbeat_interval_ms=500,
            )
            for name in NAMES
        }  # fmt: skip
        with connect(kafka.bootstrap) as cluster:
            before = until(lambda: described(cluster, group_id, 3, 8), "the group does not become stable", 60)
            kafka.create_topics({f"{prefix}-0": 5})

            def seen():
                cluster.renew()
                group = live_group(cluster, group_id).snapshot
                return group if group.similar_topics else None

            found = until(seen, "the new topic is not seen", 30)
            assert [(topic.name, topic.partitions) for topic in found.similar_topics] == [(f"{prefix}-0", 5)]
            predicted = simulate(found, Plan(remove=("x2",), heartbeat_interval_ms=500), draws=20)
            assert not predicted.exact
            assert simulate(found, Plan(bounce=("x2",), restart_time_ms=1_000), draws=20).exact
            started["x2"].close()
            cluster.renew()
            leaving = [MemberToRemove(group_instance_id="x2")]
            cluster.leave_group(group_id, leaving, reason="test", deadline=cluster.deadline)
            after = until(lambda: described(cluster, group_id, 2, 13), "the new topic is not assigned", 60)
        now, then = owners(after), owners(before)
        moved = sum(now[place] != then.get(place) for place in now)
        assert moved > predicted.ranges.moved_partitions.median  # 11, and 5 without the new topic
        assert predicted.ranges.moved_partitions.min <= moved <= predicted.ranges.moved_partitions.max
    finally:
        members.stop()
