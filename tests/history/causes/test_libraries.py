"""What the client library of a static member says of its departure, and of a round that its restart begins: the bytes
are those that the libraries sent (tests/data/client_bytes.json), what each does was seen on real ones."""

import json
import pathlib
from dataclasses import replace

import pytest

from kgm.history.causes.classic_causes import departure
from kgm.history.causes.consumer_causes import ConsumerAbsence, consumer_departure
from kgm.history.causes.session_timeouts import SessionSource, SessionTimeout
from kgm.history.causes.verdict import Cause, Confidence
from kgm.history.in_process import derive_records
from kgm.history.rows import RebalanceRow
from kgm.history.store.query import RowFilter
from kgm.model.client_library import stated_library
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.record import Record, encode_record
from tests.history.causes.test_departures import AT, SESSION_MS, gone

START = 1_700_000_000_000
RECORDED = json.loads((pathlib.Path(__file__).parents[2] / "data/client_bytes.json").read_text())
JAVA = "000300000001000174ffffffff00000000ffffffffffff"


def recorded(library, assignor):
    """What two members sent and were sent, as their record has it."""
    if library == "java":
        given = "00030000000100017400000001{:08x}ffffffff"
        rows = [{"subscription": JAVA, "assignment": given.format(each)} for each in (0, 1)]
        session_ms, rebalance_ms = 45_000, 300_000
    else:
        group = next(one for one in RECORDED if (one["library"], one["assignor"]) == (library, assignor))
        rows = group["members"]
        session_ms, rebalance_ms = rows[0]["session_timeout_ms"], rows[0]["rebalance_timeout_ms"]
    return [
        {
            "subscription": bytes.fromhex(row["subscription"]), "assignment": bytes.fromhex(row["assignment"]),
            "session_timeout": session_ms, "rebalance_timeout": rebalance_ms,
        }
        for row in rows
    ]  # fmt: skip


def cause(assignor, sent, *records):
    """Of the last rebalance of a group whose records have these (generation, ms, identities, lives)."""
    rows = [(START, *encode_record(Record(GroupMetadataKey(group="g"), GroupMetadataValue(protocol_type="consumer"))))]
    for generation, joined, written, lives in records:
        members = [
            MemberMetadata(member_id=f"{name}-{life}", group_instance_id=name, client_id="app", **row)
            for (name, life), row in zip(lives.items(), sent, strict=False)
        ]
        value = GroupMetadataValue(
            protocol_type="consumer", generation=generation, protocol=assignor, leader=members[0].member_id,
            members=members, current_state_timestamp=START + joined,
        )  # fmt: skip
        rows.append((START + written, *encode_record(Record(GroupMetadataKey(group="g"), value))))
    found = max(derive_records(rows).rows(RebalanceRow, RowFilter()), key=lambda row: row.offset)
    assert found.offset == len(rows) - 1
    return found


BOTH = {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("library", "assignor", "expected"),
    [
        ("platformatic", "roundrobin", ("leave", "likely")),
        ("sarama", "range", ("admin-removal", "likely")),
        # Its static members leave if their program unsubscribes first (rd_kafka_cgrp_leave_maybe).
        ("librdkafka", "range", ("admin-removal", "possible")),
        ("aiokafka", "range", ("admin-removal", "likely")),
        ("java", "range", ("admin-removal", "possible")),
        ("franz-go", "range", ("admin-removal", "possible")),
    ],
)
def test_a_static_member_that_is_gone_before_its_session_can_be_over(library, assignor, expected):
    sent = recorded(library, assignor)
    gone = sent[0]["session_timeout"] // 2
    row = cause(assignor, sent, (1, 0, 100, BOTH), (2, gone, gone + 100, {"a": 1}))
    assert (row.cause, row.confidence) == expected
    text = " ".join(row.evidence)
    assert (library in text) == (expected[1] == "likely" or library == "librdkafka")
    assert ("if their program unsubscribes first" in text) == (library == "librdkafka")


def restarted_leader(assignor, sent, *, rejoins_after_ms=800):
    later = 30_000 + rejoins_after_ms
    return cause(
        assignor, sent, (1, 0, 100, BOTH), (1, 0, 30_000, {"a": 2, "b": 1}), (2, later, later + 100, {"a": 2, "b": 1})
    )


def test_a_static_leader_that_computes_the_assignment_again():
    row = restarted_leader("sticky", recorded("franz-go", "sticky"))
    assert (row.cause, row.confidence) == ("rejoin", "likely")
    assert [(who.seat, who.what, who.member_id) for who in row.who] == [("a", "joined again", "a-2")]
    assert "a, the leader, was replaced 800 ms before without a rebalance" in row.evidence[0]


@pytest.mark.parametrize(
    ("library", "assignor", "after_ms"),
    [("franz-go", "range", 800), ("sarama", "range", 800), ("franz-go", "sticky", 60_000)],
)
def test_a_leader_that_is_told_to_skip_the_assignment_and_does(library, assignor, after_ms):
    row = restarted_leader(assignor, recorded(library, assignor), rejoins_after_ms=after_ms)
    assert (row.cause, row.confidence, row.who) == ("rejoin", "possible", ())


def test_a_follower_that_was_restarted_begins_no_round():
    sent = recorded("franz-go", "sticky")
    row = cause(
        "sticky", sent, (1, 0, 100, BOTH), (1, 0, 30_000, {"a": 1, "b": 2}), (2, 31_000, 31_100, {"a": 1, "b": 2})
    )
    assert (row.cause, row.confidence, row.who) == ("rejoin", "possible", ())


@pytest.mark.parametrize(
    ("silence_ms", "expected"),
    [(100, (Cause.LEAVE, Confidence.POSSIBLE)), (8_000, (Cause.REMOVAL, Confidence.POSSIBLE))],
)
def test_librdkafka_leaves_a_classic_group_if_its_program_unsubscribes_first(silence_ms, expected):
    """stream.close() of node-rdkafka 3.6.1: "Member ... has left group through explicit `LeaveGroup` request". A member
    of the consumer protocol says that it will return, also then: "temporarily left the consumer group"."""
    missing = replace(gone(silence_ms, instance_id="i"), library=stated_library("librdkafka"))
    found = departure(missing, AT)
    assert (found.cause, found.confidence) == expected
    assert "an admin removed it, or it left when it was closed, as static members of librdkafka do" in found.evidence
    session = SessionTimeout.exactly(SESSION_MS, SessionSource.GIVEN)
    absence = ConsumerAbsence(away=None, heard=AT - 320_000, unrevoked=None)
    by_consumer = consumer_departure(missing, AT, absence, session)
    assert (by_consumer.cause, by_consumer.confidence) == (Cause.REMOVAL, Confidence.LIKELY)


def test_a_librdkafka_member_that_had_stopped_before_was_removed():
    """After five of its commits were due, its close is not what made it leave."""
    missing = replace(gone(20_000, cadence_ms=1_000, instance_id="i"), library=stated_library("librdkafka"))
    found = departure(missing, AT)
    assert (found.cause, found.confidence) == (Cause.REMOVAL, Confidence.LIKELY)
