"""Subscriptions, assignments and commits as the scalar codec and Kafka see them."""

import random
import struct

import pyarrow as pa
import pytest

from kgm.history.decode.message_reader import plain
from kgm.history.decode.record_tables import decode
from kgm.history.decode.subscriptions import assignments, subscriptions
from kgm.history.decode.transactions import transaction_outcomes
from kgm.history.schema import SILVER_COMMIT, SILVER_MEMBER
from kgm.history.tables import commit_table, member_table
from kgm.model.errors import DecodeError
from kgm.protocol import codec
from kgm.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kgm.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tests.history.decode.test_real_logs import EVERY, raw_log
from tests.protocol.cases import FromTables, damaged
from tests.records.real_logs import partitions, truth


def scalar(cls, blob):
    """(message or None, failed) by the scalar codec."""
    if not blob:
        return None, False
    version = struct.unpack_from(">h", blob)[0] if len(blob) > 1 else -1
    try:
        if version < 0:
            return None, True
        return plain(codec.decode(cls, blob, min(version, 3), offset=2, allow_trailing=True)), False
    except DecodeError:
        return short(blob) if cls is ConsumerProtocolSubscription and version == 1 else (None, True)


def short(blob):
    """A subscription of version 1 that ends before the owned partitions: version 0 and nothing more."""
    try:
        return plain(codec.decode(ConsumerProtocolSubscription, blob, 0, offset=2)), False
    except DecodeError:
        return None, True


@pytest.mark.parametrize(
    ("cls", "decoder"), [(ConsumerProtocolSubscription, subscriptions), (ConsumerProtocolAssignment, assignments)]
)
@pytest.mark.slow
def test_blobs_of_every_version_whole_damaged_and_newer(cls, decoder):
    rng = random.Random(5)
    blobs = [None, b"", b"\0", b"\xff\xff\0\0\0\0"]
    for version in (0, 1, 2, 3, 3, 4, 700):
        message = FromTables(cls, min(version, 3), rng).message()
        blob = struct.pack(">h", version) + codec.encode(message, min(version, 3)) + b"newer" * (version > 3)
        blobs += [blob, *damaged(blob, rng), blob]
    found = decoder(pa.array(blobs, type=pa.binary()))
    mine = list(zip(found.messages.to_pylist(), found.failed.tolist(), strict=True))
    assert mine == [scalar(cls, blob) for blob in blobs]
    assert {0, 1, 2, 3, 4, 700} <= set(found.versions.tolist())
    assert decoder(pa.array([], type=pa.binary())).messages.to_pylist() == []


def folded(rows):
    return None if rows is None else [(row["topic"], row["partitions"]) for row in rows]


@pytest.mark.parametrize(("kind", "partition"), EVERY)
@pytest.mark.slow
def test_members_are_taken_apart_as_kafka_does_it(kind, partition):
    table = member_table(decode(raw_log(kind, partition)))
    assert table.schema == SILVER_MEMBER
    rows = iter(table.to_pylist())
    for line in truth(kind, partition):
        if line["key"] is None or line["key"].get("type") != 2 or not line["value"] or "error" in line:
            continue
        if "data" not in line["value"] or "data" not in line["key"]:
            continue
        data = line["value"]["data"]
        said = (line.get("decoded") or {}).get("members") or [{}] * len(data["members"])
        for member, blobs in zip(data["members"], said, strict=True):
            row = next(rows)
            assert (row["offset"], row["member_id"], row["generation"]) == (
                line["offset"],
                member["memberId"],
                data["generation"],
            )
            assert row["group_instance_id"] == member.get("groupInstanceId")
            assert row["session_timeout_ms"] == member["sessionTimeout"]
            subscription, assignment = blobs.get("subscription"), blobs.get("assignment")
            failed = ("error" in (subscription or ())) + 2 * ("error" in (assignment or ()))
            assert row["blob_error"] == failed
            if subscription is None or "error" in subscription:
                assert (row["topics"], row["owned"], row["owned_generation"], row["rack_id"]) == (None,) * 4
            else:
                assert row["topics"] == subscription["topics"]
                assert folded(row["owned"]) == folded(subscription.get("ownedPartitions", []))
                assert row["owned_generation"] == subscription.get("generationId", -1)
                assert row["rack_id"] == subscription.get("rackId")
            if assignment is None or "error" in assignment:
                assert row["assigned"] is None
            else:
                assert folded(row["assigned"]) == folded(assignment["assignedPartitions"])
    assert list(rows) == []


@pytest.mark.parametrize("kind", ["plain", "compacted"])
@pytest.mark.slow
def test_commits_that_count_are_those_that_kafka_counts(kind):
    for partition in partitions(kind):
        raw = raw_log(kind, partition)
        table = commit_table(decode(raw), raw, transaction_outcomes(raw))
        assert table.schema == SILVER_COMMIT
        said = [
            line
            for line in truth(kind, partition)
            if line["key"] and line["key"]["type"] == 1 and line.get("txn") != "aborted"
        ]
        assert table.column("offset").to_pylist() == [line["offset"] for line in said]
        for row, line in zip(table.to_pylist(), said, strict=True):
            key, value = line["key"]["data"], (line["value"] or {}).get("data", {})
            assert (row["group_id"], row["topic"], row["topic_partition"]) == (
                key["group"],
                key["topic"],
                key["partition"],
            )
            assert row["tombstone"] == (line["value"] is None)
            assert (row["committed_offset"], row["metadata"]) == (value.get("offset"), value.get("metadata"))
            assert row["txn"] == line.get("txn")
            match row["txn"]:
                case None:
                    assert row["visible_offset"] == row["offset"]
                case "open":
                    assert row["visible_offset"] is None
                case "committed":
                    assert row["visible_offset"] > row["offset"]


def test_the_oldest_commits_have_no_more_than_they_have():
    raw = raw_log("synthetic", 0)
    decoded = decode(raw)
    table = commit_table(decoded, raw, transaction_outcomes(raw))
    assert len(table) == len(decoded.records[0]) + len(decoded.records[1])
    assert table.column("topic_id").to_pylist()[0] is None


def test_nothing_gives_empty_tables():
    raw = raw_log("synthetic", 0).slice(0, 0)
    decoded = decode(raw)
    assert commit_table(decoded, raw, transaction_outcomes(raw)).schema == SILVER_COMMIT
    assert member_table(decoded).schema == SILVER_MEMBER
