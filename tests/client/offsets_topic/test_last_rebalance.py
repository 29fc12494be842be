"""Timeouts and generation of a live classic group, from its coordinator's log: within bounds, and never an error."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace

import pytest

from kgm.client import connect
from kgm.client.offsets_topic import last_rebalance
from kgm.client.offsets_topic.last_rebalance import with_logged_timeouts
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.subscription import MemberAssignment, encode_assignment
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.record import Record, encode_record
from tests.cli.runner import kgm
from tests.client.joiners import REBALANCE_MS, SESSION_MS, Joiner
from tests.waiting import until

TOPIC = "log-reading"


@pytest.fixture
def member(kafka):
    """The only member of a new group on the real broker."""
    kafka.create_topics({TOPIC: 100}) if TOPIC not in kafka.admin().list_topics(timeout=10).topics else None
    port = kafka.port
    joiner = Joiner(port, f"log-{uuid.uuid4().hex[:8]}", "a", TOPIC)
    assert joiner.join().error_code == 0
    blob = encode_assignment(MemberAssignment(partitions={TOPIC: [0]}))
    assert joiner.sync({joiner.member_id: blob}).error_code == 0
    yield joiner
    joiner.close()


def bury(member, commits):
    """Put so many records behind the group's own."""
    for at in range(commits // 100):
        rows = [OffsetCommitRequestPartition(partition_index=p, committed_offset=at) for p in range(100)]
        request = OffsetCommitRequest(
            group_id=member.group, generation_id_or_member_epoch=member.generation, member_id=member.member_id,
            group_instance_id=member.instance_id, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=rows)],
        )  # fmt: skip
        answer = member.wire.ask(request, version=8)
        assert {row.error_code for row in answer.topics[0].partitions} == {0}


def seen(kafka, member):
    """(the snapshot, the snapshot with what the log says)"""
    with connect(kafka.bootstrap, timeout_ms=30_000) as cluster:
        snapshot = cluster.describe_group(member.group, offsets=False)
        return snapshot, with_logged_timeouts(cluster, snapshot)


@pytest.mark.kafka
def test_timeouts_and_generation_come_from_the_log(kafka, member):
    snapshot, completed = seen(kafka, member)
    assert (snapshot.generation, snapshot.session_timeout_ms, snapshot.rebalance_timeout_ms) == (None, None, None)
    assert (completed.generation, completed.session_timeout_ms) == (member.generation, SESSION_MS)
    assert completed.rebalance_timeout_ms == REBALANCE_MS
    assert completed.leader == member.leader == member.member_id
    own = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": REBALANCE_MS}
    assert completed.members == tuple(replace(one, **own) for one in snapshot.members)


@pytest.mark.kafka
def test_members_of_one_group_have_timeouts_of_their_own(kafka, member, tmp_path):
    """A restart of 10 minutes is longer than the session of one member, and shorter than that of the other."""
    other = Joiner(member.wire.socket.getpeername()[1], member.group, "b", TOPIC)
    other.session_ms, other.rebalance_ms = 480_000, 2 * REBALANCE_MS
    other.send_join()
    with connect(kafka.bootstrap, timeout_ms=30_000) as cluster:
        until(
            lambda: cluster.describe_group(member.group, offsets=False), "its join has not arrived",
            accept=lambda one: one.state == "PreparingRebalance",
        )  # fmt: skip
    assert member.join().error_code == other.receive_join().error_code == 0
    blob = encode_assignment(MemberAssignment(partitions={TOPIC: [0]}))
    assert (member if member.leader == member.member_id else other).sync({member.member_id: blob}).error_code == 0
    described = kgm("describe", member.group, "-o", "json", "-b", kafka.bootstrap)
    (group,) = json.loads(described.out)["data"]["groups"]
    timeouts = {
        one["group_instance_id"]: (one["session_timeout_ms"], one["rebalance_timeout_ms"]) for one in group["members"]
    }
    assert timeouts == {"a": (SESSION_MS, REBALANCE_MS), "b": (480_000, 2 * REBALANCE_MS)}
    assert (group["session_timeout_ms"], group["rebalance_timeout_ms"]) == (None, 2 * REBALANCE_MS)
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(described.out)
    for instance_id, rebalances in (("a", 0), ("b", 2)):
        for source in ((member.group, "-b", kafka.bootstrap), ("--from-file", str(snapshot))):
            plan = ("--instance-ids", instance_id, "--restart-time", "600s", "-o", "json")
            done = kgm("simulate-bounce", *source, *plan)
            assert done.code == 0, done.err
            scenario = json.loads(done.out)["data"]["scenarios"][0]
            assert scenario["rebalances"] == rebalances, (source, instance_id)
            assert not [text for text in scenario["caveats"] if "session timeout" in text]
        drain = ("--match", instance_id, "--restart-time", "600s", "-o", "json")
        drained = kgm("drain", member.group, *drain, "-b", kafka.bootstrap)
        (row,) = json.loads(drained.out)["data"]["groups"]
        assert row["rebalances"] == rebalances, instance_id
    other.close()


@pytest.mark.kafka
def test_a_group_far_back_in_the_log_is_found_within_bounds(kafka, member, monkeypatch):
    bury(member, 8_000)  # three windows
    assert seen(kafka, member)[1].session_timeout_ms == SESSION_MS
    monkeypatch.setattr(last_rebalance, "MAX_BYTES", 100_000)
    snapshot, completed = seen(kafka, member)
    assert completed is snapshot


@pytest.mark.kafka
def test_a_record_of_other_members_says_nothing(kafka, member):
    with connect(kafka.bootstrap, timeout_ms=30_000) as cluster:
        snapshot = cluster.describe_group(member.group, offsets=False)
        again = Joiner(member.wire.socket.getpeername()[1], member.group, "a", TOPIC)
        assert again.join().error_code == 0  # the static member has restarted since
        assert with_logged_timeouts(cluster, snapshot) is snapshot
        fresh = cluster.describe_group(member.group, offsets=False)
        assert with_logged_timeouts(cluster, fresh).session_timeout_ms == SESSION_MS
        again.close()


@pytest.mark.kafka
def test_a_prediction_for_a_live_group_assumes_no_timeout(kafka, member):
    """The default, 45 s, would do for a restart of 50 s: the 60 s that this group has make it no rebalance."""
    done = kgm(
        "simulate-bounce", member.group, "--instance-ids", "a", "--restart-time", "50s", "-o", "json",
        "--bootstrap-server", kafka.bootstrap,
    )  # fmt: skip
    assert done.code == 0, done.err
    scenario = json.loads(done.out)["data"]["scenarios"][0]
    assert scenario["rebalances"] == 0
    assert "timeout is not in the snapshot" not in done.out + done.err


@pytest.mark.kafka
def test_a_saved_description_predicts_what_the_live_group_does(kafka, member, tmp_path):
    """The session of 60 s is longer than the restart; the default is not."""
    snapshot = tmp_path / "snapshot.json"
    described = kgm("describe", member.group, "-o", "json", "-b", kafka.bootstrap)
    snapshot.write_text(described.out)
    (group,) = json.loads(described.out)["data"]["groups"]
    assert (group["generation"], group["session_timeout_ms"]) == (member.generation, SESSION_MS)
    assert group["leader"] == member.member_id
    plan = ("--all", "--rolling", "--order", "leader-last", "--restart-time", "50s", "-o", "json")
    live = kgm("simulate-bounce", member.group, *plan, "-b", kafka.bootstrap)
    saved = kgm("simulate-bounce", "--from-file", str(snapshot), *plan)
    assert (live.code, saved.code) == (0, 0), live.err + saved.err
    of_live, of_saved = (json.loads(run.out)["data"]["scenarios"][0] for run in (live, saved))
    assert of_saved["rebalances"] == 0
    # The broker's settings are not in a snapshot.
    assert of_saved | {"caveats": None} == of_live | {"caveats": None}


def test_what_cannot_be_read_costs_nothing(proxy, form, group):
    form("a", "b")
    proxy.hide_offsets_topic()
    with connect(proxy.bootstrap, timeout_ms=10_000) as cluster:
        snapshot = cluster.describe_group(group, offsets=False)
        assert with_logged_timeouts(cluster, snapshot) is snapshot


def generation(assignor: str | None, *members: tuple[str, str | None], kind: str = "consumer") -> bytes:
    """A record of a group's last rebalance. members: (member id, instance id) of each."""
    rows = [MemberMetadata(member_id=name, group_instance_id=static) for name, static in members]
    value = GroupMetadataValue(protocol_type=kind, generation=1, protocol=assignor, members=rows)
    return encode_record(Record(GroupMetadataKey(group="g"), value))[1] or b""


@pytest.mark.parametrize(
    ("earlier", "seen"),
    [
        ([], ()),
        ([generation("range", ("a-1", "a"))], ()),
        ([generation("sticky", ("a-0", "a"))], ("sticky",)),  # a process before the present one
        ([generation("sticky", ("b-1", None)), generation("roundrobin", ("a-1", "a"))], ("roundrobin", "sticky")),
        ([generation("sticky", ("c-1", "c"))], ()),  # whose members are all gone
        ([generation(None), b"\x7f\xff"], ()),
        ([generation("sticky", ("a-1", "a"), kind="connect")], ()),
    ],
    ids=["none", "the same", "by instance id", "two", "of others", "empty or unreadable", "of another protocol"],
)  # fmt: skip
def test_assignors_are_seen_that_the_group_had_with_its_members(monkeypatch, earlier, seen):
    here = (("a-1", "a"), ("b-1", None))
    group = GroupSnapshot(
        group_id="g", type="classic", state="Stable", protocol_type="consumer", assignor="range",
        members=tuple(MemberSnapshot(member_id=name, group_instance_id=static) for name, static in here),
    )  # fmt: skip
    records = [(value, 0) for value in (*earlier, generation("range", *here))]
    key = encode_record(Record(GroupMetadataKey(group="g"), None))[0]
    monkeypatch.setattr(last_rebalance, "_last_records", lambda *_: {key: records})
    assert with_logged_timeouts(None, group).earlier_assignors == seen
    monkeypatch.setattr(last_rebalance, "_last_records", lambda *_: {})
    assert with_logged_timeouts(None, group).earlier_assignors is None
