"""Which version of Kafka a prediction plays: that of the group's broker, as far as it is known."""

from dataclasses import replace

import pytest

from kgm.model.broker_version import BrokerVersion
from kgm.model.errors import UsageError
from kgm.model.snapshot import CoordinatorNode, TopicSnapshot
from kgm.operations.bounce.group import BounceGroup, made_up_group, usable_settings, with_known_coordinator
from kgm.operations.bounce.prediction import predict_bounce, simulate
from kgm.operations.bounce.request import BounceRequest, plan_for
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan, WhatIf

MADE_UP = made_up_group(3, [TopicSnapshot(name="t", partitions=12)]).snapshot
LIVE = replace(MADE_UP, coordinator=CoordinatorNode(id=1, host="127.0.0.1", port=9092))
ONE = BounceRequest(instance_ids=("member-1",))


def on(*versions, snapshot=LIVE):
    """The group on a broker that may have these versions."""
    return replace(snapshot, kafka_versions=tuple(map(BrokerVersion.parse, versions)))


def played(snapshot, request=ONE):
    plan = plan_for(request, BounceGroup(snapshot=snapshot))
    return plan.kafka_version and str(plan.kafka_version), [str(version) for version in plan.other_versions]


def caveats(snapshot, request=ONE):
    predicted = predict_bounce(BounceGroup(snapshot=snapshot), request, draws=2)
    return [text for text in predicted.predictions[0].caveats if "version" in text]


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ((), (None, [])),
        (("4.1",), ("4.1", [])),
        (("3.3", "3.4"), ("3.4", ["3.3"])),
        (("3.9", "3.9+new"), ("3.9", ["3.9+new"])),
    ],
)
def test_of_several_versions_the_latest_is_played_with_its_default_coordinator(versions, expected):
    assert played(on(*versions)) == expected


def test_the_version_that_is_asked_for_counts():
    request = replace(ONE, kafka_version=BrokerVersion.parse("2.8"))
    assert played(on("3.9", "3.9+new"), request) == ("2.8", [])
    assert played(on(), request) == ("2.8", [])
    assert caveats(on(), request) == []


def test_a_broker_whose_version_was_not_saved_is_assumed_to_behave_as_the_reference_and_that_is_said():
    (text,) = caveats(LIVE)
    assert text == "the broker's version is not known: it is assumed to behave as Kafka 4.3 (--kafka-version)"
    assert caveats(on("4.3")) == []
    assert caveats(on("3.9", "3.9+new")) == []  # nothing here depends on it
    assert caveats(MADE_UP) == []  # there is no broker


def prediction(snapshot, request=ONE):
    return predict_bounce(BounceGroup(snapshot=snapshot), request, draws=2).predictions[0]


def test_nothing_is_exact_on_a_broker_that_is_no_apache_kafka():
    foreign = prediction(on())
    assert not foreign.exact
    assert foreign.caveats[0] == (
        "the broker is not a release of Apache Kafka that kgm knows: it is simulated as Kafka 4.3 (--kafka-version), and may "
        "behave differently"
    )
    assert prediction(on("4.3")).exact
    assert prediction(on(), replace(ONE, kafka_version=BrokerVersion.parse("4.3"))).exact


def test_the_ranges_include_what_the_other_versions_that_a_broker_may_have_would_do():
    """New members extend the initial delay of a group that was empty, with the coordinator in Java only. A member that
    rejoins just before it stops is in one more generation with either."""
    members = tuple(replace(one, group_instance_id=None, member_id=f"m-{one.identity}") for one in LIVE.members)
    group = replace(LIVE, members=members, generation=7)
    request = BounceRequest(
        everyone=True, restart_time_ms=10_000, scale_out=3, scale_out_every_ms=2_500, heartbeat_interval_ms=3_000
    )  # fmt: skip
    generations = {}
    for versions in (("3.9",), ("3.9+new",), ("3.9", "3.9+new")):
        predicted = predict_bounce(BounceGroup(snapshot=on(*versions, snapshot=group)), request, draws=6).predictions[0]
        assert not predicted.exact
        generations[versions] = predicted.ranges.generations
        assert any("may also be Kafka 3.9+new" in text for text in predicted.caveats) == (len(versions) > 1)
    scala, java, both = generations.values()
    assert java.min < scala.min == scala.median
    assert (both.min, both.max) == (java.min, max(scala.max, java.max))


def test_a_saved_version_that_kgm_does_not_know_is_named():
    with pytest.raises(UsageError, match=r"Kafka 9\.1 is not known to kgm"):
        played(on("9.1"))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ("3.9", "3.9+new")),
        ({"group.coordinator.new.enable": "false", "group.coordinator.rebalance.protocols": "classic"}, ("3.9",)),
        ({"group.coordinator.rebalance.protocols": "classic"}, ("3.9",)),
        ({"group.coordinator.new.enable": "true", "group.coordinator.rebalance.protocols": "classic"}, ("3.9+new",)),
        ({"group.coordinator.rebalance.protocols": "classic,consumer"}, ("3.9+new",)),
    ],
)
def test_a_brokers_settings_say_which_coordinator_it_runs(settings, expected):
    assert with_known_coordinator(on("3.9", "3.9+new"), settings) == on(*expected)


def test_releases_with_one_coordinator_need_no_setting():
    settings = {"group.coordinator.rebalance.protocols": "classic"}
    assert with_known_coordinator(on("4.1"), settings) == on("4.1")
    # `kgm serve --kafka-version 2.8` describes the settings of 4.3.
    settings = {"group.coordinator.rebalance.protocols": "classic,consumer"}
    assert with_known_coordinator(on("2.8"), settings) == on("2.8")


def test_settings_are_taken_as_the_engine_has_them():
    package = "org.apache.kafka.coordinator.group.assignor"
    asked = {
        "group.max.size": "7",
        "group.coordinator.new.enable": "true",
        "group.consumer.assignors": f"{package}.RangeAssignor,{package}.UniformAssignor, com.example.Own",
    }
    listed = "range,uniform,com.example.Own"
    assert usable_settings(asked) == {"group.max.size": "7", "group.consumer.assignors": listed}
    assert usable_settings({"group.consumer.assignors": ""}) == {}


def consumers(**settings):
    """A consumer group of a broker with these settings: nobody knows which members ask for its assignor."""
    made_up = made_up_group(3, [TopicSnapshot(name="t", partitions=12)], protocol=GroupProtocol.CONSUMER)
    coordinator = CoordinatorNode(id=1, host="127.0.0.1", port=9092)
    snapshot = replace(made_up.snapshot, coordinator=coordinator)
    return BounceGroup(snapshot=snapshot, broker_settings=usable_settings(settings))


OWN_FIRST = {"group.consumer.assignors": "com.example.Own,org.apache.kafka.coordinator.group.assignor.UniformAssignor"}


@pytest.mark.long
def test_a_default_assignor_that_kgm_does_not_know_leaves_open_what_moves():
    """Without the member that goes the group may get com.example.Own: all 12 partitions may move then."""
    plan = Plan(scale_in=("member-1",))
    known = simulate(consumers(**{"group.consumer.assignors": "uniform,com.example.Own"}), plan)
    assert not any("com.example.Own" in text for text in known.caveats)
    found = simulate(consumers(**OWN_FIRST), plan)
    assert not found.exact
    assert found.ranges.moved_partitions.max == 12
    assert any("kgm does not know the broker's assignor com.example.Own" in text for text in found.caveats)
    stated = replace(plan, what_if=WhatIf(assignor="uniform"))
    assert not any("com.example.Own" in text for text in simulate(consumers(**OWN_FIRST), stated).caveats)


def test_so_do_members_that_come_back_with_the_consumer_protocol():
    made_up = made_up_group(3, [TopicSnapshot(name="t", partitions=12)], membership=Membership.DYNAMIC)
    classic = replace(made_up, broker_settings=OWN_FIRST)
    bounce = tuple(member.identity for member in classic.snapshot.members)
    migrated = simulate(classic, Plan(bounce=bounce, migrate=True), draws=5)
    assert any("kgm does not know the broker's assignor com.example.Own" in text for text in migrated.caveats)
    assert any("uses the broker's first, com.example.Own" in text for text in migrated.caveats)
    supposed = simulate(classic, Plan(scale_in=bounce[:1], what_if=WhatIf(protocol=GroupProtocol.CONSUMER)), draws=5)
    assert not supposed.exact
    assert any("kgm does not know the broker's assignor com.example.Own" in text for text in supposed.caveats)
