"""Predictions where nobody said how often members heartbeat: the members of a classic group, or the broker of a consumer
group, which also waits between target assignments (KIP-848, KIP-1263)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.model.broker_version import BrokerVersion
from kgm.model.snapshot import CoordinatorNode, TopicSnapshot
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan, Rolling
from kgm.simulation.plan.synthetic_group import synthetic_group
from tests.simulation.groups import made_up

KNOWN = {
    "group.consumer.assignors": "uniform",
    "group.consumer.assignment.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "5000",
}
LONGEST = "15000"
GROUP = synthetic_group(
    4, [TopicSnapshot(name="t", partitions=12)], Membership.DYNAMIC, "uniform", GroupProtocol.CONSUMER
)


def predicted(settings, group=GROUP, interval_ms=None):
    live = replace(group, coordinator=CoordinatorNode(id=1, host="127.0.0.1", port=9092))
    everyone = tuple(member.identity for member in live.members)
    plan = Plan(
        bounce=everyone, rolling=Rolling(), restart_time_ms=5_000, settings=settings,
        kafka_version=BrokerVersion.parse("4.3"), heartbeat_interval_ms=interval_ms,
    )  # fmt: skip
    return simulate(live, plan, draws=20)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["group.consumer.assignment.interval.ms", "group.consumer.heartbeat.interval.ms"])
def test_an_interval_that_is_not_known_may_be_any_that_brokers_allow(name):
    """A broker that waits does not assign in between what a member leaves that comes right back: fewer partitions
    change hands, and they stop for longer."""
    unknown = predicted({key: value for key, value in KNOWN.items() if key != name})
    assert not unknown.exact
    assert any(name in caveat and "ranges include" in caveat for caveat in unknown.caveats)
    stopped_ms = unknown.stopped_partition_range_ms
    for value in (KNOWN[name], LONGEST):
        known = predicted(KNOWN | {name: value})
        assert not any("ranges include" in caveat for caveat in known.caveats)
        told = known.typical.handovers
        assert unknown.ranges.handovers.min <= told <= unknown.ranges.handovers.max
        assert stopped_ms.min <= known.typical.stopped_partition_ms <= stopped_ms.max


def test_a_group_that_keeps_its_assignment_does_not_depend_on_intervals():
    static = synthetic_group(
        4, [TopicSnapshot(name="t", partitions=12)], Membership.STATIC, "uniform", GroupProtocol.CONSUMER
    )
    prediction = predicted({}, static)
    assert prediction.exact
    assert prediction.typical.handovers == 0


@pytest.mark.long
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_members_of_a_classic_group_may_heartbeat_as_seldom_as_kafka_recommends(assignor):
    """Those that heartbeat every 10 s have not noticed that a member left when it is back: that is one rebalance, which
    takes long."""
    group = made_up(4, 12, Membership.DYNAMIC, assignor)
    unknown, usual, seldom = (predicted({}, group, interval_ms) for interval_ms in (None, 3_000, 10_000))
    assert seldom.typical.rebalances < usual.typical.rebalances
    assert any("heartbeats every 15 s" in caveat for caveat in unknown.caveats)
    assert not unknown.exact
    for known in (usual, seldom):
        assert not any("heartbeats every 15 s" in caveat for caveat in known.caveats)
        assert unknown.ranges.rebalances.min <= known.typical.rebalances <= unknown.ranges.rebalances.max
        assert known.typical.stopped_partition_ms <= unknown.stopped_partition_range_ms.max


def test_a_group_without_a_broker_has_members_that_heartbeat_as_usual():
    group = made_up(4, 12, Membership.DYNAMIC, "range")
    plan = Plan(bounce=tuple(member.identity for member in group.members), rolling=Rolling(), restart_time_ms=5_000)
    prediction = simulate(group, plan, draws=20)
    assert prediction.ranges.rebalances.min == prediction.ranges.rebalances.max == 8


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("library", "assignor"), [("java", "range"), ("librdkafka", "range"), ("librdkafka", "roundrobin")]
)
def test_one_short_session_does_not_shorten_the_heartbeats_of_the_others(library, assignor):
    """Real static members on Kafka 4.3.0: one with a session timeout of 8 s was back after 13 to 14 s. The others, with
    45 s and heartbeats every 14 to 15 s, had not noticed that its session was over: one rebalance, and nobody else got
    its partitions."""
    group = made_up(3, 12, Membership.STATIC, assignor, library=library)
    members = tuple(
        replace(one, session_timeout_ms=45_000 if place else 8_000) for place, one in enumerate(group.members)
    )
    live = replace(group, members=members, coordinator=CoordinatorNode(id=1, host="127.0.0.1", port=9092))
    plan = Plan(bounce=("member-1",), restart_time_ms=13_500, kafka_version=BrokerVersion.parse("4.3"))
    found = simulate(live, plan, draws=50)
    assert not found.exact
    assert (found.ranges.rebalances.min, found.ranges.handovers.min) == (1, 0)
    assert found.stopped_partition_range_ms.max > 4 * 13_000
    assert any("heartbeats every 15 s, or a third of a shorter session timeout," in caveat for caveat in found.caveats)
