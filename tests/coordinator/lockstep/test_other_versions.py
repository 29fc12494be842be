"""Random histories in lockstep with the coordinators of other versions of Kafka, each from its own jars: what is different
there (`CoordinatorBehavior`) is what they do, and everything else is as in 4.3.

`--long` and `--seed` are as in `test_classic_histories`."""

from dataclasses import fields, replace
from functools import partial

import pytest

pytest.register_assert_rewrite("tests.coordinator.lockstep.driver")

from kgm.coordinator.contract import settings as broker_settings  # noqa: E402
from kgm.coordinator.contract.behavior import REFERENCE_BEHAVIOR, CoordinatorBehavior, behavior_of  # noqa: E402
from kgm.model.broker_version import BrokerVersion  # noqa: E402
from kgm.protocol.apis import ApiKey  # noqa: E402
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest  # noqa: E402
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol  # noqa: E402
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity  # noqa: E402
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment  # noqa: E402
from kgm.protocol.subscription import (  # noqa: E402
    MemberAssignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from tests.coordinator.lockstep import (  # noqa: E402
    test_classic_histories,
    test_consumer_histories,
    test_streams_histories,
)
from tests.coordinator.lockstep.consumer_histories import joining, topic_id  # noqa: E402
from tests.coordinator.lockstep.driver import Lockstep  # noqa: E402
from tests.coordinator.lockstep.test_classic_histories import FIRST, OPERATIONS, PATIENCE, report  # noqa: E402
from tests.selection import sized  # noqa: E402

HISTORIES = {
    "classic": test_classic_histories.history,
    "consumer": test_consumer_histories.history,
    "streams": test_streams_histories.history,
}
VERSIONS = ("4.0.1", "4.1.1", "4.2.0", "4.4.0")
#: How many histories there are of each length, in operations.
COUNTS = sized({OPERATIONS: 6}, {OPERATIONS: 60, 200: 15})
#: So many histories show that a field is wrong.
ENOUGH = 1_500
#: Versions that have streams groups whose rules were not compared: there the field says so, and nothing about Kafka.
NOT_COMPARED = [("4.4.0", "has_streams_groups")]
DIFFERENCES = [
    (version, field.name)
    for version in VERSIONS
    for field in fields(CoordinatorBehavior)
    if getattr(behavior_of(BrokerVersion.parse(version)), field.name) != getattr(REFERENCE_BEHAVIOR, field.name)
    and (version, field.name) not in NOT_COMPARED
]


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize(("operations", "count"), COUNTS.items())
@pytest.mark.parametrize(
    ("version", "kind"),
    [
        (version, kind)
        for version in VERSIONS
        for kind in HISTORIES
        if kind != "streams" or behavior_of(BrokerVersion.parse(version)).has_streams_groups
    ],
)
def test_random_histories_are_those_of_the_version(kafkas, version, kind, operations, count):
    history = HISTORIES[kind]
    for seed in range(FIRST, FIRST + count):
        step, difference = history(kafkas(version), seed, operations)
        assert difference is None, report(kafkas(version), seed, step, difference)
        assert len(step.deeds) >= operations


def classic(instance_id):
    metadata = encode_subscription(Subscription(topics=("orders",), version=1))
    return JoinGroupRequest(
        group_id="g", group_instance_id=instance_id, session_timeout_ms=6_000,
        rebalance_timeout_ms=5_000, protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize(("version", "epoch"), [("4.1.1", 1), ("4.2.0", 1), ("4.3.0", 0), ("4.4.0", 0)])
def test_a_group_without_a_generation_has_no_epoch(kafkas, version, epoch):
    """A classic group whose only member has left before the end of the first rebalance is upgraded."""
    step = Lockstep(kafkas(version), group_consumer_migration_policy="bidirectional")
    step.request(classic("x"), 5)
    step.request(LeaveGroupRequest(group_id="g", members=[MemberIdentity(group_instance_id="x")]), 5)
    step.request(joining("m", subscribed_topic_names=[]), 1)
    assert step.engine.consumer_group("g").members["m"].member_epoch == epoch
    step.request(joining("m", subscribed_topic_names=["orders"]), 1)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize(("version", "stays"), [("4.1.1", True), ("4.2.0", True), ("4.3.0", False), ("4.4.0", False)])
def test_a_member_without_a_target_may_hold_a_downgrade_up(kafkas, version, stays):
    """The last member of the new protocol, whose expression is not resolved yet, joins again with the classic one."""
    settings = {"group_consumer_migration_policy": "bidirectional", "group_initial_rebalance_delay_ms": 0}
    step = Lockstep(kafkas(version), **settings)
    step.topics({"orders": (topic_id("orders", 0), 3)}, racks=False)
    step.request(classic("x"), 5)
    step.request(joining("m", "i", subscribed_topic_regex="o.*"), 1)
    step.request(classic("i"), 5)
    assert (step.engine.consumer_group("g") is not None) == stays


def have_more_than_there_is(step):
    """Form a classic group whose only member, `x`, was assigned more of a topic than there is."""
    step.topics({name: (topic_id(name, 0), 2) for name in ("orders", "views")}, racks=False)
    step.request(classic("x"), 5)
    step.sleep(0)
    (member_id,) = step.engine.classic_group("g").members
    blob = encode_assignment(MemberAssignment(partitions={"orders": [0, 2, 4]}, version=1))
    rows = [SyncGroupRequestAssignment(member_id=member_id, assignment=blob)]
    step.request(
        SyncGroupRequest(
            group_id="g", generation_id=1, member_id=member_id, group_instance_id="x", assignments=rows
        ), 3,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("names", [["orders", "views"], ["views"]])
def test_uniform_asks_what_who_takes_over_subscribes_to(kafkas, names):
    """The member that had them is replaced by one of the new protocol: what it subscribed to itself does not count."""
    settings = {"group_consumer_migration_policy": "bidirectional", "group_initial_rebalance_delay_ms": 0}
    step = Lockstep(kafkas("4.3.0"), **settings)
    have_more_than_there_is(step)
    step.request(joining("new", "x", subscribed_topic_names=names), 1)
    assert (step.engine.consumer_group("g") is None) == ("orders" in names)


@pytest.mark.few(3)
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("names", [["orders"], ["orders", "views"], ["views"]])
@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("version", ["4.0.1", "4.3.0", "4.4.0"])
def test_uniform_fails_on_partitions_that_do_not_exist(kafkas, version, assignor, names):
    """A classic group in which a member was assigned more of a topic than there is, as after the topic was created again
    with fewer partitions, becomes a consumer group. Once the topic has grown, all is well."""
    settings = {"group_consumer_migration_policy": "bidirectional", "group_initial_rebalance_delay_ms": 0}
    step = Lockstep(kafkas(version), **settings, group_consumer_assignors=assignor)
    have_more_than_there_is(step)
    for member_id in ("new", "newer"):
        step.request(joining(member_id, subscribed_topic_names=names), 1)
    assert (step.engine.consumer_group("g") is None) == (assignor == "uniform")
    step.request(classic("y"), 5)
    step.topics({"orders": (topic_id("orders", 0), 5), "views": (topic_id("views", 0), 2)}, racks=False)
    step.request(joining("new", subscribed_topic_names=names), 1)
    assert {*step.engine.consumer_group("g").members} >= {"new"}


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("version", [*VERSIONS, "4.3.0"])
def test_what_a_member_had_that_takes_over_is_not_assigned_at_first(kafkas, version):
    """A member without an instance id joins with that of another one that is away, with another subscription than that
    one had. `uniform` takes what it had itself for assigned."""
    step = Lockstep(kafkas(version), group_consumer_assignors="uniform", group_consumer_assignment_interval_ms=0)
    step.topics({name: (topic_id(name, 0), 6) for name in ("orders", "views")}, racks=False)
    orders = {"subscribed_topic_names": ["orders"]}
    step.request(joining("a", "i", subscribed_topic_names=["orders", "views"]), 1)
    step.request(joining("b", **orders), 1)
    step.request(joining("c", **orders), 1)
    step.request(ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", instance_id="i", member_epoch=-2), 1)
    step.request(joining("c", "i", **orders), 1)
    group = step.engine.consumer_group("g")
    assert {*group.members} == {"b", "c"}
    assert sum(len(target.get(topic_id("orders", 0), ())) for target in group.targets.values()) == 3


def expressions_grow_old(kafka):
    """A member with a regular expression stays for longer than such an expression is taken to be resolved."""
    step = Lockstep(kafka)
    step.topics({"orders": (topic_id("orders", 0), 3)}, racks=False)
    try:
        step.request(joining("m", subscribed_topic_regex="o.*"), 1)
        for _ in range(20):
            step.sleep(40_000)
            epoch = step.engine.consumer_group("g").members["m"].member_epoch
            step.request(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch), 1)
    except Exception as difference:  # noqa: BLE001
        return step, difference
    return step, None


def streams_groups_are_asked_for(kafka):
    """No history shows what is not there: a broker does not let a request of streams groups through, or it does."""
    serves = kafka.ask(op="serves", api=ApiKey.STREAMS_GROUP_HEARTBEAT, version=0)["serves"]
    settings = broker_settings.BrokerSettings(kafka_version=kafka.version)
    return None, None if settings.has_streams_protocol == serves else AssertionError(serves)


#: Fields that histories of streams groups show, where those of consumer groups cannot.
OF_STREAMS_GROUPS = {"forgets_streams_settings"}
#: What shows a field that random histories hardly ever come upon, as `history` does.
SCENES = {
    "has_streams_groups": streams_groups_are_asked_for,
    "refreshes_regexes": expressions_grow_old,
}


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("version", "name"), sized([one for one in DIFFERENCES if one[1] in SCENES], DIFFERENCES))
def test_a_wrong_field_is_found(kafkas, monkeypatch, version, name):
    """With a field as in 4.3 the engine is not that version: each field says something that Kafka does."""
    right = behavior_of(BrokerVersion.parse(version))
    wrong = replace(right, **{name: getattr(REFERENCE_BEHAVIOR, name)})

    def differs(play, behavior):
        monkeypatch.setattr(broker_settings, "behavior_of", lambda _: behavior)
        return play()[1] is not None

    kafka = kafkas(version)
    scene = SCENES.get(name)
    history = HISTORIES["streams" if name in OF_STREAMS_GROUPS else "consumer"]
    plays = [partial(scene, kafka)] if scene else (partial(history, kafka, seed) for seed in range(ENOUGH))
    play = next((play for play in plays if differs(play, wrong)), None)
    assert play is not None
    assert not differs(play, right), "and with the right field the engine is"
