"""Where the group of a prediction comes from."""

from __future__ import annotations

import pytest

from kgm.client import connect
from kgm.model.errors import NotFoundError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.group import as_broker_settings, live_group, recorded_group
from kgm.operations.bounce.prediction import predict_bounce
from kgm.operations.bounce.request import BounceRequest


def test_settings_of_a_group_come_with_bounds_that_allow_them():
    session = {"consumer.session.timeout.ms": "5000"}
    limits = {"group.consumer.min.session.timeout.ms": "7000", "group.consumer.max.session.timeout.ms": "9000"}
    lowered = {
        "group.consumer.session.timeout.ms": "5000",
        "group.consumer.min.session.timeout.ms": "5000",
        "group.consumer.max.session.timeout.ms": "9000",
    }
    assert as_broker_settings(session, limits) == lowered
    assert as_broker_settings(session, {}) == lowered | {"group.consumer.max.session.timeout.ms": "60000"}
    copies = {"streams.num.standby.replicas": "3", "streams.initial.rebalance.delay.ms": "0"}
    assert as_broker_settings(copies, {}) == {
        "group.streams.num.standby.replicas": "3",
        "group.streams.max.standby.replicas": "3",
        "group.streams.initial.rebalance.delay.ms": "0",
    }


def snapshot(group_id):
    return GroupSnapshot(group_id=group_id, type="classic", state="Empty")


def test_the_only_group_of_a_file_need_not_be_named():
    assert recorded_group([snapshot("a")], None, path="f").snapshot.group_id == "a"
    assert recorded_group([snapshot("a"), snapshot("b")], "b", path="f").snapshot.group_id == "b"


def test_a_group_that_is_not_in_the_file_is_named():
    with pytest.raises(NotFoundError, match=r"file s\.json has no group c"):
        recorded_group([snapshot("a")], "c", path="s.json")
    with pytest.raises(NotFoundError, match=r"file s\.json is empty"):
        recorded_group([], None, path="s.json")
    with pytest.raises(UsageError, match=r"s\.json contains 2 groups") as caught:
        recorded_group([snapshot("a"), snapshot("b")], None, path="s.json")
    assert caught.value.facts == ("groups: a, b",)


def test_a_live_group_is_only_read_and_brings_the_settings_of_its_broker(server, group, form):
    joiners = form("a", "b", "c")
    with connect(server.bootstrap, timeout_ms=10_000) as cluster:
        live = live_group(cluster, group)
    assert sorted(member.identity for member in live.snapshot.members) == ["a", "b", "c"]
    assert live.broker_settings["group.initial.rebalance.delay.ms"] == "0"
    assert not live.is_made_up
    (prediction,) = predict_bounce(live, BounceRequest(everyone=True), draws=3).predictions
    assert prediction.typical.final_assignment.keys() == {"a", "b", "c"}
    generation = server.inspect(lambda coordinator: coordinator.group(group).generation)
    assert generation == joiners[0].generation


def test_a_live_group_that_does_not_exist_is_not_found(server):
    with connect(server.bootstrap, timeout_ms=10_000) as cluster, pytest.raises(NotFoundError, match="no-such-group"):
        live_group(cluster, "no-such-group")
