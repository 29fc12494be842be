"""A coordinator that loads the log of a real Kafka has the groups that Kafka itself has after a restart on it.

Covered of groups.json: every classic group, with state, protocol type, protocol, members in full, and committed offsets;
generation and leader, which no answer of Kafka's tells, are those of the group's last record. Offsets of the other groups
are covered too. Not covered: type, state, epochs, members and assignments of the groups of type consumer, share and
streams, whose records are decoded, counted and skipped."""

import base64

import pytest

from kgm.coordinator.engine import Coordinator
from kgm.coordinator.runtime import Runtime
from kgm.records.batch import ProducerInfo
from kgm.records.log import OffsetsLog
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record
from tests.coordinator.loaded import replay_into
from tests.records.real_logs import groups, partitions, truth, unpack

REAL = ["plain", "compacted"]


def no_ids(prefix):
    raise AssertionError(f"nobody joins here, {prefix}")


def load(kind, folder):
    """One coordinator for each partition, and what its loading said."""
    found = []
    for partition in partitions(kind):
        engine = Coordinator(new_member_id=no_ids)
        with OffsetsLog.open(unpack(kind, partition, folder / str(partition))) as log:
            found.append((engine, replay_into(engine, log.read())))
    return found


@pytest.fixture(params=REAL)
def loaded(request, tmp_path):
    return request.param, load(request.param, tmp_path)


def described(view):
    """A group as a Describe answer of Kafka's has it."""
    return {
        "groupId": view.group_id,
        "groupState": view.state,
        "protocolType": view.protocol_type or "",
        "protocolData": view.protocol or "" if view.state == "Stable" else "",
        "members": sorted(
            (
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                base64.b64encode(member.subscription if view.state == "Stable" else b"").decode(),
                base64.b64encode(member.assignment).decode(),
            )
            for member in view.members
        ),
    }


def said(response):
    names = ("memberId", "groupInstanceId", "clientId", "clientHost", "memberMetadata", "memberAssignment")
    members = sorted(tuple(member[name] for name in names) for member in response["members"])
    return {name: response[name] for name in ("groupId", "groupState", "protocolType", "protocolData")} | {
        "members": members
    }


@pytest.mark.slow
def test_classic_groups_are_kafkas(loaded):
    kind, engines = loaded
    expected = {group["groupId"]: group for group in groups(kind)}
    classic = {group_id for group_id, group in expected.items() if group["type"] == "classic"}
    views = {view.group_id: view for engine, _ in engines for view in engine.groups()}
    others = views.keys() - classic
    keys = [line["key"] for partition in partitions(kind) for line in truth(kind, partition) if line["key"]]
    assert others <= {key["data"]["groupId"] for key in keys if key["type"] > 2}
    assert all(views[group_id].group_type != "classic" for group_id in others)
    assert views.keys() >= classic
    live = {group_id for group_id in classic if expected[group_id]["state"] not in ("Stable", "Empty")}
    assert live == ({"mig-mixed"} if kind == "compacted" else set()), "a rebalance in flight is never in a log"
    for group_id in sorted(classic - live):
        assert described(views[group_id]) == said(expected[group_id]["describe"]["response"])


@pytest.mark.slow
def test_committed_offsets_are_kafkas(loaded):
    kind, engines = loaded
    mine = {
        (group_id, *at): (committed.offset, committed.leader_epoch, committed.metadata)
        for engine, _ in engines
        for group_id, offsets in engine.offsets.by_group.items()
        for at, committed in offsets.items()
    }
    kafkas = {
        (group["groupId"], row["topic"], row["partition"]): (row["offset"], row["leaderEpoch"], row["metadata"])
        for group in groups(kind)
        for row in group["offsets"]
    }
    assert mine == kafkas


@pytest.mark.slow
def test_generations_and_leaders_are_those_of_the_last_record(loaded):
    kind, engines = loaded
    last = {}
    for line in (line for partition in partitions(kind) for line in truth(kind, partition)):
        if line["key"] is not None and line["key"]["type"] == 2:
            last[line["key"]["data"]["group"]] = line["value"]
    expected = {
        group_id: (value["data"]["generation"], value["data"]["leader"], value["data"]["currentStateTimestamp"])
        for group_id, value in last.items()
        if value is not None
    }
    views = [view for engine, _ in engines for view in engine.groups() if view.group_id in expected]
    assert {view.group_id: (view.generation, view.leader, view.state_timestamp_ms) for view in views} == expected


@pytest.mark.slow
def test_nothing_in_a_real_log_is_skipped(loaded):
    _, engines = loaded
    assert [unreadable for _, unreadable in engines if unreadable] == []


def test_what_is_not_known_is_noted_and_not_fatal(tmp_path):
    [(engine, unreadable)] = load("synthetic", tmp_path)
    lines = truth("synthetic", 0)
    refused = {line["offset"] for line in lines if "error" in line}
    assert {offset for offset, _ in unreadable} >= refused
    assert len(unreadable) == len(refused) + 1  # a group id that is not UTF-8, in which Java reads U+FFFD
    assert engine.offsets.of("xa-grp-129")


def commit(offset):
    return Record(OffsetCommitKey(group="g", topic="t", partition=0), OffsetCommitValue(offset=offset))


def committed_after(directory, *steps):
    """The committed offset after steps: ("plain", offset), ("in", offset) in a transaction, ("commit",), ("abort",)."""
    producer = ProducerInfo(9, 0)
    with OffsetsLog.open(directory) as log:
        for kind, *offset in steps:
            if kind in ("commit", "abort"):
                log.append_marker(producer, commit=kind == "commit", now_ms=1)
            else:
                log.append([commit(*offset)], now_ms=1, producer=producer if kind == "in" else None)
        engine = Coordinator(new_member_id=no_ids)
        replay_into(engine, log.read())
    return [committed.offset for committed in engine.offsets.of("g").values()]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([("in", 5)], []),
        ([("in", 5), ("abort",)], []),
        ([("in", 5), ("commit",)], [5]),
        ([("plain", 3), ("in", 5), ("abort",)], [3]),
        ([("plain", 3), ("in", 5), ("commit",)], [5]),
        ([("in", 5), ("plain", 3), ("commit",)], [3]),
        ([("in", 5), ("in", 6), ("commit",), ("in", 7), ("abort",)], [6]),
    ],
)
def test_transactions_count_at_their_marker(tmp_path, steps, expected):
    """A later plain commit of the same partition wins (OffsetMetadataManager.replayEndTransactionMarker)."""
    assert committed_after(tmp_path / "log", *steps) == expected


def test_a_large_log_can_be_armed_group_by_group():
    """Whatever the parts, all have a whole session in the end, as at once."""

    def replayed():
        engine = Coordinator(new_member_id=no_ids)
        for n in range(3):
            member = MemberMetadata(member_id="m", client_id="c", client_host="/h", session_timeout=9_000 + n)
            value = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", members=[member])
            engine.replay(Record(GroupMetadataKey(group=f"g{n}"), value))
        return Runtime(engine)

    at_once, in_parts = replayed(), replayed()
    at_once.loaded(now=5)
    assert sorted(in_parts.engine.group_ids()) == ["g0", "g1", "g2"]
    for group_id in in_parts.engine.group_ids():
        in_parts.loaded(now=5, group_ids=(group_id,))
    in_parts.loaded(now=5, group_ids=())
    assert dict(in_parts.engine.deadlines) == dict(at_once.engine.deadlines)
    assert in_parts.next_deadline() == at_once.next_deadline() == 9_005
