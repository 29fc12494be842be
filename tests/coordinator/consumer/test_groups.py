"""Consumer groups as a whole (KIP-848): behaviours B101 and B103 to B108 of Apache Kafka 4.3.0's coordinator,
and what operators see and do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgm.coordinator.contract.topic_image import Topic, TopicImage
from kgm.coordinator.contract.topic_image import topic_id as made_id
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import ConsumerMember
from kgm.model.errors import ErrorCode as E
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.records.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from kgm.records.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from kgm.records.messages.consumer_group_target_assignment_member_value import TopicPartition as TargetPartitions
from kgm.records.record import Record
from tests.coordinator.behaviours import rule
from tests.coordinator.consumer.harness import Consumers, assigned, image, topic_id
from tests.coordinator.harness import Harness


@pytest.fixture
def h():
    return Consumers()


# -- B101: three members, step by step


@rule("B101")
def test_from_two_members_to_three(h):
    h.beat("m1")
    h.beat("m2")
    h.calm()
    assert h.held() == {"m1": {"a": (0, 1, 2)}, "m2": {"a": (3, 4, 5)}}
    # The third one gets its epoch at once, and nothing yet.
    reply = h.beat("m3")
    assert (reply.member_epoch, assigned(reply), h.state()) == (4, {}, "Reconciling")
    # The first two are told to give up one each; they stay in their epoch until they have.
    for member, keeps, gives in (("m1", [0, 1], 2), ("m2", [3, 4], 5)):
        reply = h.beat(member, 3, owned=h.held()[member])
        assert (reply.member_epoch, assigned(reply)) == (3, {"a": keeps})
        assert h.member(member).pending_revocation == {"a": (gives,)}
        assert h.beat(member, 3).member_epoch == 3
    assert assigned(h.beat("m3", 4)) is None
    reply = h.beat("m1", 3, owned={"a": [0, 1]})
    assert (reply.member_epoch, assigned(reply)) == (4, None)
    # What is free is given out bit by bit.
    assert assigned(h.beat("m3", 4)) == {"a": [2]}
    assert h.member("m3").state == "UNRELEASED_PARTITIONS"
    h.beat("m2", 3, owned={"a": [3, 4]})
    assert assigned(h.beat("m3", 4)) == {"a": [2, 5]}
    assert h.epochs() == (4, 4, {"m1": 4, "m2": 4, "m3": 4})
    assert h.state() == "Stable"


# -- B103: who has a partition


def group_of(*members):
    group = ConsumerGroup(group_id="g")
    for member in members:
        group.put(member)
    return group


@rule("B103")
def test_partitions_belong_to_the_member_that_has_them_or_has_to_revoke_them():
    member = ConsumerMember(
        "m", member_epoch=5, assigned={b"t": {0: 5}}, pending_revocation={b"t": {1: 4}, b"u": {2: 4}}
    )
    group = group_of(member)
    assert group.partition_epochs == {b"t": {0: 5, 1: 5}, b"u": {2: 5}}
    group.put(member._replace(member_epoch=6, pending_revocation={}))
    assert group.partition_epochs == {b"t": {0: 6}}
    group.remove("m")
    assert group.partition_epochs == {}
    assert group.owner_epoch(b"t", 0) is None


@rule("B103")
def test_a_moved_partition_is_not_taken_from_its_new_owner():
    """KAFKA-16147: a member that is written later must not take away what is another one's now."""
    old = ConsumerMember("old", member_epoch=5, assigned={b"t": {0: 5}, b"v": {0: 5}})
    group = group_of(old, ConsumerMember("new", member_epoch=6, assigned={b"t": {0: 6}}))
    group.put(old._replace(member_epoch=7, assigned={}))
    assert group.partition_epochs == {b"t": {0: 6}}
    group.put(ConsumerMember("late", member_epoch=4, assigned={b"t": {0: 4}}))
    assert group.partition_epochs == {b"t": {0: 6}}
    group.partition_epochs.clear()
    group.remove("new")
    assert group.partition_epochs == {}


_numbers = st.dictionaries(st.integers(0, 2), st.just(1), min_size=1)
_some = st.dictionaries(st.sampled_from([b"t", b"u"]), _numbers)


@rule("B103")
@given(
    st.lists(
        st.builds(
            ConsumerMember, st.sampled_from("mn"), st.integers(1, 3), assigned=_some,
            pending_revocation=st.just({}) | st.just({}) | _some,
        ),
        max_size=8,
    )
)  # fmt: skip
def test_partitions_have_the_last_epoch_of_whoever_has_them(members):
    """One partition after the other, whatever a log has."""
    group, known, epochs = group_of(), {}, {}
    for member in members:
        was, had = known.get(member.member_id, (None, []))
        for partition in had:
            if epochs.get(partition) == was:
                del epochs[partition]
        rows = [*member.assigned.items(), *member.pending_revocation.items()]
        has = [(topic, number) for topic, numbers in rows for number in numbers]
        for partition in has:
            epochs[partition] = max(member.member_epoch, epochs.get(partition, 0))
        known[member.member_id] = member.member_epoch, has
        group.put(member)
        found = {(topic, n): epoch for topic, numbers in group.partition_epochs.items() for n, epoch in numbers.items()}
        assert found == epochs
        assert all(group.partition_epochs.values())


# -- B104: states


@rule("B104")
def test_group_states():
    h = Consumers(group_consumer_assignment_interval_ms=10_000)
    h.beat("m1")
    assert h.state() == "Stable"
    h.beat("m2")
    assert h.state() == "Assigning"
    h.sleep(10_000)
    h.beat("m1", 2, owned={"a": range(6)})
    assert h.state() == "Reconciling"
    h.calm()
    assert h.state() == "Stable"
    h.beat("m1", -1)
    h.beat("m2", -1)
    assert h.state() == "Empty"


# -- B105: capacity


@rule("B105")
def test_a_full_group():
    h = Consumers(group_consumer_max_size=1)
    h.beat("m1")
    assert h.error("m2") == E.GROUP_MAX_SIZE_REACHED
    assert h.error("", v=0) == E.GROUP_MAX_SIZE_REACHED
    assert h.error("m1") == E.NONE
    assert h.error("m1", 2) == E.NONE
    assert h.classic_join().error_code == E.GROUP_MAX_SIZE_REACHED


# -- B106: assignors


@rule("B106")
def test_the_assignor_that_most_members_prefer(h):
    h.beat("m1")
    assert h.group().protocol is None
    assert h.groups_described()[0].assignor_name == "uniform"
    h.beat("m2", server_assignor="range")
    assert (h.group().protocol, h.groups_described()[0].assignor_name) == ("range", "range")
    h.beat("m3", server_assignor="uniform")
    h.beat("m1", 2, server_assignor="uniform")
    assert h.group().protocol == "uniform"
    h.beat("m1", -1)
    h.beat("m3", -1)
    assert h.group().protocol == "range"


@rule("B106")
def test_the_first_assignor_is_the_default():
    h = Consumers(group_consumer_assignors="range,uniform")
    h.beat("m1", names=["a", "b"])
    h.beat("m2", names=["a", "b"])
    h.calm()
    assert h.held() == {"m1": {"a": (0, 1, 2), "b": (0, 1)}, "m2": {"a": (3, 4, 5), "b": (2,)}}


# -- B107: targets


@rule("B107")
def test_only_changed_targets_are_written(h):
    h.beat("m1")
    h.beat("m2", names=["b"])
    h.calm()
    before = len(h.log)
    h.beat("m3", names=["b"])
    assert [row for row in h.written(before) if row.startswith("target")] == ["target m2", "target m3", "target epoch"]


@rule("B107")
def test_a_member_without_partitions_has_a_target(h):
    h.beat("m1")
    h.beat("m2", names=["nowhere"])
    assert h.engine._state.groups["g"].targets["m2"] == {}
    assert h.log[-2].value.assignment_epoch == 3


@rule("B107")
def test_a_target_without_any_topic(h):
    h.topics({})
    reply = h.beat("m1", server_assignor="range")
    assert (reply.member_epoch, assigned(reply)) == (2, {})
    h.beat("m2", names=["nowhere"], server_assignor="uniform")
    assert h.held() == {"m1": {}, "m2": {}}


@rule("B107")
def test_a_replacement_inherits_in_a_new_target_too(h):
    h.beat("m1", instance="i", names=["a"])
    h.beat("m2")
    h.calm()
    mine = h.held()["m1"]
    h.beat("m1", -2, instance="i")
    reply = h.beat("new", instance="i", names=["a", "b"])
    target = h.member("new").target
    assert set(target["a"]) <= set(mine["a"])
    assert target["b"] == (0, 1, 2)
    assert reply.member_epoch == 4


@rule("B107")
def test_a_new_member_without_a_subscription_may_get_partitions():
    """As in Kafka: nothing changes for the group's topics, so nobody looks whether all want the same still; if a target
    is due, the newcomer is given what it does not want, and nobody reads that until there is another target."""
    h = Consumers(group_consumer_assignment_interval_ms=1_000)
    for member in ("m1", "m2", "m3"):
        h.beat(member)
    h.sleep(1_000)
    h.calm()
    h.sleep(1_000)
    h.beat("m1", -1)
    assert assigned(h.beat("m4", names=[])) == {}
    h.calm()
    assert (h.state(), h.held()) == ("Stable", {"m2": {"a": (2, 3)}, "m3": {"a": (4, 5)}, "m4": {}})
    assert h.member("m4").target == {"a": (0, 1)}


# -- B108: the assignment interval


@rule("B108")
def test_targets_wait_for_the_interval():
    h = Consumers(group_consumer_assignment_interval_ms=1_000)
    assert assigned(h.beat("m1")) == {"a": [0, 1, 2, 3, 4, 5]}
    reply = h.beat("m2")
    assert (reply.member_epoch, assigned(reply)) == (2, {})
    reply = h.beat("m3")
    assert h.epochs() == (4, 2, {"m1": 2, "m2": 2, "m3": 2})
    h.sleep(999)
    h.beat("m1", 2)
    assert h.epochs()[1] == 2
    h.sleep(1)
    h.beat("m1", 2)
    assert h.epochs()[1] == 4
    h.calm()
    assert h.held() == {"m1": {"a": (0, 1)}, "m2": {"a": (2, 3)}, "m3": {"a": (4, 5)}}


@rule("B108")
def test_the_interval_of_one_group():
    h = Consumers(group_consumer_assignment_interval_ms=1_000)
    h.engine.configure("g", {"consumer.assignment.interval.ms": 0})
    h.beat("m1")
    h.beat("m2")
    assert h.epochs()[:2] == (3, 3)


# -- topics


def test_without_an_image_topics_have_ids_made_of_their_names():
    h = Harness(topics={"a": 2})
    message = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1_000, subscribed_topic_names=["a", "b"], topic_partitions=[]
    )
    reply = h.got(h.send(message, 1))
    assert [(row.topic_id, row.partitions) for row in reply.assignment.topic_partitions] == [(made_id("a"), [0, 1])]
    h.engine._dispatcher.topics = {"a": 2, "b": 1}
    h.take(h.runtime.topics_changed(now=h.now))
    assert set(h.engine.image) == {"a", "b"}
    assert len(h.engine.image) == 2


# -- what operators see and do


def test_described(h):
    h.beat("m1", instance="i", rack_id="r", names=["b", "a"])
    h.beat("m2", regex="b")
    h.sleep(0)
    h.beat("m1", 2, instance="i")
    group, missing, empty = h.groups_described("g", "none", "")
    assert (missing.error_code, empty.error_code) == (E.GROUP_ID_NOT_FOUND, E.INVALID_GROUP_ID)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    second, first = group.members  # the order of Kafka's hash map
    assert (first.member_id, first.instance_id, first.rack_id, first.member_epoch) == ("m1", "i", "r", 2)
    assert (first.subscribed_topic_names, first.subscribed_topic_regex, first.member_type) == (["a", "b"], "", 1)
    assert second.subscribed_topic_regex == "b"
    # What is to be given up is still had.
    held = {row.topic_name: row.partitions for row in first.assignment.topic_partitions}
    assert held == {"a": [0, 1, 2, 3, 4, 5], "b": [0, 1, 2]}
    assert {row.topic_name for row in first.target_assignment.topic_partitions} == {"a"}
    h.topics({"a": 6})
    _, first = h.groups_described("g")[0].members
    assert {row.topic_name for row in first.assignment.topic_partitions} == {"a"}


def test_listed_and_not_described_as_classic(h):
    h.beat("m1")
    h.stable("s", group="old")
    assert {row.group_id: (row.group_type, row.group_state) for row in h.list()} == {
        "g": ("consumer", "Stable"),
        "old": ("classic", "Stable"),
    }
    assert [row.group_id for row in h.list(types=["Consumer"])] == ["g"]
    assert [row.group_id for row in h.list(states=["assigning"])] == []
    row = h.describe("g")[0]
    assert (row.group_state, row.error_code) == ("Dead", E.GROUP_ID_NOT_FOUND)
    assert h.describe("g", v=5)[0].error_code == E.NONE
    assert h.groups_described("old")[0].error_code == E.GROUP_ID_NOT_FOUND


def test_deleted_when_empty(h):
    h.beat("m1", regex="a")
    h.sleep(0)
    assert h.delete("g") == {"g": E.NON_EMPTY_GROUP}
    h.commit("m1", 1, topic="b")
    h.beat("m1", -1)
    before = len(h.log)
    assert h.delete("g") == {"g": E.NONE}
    assert h.written(before) == ["-OffsetCommit", "-target epoch", "-topics", "-epoch"]
    assert h.group() is None


def test_views_show_what_a_fork_does_not_change(h):
    h.beat("m1", names=["a"], instance="i")
    twin = h.runtime.fork()
    shown = h.group()
    other = twin.engine
    h.beat("m1", -2, instance="i")
    h.beat("m2")
    assert other.group("g") == shown
    assert h.group().assignment_epoch == 3
    assert other.image is h.engine.image
    assert h.group().metadata_hash == shown.metadata_hash == h.engine.image.hash_of(["a"])


def test_the_hash_is_kafkas():
    """Worked out by Kafka's Utils.computeTopicHash and computeGroupHash."""
    racks = tuple((f"rack{i % 4}", f"rack{(i + 1) % 4}") for i in range(200))
    foo = Topic(name="foo", topic_id=bytes(7) + b"\1" + bytes(7) + b"\2", partitions=3, racks=racks[:3])
    bar = Topic(name="bär", topic_id=(2**64 - 5).to_bytes(8) + (77).to_bytes(8), partitions=200, racks=racks)
    plain = Topic(name="foo", topic_id=foo.topic_id, partitions=3)
    assert [topic.hash() for topic in (foo, bar, plain)] == [
        619606047027271051, -305059332019968814, 8773618633639361573,
    ]  # fmt: skip
    assert TopicImage.of([foo]).hash_of(["none"]) == 0
    assert TopicImage.of([foo]).changed_since(TopicImage.of([plain])) == {"foo"}
    assert image({"x": 1}).changed_since(image({"x": 1}, version=2)) == set()


def test_what_two_own_by_a_log_that_no_broker_writes_is_written_once():
    """The order in which Kafka would go through it depends on that."""
    made = Consumers(topics={"a": 80})
    made.beat("m1")
    made.beat("m2")
    rows = [TargetPartitions(topic_id=topic_id("a"), partitions=[64, *range(50)])]
    for member in ("m1", "m2"):
        key = ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id=member)
        made.engine.replay(Record(key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=rows)))
    before = len(made.log)
    made.beat("m3")
    written = [r.value for r in made.log[before:] if isinstance(r.value, ConsumerGroupTargetAssignmentMemberValue)]
    partitions = sorted(p for value in written for row in value.topic_partitions for p in row.partitions)
    assert partitions == list(range(80))


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
def test_uniform_fails_while_a_target_has_partitions_that_do_not_exist(assignor, names):
    """What Kafka does is in `lockstep/test_other_versions.py`."""
    h = Consumers(topics={"a": 2, "b": 2}, group_consumer_assignors=assignor)
    h.beat("m1")
    rows = [TargetPartitions(topic_id=topic_id("a"), partitions=[0, 2])]
    key = ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m1")
    h.engine.replay(Record(key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=rows)))
    written = len(h.log)
    error = E.UNKNOWN_SERVER_ERROR if assignor == "uniform" else E.NONE
    assert h.beat("m2", names=names).error_code == error
    assert (len(h.log) == written) == (error is not E.NONE)
    h.topics({"a": 3, "b": 2})
    assert h.beat("m2", names=names).error_code == E.NONE
