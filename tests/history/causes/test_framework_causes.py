"""Why groups of Kafka Streams and of Connect workers rebalance by themselves: the bytes are those that Kafka's own
classes wrote, and what each means was seen on real applications."""

import struct

import pytest

from kgm.history.in_process import derive_records
from kgm.history.rows import RebalanceRow
from kgm.history.store.query import RowFilter
from kgm.protocol.subscription import MemberAssignment, encode_assignment
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.record import Record, encode_record
from tests.frameworks.kafkas_classes import recorded

START = 1_700_000_000_000


def records(assignment, after_ms, *, protocol_type, protocol):
    """Of a group that is created, gives its single member this assignment, and rebalances so long after that."""
    rows = []
    times = (START, START, START + after_ms)
    for generation, at_ms in enumerate(times):
        member = MemberMetadata(member_id="m", client_id="c", session_timeout=10_000, assignment=assignment)
        value = GroupMetadataValue(
            protocol_type=protocol_type, generation=generation, protocol=protocol if generation else None, leader="m",
            members=[member] if generation else [], current_state_timestamp=at_ms,
        )  # fmt: skip
        rows.append((at_ms, *encode_record(Record(key=GroupMetadataKey(group="g"), value=value))))
    return rows


def cause(assignment, after_ms, **of):
    """Of a rebalance of the same single member, so long after the one that gave it this assignment."""
    rows = records(assignment, after_ms, **of)
    found = derive_records(rows).rows(RebalanceRow, RowFilter())
    last = max(found, key=lambda row: row.offset)
    assert last.offset == len(rows) - 1
    return last.cause, last.confidence, last.evidence


def of_connect(assignment, after_ms):
    return cause(assignment, after_ms, protocol_type="connect", protocol="sessioned")


def revoking():
    return next(
        bytes.fromhex(case["data"]) for case in recorded()
        if case["driver"] == "ConnectOracle" and case["kind"] == "assignment" and case["revoked"]
    )  # fmt: skip


def test_what_connect_workers_rebalance_for():
    """Version, error, leader, URL, offset, nothing assigned, nothing revoked, delay (the schema of
    IncrementalCooperativeConnectProtocol)."""
    assert of_connect(revoking(), 1_000)[:2] == ("cooperative-round", "likely")
    delayed = struct.pack(">hhh1sh1sqiii", 2, 0, 1, b"m", 1, b"u", 7, 0, 0, 60_000)
    found, confidence, evidence = of_connect(delayed, 60_500)
    assert (found, confidence) == ("delay-ended", "likely")
    assert "scheduled.rebalance.max.delay.ms" in evidence[0]
    assert of_connect(delayed, 5_000)[:2] == ("rejoin", "possible")


@pytest.mark.parametrize(
    ("next_ms", "after_ms", "expected"),
    [
        (0, 1_000, "cooperative-round"),
        (START + 600_000, 600_500, "probing"),
        (START + 600_000, 60_000, "rejoin"),
        (2**63 - 1, 600_500, "rejoin"),
    ],
)
def test_what_streams_applications_rebalance_for(next_ms, after_ms, expected):
    """Version 7 ends with the time of the next rebalance (AssignmentInfo.encode)."""
    (case, *_) = [
        one for one in recorded()
        if (one["driver"], one["kind"], one["version"]) == ("StreamsOracle", "assignment", 7)
    ]  # fmt: skip
    user_data = bytes.fromhex(case["data"])[:-8] + next_ms.to_bytes(8, "big")
    assignment = encode_assignment(MemberAssignment(partitions={"t": [0]}, user_data=user_data))
    assert cause(assignment, after_ms, protocol_type="consumer", protocol="stream")[0] == expected
