"""Members of consumer groups (KIP-848): behaviours B088 to B100 of Apache Kafka 4.3.0's coordinator."""

import pytest

from kgm.coordinator.contract.outcome import TimerKind
from kgm.model.errors import ErrorCode as E
from tests.coordinator.behaviours import rule
from tests.coordinator.consumer.harness import Consumers, assigned, topic_id


@pytest.fixture
def h():
    return Consumers()


# -- B088: what is wrong with a request, whatever the state of its group

BAD = {
    "no member id in v1": {"member": "", "v": 1},
    "a blank one": {"member": " ", "v": 1},
    "none with an epoch": {"member": "", "epoch": 3, "v": 0},
    "none to leave": {"member": "", "epoch": -1, "v": 0},
    "an empty group id": {"group": ""},
    "an empty instance id": {"instance": ""},
    "an empty rack": {"rack_id": ""},
    "no rebalance timeout to join": {"rebalance_timeout_ms": -1},
    "partitions to join": {"owned": {"a": [0]}},
    "an instance that is away without a name": {"epoch": -2},
    "an epoch below -2": {"epoch": -3},
}


@rule("B088")
@pytest.mark.parametrize("fields", BAD.values(), ids=BAD)
def test_an_invalid_request(h, fields):
    reply = h.beat(**{"member": "m1"} | fields)
    assert (reply.error_code, reply.member_id, reply.member_epoch) == (E.INVALID_REQUEST, None, 0)
    assert reply.error_message
    assert h.group() is None


@rule("B088")
def test_what_java_does_not_trim_is_a_name(h):
    for name in ("\u2028", "\u3000", "\xa0"):
        assert h.error(member="m1", group=f"g{name}", instance=name, rack_id=name) == E.NONE
        assert h.error(member="m1", group="blank", instance=" \t\x00") == E.INVALID_REQUEST


@rule("B088")
def test_a_joining_member_sends_subscription_and_owned_partitions(h):
    wanted = {"rebalance_timeout_ms": 60_000, "member_id": "m", "group_id": "g"}
    for more in ({"topic_partitions": []}, {"subscribed_topic_names": ["a"]}):
        from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

        assert h.got(h.send(ConsumerGroupHeartbeatRequest(**wanted, **more), 1)).error_code == E.INVALID_REQUEST


@rule("B088")
def test_an_unknown_assignor(h):
    assert h.error(server_assignor="best") == E.UNSUPPORTED_ASSIGNOR
    assert h.error(server_assignor="range") == E.NONE
    assert Consumers(group_consumer_assignors="uniform").error(server_assignor="range") == E.UNSUPPORTED_ASSIGNOR


@rule("B088")
@pytest.mark.parametrize("regex", ["(", "a{1001}", "*", "(?!x)", r"(a)\1"])
def test_an_invalid_regular_expression(h, regex):
    assert h.error(regex=regex) == E.INVALID_REGULAR_EXPRESSION
    assert h.group() is None


@rule("B088")
def test_an_empty_subscription_is_valid(h):
    reply = h.beat(names=[])
    assert (reply.error_code, reply.member_epoch, assigned(reply)) == (E.NONE, 1, {})
    assert h.error("m2", regex="") == E.NONE


@rule("B088")
def test_the_protocol_may_be_disabled():
    h = Consumers(group_coordinator_rebalance_protocols="classic")
    assert h.error() == E.UNSUPPORTED_VERSION


@pytest.mark.parametrize("member", [" ", "\t", "\0", "\u2003", " m"], ids=ascii)
def test_a_member_that_has_joined_with_a_blank_id_is_refused(h, member):
    """Version 0 lets it join. What `String.trim` leaves is not blank."""
    epoch = h.beat(member, v=0).member_epoch
    assert h.beat(member, epoch).error_code == (E.INVALID_REQUEST if member in (" ", "\t", "\0") else E.NONE)


# -- B089: member ids


@rule("B089")
def test_the_server_makes_ids_in_v0_and_clients_from_v1_on(h):
    assert h.beat("", v=0).member_id == "-1"
    assert h.beat("mine", v=0).member_id == "mine"
    assert h.beat("mine too", v=1).member_id == "mine too"


# -- B090: unknown ones


@rule("B090")
def test_unknown_groups_and_members(h):
    assert h.error("m1", 3) == E.GROUP_ID_NOT_FOUND
    assert h.error("m1", -1) == E.GROUP_ID_NOT_FOUND
    h.beat("m1")
    assert h.error("m2", 3) == E.UNKNOWN_MEMBER_ID
    assert h.error("m2", -1) == E.UNKNOWN_MEMBER_ID
    h.stable("s", group="classic")
    assert h.error("m1", 3, group="classic") == E.GROUP_ID_NOT_FOUND
    assert h.error("m1", -1, group="classic") == E.GROUP_ID_NOT_FOUND


# -- B091: epochs


def two(h, **more):
    """m1 has gone from epoch 2 with all of `a` to epoch 3 with half of it; m2 has the rest."""
    h.beat("m1", **more)
    h.beat("m2")
    h.calm()


@rule("B091")
@pytest.mark.parametrize("instance", [None, "i"])
def test_a_member_continues_from_its_epoch_or_the_one_before(h, instance):
    two(h, instance=instance)
    mine = h.held()["m1"]
    say = {"instance": instance}
    assert h.error("m1", 3, **say) == E.NONE
    assert h.error("m1", 4, **say) == E.FENCED_MEMBER_EPOCH
    assert h.error("m1", 1, owned={}, **say) == E.FENCED_MEMBER_EPOCH
    assert h.member("m1").previous_member_epoch == 2
    # It lost the answer: what it owns then is no more than it has now.
    assert h.error("m1", 2, owned=mine, **say) == E.NONE
    assert h.error("m1", 2, owned={}, **say) == E.NONE
    assert h.error("m1", 2, **say) == E.FENCED_MEMBER_EPOCH
    assert h.error("m1", 2, owned={"a": range(6)}, **say) == E.FENCED_MEMBER_EPOCH
    assert h.error("m1", 2, owned={"b": [0]}, **say) == E.FENCED_MEMBER_EPOCH


# -- B092: again from epoch 0


@rule("B092")
def test_a_member_may_join_again_in_every_state(h):
    h.beat("m1")
    assert assigned(h.beat("m1")) == {"a": [0, 1, 2, 3, 4, 5]}
    h.beat("m2")
    h.beat("m1", 2)
    assert h.member("m1").state == "UNREVOKED_PARTITIONS"
    assert h.member("m2").state == "UNRELEASED_PARTITIONS"
    assert assigned(h.beat("m2")) == {}
    # It owns nothing any more, so it has given up what it was to give up.
    reply = h.beat("m1")
    assert (reply.member_epoch, assigned(reply)) == (3, {"a": [0, 1, 2]})
    assert assigned(h.beat("m2", 3)) == {"a": [3, 4, 5]}


# -- B093: when the assignment is said


@rule("B093")
def test_full_requests_get_the_assignment_again(h):
    h.beat("m1")
    assert assigned(h.beat("m1", 2)) is None
    assert assigned(h.beat("m1", 2, owned={"a": range(6)})) is None
    for _ in range(2):
        assert assigned(h.full("m1", 2)) == {"a": [0, 1, 2, 3, 4, 5]}
        said = {"rebalance_timeout_ms": 60_000, "regex": "", "owned": {"a": range(6)}}
        assert assigned(h.beat("m1", 2, **said)) == {"a": [0, 1, 2, 3, 4, 5]}


# -- B094, B095: epochs of the group


@rule("B094")
def test_the_first_member_gets_epoch_2(h):
    reply = h.beat("m1", names=["b", "a"])
    assert (reply.member_epoch, reply.heartbeat_interval_ms) == (2, 5_000)
    assert assigned(reply) == {"a": [0, 1, 2, 3, 4, 5], "b": [0, 1, 2]}
    assert h.written() == ["member m1", "epoch", "target m1", "target epoch", "current m1"]
    member, epoch, target, target_epoch, current = (record.value for record in h.log)
    assert member.subscribed_topic_names == ["a", "b"]
    assert member.classic_member_metadata is None
    assert (epoch.epoch, epoch.metadata_hash) == (2, h.engine.image.hash_of(["a", "b"]))
    assert (target_epoch.assignment_epoch, target_epoch.assignment_timestamp) == (2, h.now)
    assert (current.member_epoch, current.previous_member_epoch, current.state) == (2, 0, 0)
    assert current.assigned_partitions[0].assignment_epochs == [2] * 6
    assert len(target.topic_partitions) == 2
    assert h.epochs() == (2, 2, {"m1": 2})
    assert h.state() == "Stable"


@rule("B095")
def test_a_changed_subscription_increments_the_epoch(h):
    h.beat("m1")
    before = len(h.log)
    reply = h.beat("m1", 2, names=["b"], owned={"a": range(6)})
    assert (reply.member_epoch, assigned(reply)) == (2, {})
    assert h.written(before) == ["member m1", "epoch", "target m1", "target epoch", "current m1"]
    assert h.member("m1").pending_revocation == {"a": (0, 1, 2, 3, 4, 5)}
    reply = h.beat("m1", 2, owned={})
    assert (reply.member_epoch, assigned(reply)) == (3, {"b": [0, 1, 2]})
    # Other words for the same: no epoch.
    before = len(h.log)
    h.beat("m1", 3, names=["b", "b"], rack_id="r", rebalance_timeout_ms=5, server_assignor="range")
    assert h.written(before) == ["member m1"]


@rule("B095")
def test_a_new_member_increments_the_epoch(h):
    two(h)
    assert h.epochs() == (3, 3, {"m1": 3, "m2": 3})
    assert h.held() == {"m1": {"a": (0, 1, 2)}, "m2": {"a": (3, 4, 5)}}


@rule("B095")
def test_changed_topics_increment_the_epoch(h):
    h.beat("m1", names=["a", "new"])
    h.beat("m2", names=["b"], group="other")
    h.topics({"a": 6, "b": 3, "new": 2})
    before = len(h.log)
    h.beat("m2", 2, group="other")
    assert h.written(before) == []
    reply = h.beat("m1", 2)
    assert (reply.member_epoch, assigned(reply)) == (3, {"a": [0, 1, 2, 3, 4, 5], "new": [0, 1]})
    h.topics({"a": 8, "b": 3})
    assert assigned(h.beat("m1", 3, owned={"a": range(6)})) == {"a": [0, 1, 2, 3, 4, 5, 6, 7]}
    assert h.member("m1").target == {"a": tuple(range(8))}


@rule("B095")
def test_the_hash_is_computed_again_after_a_month(h):
    h.beat("m1")
    h.beat("m1", 2)
    group = h.engine._state.groups["g"]
    deadline = group.refresh.deadline_ms
    assert deadline == h.now + 2**31 - 1
    assert not group.metadata_expired(deadline - 1)
    assert group.metadata_expired(deadline)


# -- B096, B097: leaving


@rule("B096")
def test_leaving_writes_an_epoch_and_three_tombstones(h):
    two(h)
    before = len(h.log)
    reply = h.beat("m1", -1)
    assert (reply.error_code, reply.member_id, reply.member_epoch) == (E.NONE, "m1", -1)
    assert h.written(before) == ["-current m1", "-target m1", "-member m1", "epoch"]
    assert h.epochs() == (4, 3, {"m2": 3})
    assert [key for key in h.engine.deadlines if key.member_id == "m1"] == []
    assert assigned(h.beat("m2", 3)) == {"a": [0, 1, 2, 3, 4, 5]}


@rule("B097")
def test_static_members(h):
    h.beat("m1", instance="i")
    assert h.epochs() == (2, 2, {"m1": 2})
    before = len(h.log)
    reply = h.beat("m1", -2, instance="i")
    assert (reply.member_id, reply.member_epoch) == ("m1", -2)
    assert h.written(before) == ["current m1"]
    away = h.log[-1].value
    assert (away.member_epoch, away.previous_member_epoch, away.partitions_pending_revocation) == (-2, 0, [])
    assert away.assigned_partitions[0].assignment_epochs == [0] * 6
    assert h.epochs() == (2, 2, {"m1": -2})
    assert h.state() == "Reconciling"
    h.beat("m1", -1, instance="i")
    assert h.epochs() == (3, 2, {})
    assert h.state() == "Empty"


@rule("B097")
def test_a_member_that_is_away_keeps_its_assignment_without_pending_revocations(h):
    h.beat("m1", instance="i")
    h.beat("m2")
    h.beat("m1", 2, instance="i")
    assert h.member("m1").pending_revocation == {"a": (3, 4, 5)}
    h.beat("m1", -2, instance="i")
    assert (h.member("m1").assigned, h.member("m1").pending_revocation) == ({"a": (0, 1, 2)}, {})
    # As in Kafka (KAFKA-20641).
    assert h.member("m1").state == "UNREVOKED_PARTITIONS"
    assert h.deadline(TimerKind.REBALANCE, "m1") is None
    assert assigned(h.beat("m2", 3)) == {"a": [3, 4, 5]}


# -- B098: coming back


@rule("B098")
def test_a_static_member_gets_its_assignment_back(h):
    two(h, instance="i")
    mine = h.held()["m1"]
    h.beat("m1", -2, instance="i")
    before = len(h.log)
    reply = h.beat("new", instance="i")
    assert (reply.member_epoch, assigned(reply)) == (3, {"a": list(mine["a"])})
    assert h.written(before) == [
        "-current m1", "-target m1", "-member m1", "member new", "target new", "current new", "current new",
    ]  # fmt: skip
    assert h.log[-2].value.member_epoch == 0
    assert h.epochs() == (3, 3, {"m2": 3, "new": 3})
    assert h.state() == "Stable"
    assert [key for key in h.engine.deadlines if key.member_id == "m1"] == []
    assert h.error("m1", 3, instance="i") == E.FENCED_INSTANCE_ID


@rule("B098")
def test_a_static_member_joins_again_with_its_old_id(h):
    h.beat("m1", instance="i")
    h.beat("m1", -2, instance="i")
    reply = h.beat("m1", instance="i")
    assert (reply.member_epoch, assigned(reply)) == (2, {"a": [0, 1, 2, 3, 4, 5]})
    assert h.deadline(TimerKind.SESSION, "m1") == 45_000


@rule("B098")
def test_a_static_member_that_joins_with_other_topics_increments_the_epoch(h):
    h.beat("m1", instance="i")
    h.beat("m1", -2, instance="i")
    reply = h.beat("new", instance="i", names=["b"])
    assert (reply.member_epoch, assigned(reply)) == (3, {"b": [0, 1, 2]})


# -- B099: instance ids of others


@rule("B099")
def test_instance_ids(h):
    h.beat("m1", instance="i")
    before = len(h.log)
    assert h.error("m2", instance="i") == E.UNRELEASED_INSTANCE_ID
    assert h.error("m2", 2, instance="i") == E.FENCED_INSTANCE_ID
    assert h.error("m2", -1, instance="i") == E.FENCED_INSTANCE_ID
    assert h.error("m2", -2, instance="i") == E.FENCED_INSTANCE_ID
    assert h.error("m1", 2, instance="j") == E.UNKNOWN_MEMBER_ID
    assert h.error("m1", -2, instance="j") == E.UNKNOWN_MEMBER_ID
    assert h.written(before) == []


@rule("B099")
def test_a_static_member_that_has_not_left_cannot_join_again(h):
    """Kafka does not see that it is the same member, which may have lost the answer (apache/kafka#23542)."""
    h.beat("m1", instance="i")
    assert h.error("m1", instance="i") == E.UNRELEASED_INSTANCE_ID


def test_a_dynamic_member_may_become_a_static_one(h):
    h.beat("m1")
    reply = h.beat("m1", instance="i")
    assert (reply.error_code, assigned(reply)) == (E.NONE, {"a": [0, 1, 2, 3, 4, 5]})
    assert h.group().members[0].group_instance_id == "i"


# -- B100: time


@rule("B100")
def test_sessions_expire(h):
    two(h, instance="i")
    h.sleep(44_999)
    h.beat("m2", 3)
    before = len(h.log)
    h.sleep(1)
    assert h.written(before) == ["-current m1", "-target m1", "-member m1", "epoch"]
    assert h.epochs() == (4, 3, {"m2": 3})
    assert h.error("m1", 3, instance="i") == E.UNKNOWN_MEMBER_ID


@rule("B100")
def test_a_member_that_is_away_expires_with_its_session(h):
    h.beat("m1", instance="i")
    h.sleep(30_000)
    h.beat("m1", -2, instance="i")
    h.sleep(14_999)
    assert h.ids_of() == ["m1"]
    h.sleep(1)
    assert h.ids_of() == []
    assert h.beat("m2", instance="i").error_code == E.NONE


@rule("B100")
def test_a_member_that_does_not_revoke_in_time_is_fenced(h):
    h.beat("m1", rebalance_timeout_ms=10_000)
    h.beat("m2")
    h.beat("m1", 2, owned={"a": range(6)})
    assert h.deadline(TimerKind.REBALANCE, "m1") == 10_000
    h.sleep(9_999)
    h.beat("m1", 2, owned={"a": range(6)})
    assert h.ids_of() == ["m1", "m2"]
    h.sleep(1)
    assert h.ids_of() == ["m2"]
    assert assigned(h.beat("m2", 3)) == {"a": [0, 1, 2, 3, 4, 5]}


@rule("B100")
def test_a_member_that_revokes_in_time_is_not_fenced(h):
    h.beat("m1", rebalance_timeout_ms=10_000)
    h.beat("m2")
    h.beat("m1", 2, owned={"a": range(6)})
    assert h.beat("m1", 2, owned={"a": [0, 1, 2]}).member_epoch == 3
    assert h.deadline(TimerKind.REBALANCE, "m1") is None


def test_what_is_set_for_one_group(h):
    h.engine.configure("g", {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": 7_000})
    assert h.beat("m1").heartbeat_interval_ms == 7_000
    assert h.deadline(TimerKind.SESSION, "m1") == 50_000
    h.beat("m1", group="other")
    assert h.deadline(TimerKind.SESSION, "m1", "other") == 45_000
    h.engine.configure("g", {"consumer.session.timeout.ms": 1_000_000, "consumer.heartbeat.interval.ms": 1})
    assert h.beat("m1", 2).heartbeat_interval_ms == 5_000
    assert h.deadline(TimerKind.SESSION, "m1") == 60_000
    h.engine.configure("g", {})
    h.beat("m1", 2)
    assert h.deadline(TimerKind.SESSION, "m1") == 45_000


# -- when records cannot be appended


def test_a_newcomer_that_cannot_be_written_is_not_there(h):
    h.fail_with = E.NOT_ENOUGH_REPLICAS
    assert h.error("m1") == E.COORDINATOR_NOT_AVAILABLE
    assert h.group() is None
    assert list(h.engine.deadlines) == []


def test_a_heartbeat_that_cannot_be_written_is_a_sign_of_life(h):
    h.beat("m1")
    h.sleep(40_000)
    h.fail_with = E.NOT_LEADER_OR_FOLLOWER
    assert h.error("m1", 2, names=["b"]) == E.NOT_COORDINATOR
    assert h.member("m1").topics == ("a",)
    assert h.deadline(TimerKind.SESSION, "m1") == 45_000
    h.fail_with = None
    # The hash is looked at again, since the epoch has not come.
    assert h.beat("m1", 2, names=["b"], owned={}).member_epoch == 3


def test_who_cannot_be_removed_stays_and_is_tried_again(h):
    h.beat("m1")
    h.fail_with = E.NOT_ENOUGH_REPLICAS
    assert h.error("m1", -1) == E.COORDINATOR_NOT_AVAILABLE
    assert h.deadline(TimerKind.SESSION, "m1") == 45_000
    h.sleep(45_000)
    assert h.ids_of() == ["m1"]
    assert h.deadline(TimerKind.SESSION, "m1") == 500
    h.fail_with = None
    h.sleep(500)
    assert h.ids_of() == []


def test_a_replacement_that_cannot_be_written_changes_nothing(h):
    h.beat("m1", instance="i")
    h.beat("m1", -2, instance="i")
    h.fail_with = E.NOT_ENOUGH_REPLICAS
    h.error("m2", instance="i")
    assert h.ids_of() == ["m1"]
    assert h.deadline(TimerKind.SESSION, "m1") == 45_000
    assert h.deadline(TimerKind.SESSION, "m2") is None


def test_topic_ids_are_what_is_meant(h):
    """A topic that is created again is another one."""
    h.beat("m1")
    h.topics({"a": 6, "b": 3}, turn=1)
    reply = h.beat("m1", 2, owned={"a": range(6)})
    assert reply.assignment.topic_partitions == []
    # The topic that it is to give up is gone, so nobody can tell it which one that was.
    assert h.member("m1").state == "UNREVOKED_PARTITIONS"
    reply = h.beat("m1", 2, owned={})
    assert reply.assignment.topic_partitions[0].topic_id == topic_id("a", 1)
