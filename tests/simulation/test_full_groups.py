"""Restarts in a group that has as many members as the broker allows. The next process of a static member has another
member id, so Kafka refuses it until the session of the last one ends.

Expected are what real clients did on Kafka 4.3.0 (groups of 4 static members and a limit of 4, one of them back after
2 to 3 s): a Java consumer of either protocol, and a librdkafka one of a consumer group, ended, and the group had one
rebalance without it; a classic librdkafka one tried again every 2 s, and the group had one or two."""

from dataclasses import replace

import pytest

from kgm.model.broker_version import BrokerVersion
from kgm.model.snapshot import TopicSnapshot
from kgm.operations.bounce.gates import Gates
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.bounce.prediction import predict_bounce
from kgm.operations.bounce.prediction import simulate as simulate_group
from kgm.operations.bounce.request import BounceRequest
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan, Stop, WhatIf
from kgm.simulation.plan.synthetic_group import synthetic_group
from tests.simulation.groups import STATIC, ids

TOPICS = [TopicSnapshot(name="t", partitions=8)]
PROTOCOLS = pytest.mark.parametrize("protocol", GroupProtocol, ids=lambda protocol: protocol.value)


def size_limit_of(protocol):
    return "group.max.size" if protocol is GroupProtocol.CLASSIC else "group.consumer.max.size"


def restarted(protocol, limit, *, library="java", membership=STATIC, members=4, **options):
    """The prediction for the restart of one member."""
    snapshot = synthetic_group(members, TOPICS, membership, "range", protocol)
    plan = Plan(
        bounce=ids(snapshot, 1), restart_time_ms=2_000, settings={size_limit_of(protocol): str(limit)}, what_if=WhatIf(library=library),
        **options,
    )  # fmt: skip
    return simulate(snapshot, plan, draws=20)


@pytest.mark.few(2)
@PROTOCOLS
@pytest.mark.parametrize("library", ["java", "librdkafka"])
def test_a_static_restart_is_refused(protocol, library):
    found = restarted(protocol, 4, library=library)
    assert not found.exact
    assert (found.ranges.rebalances.min, found.ranges.rebalances.max) == (1, 2)
    assert found.typical.refused_joins == 1
    assert any("the group is full: member-2 cannot join before a session ends" in text for text in found.caveats)


@PROTOCOLS
def test_with_room_for_one_more_it_is_not(protocol):
    found = restarted(protocol, 5)
    assert found.exact
    assert (found.typical.rebalances, found.typical.refused_joins) == (0, 0)


def test_since_4_4_a_consumer_group_counts_a_static_member_once():
    found = restarted(GroupProtocol.CONSUMER, 4, kafka_version=BrokerVersion.parse("4.4"))
    assert found.exact
    assert (found.typical.generations, found.typical.refused_joins) == (0, 0)


def test_a_classic_consumer_of_librdkafka_is_back_once_the_session_has_ended():
    found = restarted(GroupProtocol.CLASSIC, 4, library="librdkafka")
    assert len(found.typical.final_assignment) == 4
    assert any("librdkafka tries again until then" in text for text in found.caveats)


@PROTOCOLS
def test_so_is_a_process_that_is_started_again(protocol):
    found = restarted(protocol, 4, retry_every_ms=10_000)
    assert len(found.typical.final_assignment) == 4
    assert found.typical.refused_joins > 1
    away = restarted(protocol, 4)
    assert len(away.typical.final_assignment) == 3
    assert any("started again later, joins then" in text for text in away.caveats)


@PROTOCOLS
def test_so_is_a_killed_dynamic_member(protocol):
    found = restarted(protocol, 4, membership=Membership.DYNAMIC, stop=Stop.CRASH)
    assert not found.exact
    assert found.ranges.rebalances.max >= 2
    assert any("cannot join before a session ends" in text for text in found.caveats)


def test_a_limit_that_was_lowered_drops_members_in_a_rebalance_that_one_causes_by_leaving():
    snapshot = synthetic_group(4, TOPICS, Membership.DYNAMIC, "range")
    plan = Plan(scale_in=ids(snapshot, 1), settings={"group.max.size": "2"}, what_if=WhatIf(library="java"))
    found = simulate(snapshot, plan, draws=20)
    assert not found.exact  # who is dropped is a matter of timing
    assert len(found.typical.final_assignment) == 2
    assert any("the group is full and refuses" in text for text in found.caveats)


def unread(protocol, *, membership=STATIC):
    """A group of 4 whose broker does not show its settings."""
    return BounceGroup(snapshot=synthetic_group(4, TOPICS, membership, "range", protocol), has_unread_settings=True)


@pytest.mark.few(1)
@PROTOCOLS
def test_a_group_whose_limit_is_not_known_may_be_full(protocol):
    group, name = unread(protocol), size_limit_of(protocol)
    request = BounceRequest(instance_ids=ids(group.snapshot, 1), restart_time_ms=2_000, what_if=WhatIf(library="java"))
    gates = Gates(rebalances=0)
    predicted = predict_bounce(group, request, gates=gates)
    assert not predicted.predictions[0].exact
    assert f"the broker's {name}" in predicted.unread.facts
    assert any(f"--set {name}=N" in text for text in predicted.predictions[0].caveats)
    assert predict_bounce(group, request).unread is None  # without a limit, a caveat is enough
    stated = predict_bounce(group, replace(request, settings={name: "5"}), gates=gates)
    assert (stated.predictions[0].exact, stated.failed_gates, stated.unread) == (True, (), None)
    full = predict_bounce(group, replace(request, settings={name: "4"}), gates=gates)
    assert (len(full.failed_gates), full.unread) == (1, None)


@PROTOCOLS
@pytest.mark.parametrize(
    ("membership", "options", "more"),
    [
        (Membership.DYNAMIC, {}, False),
        (Membership.DYNAMIC, {"stop": Stop.CRASH}, True),
        (STATIC, {"stop": Stop.CRASH}, True),
        (STATIC, {"stop": Stop.LEAVE}, False),
        (STATIC, {"remove_first": True}, False),
    ],
)
def test_only_processes_that_start_before_the_last_is_gone_may_lack_room(protocol, membership, options, more):
    group = unread(protocol, membership=membership)
    plan = Plan(bounce=ids(group.snapshot, 1), restart_time_ms=2_000, what_if=WhatIf(library="java"), **options)
    assert simulate_group(group, plan, draws=5).may_be_full is more


def test_new_members_may_lack_room():
    group = unread(GroupProtocol.CLASSIC)
    assert simulate_group(group, Plan(scale_out=1), draws=2).may_be_full
    assert not simulate_group(group, Plan(scale_in=ids(group.snapshot, 1)), draws=2).may_be_full


def test_a_static_member_that_is_counted_once_has_room():
    group = unread(GroupProtocol.CONSUMER)
    plan = Plan(bounce=ids(group.snapshot, 1), kafka_version=BrokerVersion.parse("4.4"))
    assert not simulate_group(group, plan, draws=2).may_be_full
