"""Groups of both protocols, and from one to the other: behaviours B109 to B112 of Apache Kafka 4.3.0's coordinator.

What is expected is what GroupMetadataManagerTest expects in the tests that are named; `test_consumers_against_kafka` asks
Kafka itself, in any order."""

import pytest

from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.model.broker_version import BrokerVersion
from kgm.model.errors import ErrorCode as E
from kgm.protocol.subscription import (
    MemberAssignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from tests.coordinator.behaviours import rule
from tests.coordinator.consumer.harness import Consumers, assigned, brief, topic_id

SAID = {"range": encode_subscription(Subscription(topics=("a",), version=1))}


@pytest.fixture
def h():
    return Consumers()


def classic(h, given, *, user_data=None, v=9):
    """A Stable classic group of static members with these partitions of `a`; their member ids by instance id."""
    tickets = {instance: h.join("", instance, v=v, protocols=SAID) for instance in given}
    replies = dict(zip(given, h.until_answered(*tickets.values()), strict=True))
    ids = {instance: reply.member_id for instance, reply in replies.items()}
    leader = next(reply.leader for reply in replies.values())
    plan = {
        ids[instance]: encode_assignment(MemberAssignment(partitions={"a": rows}, user_data=user_data, version=1))
        for instance, rows in given.items()
    }
    for member in sorted(ids.values(), key=leader.__eq__):
        h.sync(member, 1, plan if member == leader else None)
    assert h.state() == "Stable"
    return ids


def kind(h):
    return h.group().group_type


# -- B109: LeaveGroup


@rule("B109")
def test_one_request_removes_members_of_either_protocol(h):
    """testConsumerGroupMemberUsingClassicProtocolBatchLeaveGroup: each identity has its answer, all cost one epoch."""
    h = Consumers(group_consumer_migration_policy="disabled")
    h.beat("m1")
    old = h.classic_join(instance="i2").member_id
    h.beat("m3", instance="i3", names=["b"])
    epoch, before = h.epochs()[0], len(h.log)
    identities = [("m1", None), ("", "i2"), ("m3", "i3"), ("unknown", None), ("", "unknown"), ("unknown", "i3")]
    reply = h.leave(*identities)
    assert [(row.member_id, row.group_instance_id, row.error_code) for row in reply.members] == [
        ("m1", None, E.NONE), ("", "i2", E.NONE), ("m3", "i3", E.NONE),
        ("unknown", None, E.UNKNOWN_MEMBER_ID), ("", "unknown", E.UNKNOWN_MEMBER_ID),
        ("unknown", "i3", E.FENCED_INSTANCE_ID),
    ]  # fmt: skip
    rows = h.written(before)
    assert rows == [f"-{what} {who}" for who in ("m1", old, "m3") for what in ("current", "target", "member")] + [
        "epoch"
    ]
    assert (h.log[-1].value.epoch, h.log[-1].value.metadata_hash) == (epoch + 1, 0)
    assert not [key for key in h.engine.deadlines if key.kind is not TimerKind.OFFSET_EXPIRATION]


@rule("B109")
def test_the_hash_is_that_of_the_remaining_subscriptions(h):
    """…BatchLeaveGroupUpdatingSubscriptionMetadata"""
    h.beat("m1")
    h.beat("m2", names=["a", "b"])
    h.leave(("m2", None))
    assert h.log[-1].value.metadata_hash == h.engine.image.hash_of(["a"])


@rule("B109")
def test_without_a_valid_member_nothing_is_written(h):
    """testClassicGroupLeaveToConsumerGroupWithoutValidLeaveGroupMember"""
    h.beat("m1")
    before = len(h.log)
    assert [row.error_code for row in h.leave(("x", None), ("", "nobody")).members] == [E.UNKNOWN_MEMBER_ID] * 2
    assert len(h.log) == before


@rule("B109")
def test_the_same_member_may_occur_twice_by_member_id_and_instance_id(h):
    h.beat("m1", instance="i")
    h.beat("m2")
    epoch = h.epochs()[0]
    reply = h.leave(("m1", None), ("", "i"), ("m1", "i"))
    assert {row.error_code for row in reply.members} == {E.NONE}
    assert h.epochs()[0] == epoch + 1


@rule("B109")
def test_a_static_member_that_is_away_can_be_removed(h):
    h.beat("m1", instance="i")
    h.beat("m1", -2, instance="i")
    assert h.leave(("", "i")).members[0].error_code == E.NONE
    assert h.leave(("", "i")).members[0].error_code == E.UNKNOWN_MEMBER_ID
    assert h.state() == "Empty"


@rule("B109")
def test_versions_without_a_list(h):
    h.beat("m1")
    assert h.leave(("x", None), v=2).error_code == E.UNKNOWN_MEMBER_ID
    assert h.leave(("m1", None), v=2).error_code == E.NONE


# -- B110: down


def mixed(h):
    """m1, of the new protocol, and a classic member; all is reconciled."""
    h.beat("m1", instance="i1")
    old = h.classic_join(instance="i2").member_id
    h.beat("m1", 2, instance="i1", owned={"a": [0, 1, 2]})
    reply = h.classic_join(old, "i2")
    h.sync(old, reply.generation_id, instance="i2")
    assert h.held() == {"m1": {"a": (0, 1, 2)}, old: {"a": (3, 4, 5)}}
    return old


LAST = {
    "leaves": lambda h: h.beat("m1", -1, instance="i1"),
    "is removed (ByAdminApi)": lambda h: h.leave(("", "i1")),
}


@rule("B110")
@pytest.mark.parametrize("act", LAST.values(), ids=LAST)
def test_downgrade_when_the_last_member_is_removed(h, act):
    """testLastConsumerProtocolMemberLeavingConsumerGroup: tombstones of everything, then the classic group."""
    old = mixed(h)
    epoch, before = h.epochs()[0], len(h.log)
    act(h)
    order = [row.removeprefix("-current ") for row in h.written(before) if row.startswith("-current")]
    assert set(order) == {"m1", old}
    assert h.written(before) == [
        *(f"-current {m}" for m in order), *(f"-target {m}" for m in order), "-target epoch",
        *(f"-member {m}" for m in order), "-topics", "-epoch", "classic",
    ]  # fmt: skip
    value = h.log[-1].value
    assert (value.generation, value.protocol, value.protocol_type, value.leader) == (epoch, "range", "consumer", old)
    (member,) = value.members
    assert (member.member_id, member.group_instance_id) == (old, "i2")
    # What it gets is its target, in the words of a classic leader.
    assert {t: [*rows] for t, rows in decode_assignment(member.assignment).partitions.items()} == {"a": [3, 4, 5]}
    # A new rebalance is triggered.
    assert (kind(h), h.state()) == ("classic", "PreparingRebalance")
    assert h.deadline(TimerKind.SESSION, old) is not None
    assert h.engine.deadline(TimerKey(TimerKind.JOIN, "g")) is not None


@rule("B110")
def test_downgrade_when_the_session_of_the_last_member_expires(h):
    """testLastConsumerProtocolMemberSessionTimeoutInConsumerGroup"""
    old = mixed(h)
    for _ in range(9):
        h.sleep(5_000)
        if kind(h) == "consumer":
            h.heartbeat(old, h.member(old).member_epoch, "i2")
    assert (kind(h), h.state()) == ("classic", "PreparingRebalance")


@rule("B110")
def test_downgrade_when_the_last_member_does_not_revoke_in_time(h):
    """testLastConsumerProtocolMemberRebalanceTimeoutInConsumerGroup"""
    h.beat("m1", rebalance_timeout_ms=8_000)
    old = h.classic_join(instance="i2").member_id
    h.beat("m1", 2)
    for _ in range(2):
        h.sleep(4_000)
        if kind(h) == "consumer":
            h.beat("m1", 2)
            h.heartbeat(old, h.member(old).member_epoch, "i2")
    assert kind(h) == "classic"


@rule("B110")
def test_downgrade_when_a_static_member_joins_with_the_classic_protocol(h):
    """testLastStaticConsumerProtocolMemberReplacedByClassicProtocolMember: nothing of who has what changes, so nobody
    has to join again."""
    old = mixed(h)
    reply = h.classic_join(instance="i1")
    assert (reply.error_code, kind(h), h.state()) == (E.NONE, "classic", "Stable")
    given = {m: decode_assignment(data).partitions["a"] for m, data in h.assignments().items()}
    assert {m: sorted(rows) for m, rows in given.items()} == {old: [3, 4, 5], reply.member_id: [0, 1, 2]}


@rule("B110")
@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_no_downgrade_against_the_policy(policy):
    h = Consumers(group_consumer_migration_policy=policy)
    old = mixed(h)
    h.beat("m1", -1, instance="i1")
    assert kind(h) == "consumer"
    assert h.ids_of() == [old]


@rule("B110")
def test_no_downgrade_if_the_classic_group_would_be_too_large():
    h = Consumers(group_max_size=1)
    mixed(h)
    h.classic_join(instance="i3")
    h.beat("m1", -1, instance="i1")
    assert kind(h) == "consumer"


@rule("B110")
def test_a_downgrade_that_cannot_be_appended_changes_nothing(h):
    mixed(h)
    before = h.epochs()
    h.fail_with = E.NOT_ENOUGH_REPLICAS
    h.beat("m1", -1, instance="i1")
    assert (kind(h), h.epochs()) == ("consumer", before)


# -- B111: up


@rule("B111")
def test_a_stable_classic_group(h):
    """testConsumerGroupHeartbeatWithStableClassicGroup: its generation becomes every epoch, and what its leader gave
    is what the members have."""
    ids = classic(h, {"x": [0, 1, 2, 3, 4, 5]})
    before = len(h.log)
    reply = h.beat("new")
    x = ids["x"]
    rows = h.written(before)
    assert rows[:8] == [
        "-classic", f"member {x}", "epoch", f"target {x}", "target epoch", f"current {x}", "member new", "epoch",
    ]  # fmt: skip
    assert {*rows[8:10]} == {f"target {x}", "target new"}
    assert rows[10:] == ["target epoch", "current new"]
    first, second = (record.value for record in h.log[before:] if brief_is(record, "epoch"))
    assert (first.epoch, second.epoch) == (1, 2)
    current = next(record.value for record in h.log[before:] if brief_is(record, f"current {x}"))
    assert (current.member_epoch, current.previous_member_epoch, current.state) == (1, 1, 0)
    assert current.assigned_partitions[0].assignment_epochs == [1] * 6
    # It waits for what the classic member has to give up.
    assert (reply.member_epoch, assigned(reply), h.member("new").state) == (2, {}, "UNRELEASED_PARTITIONS")
    assert h.member(x).uses_classic
    assert h.deadline(TimerKind.SESSION, x) == 10_000
    assert h.deadline(TimerKind.SESSION, "new") == 45_000


def brief_is(record, text):
    return brief(record) == text


@rule("B111")
def test_an_upgrade_answers_a_parked_join(h):
    """testConsumerGroupHeartbeatWithPreparingRebalanceClassicGroup, …WithCompletingRebalanceClassicGroup"""
    ids = classic(h, {"x": [0, 1, 2], "y": [3, 4, 5]})
    parked = h.join("", "z", v=9, protocols=SAID)
    assert (h.got(parked), h.state()) == (None, "PreparingRebalance")
    assert h.beat("new").error_code == E.NONE
    assert h.got(parked).error_code == E.REBALANCE_IN_PROGRESS
    assert kind(h) == "consumer"
    assert h.heartbeat(ids["x"], 1, "x") == E.REBALANCE_IN_PROGRESS


@rule("B111")
def test_an_upgrade_answers_a_parked_sync(h):
    tickets = [h.join("", instance, v=9, protocols=SAID) for instance in ("x", "y")]
    first, second = h.until_answered(*tickets)
    follower = second if first.leader == first.member_id else first
    parked = h.sync(follower.member_id, 1)
    assert (h.got(parked), h.state()) == (None, "CompletingRebalance")
    assert h.beat("new").error_code == E.NONE
    assert h.got(parked).error_code == E.REBALANCE_IN_PROGRESS


@rule("B111")
def test_an_empty_group_is_replaced_whatever_the_policy(h):
    """testConsumerGroupHeartbeatWithEmptyClassicGroup"""
    h = Consumers(group_consumer_migration_policy="disabled")
    ids = classic(h, {"x": [0]})
    h.leave((ids["x"], "x"))
    before = len(h.log)
    assert h.beat("new").member_epoch == 2
    assert h.written(before)[0] == "-classic"


@rule("B111")
@pytest.mark.parametrize(("version", "epoch"), [("4.2.0", 1), ("4.3.0", 0)])
def test_a_group_without_a_generation_has_no_epoch(version, epoch):
    """The only member of the first rebalance has left before its end: no empty group is replaced, one that has no
    members yet is upgraded. What 4.2.0 and 4.3.0 themselves answer to a member that names no topics."""
    h = Consumers(kafka_version=BrokerVersion.parse(version))
    joining = h.join("", "x", protocols=SAID)
    h.leave(("", "x"))
    assert h.got(joining).error_code == E.UNKNOWN_MEMBER_ID
    assert h.state() == "PreparingRebalance"
    assert h.beat("new", names=[]).member_epoch == epoch
    assert (kind(h), h.beat("new", names=["a"]).member_epoch) == ("consumer", epoch + 1)


@rule("B111")
@pytest.mark.parametrize("policy", ["downgrade", "disabled"])
def test_no_upgrade_against_the_policy(policy):
    """testConsumerGroupHeartbeatWithNonEmptyClassicGroup"""
    h = Consumers(group_consumer_migration_policy=policy)
    classic(h, {"x": [0]})
    before = len(h.log)
    assert h.error("new") == E.GROUP_ID_NOT_FOUND
    assert (kind(h), h.state(), len(h.log)) == ("classic", "Stable", before)


@rule("B111")
def test_no_upgrade_with_the_user_data_of_a_custom_assignor(h):
    """testConsumerGroupHeartbeatWithCustomAssignorClassicGroup: null and empty user data are none."""
    classic(h, {"x": [0]}, user_data=b"mine")
    assert h.error("new") == E.GROUP_ID_NOT_FOUND
    other = Consumers()
    classic(other, {"x": [0]}, user_data=b"")
    assert other.error("new") == E.NONE


@rule("B111")
def test_no_upgrade_if_the_group_would_be_too_large():
    h = Consumers(group_consumer_max_size=1)
    classic(h, {"x": [0], "y": [1]})
    assert h.error("new") == E.GROUP_ID_NOT_FOUND


@rule("B111")
def test_no_upgrade_if_the_members_are_not_consumers(h):
    protocols = {"connect": b""}
    h.until_answered(h.join("", "x", protocols=protocols, protocol_type="connect"))
    assert h.error("new") == E.GROUP_ID_NOT_FOUND


@rule("B111")
def test_a_static_member_joins_again_with_the_consumer_protocol(h):
    """testConsumerGroupHeartbeatToClassicGroupFromExistingStaticMember: it takes its own place, and what was in it."""
    ids = classic(h, {"x": [0, 1, 2], "y": [3, 4, 5]})
    reply = h.beat("new", instance="x")
    assert (reply.error_code, assigned(reply)) == (E.NONE, {"a": [0, 1, 2]})
    assert set(h.ids_of()) == {"new", ids["y"]}
    assert h.heartbeat(ids["x"], 1, "x") == E.FENCED_INSTANCE_ID


@rule("B111")
def test_members_are_written_in_the_order_of_kafkas_map():
    """Two ids in one slot of Kafka's map (found by test_consumers_against_kafka, seed 101069): the log has them in the
    order of the map that the classic group was put into, not in that of the one that is made from the log."""
    c, d = "c-57eaca11-d381-4edf-bebf-d851cd8ab97e", "d-2f1efcce-cd85-473a-9617-f58a58688300"
    h = Consumers(group_consumer_assignors="range,uniform")
    given = iter([d, c])
    h.engine._dispatcher.new_member_id = lambda _prefix: next(given)
    h.topics({"a": 6})
    ids = classic(h, {"d": [1, 4], "c": [2, 5]})
    assert ids == {"d": d, "c": c}
    before = len(h.log)
    h.beat("6f6463290093c37cb32d95")
    rows = h.written(before)
    assert [row for row in rows if row.startswith("member")][:2] == [f"member {c}", f"member {d}"]
    targets = [row.removeprefix("target ") for row in rows if row.startswith("target ") and row != "target epoch"]
    assert targets == [c, d, c, d, "6f6463290093c37cb32d95"]


# -- B112: the classic protocol in a consumer group


@rule("B112")
def test_join_sync_and_heartbeat(h):
    """testJoiningConsumerGroupWithNewDynamicMember and the like: the epoch is the generation, and nobody leads."""
    h.beat("m1")
    first = h.got(h.join("", v=9, protocols=SAID))
    assert first.error_code == E.MEMBER_ID_REQUIRED
    reply = h.got(h.join(first.member_id, v=9, protocols=SAID))
    old = first.member_id
    assert (reply.error_code, reply.generation_id, reply.leader, reply.members) == (E.NONE, 3, "", [])
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")
    assert h.deadline(TimerKind.MEMBER_SYNC, old) == 60_000
    synced = h.got(h.sync(old, 3))
    assert (synced.error_code, decode_assignment(synced.assignment).partitions) == (E.NONE, {})
    assert h.deadline(TimerKind.MEMBER_SYNC, old) is None
    # There is nothing for it yet; when m1 has given up, it is told to join again.
    assert h.heartbeat(old, 3) == E.NONE
    h.beat("m1", 2)
    h.beat("m1", 2, owned={"a": [0, 1, 2]})
    assert h.heartbeat(old, 3) == E.REBALANCE_IN_PROGRESS
    assert h.deadline(TimerKind.MEMBER_JOIN, old) == 60_000
    assert h.got(h.join(old, v=9, protocols=SAID)).generation_id == 3
    assert h.deadline(TimerKind.MEMBER_JOIN, old) is None
    synced = h.got(h.sync(old, 3))
    assert sorted(decode_assignment(synced.assignment).partitions["a"]) == [3, 4, 5]
    assert h.deadline(TimerKind.SESSION, old) == 10_000


@rule("B112")
@pytest.mark.parametrize("gives_up_by", ["saying so (cooperative)", "owning nothing (eager)"])
def test_a_classic_member_revokes(h, gives_up_by):
    """testReconciliationInJoiningConsumerGroupWithCooperativeProtocol, …WithEagerProtocol"""
    ids = classic(h, {"x": [0, 1, 2, 3, 4, 5]})
    x = ids["x"]
    h.beat("new")
    assert h.heartbeat(x, 1, "x") == E.REBALANCE_IN_PROGRESS
    if gives_up_by.startswith("saying"):
        reply = h.classic_join(x, "x", owned={"a": range(6)})
        assert (reply.generation_id, h.member(x).state) == (1, "UNREVOKED_PARTITIONS")
        kept = decode_assignment(h.got(h.sync(x, 1, instance="x")).assignment).partitions["a"]
        assert len(kept) == 3
        assert h.heartbeat(x, 1, "x") == E.REBALANCE_IN_PROGRESS
        reply = h.classic_join(x, "x", owned={"a": kept})
    else:
        reply = h.classic_join(x, "x")
        kept = decode_assignment(h.got(h.sync(x, 2, instance="x")).assignment).partitions["a"]
    assert (reply.generation_id, h.member(x).state) == (2, "STABLE")
    assert len(kept) == 3
    assert len(assigned(h.beat("new", 2))["a"]) == 3
    assert h.heartbeat(x, 2, "x") == E.NONE


@rule("B112")
def test_refused_requests_of_classic_members(h):
    """testClassicGroupSyncToConsumerGroup*, …HeartbeatToConsumerGroup*, …JoinWithInconsistentProtocol"""
    h.beat("m1")
    old = h.classic_join(instance="i").member_id
    assert h.heartbeat(old, 9, "i") == E.ILLEGAL_GENERATION
    assert h.heartbeat("x", 3) == E.UNKNOWN_MEMBER_ID
    assert h.heartbeat("x", 3, "i") == E.FENCED_INSTANCE_ID
    assert h.heartbeat("m1", 2) == E.UNKNOWN_MEMBER_ID, "it speaks the new protocol"
    assert h.got(h.sync(old, 9, instance="i")).error_code == E.ILLEGAL_GENERATION
    assert h.got(h.sync("x", 3)).error_code == E.UNKNOWN_MEMBER_ID
    assert h.got(h.sync("x", 3, instance="i")).error_code == E.FENCED_INSTANCE_ID
    assert h.got(h.sync(old, 3, instance="i", protocol_name="other")).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert h.got(h.sync(old, 3, instance="i", protocol_type="connect")).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    other = h.join("", "j", v=9, protocols={"sticky": SAID["range"]})
    assert h.got(other).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    other = h.join("", "j", v=9, protocols=SAID, protocol_type="connect")
    assert h.got(other).error_code == E.INCONSISTENT_GROUP_PROTOCOL


@rule("B112")
def test_a_sync_behind_the_target_has_to_join_again(h):
    h.beat("m1")
    old = h.classic_join(instance="i").member_id
    h.beat("m2")
    assert h.got(h.sync(old, 3, instance="i")).error_code == E.REBALANCE_IN_PROGRESS


@rule("B112")
@pytest.mark.parametrize("kind", [TimerKind.MEMBER_SYNC, TimerKind.MEMBER_JOIN])
def test_a_classic_member_that_does_not_join_or_sync_in_time_is_fenced(h, kind):
    h.beat("m1")
    old = h.classic_join(instance="i", rebalance=5_000).member_id
    if kind is TimerKind.MEMBER_JOIN:
        h.sync(old, 3, instance="i")
        h.beat("m2")
        assert h.heartbeat(old, 3, "i") == E.REBALANCE_IN_PROGRESS
    assert h.deadline(kind, old) == 5_000
    h.sleep(5_000)
    assert old not in h.ids_of()


@rule("B112")
def test_topics_have_ids_in_the_log_and_names_for_the_member(h):
    h.beat("m1", names=["b"])
    old = h.classic_join(instance="i").member_id
    record = next(r for r in reversed(h.log) if brief_is(r, f"current {old}"))
    assert record.value.assigned_partitions[0].topic_id == topic_id("a")
    assert set(decode_assignment(h.got(h.sync(old, 3, instance="i")).assignment).partitions) == {"a"}


@rule("B112")
@pytest.mark.parametrize(("version", "error"), [("4.2.0", E.UNKNOWN_SERVER_ERROR), ("4.3.0", E.NONE)])
def test_a_member_without_a_target_may_hold_a_downgrade_up(version, error):
    """The only member subscribes to an expression that is not resolved yet, and joins again with the classic protocol.
    What 4.2.0 and 4.3.0 themselves answer (`test_other_versions`)."""
    h = Consumers(kafka_version=BrokerVersion.parse(version))
    classic(h, {"x": [0], "y": [1]})
    h.beat("m1", regex="a.*", instance="i")
    joined = h.got(h.join("", "i", v=9, protocols=SAID))
    assert joined.error_code == error
    assert kind(h) == ("consumer" if error else "classic")


@rule("B112")
def test_who_cannot_leave_is_told_why(h):
    """The last member of the new protocol, because in the assignor that is left another has a subscription without a
    version."""
    h.beat("m1")
    h.until_answered(h.join("", "x", v=9, protocols=SAID | {"sticky": b""}))
    h.until_answered(h.join("", "y", v=9, protocols={"sticky": SAID["range"]}))
    refused = h.beat("m1", -1)
    assert (refused.error_code, kind(h)) == (E.GROUP_ID_NOT_FOUND, "consumer")
    assert "a member's subscription is unreadable" in refused.error_message
