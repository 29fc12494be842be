"""A group whose coordinator moves to a broker with a clock that is behind: its offsets are the order, not the times."""

import json
from typing import NamedTuple

import pytest

from kgm.cli.main import run
from kgm.operations.history.source import in_order
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription
from kgm.records.log import OffsetsLog
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record

START = 1_795_233_802_736


def generation(number, at, **owned):
    members = [
        MemberMetadata(
            member_id=name, client_id=name, session_timeout=10_000, rebalance_timeout=60_000,
            subscription=encode_subscription(Subscription(topics=("t",))),
            assignment=encode_assignment(MemberAssignment(partitions={"t": partitions})),
        )
        for name, partitions in owned.items()
    ]  # fmt: skip
    value = GroupMetadataValue(
        protocol_type="consumer", generation=number, protocol="range" if members else None, members=members,
        current_state_timestamp=START + at - 5,
    )  # fmt: skip
    return at, Record(GroupMetadataKey(group="g"), value)


def commit(offset, at):
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    return at, Record(key, OffsetCommitValue(offset=offset, commit_timestamp=START + at))


@pytest.fixture
def segments(tmp_path):
    with OffsetsLog.open(tmp_path / "__consumer_offsets-0") as log:
        for at, record in (
            generation(0, 0), generation(1, 1_000, a=[0, 1]), generation(2, 4_000, a=[0], b=[1]), commit(5, 4_500),
            generation(3, 1_500, b=[0, 1]), commit(9, 1_600),
        ):  # fmt: skip
            log.append([record], now_ms=START + at)
    return f"segments:{tmp_path}"


def answer(capsys, *words):
    assert run(["history", *words, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)["data"]


def test_generations_are_in_the_order_of_the_log(segments, capsys):
    rows = answer(capsys, "rebalances", "--source", segments)["rebalances"]
    assert [row["generation_after"] for row in rows] == [1, 2, 3]
    explained = answer(capsys, "explain", "g", "--source", segments)
    assert explained["rebalance"]["generation_after"] == 3
    assert "clock was wrong" in explained["replay"]["reason"]
    assert run(["history", "timeline", "g", "--source", segments]) == 0
    shown = capsys.readouterr().out
    assert shown.index("0 -> 1") < shown.index("1 -> 2") < shown.index("2 -> 3")


def test_commits_with_falling_times_show_no_stop(segments, capsys):
    """4.5 s before the rebalance by one clock, 1.6 s after it by the other."""
    (*_, last) = answer(capsys, "rebalances", "--source", segments)["rebalances"]
    assert last["stopped_ms"]["max"] is None
    assert last["cause"] == "departure"


@pytest.mark.long
def test_times_that_are_unknown_or_outside_the_calendar(tmp_path, capsys):
    """Kafka writes -1 for no time; no date is beyond the year 9999."""
    for number, start in enumerate((-1 - 1_000, 2**62)):
        with OffsetsLog.open(tmp_path / f"__consumer_offsets-{number}") as log:
            for at, record in generation(1, 1_000, a=[0, 1]), generation(2, 1_000, b=[0, 1]), commit(5, 1_000):
                record.key.group = f"g{number}"
                log.append([record], now_ms=start + at)
    source = f"segments:{tmp_path}"
    for words in (
        ["verify"],
        *([name, f"g{n}"] for n in (0, 1) for name in ("timeline", "movement", "explain", "offsets")),
    ):
        assert run(["history", *words, "--source", source]) == 0
        shown = capsys.readouterr().out
        assert "None" not in shown
        assert "1969" not in shown


def test_groups_of_several_partitions_are_by_time():
    class At(NamedTuple):
        partition: int
        offset: int
        timestamp: int

    rows = [At(0, 9, 10), At(1, 3, 20), At(0, 12, 30), At(0, 15, 15), At(1, 8, 40)]
    assert in_order(reversed(rows)) == rows
