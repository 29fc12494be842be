"""Which library a member runs on, by the bytes that nine of them really sent (tests/data/client_bytes.json: two members
of each, on kgm's embedded coordinator, with the settings that the library has by default)."""

import json
import pathlib
from dataclasses import replace

import pytest

from kgm.clients.recognition import MemberEvidence, recognise, recognise_by_ids, recognise_record
from kgm.clients.table import CLIENTS, LIBRARIES
from kgm.model.client_library import CERTAIN, LIKELY, UNKNOWN
from kgm.protocol.subscription import (
    MemberAssignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata

RECORDED = json.loads((pathlib.Path(__file__).parent.parent / "data/client_bytes.json").read_text())
ALIKE = {"librdkafka", "kafka-python", "aiokafka"}
# Java 4.3.0's bytes for the topic "t": version 3, user data null, rack null.
JAVA = bytes.fromhex("0003 00000001 0001 74 ffffffff 00000000 ffffffff ffff")


def title(group):
    return f"{group['library']} {group['version']} {group['assignor']}{' rack' if group['client_rack'] else ''}"


def evidence(row, *, names_client=True):
    return MemberEvidence(
        member_id=row["member_id"], client_id=row["client_id"] if names_client else "app",
        subscription=decode_subscription(bytes.fromhex(row["subscription"])),
        assignment=decode_assignment(bytes.fromhex(row["assignment"])),
    )  # fmt: skip


def java(member_id="a-1", *, data=JAVA, client_id="app", assignment=None, **more):
    return MemberEvidence(
        member_id=member_id, client_id=client_id, subscription=decode_subscription(data),
        assignment=None if assignment is None else decode_assignment(assignment), **more,
    )  # fmt: skip


@pytest.mark.parametrize("group", RECORDED, ids=title)
def test_each_library_is_recognised_by_what_it_sent(group):
    verdict = recognise("g", group["assignor"], [evidence(row) for row in group["members"]])
    assert {one.name for one in verdict.members} == {group["library"]}
    assert {one.confidence for one in verdict.members} <= {CERTAIN, LIKELY}
    assert all(one.evidence for one in verdict.members)
    assert verdict.leader.name == group["library"]


@pytest.mark.parametrize("group", RECORDED, ids=title)
def test_without_its_default_client_id_a_library_is_recognised_or_among_the_candidates(group):
    verdict = recognise("g", group["assignor"], [evidence(row, names_client=False) for row in group["members"]])
    for one in verdict.members:
        if one.name is None:
            assert group["library"] in one.candidates
            # sarama's sticky assignor without owned partitions sends what several others do.
            assert {*one.candidates} - {"sarama"} <= ALIKE or {*one.candidates} <= {"java", "franz-go", "sarama"}
        else:
            assert one.name == group["library"]


@pytest.mark.parametrize("group", RECORDED, ids=title)
def test_the_record_of_the_group_has_the_timeouts_too(group):
    rows = [
        MemberMetadata(
            member_id=row["member_id"], client_id="app", subscription=bytes.fromhex(row["subscription"]),
            assignment=bytes.fromhex(row["assignment"]), session_timeout=row["session_timeout_ms"],
            rebalance_timeout=row["rebalance_timeout_ms"],
        )
        for row in group["members"]
    ]  # fmt: skip
    value = GroupMetadataValue(protocol_type="consumer", protocol=group["assignor"], members=rows)
    for one in recognise_record("g", value).members:
        # Of version 0, librdkafka before 1.6 and kafka-python have the same defaults.
        assert one.name == group["library"] or set(one.candidates) == {"librdkafka", "kafka-python"}
    assert recognise_record("g", GroupMetadataValue(protocol_type="connect", members=rows)) is None


@pytest.mark.parametrize("lying", sorted({group["library"] for group in RECORDED}))
def test_a_client_id_never_decides_against_bytes(lying):
    defaults = {
        "librdkafka": "rdkafka", "franz-go": "kgo", "sarama": "sarama", "kafkajs": "kafkajs",
        "kafka-go": "p@h (github.com/segmentio/kafka-go)", "platformatic": "x@h (github.com/a/b)",
        "kafka-python": "kafka-python-3.0.12", "aiokafka": "aiokafka-0.14.0",
    }  # fmt: skip
    for group in RECORDED:
        rows = [{**row, "client_id": defaults[lying]} for row in group["members"]]
        found = recognise("g", group["assignor"], [evidence(row) for row in rows]).members
        without = recognise("g", group["assignor"], [evidence(row, names_client=False) for row in rows]).members
        for one, other in zip(found, without, strict=True):
            assert one.name in (other.name, None) or one.name in other.candidates
            assert other.name is None or other.name == group["library"]


def test_java_and_franz_go_send_the_same_until_the_leader_has_written_something():
    (one,) = recognise("g", "range", [java()]).members
    assert (one.name, one.confidence, one.candidates) == (None, UNKNOWN, ("java", "franz-go"))
    by_java = bytes.fromhex("0003 00000001 0001 74 00000001 00000000 ffffffff")
    by_franz = b"\0\0" + by_java[2:]
    for written, library in ((by_java, "java"), (by_franz, "franz-go")):
        verdict = recognise("g", "range", [java("a-1", assignment=written), java("b-1", assignment=written)])
        assert [each.name for each in verdict.members] == [library, library]
        assert (verdict.leader.name, verdict.members[0].confidence) == (library, LIKELY)
    (by_default,) = recognise("g", "range", [java(client_id="consumer-g-1")]).members
    assert (by_default.name, by_default.confidence) == ("java", LIKELY)


def test_the_leader_of_a_mixed_group_says_nothing_of_the_others():
    rack = encode_subscription(Subscription(topics=("t",), user_data=b"", rack_id=""))
    by_rd = bytes.fromhex("0000 00000001 0001 74 00000001 00000000 00000000")
    verdict = recognise("g", "range", [java(assignment=by_rd), java("b-1", data=rack, assignment=by_rd)])
    assert [one.name for one in verdict.members] == [None, "librdkafka"]
    assert verdict.members[0].candidates == ("java", "franz-go")
    assert verdict.leader.name == "librdkafka"


def test_java_of_older_versions():
    """From 2.4 on: version 1, and the cooperative assignor without user data. sarama writes versions 1 and 2 too: the
    leader's assignments tell."""
    older = encode_subscription(Subscription(topics=("t",), version=1))
    assert recognise("g", "range", [java(data=older)]).members[0].candidates == ("java", "sarama")
    assert recognise("g", "cooperative-sticky", [java(data=older)]).members[0].candidates == ("java", "sarama")
    second = encode_subscription(Subscription(topics=("t",), version=2, generation_id=4))
    assert recognise("g", "range", [java(data=second)]).members[0].candidates == ("java", "sarama")
    cooperative = encode_subscription(Subscription(topics=("t",), version=2, user_data=b"\0\0\0\x04", generation_id=4))
    for assignor, data in (("range", second), ("cooperative-sticky", cooperative)):
        for version, library in ((2, "java"), (0, "sarama")):
            given = encode_assignment(MemberAssignment(partitions={"t": (0,)}, version=version))
            (one,) = recognise("g", assignor, [java(data=data, assignment=given)]).members
            assert (one.name, one.confidence) == (library, LIKELY)


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
def test_one_java_leader_does_not_make_java_of_all_who_send_the_same(assignor):
    """A Java consumer of 3.2 and one of sarama with Config.Version 3.2 send the same, and only one of them has led: if
    sarama's leads next, its roundrobin takes partitions in another order, and its range members by their ids."""
    same = encode_subscription(Subscription(topics=("t",), version=2, generation_id=4))
    by_java = encode_assignment(MemberAssignment(partitions={"t": (0,)}, version=2))
    two = [java(f"{name}-1", data=same, assignment=by_java) for name in "ab"]
    verdict = recognise("g", assignor, two)
    assert verdict.leader.name == "java"
    assert [(one.name, one.candidates) for one in verdict.members] == [(None, ("java", "sarama"))] * 2
    stated = [replace(two[0], client_id="consumer-g-1"), replace(two[1], client_id="consumer-g-2")]
    assert [one.name for one in recognise("g", assignor, stated).members] == ["java", "java"]
    assert [one.name for one in recognise("g", assignor, two[:1]).members] == ["java"]


def test_a_chosen_client_id_leaves_what_else_it_may_be_among_the_candidates():
    """kafka-python and librdkafka before 1.6 have the same subscriptions, assignments and timeouts."""
    group = next(one for one in RECORDED if (one["library"], one["assignor"]) == ("kafka-python", "range"))
    rows = [{**row, "client_id": "rdkafka"} for row in group["members"]]
    for one in recognise("g", "range", [evidence(row) for row in rows]).members:
        assert (one.name, one.confidence) == ("librdkafka", LIKELY)
        assert set(one.candidates) >= {"librdkafka", "kafka-python"}


def test_hints_that_contradict_each_other_decide_nothing():
    (one,) = recognise(
        "g", "range", [java(client_id="kgo", session_timeout_ms=45_000, rebalance_timeout_ms=300_000)]
    ).members
    assert (one.name, one.candidates) == (None, ("java", "franz-go"))


def test_a_library_that_nobody_taught():
    tenth = encode_subscription(Subscription(topics=("t",), version=2, user_data=b"mine!"))
    (one,) = recognise("g", "range", [java(data=tenth, client_id="rdkafka")]).members
    assert (one.name, one.confidence, one.candidates) == (None, UNKNOWN, ())
    assert "no library that kgm knows" in one.evidence[0]


@pytest.mark.parametrize(
    ("member_id", "candidates"),
    [
        # Recorded from librdkafka 2.16.1, Java 4.3.0, librdkafka 2.6.1 (whose id the broker has made),
        ("L+A0872BTJmBnmWQv2FVrw", {"librdkafka"}),
        ("960Op8WiTfuM-9LfXiAXeA", {"java", "librdkafka"}),
        ("Fa-OmhF0QSe2SqPL9GBjwQ", {"java", "librdkafka"}),
        ("NXf8WMh8QQqyX24aLRl5nw", {"java", "librdkafka"}),
        # franz-go 1.22.3 and @platformatic/kafka 1.35.0.
        ("K8Z1D9gXDUbsP_Nw1F26Zg==", {"franz-go"}),
        ("LsyVhzusmzsQK2yJRJUveA==", {"franz-go"}),
        ("42694f1d-e5dc-44e6-baf1-9b0695432c54", {"platformatic"}),
        # No random UUID, another length, and what no library is known to make.
        ("960Op8WiDfuM-9LfXiAXeA", set()),
        ("orders-app-1", set()),
        ("42694F1D-E5DC-44E6-BAF1-9B0695432C54", set()),
    ],
)
def test_member_ids_of_the_consumer_protocol(member_id, candidates):
    one = recognise_by_ids("g", "app", member_id, "consumer")
    assert set(one.candidates) == candidates
    assert (one.name is not None) == (len(candidates) == 1)
    named = recognise_by_ids("g", "consumer-g-1", member_id, "consumer")
    assert named.name == ("java" if "java" in candidates else one.name)


def test_the_table_has_the_timeouts_that_the_libraries_sent():
    for group in RECORDED:
        traits = CLIENTS[group["library"]]
        sent = {(row["session_timeout_ms"], row["rebalance_timeout_ms"]) for row in group["members"]}
        assert sent == {(traits.session_timeout_ms, traits.rebalance_timeout_ms)}
    assert {group["library"] for group in RECORDED} | {"java"} == set(LIBRARIES)


def test_a_static_member_is_of_no_library_without_static_members():
    """kafka-go and platformatic send the same subscription."""
    (row, *_) = next(group for group in RECORDED if group["library"] == "kafka-go")["members"]
    either = replace(evidence(row, names_client=False), assignment=None)
    assert recognise("g", "range", [either]).members[0].candidates == ("kafka-go", "platformatic")
    (static,) = recognise("g", "range", [replace(either, is_static=True)]).members
    assert static.name == "platformatic"
    assert "it is static, which members of kafka-go cannot be" in static.evidence[0]


def test_nothing_is_certain_with_an_assignor_that_no_library_has():
    """Its members may be of a library that kgm does not know, whatever their bytes look like."""
    group = next(one for one in RECORDED if (one["library"], one["assignor"]) == ("librdkafka", "range"))
    rows = [evidence(row, names_client=False) for row in group["members"]]
    usual, odd = recognise("g", "range", rows), recognise("g", "mine", rows)
    assert {one.confidence for one in usual.members} == {CERTAIN}
    assert [(one.name, one.confidence) for one in odd.members] == [("librdkafka", LIKELY)] * 2
    with_java = [java("a-1", assignment=encode_assignment(MemberAssignment(partitions={"t": (0,)})))]
    assert recognise("g", "range", with_java).leader.confidence == CERTAIN
    assert recognise("g", "mine", with_java).leader.confidence == LIKELY
    strangers = [replace(with_java[0], subscription=replace(with_java[0].subscription, version=0, user_data=b"odd"))]
    assert recognise("g", "range", strangers).leader.confidence == LIKELY


def test_kafka_python_before_3_0_has_no_version_in_front_of_what_its_sticky_assignor_says():
    """As 2.2.21 sent it: 12 partitions of orders and 5 of pay, and generation 1."""
    sent = bytes.fromhex(
        "00000000000200066f72646572730003706179000000610000000200066f72646572730000000c0000000000000001000000"
        "02000000030000000400000005000000060000000700000008000000090000000a0000000b00037061790000000500000000"
        "0000000100000002000000030000000400000001"
    )
    (one,) = recognise("g", "sticky", [java(data=sent)]).members
    assert set(one.candidates) == {"sarama", "kafka-python", "aiokafka"}
    (one,) = recognise("g", "sticky", [java(data=sent, client_id="kafka-python-2.2.21")]).members
    assert (one.name, one.confidence) == ("kafka-python", LIKELY)
