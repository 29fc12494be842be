"""From brokers' answers to snapshots: every kind of group, and blobs that are nobody's business."""

import pytest

from kgm.client.requests import GroupDescription
from kgm.client.snapshots import group_without_offsets, members_snapshot, snapshot
from kgm.model.snapshot import CoordinatorNode, GroupSnapshot, TopicSnapshot
from kgm.model.snapshot_json import snapshot_from_json
from kgm.operations.watch.conditions import parse_condition
from kgm.protocol.messages import consumer_group_describe_response as consumer
from kgm.protocol.messages import describe_groups_response as classic
from kgm.protocol.messages import share_group_describe_response as share
from kgm.protocol.messages import streams_group_describe_response as streams
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription

# As a Java client and as librdkafka write them (recorded): one topic "t", version 3.
JAVA = bytes.fromhex("00030000000100 0174 ffffffff 00000000 ffffffff ffff".replace(" ", ""))
LIBRDKAFKA = bytes.fromhex("00030000000100 0174 00000000 00000000 ffffffff 0000".replace(" ", ""))
AT = CoordinatorNode(id=1, host="h", port=9092)


def classic_group(*members, state="Stable", protocol_type="consumer", protocol="range"):
    return GroupDescription(
        "classic",
        classic.DescribedGroup(
            group_id="g", group_state=state, protocol_type=protocol_type, protocol_data=protocol, members=list(members)
        ),
    )


def classic_member(instance_id, metadata=JAVA, assignment=b"", **more):
    known = {"member_id": f"{instance_id}-1", "client_id": "c", "client_host": "/10.0.0.1", **more}
    return classic.DescribedGroupMember(
        group_instance_id=instance_id, member_metadata=metadata, member_assignment=assignment, **known
    )


def blob(partitions):
    return encode_assignment(MemberAssignment(partitions=partitions))


def one(described):
    (member,) = group_without_offsets("g", described).members
    return member


@pytest.mark.parametrize(
    "described",
    [
        classic_group(classic_member("b"), classic_member("")),
        GroupDescription("consumer", consumer.DescribedGroup(
            group_id="g", group_state="Stable",
            members=[consumer.Member(member_id="b-1", instance_id="b"), consumer.Member(member_id="-1")],
        )),
        GroupDescription("share", share.DescribedGroup(
            group_id="g", group_state="Stable", members=[share.Member(member_id="b-1"), share.Member(member_id="-1")],
        )),
    ],
    ids=lambda described: described.kind,
)  # fmt: skip
def test_a_roster_is_the_snapshot_without_what_takes_long(described):
    found, whole = members_snapshot("g", described, AT), snapshot(group_without_offsets("g", described), coordinator=AT)
    assert (found.type, found.state, found.coordinator) == (whole.type, whole.state, whole.coordinator)
    assert {(one.member_id, one.group_instance_id) for one in found.members} == {
        (one.member_id, one.group_instance_id) for one in whole.members
    }


def test_a_classic_group():
    group = classic_group(classic_member("b", assignment=blob({"t": [1, 0]})), classic_member("a"))
    known = [
        TopicSnapshot(name="t", partitions=2, topic_id=bytes(15) + b"\1"),
        TopicSnapshot(name="other", partitions=9),
    ]
    found = snapshot(
        group_without_offsets("g", group), coordinator=AT, committed={("t", 0): 5, ("t", 1): 9, ("old", 3): 1},
        ends={("t", 0): 7, ("t", 1): 8}, topics={topic.name: topic for topic in known},
    )  # fmt: skip
    assert (found.type, found.state, found.assignor, found.protocol_type) == ("classic", "Stable", "range", "consumer")
    assert (found.generation, found.group_epoch, found.session_timeout_ms) == (None, None, None)
    assert [member.identity for member in found.members] == ["a", "b"]
    b = found.members[1]
    assert (b.client_host, b.status, b.topics, b.member_epoch) == ("10.0.0.1", "stable", ("t",), None)
    assert b.assignment == {"t": [0, 1]}
    assert b.lag is None  # of one of its partitions the committed offset is past the end
    assert found.members[0].lag is None
    assert [
        (row.topic, row.partition, row.committed, row.end, row.lag, row.group_instance_id) for row in found.offsets
    ] == [
        ("old", 3, 1, None, None, None),
        ("t", 0, 5, 7, 2, "b"),
        ("t", 1, 9, 8, None, "b"),
    ]
    # Uuid.METADATA_TOPIC_ID as Kafka prints it.
    assert found.to_json()["topics"] == [{"name": "t", "partitions": 2, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}]
    assert snapshot_from_json(found.to_json()).to_json() == found.to_json()


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("Stable", "stable"),
        ("PreparingRebalance", "reconciling"),
        ("CompletingRebalance", "reconciling"),
        ("Odd", "unknown"),
    ],
)
def test_status_of_classic_members(state, status):
    assert one(classic_group(classic_member("a", b""), state=state)).status == status


@pytest.mark.parametrize("metadata", [b"", b"x", b"\xff" * 30, b"\x00\x01\x7f\xff\xff\xff", JAVA[:7]])
def test_metadata_that_cannot_be_read_is_no_reason_to_fail(metadata):
    member = one(classic_group(classic_member("a", metadata, assignment=b"\x00\x00\xff")))
    assert (member.topics, member.assignment, member.lag) == (None, {}, None)


def test_a_group_of_another_protocol_is_described_without_topics():
    member = one(classic_group(classic_member("a", b"\0\1\0\0\0\0", b"\0\1\0\0\0\0"), protocol_type="connect"))
    assert (member.topics, member.assignment, member.identity) == ((), {}, "a")


def test_a_rack_is_what_is_told():
    with_rack = encode_subscription(Subscription(topics=("t",), rack_id="r1"))
    assert one(classic_group(classic_member("a", with_rack))).rack == "r1"
    assert one(classic_group(classic_member("a", LIBRDKAFKA))).rack is None


@pytest.mark.parametrize(
    ("client_id", "metadata", "library"),
    [
        ("rdkafka", JAVA, None),
        ("anything", LIBRDKAFKA, "librdkafka"),
        ("consumer-g-1", JAVA, "java"),
        ("consumer-g-1", LIBRDKAFKA, "librdkafka"),
        ("consumer-other-1", JAVA, None),
        ("consumer-g-x", JAVA, None),
        ("app-11-StreamThread-2-consumer", JAVA, "java"),
        ("anything", JAVA, None),
        ("anything", b"", None),
        ("kafka-python-3.0.12", JAVA, None),
        ("aiokafka-0.14.0", JAVA, None),
    ],
)
def test_the_library_is_told_only_where_it_shows(client_id, metadata, library):
    assert one(classic_group(classic_member("a", metadata, client_id=client_id))).client_library.name == library


def part(**topics):
    rows = [consumer.TopicPartitions(topic_name=name, partitions=list(p)) for name, p in topics.items()]
    return consumer.Assignment(topic_partitions=rows)


def consumer_group(*members, state="Stable", assignment_epoch=7):
    return GroupDescription(
        "consumer",
        consumer.DescribedGroup(
            group_id="g", group_state=state, group_epoch=8, assignment_epoch=assignment_epoch, assignor_name="uniform",
            members=list(members),
        ),
    )  # fmt: skip


def consumer_member(member_id="m", *, epoch=7, now=None, target=None, **more):
    return consumer.Member(
        member_id=member_id,
        member_epoch=epoch,
        assignment=now or part(t=[0]),
        target_assignment=target or part(t=[0]),
        **more,
    )


def test_a_consumer_group():
    group = consumer_group(
        consumer_member("m2", instance_id="b", subscribed_topic_names=["u", "t"], rack_id="r", member_type=1),
        consumer_member("m1", subscribed_topic_regex="t.*", member_type=0),
    )
    found = snapshot(group_without_offsets("g", group), coordinator=AT, session_timeout_ms=45_000)
    assert (found.type, found.assignor, found.group_epoch, found.assignment_epoch) == ("consumer", "uniform", 8, 7)
    assert (found.generation, found.session_timeout_ms, found.offsets) == (None, 45_000, ())
    b, m1 = found.members
    assert (b.identity, b.rack, b.topics, b.regex, b.protocol) == ("b", "r", ("t", "u"), None, "consumer")
    assert (m1.identity, m1.regex, m1.protocol, m1.group_instance_id) == ("m1", "t.*", "classic", None)
    assert m1.target_assignment == {"t": [0]}


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({}, "stable"),
        ({"epoch": -2}, "away"),
        ({"epoch": 6}, "reconciling"),
        ({"target": part(t=[0, 1])}, "reconciling"),
        ({"now": part(t=[0], u=[1])}, "reconciling"),
    ],
)
def test_status_of_consumer_members(more, status):
    assert one(consumer_group(consumer_member(**more))).status == status


@pytest.mark.parametrize(
    ("member_id", "library"), [("L+A0872BTJmBnmWQv2FVrw", "librdkafka"), ("NXf8WMh8QQqyX24aLRl5nw", None)]
)
def test_plain_base64_in_a_member_id_is_librdkafka(member_id, library):
    assert one(consumer_group(consumer_member(member_id))).client_library.name == library


def test_lag_needs_every_partition_to_be_known():
    group = consumer_group(consumer_member(now=part(t=[0, 1])))

    def lag(committed, ends):
        return (
            snapshot(group_without_offsets("g", group), coordinator=None, committed=committed, ends=ends).members[0].lag
        )

    assert lag({("t", 0): 1, ("t", 1): 1}, {("t", 0): 4, ("t", 1): 1}) == 3
    assert lag({("t", 0): 1}, {("t", 0): 4, ("t", 1): 9}) is None
    assert lag({("t", 0): 1}, {("t", 0): 4, ("t", 1): 0}) == 3  # an empty partition holds nothing back
    assert lag({("t", 0): 1, ("t", 1): 1}, {("t", 0): 4}) is None


def test_a_share_group():
    assignment = share.Assignment(topic_partitions=[share.TopicPartitions(topic_name="t", partitions=[1, 0])])
    member = share.Member(member_id="m", member_epoch=3, subscribed_topic_names=["t"], assignment=assignment)
    group = share.DescribedGroup(
        group_id="g", group_state="Stable", group_epoch=3, assignment_epoch=3, assignor_name="simple", members=[member]
    )
    found = snapshot(group_without_offsets("g", GroupDescription("share", group)), coordinator=AT)
    assert (found.type, found.assignor, found.members[0].status) == ("share", "simple", "stable")
    assert found.members[0].assignment == {"t": [0, 1]}
    assert found.offsets == ()


def test_a_share_group_has_rows_of_partitions_that_it_has_not_begun_to_read():
    """DescribeShareGroupOffsets has -1 for them; Kafka's tool prints `-` (KIP-932)."""
    assignment = share.Assignment(topic_partitions=[share.TopicPartitions(topic_name="t", partitions=[0, 1, 2])])
    described = share.DescribedGroup(
        group_id="g", group_state="Stable", members=[share.Member(member_id="m", assignment=assignment)]
    )
    base = group_without_offsets("g", GroupDescription("share", described))
    ends = {("t", number): end for number, end in enumerate((7, 5, 0))}
    found = snapshot(base, coordinator=AT, committed={("t", 0): 7}, ends=ends, share_lags={("t", 0): 0})
    rows = [(row.partition, row.committed, row.end, row.lag, row.known_lag) for row in found.offsets]
    assert rows == [(0, 7, 7, 0, 0), (1, None, 5, None, None), (2, None, 0, None, 0)]
    state = parse_condition("lag<=0").check(found)
    assert (state.met, state.is_unknown, state.seen) == (False, True, "lag 0, but no start offset for t[1]")
    begun = snapshot(
        base, coordinator=AT, committed={("t", 0): 7, ("t", 1): 5}, ends=ends, share_lags={("t", 0): 0, ("t", 1): 0}
    )
    assert parse_condition("lag<=0").check(begun).met


def test_a_streams_group():
    topology = streams.Topology(
        subtopologies=[
            streams.Subtopology(
                subtopology_id="0", source_topics=["in"], repartition_source_topics=[streams.TopicInfo(name="re")]
            )
        ]
    )
    tasks = streams.Assignment(active_tasks=[streams.TaskIds(subtopology_id="0", partitions=[2, 1])])
    members = [
        streams.Member(member_id=name, instance_id=name, member_epoch=epoch, assignment=tasks, target_assignment=tasks)
        for name, epoch in (("a", 4), ("b", -2), ("c", 3))
    ]
    group = streams.DescribedGroup(
        group_id="g", group_state="Stable", group_epoch=4, assignment_epoch=4, topology=topology, members=members
    )
    found = snapshot(group_without_offsets("g", GroupDescription("streams", group)), coordinator=AT)
    assert [member.status for member in found.members] == ["stable", "away", "reconciling"]
    assert found.members[0].assignment == {"in": [1, 2], "re": [1, 2]}
    assert found.members[0].topics == ("in", "re")
    without = streams.DescribedGroup(group_id="g", group_state="NotReady", topology=None, members=members)
    assert isinstance(group_without_offsets("g", GroupDescription("streams", without)), GroupSnapshot)
