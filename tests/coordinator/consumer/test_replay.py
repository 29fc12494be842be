"""Records 3 to 8 and 16, written and read: behaviour B114 of Apache Kafka 4.3.0's coordinator. And records of share and
streams groups, which are kept and shown.

`test_consumers_against_kafka` reads the same logs with Kafka's coordinator, in the middle of random lives, and asserts that
Kafka's bytes are those that we would write."""

import pytest

from kgm.coordinator.contract.outcome import Request, Ticket, TimerKind
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.groups.consumer_group import ResolvedRegex
from kgm.coordinator.runtime import Runtime
from kgm.model.errors import ErrorCode as E
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.records.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from kgm.records.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kgm.records.messages.consumer_group_current_member_assignment_value import TopicPartitions as Held
from kgm.records.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kgm.records.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from kgm.records.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kgm.records.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kgm.records.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from kgm.records.messages.consumer_group_partition_metadata_value import ConsumerGroupPartitionMetadataValue
from kgm.records.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from kgm.records.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from kgm.records.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from kgm.records.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kgm.records.messages.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from kgm.records.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kgm.records.record import Record, decode_record, encode_record, message_classes
from kgm.records.record_types import SHARE_GROUP_TYPES, TYPES
from tests.coordinator.behaviours import rule
from tests.coordinator.consumer.harness import Consumers, image, topic_id
from tests.coordinator.consumer.test_groups_stateful import same
from tests.coordinator.harness import compacted

T = topic_id("a")
EPOCH = ConsumerGroupMetadataKey(group_id="g")
MEMBER = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
TARGET_EPOCH = ConsumerGroupTargetAssignmentMetadataKey(group_id="g")
TARGET = ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m")
CURRENT = ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m")
REGEX = ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="a.*")
TOPICS = ConsumerGroupPartitionMetadataKey(group_id="g")
SAID = ConsumerGroupMemberMetadataValue(
    instance_id="i", rack_id="r", client_id="c", client_host="/h", subscribed_topic_names=["a"],
    subscribed_topic_regex="", rebalance_timeout_ms=7, server_assignor="range", classic_member_metadata=None,
)  # fmt: skip
HAS = ConsumerGroupCurrentMemberAssignmentValue(
    member_epoch=5,
    previous_member_epoch=4,
    state=1,
    assigned_partitions=[Held(topic_id=T, partitions=[0, 1], assignment_epochs=[3, 5])],
    partitions_pending_revocation=[Held(topic_id=T, partitions=[2], assignment_epochs=[2])],
)


def loaded(*records):
    """What these make, by way of bytes."""
    engine = Coordinator(new_member_id=str, image=image({"a": 6}))
    for key, value in records:
        engine.replay(decode_record(*encode_record(Record(key, value))))
    return engine


def group_of(*records):
    return loaded(*records)._state.groups.get("g")


# -- B114: one record, and its tombstone


@rule("B114")
def test_replay_of_the_group_epoch():
    """testReplayConsumerGroupMetadata, …Tombstone"""
    group = group_of((EPOCH, ConsumerGroupMetadataValue(epoch=10, metadata_hash=99)))
    assert (group.group_epoch, group.metadata_hash, group.state) == (10, 99, "Empty")
    assert group_of((EPOCH, None)) is None
    assert group_of((EPOCH, ConsumerGroupMetadataValue(epoch=10)), (EPOCH, None)) is None


@rule("B114")
def test_replay_of_a_member():
    """testReplayConsumerGroupMemberMetadata, …Tombstone"""
    group = group_of((MEMBER, SAID))
    member = group.members["m"]
    assert (member.group_instance_id, member.rack_id, member.client_id, member.client_host) == ("i", "r", "c", "/h")
    assert (member.subscribed_topic_names, member.rebalance_timeout_ms, member.server_assignor) == ({"a"}, 7, "range")
    assert (member.member_epoch, member.classic, group.static_ids) == (0, None, {"i": "m"})
    # The group may not exist at all: the tombstone is taken for nothing.
    assert group_of((MEMBER, None)) is None
    assert group_of((MEMBER, SAID), (MEMBER, None)).members == {}
    assert group_of((EPOCH, ConsumerGroupMetadataValue(epoch=3)), (MEMBER, None)).members == {}


@rule("B114")
def test_replay_of_a_target():
    """testReplayConsumerGroupTargetAssignmentMember, …Tombstone, …Metadata, …MetadataTombstone"""
    rows = [TopicPartition(topic_id=T, partitions=[2, 0, 1])]
    said = (TARGET, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=rows))
    assert group_of(said).targets == {"m": {T: (0, 1, 2)}}
    assert group_of(said, (TARGET, None)).targets == {}
    assert group_of((TARGET, None)) is None
    said = (TARGET_EPOCH, ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=10, assignment_timestamp=77))
    group = group_of(said)
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (10, 77)
    assert group_of(said, (TARGET_EPOCH, None)).assignment_epoch == -1
    assert group_of((TARGET_EPOCH, None)) is None


@rule("B114")
def test_replay_of_a_current_assignment():
    """testReplayConsumerGroupCurrentMemberAssignment, …Tombstone, …Unowned"""
    group = group_of((MEMBER, SAID), (CURRENT, HAS))
    member = group.members["m"]
    assert (member.member_epoch, member.previous_member_epoch, member.state.name) == (5, 4, "UNREVOKED_PARTITIONS")
    assert (member.assigned, member.pending_revocation) == ({T: {0: 3, 1: 5}}, {T: {2: 2}})
    assert group.partition_epochs == {T: {0: 5, 1: 5, 2: 5}}
    # It may come before the member itself, where a log has been cleaned.
    assert group_of((CURRENT, HAS), (MEMBER, SAID)).members == group.members
    group = group_of((MEMBER, SAID), (CURRENT, HAS), (CURRENT, None))
    assert (group.members["m"].member_epoch, group.members["m"].assigned, group.partition_epochs) == (-1, {}, {})
    assert group_of((CURRENT, None)) is None


@rule("B114")
def test_replay_of_a_current_assignment_before_kip_1251():
    """Kafka before 4.3 wrote no epochs of partitions: the member's then counts, and 0 for one that is away."""
    old = Held(topic_id=T, partitions=[0], assignment_epochs=[])
    for epoch, since in ((5, 5), (-2, 0)):
        value = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=epoch, assigned_partitions=[old])
        assert group_of((MEMBER, SAID), (CURRENT, value)).members["m"].assigned == {T: {0: since}}


@rule("B114")
def test_replay_of_a_regular_expression():
    """testReplayConsumerGroupRegularExpression, …Tombstone"""
    said = (REGEX, ConsumerGroupRegularExpressionValue(topics=["a", "ab"], version=10, timestamp=12_345))
    group = group_of((MEMBER, SAID), said)
    assert group.resolved == {"a.*": ResolvedRegex(frozenset({"a", "ab"}), 10, 12_345)}
    assert group.is_subscribed_to("ab")
    group = group_of((MEMBER, SAID), said, (REGEX, None))
    assert (group.resolved, group.is_subscribed_to("ab")) == ({}, False)
    assert group_of((REGEX, None)) is None


@rule("B114")
def test_replay_of_partition_metadata_of_kafka_4_0():
    """testReplayConsumerGroupPartitionMetadata: their tombstone is written with the next epoch."""
    assert group_of((TOPICS, ConsumerGroupPartitionMetadataValue())).has_partition_metadata
    assert not group_of((TOPICS, ConsumerGroupPartitionMetadataValue()), (TOPICS, None)).has_partition_metadata
    assert group_of((TOPICS, None)) is None


@rule("B114")
def test_a_consumer_group_takes_the_place_of_a_simple_group():
    """testConsumerGroupWithOffsetsBeforeMetadata: offsets come before the records of their group, KAFKA-19862."""
    h = Consumers()
    h.commit(topic="a")
    assert h.group().group_type == "classic"
    for key, value in ((EPOCH, ConsumerGroupMetadataValue(epoch=3)), (MEMBER, SAID)):
        h.engine.replay(Record(key, value))
    assert (h.group().group_type, list(h.engine.offsets.of("g"))) == ("consumer", [("a", 0)])


# -- B114: a whole life, cleaned in part


@rule("B114")
def test_a_log_that_was_cleaned_in_part_gives_the_same_group():
    """…WithCompaction, apache/kafka#23220: of every prefix at the end of a batch."""
    h = Consumers()
    live = []

    def note():
        live.append((len(h.entries), h.engine._state.groups["g"].copy()))

    for act in (
        lambda: h.beat("m1", instance="i"),
        lambda: h.beat("m2", regex="a|b"),
        lambda: h.sleep(0),
        lambda: h.calm("m1", "m2"),
        lambda: h.beat("m1", -2, instance="i"),
        lambda: h.beat("m3", instance="i"),
        lambda: h.topics({"a": 7, "b": 3}),
        lambda: h.calm("m2", "m3"),
        lambda: h.classic_join(instance="k"),
        lambda: h.beat("m2", h.member("m2").member_epoch, names=["b"], regex="", owned={}),
        lambda: h.leave(("", "i")),
        lambda: h.calm("m2"),
    ):
        act()
        note()
    for length, group in live:
        for entries in (h.entries[:length], compacted(h.entries[:length])):
            again = loaded(*((record.key, record.value) for record, _ in entries))._state.groups["g"]
            assert same(again, group)


@rule("B114")
def test_loading_starts_sessions_and_rebalance_timeouts():
    """testOnLoaded"""
    h = Consumers()
    h.beat("m1")
    h.beat("m2")
    h.beat("m1", 2)
    h.sleep(30_000)
    again = Consumers()
    again.use(h.engine.image)
    again.now = h.now
    for record in h.log:
        again.engine.replay(record)
    again.take(again.runtime.loaded(now=again.now))
    assert {m: again.deadline(TimerKind.SESSION, m) for m in ("m1", "m2")} == {"m1": 45_000, "m2": 45_000}
    assert again.deadline(TimerKind.REBALANCE, "m1") == 60_000
    assert again.deadline(TimerKind.REBALANCE, "m2") is None
    assert h.deadline(TimerKind.SESSION, "m1") == 15_000


# -- bytes


def test_null_is_said_in_a_tag_and_is_not_the_same_as_nothing():
    """The default of both fields is an empty struct or list, so that Kafka writes a null: one byte in tag 0."""
    _, value = encode_record(Record(MEMBER, SAID))
    assert value.endswith(bytes([1, 0, 1, 0])), "one tag, number 0, of one byte, a null"
    there = ConsumerGroupMemberMetadataValue(classic_member_metadata=ClassicMemberMetadata(session_timeout_ms=9))
    _, value = encode_record(Record(MEMBER, there))
    assert value.endswith(bytes([1, 0, 7, 1, 0, 0, 0, 9, 1, 0])), "here it is, with its length before it"
    missing = encode_record(Record(MEMBER, SAID))[1][:-4] + bytes([0])
    read = decode_record(encode_record(Record(MEMBER, SAID))[0], missing).value
    assert read.classic_member_metadata == ClassicMemberMetadata()
    row = ConsumerGroupCurrentMemberAssignmentValue(assigned_partitions=[Held(topic_id=T, partitions=[1])])
    row.assigned_partitions[0].assignment_epochs = None
    assert bytes([1, 0, 1, 0]) in encode_record(Record(CURRENT, row))[1]


# -- share groups

MEMBER_TYPE = 10
OTHERS = sorted(SHARE_GROUP_TYPES)


def a_record(number, group_id="f", member_id="m"):
    key_class, value_class = message_classes(number)
    key = key_class(group_id=group_id)
    if "member_id" in {row[0] for row in key.FIELDS}:
        key.member_id = member_id
    return Record(key, value_class())


def foreign(*numbers):
    engine = Coordinator(new_member_id=str)
    for number in numbers:
        engine.replay(decode_record(*encode_record(a_record(number))))
    return engine


@pytest.mark.parametrize("number", OTHERS, ids=[TYPES[number] for number in OTHERS])
def test_their_records_are_kept_byte_by_byte(number):
    record = a_record(number)
    again = decode_record(*encode_record(record))
    assert again == record
    engine = foreign(number)
    view = engine.group("f")
    assert (view.group_type, view.state) == ("share", "Stable" if number == MEMBER_TYPE else "Empty")
    (kept,) = engine._state.groups["f"].records.values()
    assert encode_record(kept) == encode_record(record)
    engine.replay(Record(record.key, None))
    assert engine.group("f") is None


def test_they_are_listed_and_block_their_ids():
    h, kind = Consumers(), "share"
    h.engine.replay(a_record(MEMBER_TYPE))
    (row,) = h.list()
    assert (row.group_id, row.group_type, row.protocol_type, row.group_state) == ("f", kind, kind, "Stable")
    assert [r.group_id for r in h.list(types=[kind])] == ["f"]
    assert h.list(types=["consumer"]) == []
    assert h.describe("f")[0].error_code == E.GROUP_ID_NOT_FOUND
    described = h.got(h.send(ConsumerGroupDescribeRequest(group_ids=["f"]), 1)).groups[0]
    assert described.error_code == E.GROUP_ID_NOT_FOUND
    assert h.error("m", group="f") == E.GROUP_ID_NOT_FOUND
    assert h.got(h.join("", "i", group="f")).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert h.delete("f") == {"f": E.NON_EMPTY_GROUP}
    assert h.log == []


def test_an_empty_one_can_be_deleted():
    h = Consumers()
    h.engine.replay(a_record(11))
    assert h.delete("f") == {"f": E.NONE}
    assert [(r.key.API_KEY, r.value) for r in h.log] == [(11, None)]
    assert h.group("f") is None


def test_a_fork_keeps_its_own():
    engine = foreign(11)
    twin = engine.fork()
    twin.replay(a_record(10))
    assert (engine.group("f").state, twin.group("f").state) == ("Empty", "Stable")


def test_a_tombstone_of_another_type_takes_no_group_away():
    """An id may have been a share group's before."""
    h = Consumers()
    h.beat("m")
    for number in (10, 11, 17):
        h.engine.replay(Record(a_record(number, "g").key, None))
    assert h.group().group_type == "consumer"


def test_after_them_everything_goes_on():
    h = Consumers()
    h.engine.replay(a_record(10))
    assert Runtime(h.engine).handle(
        Request(message=ConsumerGroupDescribeRequest(group_ids=["f"]), version=0), ticket=Ticket(1), now=h.now
    )
    assert h.beat("m").error_code == E.NONE
    assert {row.group_id for row in h.list()} == {"f", "g"}
