"""Logs that do not begin where their groups do: what was there before is not told as new."""

import pyarrow.compute as pc

from kgm.history.derive import derive
from kgm.model.broker_version import BrokerVersion
from tests.history.truth.consumer_lives import ConsumerWorld
from tests.history.truth.lives import Log, World


def rebalances(raw, since_ms=0):
    """(cause, confidence, who it is about) of each rebalance that a log shows which begins then."""
    rows = derive(raw.filter(pc.greater_equal(raw.column("timestamp"), since_ms))).tables["gold_rebalance"].to_pylist()
    return [(row["cause"], row["confidence"], sorted(who["client_id"] for who in row["who"])) for row in rows]


def test_a_member_that_was_there_before_the_log_begins_has_not_joined():
    """A static member restarts without a rebalance: its records are the first ones that the log has of it."""
    world = ConsumerWorld(1)
    keeper, static, other, late = world.clients = [
        world.client(world, name, instance, ["orders"])
        for name, instance in (("keeper", None), ("static", "s"), ("other", None), ("late", None))
    ]
    for client in (keeper, static):
        client.start()
        world.run(10_000)
    began = world.log.now
    other.start()
    world.run(10_000)
    static.close()
    world.run(1_000)
    static.start()
    world.run(10_000)
    late.start()
    world.run(10_000)
    raw = world.log.raw()
    assert rebalances(raw)[-1] == ("join", "certain", ["late"])
    assert rebalances(raw, began) == [("join", "likely", ["late"])]
    static.close()
    world.run(1_000)
    began = world.log.now
    static.topics = ["extra"]
    keeper.subscribe(["extra"])  # the first epoch that the log has
    world.run(10_000)
    static.start()
    raw = world.log.raw()
    assert rebalances(raw, began)[-1] == ("subscription-change", "likely", ["static"])


def test_members_that_leave_unseen_are_no_change_of_topics():
    """An empty group subscribes to no topic, and the hash of its topics changes with that."""
    world = ConsumerWorld(1)
    keeper, old = world.clients = [world.client(world, name, None, ["orders"]) for name in ("keeper", "old")]
    for client in (keeper, old):
        client.start()
        world.run(10_000)
    began = world.log.now
    keeper.subscribe(["orders", "extra"])
    world.run(10_000)
    keeper.close()
    world.run(10_000)
    old.close()
    assert [each[:2] for each in rebalances(world.log.raw())[-2:]] == [("leave", "possible"), ("all-gone", "possible")]
    assert rebalances(world.log.raw(), began)[-1] == ("departure", "possible", [])


def test_the_second_round_of_a_log_that_begins_with_the_first_is_no_change_of_partitions():
    world = next(each for each in map(World, range(100)) if each.cooperative and each.partitions["orders"] == 2)
    one, two = world.clients = [world.client(world, name, None, ["orders"]) for name in ("one", "two")]
    one.start()
    world.run(10_000)
    began = world.log.now
    two.start()
    world.run(30_000)
    raw = world.log.raw()
    assert rebalances(raw)[-2:] == [("join", "certain", ["two"]), ("cooperative-round", "likely", ["two"])]
    assert rebalances(raw, began) == [("cooperative-round", "possible", [])]
    world.partitions["orders"] += 1
    world._leader().join()
    world.run(30_000)
    # From there on the log shows which partitions have no owner.
    assert rebalances(world.log.raw(), began)[1] == ("partition-change", "likely", [])


def classic_world(*members):
    """A world and its clients, of an eager assignor. members: (name, instance id)."""
    world = next(each for each in map(World, range(100)) if not each.cooperative and each.traffic)
    world.clients = [world.client(world, name, instance, ["orders"]) for name, instance in members]
    return world, world.clients


def test_a_member_that_may_have_left_before_the_log_begins_has_not_certainly_joined():
    world, (one, two, three) = classic_world(("one", None), ("two", None), ("three", None))
    for client in (one, two):
        client.start()
        world.run(10_000)
    two.close()
    world.run(10_000)
    began = world.log.now
    three.start()
    world.run(10_000)
    two.start()
    world.run(10_000)
    assert rebalances(world.log.raw())[-1] == ("bounce", "likely", ["two"])
    assert rebalances(world.log.raw(), began) == [("join", "possible", ["two"])]


def test_what_old_brokers_do_not_write_is_not_the_cause_of_the_next_rebalance():
    """Before 2.6.1 no record tells that a static member was replaced; it shows with the next rebalance (KAFKA-10284).
    That it belongs to it is only possible, and so is "join + bounce"."""
    told = {}
    for version in ("2.4", "2.8", "4.3"):
        world, (one, static, other) = classic_world(("one", None), ("static", "s"), ("other", None))
        world.log = Log(group_initial_rebalance_delay_ms=0, kafka_version=BrokerVersion.parse(version))
        for client in (one, static):
            client.start()
            world.run(10_000)
        static.crash()
        static.start()
        world.run(60_000)
        other.start()
        world.run(60_000)
        told[version] = [(cause, sure) for cause, sure, _ in rebalances(world.log.raw())][-1]
    assert told == {"2.4": ("join", "possible"), "2.8": ("join", "certain"), "4.3": ("join", "certain")}
