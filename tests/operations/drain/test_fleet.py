"""Where the groups of a drain come from."""

from __future__ import annotations

from kgm.client import connect
from kgm.model.errors import NotFoundError
from kgm.operations.bounce.group import live_group
from kgm.operations.drain.fleet import live_fleet, recorded_fleet
from kgm.operations.drain.target import DrainTarget
from kgm.protocol.subscription import Subscription, encode_subscription
from tests.client.joiners import form_group
from tests.operations.drain.fleets import placed

LOOPBACK = DrainTarget(hosts=("127.0.0.1",))


def test_groups_that_are_read_in_bulk_are_what_they_are_when_read_one_by_one(server, group, form):
    """With the settings of the broker and its versions. What is in the log is held against a real Kafka."""
    form("a", "b", "c")
    others = form_group(server, f"{group}-2", [None, None], "orders")
    with connect(server.bootstrap, timeout_ms=20_000) as cluster:
        fleet = live_fleet(cluster, LOOPBACK, [group, f"{group}-2"])
        assert list(fleet.affected) == [live_group(cluster, group), live_group(cluster, f"{group}-2")]
    assert all(one.broker_settings for one in fleet.affected)
    for joiner in others:
        joiner.close()


def test_groups_without_members_there_are_described_and_not_asked_for_more(server, group, form):
    form("a")
    with connect(server.bootstrap, timeout_ms=20_000) as cluster:
        fleet = live_fleet(cluster, DrainTarget(hosts=("10.0.0.1",)), [group])
    assert ([one.group_id for one in fleet.described], fleet.affected) == ([group], ())


def test_a_group_that_does_not_exist_is_kept_as_an_error(server, group, form):
    form("a")
    with connect(server.bootstrap, timeout_ms=20_000) as cluster:
        fleet = live_fleet(cluster, LOOPBACK, [group, "no-such-group"])
    assert isinstance(fleet.unread["no-such-group"], NotFoundError)
    assert [one.snapshot.group_id for one in fleet.affected] == [group]


def test_all_groups_are_read_unless_some_are_named(server, group, form):
    form("a")
    with connect(server.bootstrap, timeout_ms=20_000) as cluster:
        fleet = live_fleet(cluster, LOOPBACK)
    assert group in {one.group_id for one in fleet.described}
    assert fleet.unseen is None


def test_a_broker_in_the_place_that_is_drained_is_told_to_groups_with_racks(server, group):
    """KIP-881: their members join again when a broker of their partitions is down, and its rack with it."""
    in_rack = encode_subscription(Subscription(topics=("orders",), rack_id="r1"))
    joiners = form_group(server, f"{group}-r", ["a"], "orders", metadata=in_rack)
    joiners += form_group(server, f"{group}-n", ["a"], "orders")
    with connect(server.bootstrap, timeout_ms=20_000) as cluster:
        fleet = live_fleet(cluster, LOOPBACK, [f"{group}-r", f"{group}-n"])
        (broker,) = cluster.brokers.brokers()
    told = {one.snapshot.group_id: [text for text in one.caveats if "join again" in text] for one in fleet.affected}
    assert told[f"{group}-n"] == []
    (text,) = told[f"{group}-r"]
    assert text.startswith(f"broker {broker.id} is in the place that is drained")
    for joiner in joiners:
        joiner.close()


def test_groups_of_a_file_are_taken_as_they_are():
    here, elsewhere = placed("here", ["h1"]), placed("elsewhere", ["h2"])
    fleet = recorded_fleet([here, elsewhere], DrainTarget(hosts=("h1",)), ["here", "none"], path="s.json")
    assert [one.snapshot for one in fleet.affected] == [here]
    assert fleet.described == (here,)
    assert str(fleet.unread["none"]) == "the snapshot in file s.json has no group none"
