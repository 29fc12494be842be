"""Predictions for consumer groups whose broker did not say how often members heartbeat, or how long it waits between
target assignments (KIP-848, KIP-1263)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.model.broker_version import BrokerVersion
from kgm.model.snapshot import CoordinatorNode, TopicSnapshot
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan, Rolling
from kgm.simulation.plan.synthetic_group import synthetic_group

KNOWN = {
    "group.consumer.assignors": "uniform",
    "group.consumer.assignment.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "5000",
}
LONGEST = "15000"
GROUP = synthetic_group(
    4, [TopicSnapshot(name="t", partitions=12)], Membership.DYNAMIC, "uniform", GroupProtocol.CONSUMER
)


def predicted(settings, group=GROUP):
    live = replace(group, coordinator=CoordinatorNode(id=1, host="127.0.0.1", port=9092))
    everyone = tuple(member.identity for member in live.members)
    plan = Plan(
        bounce=everyone, rolling=Rolling(), restart_time_ms=5_000, settings=settings,
        kafka_version=BrokerVersion.parse("4.3"),
    )  # fmt: skip
    return simulate(live, plan, draws=20)


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
