"""What a data directory keeps: crashes, torn tails, disks that fail; without sockets."""

import errno
import json
import os
import shutil
import time

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.java.partitions import partition_for
from kgm.model.errors import ErrorCode, KgmError, RefusedError, UsageError
from kgm.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kgm.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kgm.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kgm.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kgm.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kgm.server.contract.exchange import CloseConnection, ResponseFrame
from kgm.server.contract.limits import Limits
from kgm.server.contract.offsets_topic import OFFSETS_TOPIC
from kgm.server.logs.data_directory import DataDirectory
from kgm.server.logs.topic_files import SEGMENT_BYTES
from tests.records import real_logs
from tests.server.disk import Disk, fail_sync
from tests.server.group_requests import commit, join, stable
from tests.server.wire_client import batch

G = f"{OFFSETS_TOPIC}-{partition_for('g', 50)}"


@pytest.fixture
def disk(tmp_path):
    found = Disk(tmp_path / "data")
    yield found
    found.kill()


# -- what is acknowledged


def test_nothing_is_answered_before_it_is_flushed(disk, monkeypatch):
    driver = disk.start()
    for group in ("g", "other"):
        driver.ask(commit(group, name="t"), version=9)
    driver.events.clear()
    synced = []
    real = os.fsync
    monkeypatch.setattr("kgm.records.log.os.fsync", lambda fd: (synced.append(fd), real(fd)))
    first = driver.send(commit("g", name="t"), version=9)
    second = driver.send(commit("g", name="t", partition=1), version=9)
    other = driver.send(commit("other", name="t"), version=9)
    reading = driver.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), version=9)
    assert driver.events == {}
    assert synced == []
    driver.flush()
    assert len(synced) == 2  # one for each log, whatever was appended
    assert len(driver.answer(reading).groups[0].topics[0].partitions) == 2
    for ticket in (first, second, other):
        assert driver.answer(ticket).topics[0].partitions[0].error_code == 0
    beat = driver.send(HeartbeatRequest(group_id="g", member_id="m"))
    assert beat in driver.events  # nothing to wait for


def test_a_group_is_there_again_with_all_that_it_had(disk):
    driver = disk.start()
    joined = stable(driver)
    driver.ask(commit("simple", name="t", offset=12), version=9)
    before = driver.cluster.view.group("g")
    driver = disk.start()
    after = driver.cluster.view.group("g")
    assert (after.state, after.generation, after.leader, after.protocol) == ("Stable", 1, joined.member_id, "range")
    assert [(m.member_id, m.group_instance_id, m.subscription, m.assignment, m.client_id) for m in after.members] == [
        (m.member_id, m.group_instance_id, m.subscription, m.assignment, m.client_id) for m in before.members
    ]
    assert driver.cluster.view.offsets("simple")["t", 0].offset == 12
    assert driver.cluster.shards.group_ids == {"g", "simple"}
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id, group_instance_id="i")
    assert driver.ask(beat).error_code == 0
    restarted = driver.ask(join("i"))
    assert (restarted.error_code, restarted.generation_id, restarted.skip_assignment) == (0, 1, True)
    assert disk.warnings == []


def test_a_torn_batch_is_removed_and_reported(disk):
    driver = disk.start()
    for n in range(3):
        driver.ask(commit("g", name="t", partition=n, offset=n), version=9)
    disk.kill()
    (segment,) = (disk.folder / G).glob("*.log")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-1])
    driver = disk.start()
    assert sorted(row.offset for row in driver.cluster.view.offsets("g").values()) == [0, 1]
    (said,) = disk.warnings
    assert str(segment) in said
    assert "truncated at byte" in said
    driver.ask(commit("g", name="t", partition=2, offset=2), version=9)
    disk.start()
    assert len(disk.driver.cluster.view.offsets("g")) == 3
    assert len(disk.warnings) == 1


def test_a_damaged_log_takes_its_partition_offline_and_no_other(disk):
    driver = disk.start()
    other = next(f"x{n}" for n in range(100) if partition_for(f"x{n}", 50) != partition_for("g", 50))
    for group in ("g", other):
        for n in range(3):
            driver.ask(commit(group, name="t", partition=n), version=9)
    disk.kill()
    (segment,) = (disk.folder / G).glob("*.log")
    data = bytearray(segment.read_bytes())
    data[30] ^= 0xFF
    segment.write_bytes(data)
    driver = disk.start()
    assert "is offline" in driver.warnings[0]
    assert "damaged" in driver.warnings[0]
    answer = driver.ask(FindCoordinatorRequest(key="g"), version=3)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    refused = driver.ask(commit("g", name="t"), version=9).topics[0].partitions[0]
    assert refused.error_code == ErrorCode.NOT_COORDINATOR
    assert len(driver.cluster.view.offsets(other)) == 3
    data[30] ^= 0xFF
    segment.write_bytes(data)  # the operator has repaired it
    row = ReassignablePartition(partition_index=partition_for("g", 50), replicas=[1])
    driver.ask(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=OFFSETS_TOPIC, partitions=[row])]))
    driver.load()
    assert len(driver.cluster.view.offsets("g")) == 3


# -- disks that fail


def test_a_flush_that_fails_acknowledges_nothing_and_takes_the_shard_offline(disk, monkeypatch):
    driver = disk.start(brokers=2)
    driver.move(partition_for("g", 50), 1)
    driver.ask(commit("g", name="t", offset=1), version=9)
    held = driver.send(commit("g", name="t", partition=1, offset=5), version=9)
    other = driver.send(FindCoordinatorRequest(key="g"), version=3)
    with monkeypatch.context() as patch:
        fail_sync(patch)
        driver.flush()
    assert driver.answer(held).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert driver.answer(other).error_code == 0  # it rests on nothing that was lost
    assert driver.warnings == [f"{G} is offline, its groups have no coordinator: Input/output error"]
    answer = driver.ask(FindCoordinatorRequest(key="g"), version=3)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.move(partition_for("g", 50), 2)
    driver.load()
    assert driver.ask(FindCoordinatorRequest(key="g"), version=3).node_id == 2
    assert driver.cluster.view.offsets("g")["t", 0].offset == 1
    again = driver.ask(commit("g", name="t", partition=1, offset=6), version=9, to=2)
    assert again.topics[0].partitions[0].error_code == 0


def test_parked_members_of_a_failed_shard_are_answered(disk, monkeypatch):
    driver = disk.start(group_initial_rebalance_delay_ms=3_000)
    with monkeypatch.context() as patch:
        fail_sync(patch)
        parked = driver.send(join("i"))  # it writes the new group
        driver.flush()
    assert driver.answer(parked).error_code == ErrorCode.NOT_COORDINATOR


def test_a_full_disk_refuses_and_recovers(disk, monkeypatch):
    driver = disk.start()
    driver.ask(commit("g", name="t"), version=9)
    with monkeypatch.context() as patch:

        def full(*_arguments):
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr("kgm.records.log.os.pwrite", full)
        for _ in range(3):  # the client retries
            row = driver.ask(commit("g", name="t", partition=1), version=9).topics[0].partitions[0]
            assert row.error_code == ErrorCode.NOT_COORDINATOR
        (warning,) = disk.warnings
        assert str(disk.folder / G) in warning
        assert "No space left on device" in warning
    for _ in range(3):
        row = driver.ask(commit("g", name="t", partition=1, offset=3), version=9).topics[0].partitions[0]
        assert row.error_code == 0
    assert disk.warnings == [warning, f"{disk.folder / G}: records can be written again"]
    disk.start()
    assert sorted(at for at in disk.driver.cluster.view.offsets("g")) == [("t", 0), ("t", 1)]


# -- the directory


def test_one_process_at_a_time(disk):
    disk.start()
    with pytest.raises(RefusedError, match="in use by another process") as caught:
        DataDirectory.open(disk.folder, settings=BrokerSettings(), limits=Limits(), warn=print, seconds=time.monotonic)
    assert caught.value.exit_code == 6


def test_topics_placement_and_the_cluster_id_survive_a_restart(disk):
    driver = disk.start(brokers=2)
    cluster_id = driver.cluster.cluster_id
    assert len(cluster_id) == 22
    created = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=4, replication_factor=1)])
    assert driver.ask(created).topics[0].error_code == 0
    row = ReassignablePartition(partition_index=4, replicas=[2])
    driver.ask(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=OFFSETS_TOPIC, partitions=[row])]))
    driver = disk.start({"t": 5}, brokers=2)
    assert driver.cluster.cluster_id == cluster_id
    assert driver.cluster.topics.of_users() == {"t": 5, "new": 4}
    assert (driver.cluster.placement[4].replicas, driver.cluster.placement[4].leader) == ((2,), 2)
    assert disk.start({}).cluster.placement[4].leader == 1  # one broker only


def test_a_topic_that_cannot_be_saved_is_not_created(disk, monkeypatch):
    driver = disk.start()
    fail_sync(monkeypatch, "kgm.server.logs.data_directory.os.fsync")
    request = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=4, replication_factor=1)])
    assert driver.ask(request).topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.cluster.topics.by_name("new") is None
    monkeypatch.undo()
    assert driver.ask(request).topics[0].error_code == 0


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("{", KgmError, "damaged"),
        ("[]", KgmError, "format"),
        ('{"format": 2}', KgmError, "format"),
        ('{"format": 1}', KgmError, "damaged"),
        (
            '{"format":1,"cluster_id":"c","offsets_partitions":50,"topics":{"t":"x"},"assigned":{}}',
            KgmError,
            "damaged",
        ),
        (b"\xff\xfe", KgmError, "cannot be read"),
        (
            '{"format":1,"cluster_id":"c","offsets_partitions":7,"topics":{},"assigned":{}}',
            UsageError,
            "offsets.topic.num.partitions=7",
        ),
    ],
)
def test_a_directory_that_cannot_be_used(disk, text, error, says):
    disk.folder.mkdir()
    (disk.folder / "kgm.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(error, match=says):
        disk.start()
    (disk.folder / "kgm.json").unlink()
    disk.start()  # the lock was given back


def test_a_directory_where_none_can_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(KgmError, match="cannot be used"):
        DataDirectory.open(
            tmp_path / "file" / "dir", settings=BrokerSettings(), limits=Limits(), warn=print, seconds=time.monotonic
        )


def test_a_topic_does_not_shrink(disk):
    disk.start({"t": 3})
    with pytest.raises(UsageError, match="3 partitions already"):
        disk.start({"t": 2})


def test_another_number_of_partitions_survives_a_restart_too(disk):
    disk.start(partitions=1).ask(commit("g", name="t"), version=9)
    assert [path.name for path in disk.folder.glob("__*")] == ["__consumer_offsets-0"]
    assert len(disk.start(partitions=1).cluster.view.offsets("g")) == 1


@pytest.mark.slow
def test_logs_are_compacted(disk):
    limits = Limits(offsets_topic_segment_bytes=2_000)
    driver = disk.start(limits=limits)
    for n in range(200):
        driver.ask(commit("g", name="t", partition=n % 2, offset=n), version=9)
    folder = disk.folder / G
    before = sum(path.stat().st_size for path in folder.glob("*.log"))
    driver.cluster.compact(driver.now)
    after = sum(path.stat().st_size for path in folder.glob("*.log"))
    assert after < before / 3
    driver = disk.start(limits=limits)
    assert sorted(row.offset for row in driver.cluster.view.offsets("g").values()) == [198, 199]
    assert driver.warnings == disk.warnings == []


# -- records of topics


def produce(driver, *batches, partition=0):
    rows = [PartitionProduceData(index=partition, records=b"".join(batches))]
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=rows)])
    return driver.send(request, version=9)


def produced(driver, *batches, partition=0):
    ticket = produce(driver, *batches, partition=partition)
    assert ticket not in driver.events
    driver.flush()
    return driver.answer(ticket).responses[0].partition_responses[0]


def offsets(driver, partition=0):
    def ask(timestamp):
        row = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[row])])
        return driver.ask(request).topics[0].partitions[0].offset

    return ask(-2), ask(-1)


def fetched(driver, offset=0, partition=0):
    row = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=10**6)
    request = FetchRequest(max_bytes=10**6, topics=[FetchTopic(topic="t", partitions=[row])])
    return driver.ask(request, version=12).responses[0].partitions[0].records


def test_records_of_topics_survive_a_restart(disk):
    driver = disk.start()
    assert produced(driver, batch(3), batch(2)).base_offset == 0
    assert produced(driver, batch(4), partition=2).base_offset == 0
    assert produced(driver, batch(1)).base_offset == 5
    before = fetched(driver)
    driver = disk.start()
    assert (offsets(driver), offsets(driver, 1), offsets(driver, 2)) == ((0, 6), (0, 0), (0, 4))
    assert fetched(driver) == before
    assert produced(driver, batch(1)).base_offset == 6


@pytest.mark.slow
def test_the_oldest_records_go_from_the_disk_too(disk):
    limits = Limits(topic_max_bytes=3 * SEGMENT_BYTES)
    driver = disk.start(limits=limits)
    size = SEGMENT_BYTES // 4
    for _ in range(40):
        produced(driver, batch(1, size=size))
    start, end = offsets(driver)
    assert end == 40
    assert 0 < start < 40
    on_disk = sum(path.stat().st_size for path in (disk.folder / "t-0").iterdir())
    assert on_disk < 5 * SEGMENT_BYTES
    driver = disk.start(limits=limits)
    again = offsets(driver)
    assert again[1] == 40
    assert start - 4 <= again[0] <= start
    assert produced(driver, batch(1)).base_offset == 40


def test_a_torn_batch_of_a_topic_is_cut_off(disk):
    driver = disk.start()
    produced(driver, batch(3))
    produced(driver, batch(2))
    disk.kill()
    (segment,) = (disk.folder / "t-0").iterdir()
    segment.write_bytes(segment.read_bytes()[:-1])
    driver = disk.start()
    assert offsets(driver) == (0, 3)
    assert "truncated at byte" in disk.warnings[0]
    assert produced(driver, batch(1)).base_offset == 3


# -- files that are not the server's


NOT_A_LOG = [b"root:x:0:0:root:/root:/bin/sh\n" * 20, b"\0\0\0\0\0\0\0\1 short", b"#!/bin/sh\n"]


@pytest.mark.parametrize("content", NOT_A_LOG)
@pytest.mark.parametrize("place", [G, "t-0", "kgm-transactions"])
def test_a_file_that_is_no_log_is_not_cut(disk, place, content):
    """Whether it is there by a link or by its name: it is reported and stays as it is."""
    stranger = disk.folder.parent / "stranger"
    stranger.write_bytes(content)
    for link in (True, False):
        folder = disk.folder / place
        folder.mkdir(parents=True)
        segment = folder / f"{0:020}.log"
        if link:
            segment.symlink_to(stranger)
        else:
            segment.write_bytes(content)
        warning = _refused(disk)
        assert str(segment) in warning
        assert ("symbolic link" in warning) == link
        assert stranger.read_bytes() == segment.read_bytes() == content
        shutil.rmtree(disk.folder)


@pytest.mark.parametrize("place", [G, "t-0", "kgm-transactions"])
def test_a_folder_behind_a_link_is_not_used(disk, tmp_path, place):
    """Nothing is written to it either, and not even a torn end in it is cut."""
    driver = disk.start()
    driver.ask(commit("g", name="t"), version=9)
    produced(driver, batch(3))
    disk.kill()
    elsewhere = tmp_path / "elsewhere"
    if (disk.folder / place).exists():
        (disk.folder / place).rename(elsewhere)
        segment = elsewhere / f"{0:020}.log"
        segment.write_bytes(segment.read_bytes()[:-1])
    else:
        elsewhere.mkdir()
    before = {path.name: path.read_bytes() for path in elsewhere.iterdir()}
    (disk.folder / place).symlink_to(elsewhere)
    assert f"{disk.folder / place} is a symbolic link" in _refused(disk)
    assert {path.name: path.read_bytes() for path in elsewhere.iterdir()} == before


@pytest.mark.parametrize("name", [".lock", "kgm.json", f"{G}/.lock", "t-0/partition.metadata"])
def test_no_other_file_is_reached_through_a_link(disk, tmp_path, name):
    stranger = tmp_path / "stranger"
    stranger.write_bytes(b"mine")
    link = disk.folder / name
    link.parent.mkdir(parents=True)
    link.symlink_to(stranger)
    assert f"{link} is a symbolic link" in _refused(disk)
    assert stranger.read_bytes() == b"mine"


def test_a_pipe_in_the_place_of_a_segment_is_not_waited_for(disk):
    (disk.folder / G).mkdir(parents=True)
    os.mkfifo(disk.folder / G / f"{0:020}.log")
    assert "is not a regular file" in _refused(disk)


def _refused(disk):
    """Why the server does not start, or what it reports when it does and a group cannot be served."""
    try:
        driver = disk.start()
        answer = driver.ask(commit("g", name="t"), version=9)
    except (KgmError, OSError) as error:
        return f"{error}"
    assert answer.topics[0].partitions[0].error_code != ErrorCode.NONE
    assert disk.warnings == []
    return "\n".join(driver.warnings)


@pytest.mark.parametrize("at", [0, 1, -1])
@pytest.mark.parametrize("emptied", [True, False])
def test_a_segment_that_is_emptied_or_deleted_is_noticed(disk, at, emptied):
    """The oldest, one between, and the one that is written to; the hint says how to do without it."""
    limits = Limits(offsets_topic_segment_bytes=400)
    driver = disk.start({"t": 12}, limits=limits)
    for n in range(12):
        driver.ask(commit("g", name="t", partition=n), version=9)
    disk.kill()
    segments = sorted((disk.folder / G).glob("*.log"))
    assert len(segments) > 3
    if emptied:
        segments[at].write_bytes(b"")
    else:
        segments[at].unlink()
    driver = disk.start({"t": 12}, limits=limits)
    (warning,) = driver.warnings
    assert f"{segments[at]} is {'empty' if emptied else 'missing'}" in warning
    assert f"rm {disk.folder / G / 'kgm-segments.json'}" in warning
    assert driver.ask(commit("g", name="t"), version=9).topics[0].partitions[0].error_code != ErrorCode.NONE
    disk.kill()
    (disk.folder / G / "kgm-segments.json").unlink()
    driver = disk.start({"t": 12}, limits=limits)
    assert 0 < len(driver.cluster.view.offsets("g")) < 12
    assert disk.warnings == driver.warnings == []


def test_records_that_cannot_be_written_are_refused(disk, monkeypatch):
    driver = disk.start()
    produced(driver, batch(1))
    with monkeypatch.context() as patch:

        def full(*_arguments):
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr("kgm.server.logs.topic_files.os.write", full)
        for _ in range(2):
            ticket = produce(driver, batch(1))
            driver.flush()
            row = driver.answer(ticket).responses[0].partition_responses[0]
            assert (row.error_code, row.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert produced(driver, batch(1)).base_offset == 1
    assert ["No space left on device" in line for line in disk.warnings] == [True, False]
    assert all(str(disk.folder) in line for line in disk.warnings)
    disk.seconds += 60
    with monkeypatch.context() as patch:
        fail_sync(patch, "kgm.server.logs.topic_files.os.fsync")
        lost = produce(driver, batch(1))
        asked = driver.send(FindCoordinatorRequest(key="g"), version=3)
        driver.flush()
    assert isinstance(driver.events[lost], CloseConnection)
    assert isinstance(driver.events[asked], ResponseFrame)
    ticket = produce(driver, batch(1))  # it is unknown what is on the disk
    driver.flush()
    assert driver.answer(ticket).responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert ["Input/output error" in line for line in disk.warnings] == [False, False, True]


def test_a_copy_made_at_any_moment_starts(disk, tmp_path):
    """A crash between any two writes: everything that was acknowledged is in the copy."""
    driver = disk.start()
    for n in range(30):
        driver.ask(commit(f"g{n % 7}", name="t", partition=n % 3, offset=n), version=9)
        if n % 10 == 5:
            copy = Disk(tmp_path / f"copy{n}")
            shutil.copytree(disk.folder, copy.folder)
            there = copy.start().cluster.view
            for group in {f"g{m % 7}" for m in range(n + 1)}:
                assert dict(there.offsets(group)) == dict(driver.cluster.view.offsets(group))
            copy.kill()
    assert json.loads((disk.folder / "kgm.json").read_text())["topics"] == {"t": 3}


# -- a broker's own folders


@pytest.mark.slow
def test_the_folders_of_a_real_broker_are_taken_up(disk):
    """Its classic groups are served as the broker served them after a restart of its own."""
    kind = "plain"
    for partition in real_logs.partitions(kind):
        real_logs.unpack(kind, partition, disk.folder / f"{OFFSETS_TOPIC}-{partition}")
    driver = disk.start({"orders": 12}, partitions=len(real_logs.partitions(kind)))
    expected = {row["groupId"]: row for row in real_logs.groups(kind) if row["type"].lower() == "classic"}
    assert len(expected) > 5
    listed = {row.group_id: row for row in driver.ask(ListGroupsRequest()).groups}
    for group_id, row in expected.items():
        described = row["describe"]["response"]
        assert (listed[group_id].group_state, listed[group_id].protocol_type) == (row["state"], row["protocolType"])
        found = driver.ask(DescribeGroupsRequest(groups=[group_id])).groups[0]
        assert found.group_state == described["groupState"]
        assert sorted((m.group_instance_id or "", m.member_id, m.client_id) for m in found.members) == sorted(
            (m["groupInstanceId"] or "", m["memberId"], m["clientId"]) for m in described["members"]
        )
    driver.ask(commit(next(iter(expected)), name="orders", offset=5), version=9)
    disk.start({"orders": 12}, partitions=4)
    assert [said for said in disk.warnings if "record skipped" not in said] == []
