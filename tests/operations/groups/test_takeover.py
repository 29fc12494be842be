"""Until when a member is waited for after another coordinator has taken over, on an embedded cluster and a clock set by
hand. With Kafka 4.3.0 a member that was to be fenced at :18 was fenced at :26, 20 s after the takeover."""

from __future__ import annotations

import json
from functools import partial

import pytest

from kgm.client.topic_log import partition_log
from kgm.client.topic_log.partition_log import OFFSETS_TOPIC
from kgm.operations.groups.rebalance_wait import read_rebalance_wait
from kgm.text.timestamps import rfc3339
from tests.cli.runner import kgm
from tests.client.joiners import commit_without_member
from tests.kafka.heartbeat_group import HeartbeatGroup
from tests.operations.removal.in_process import TOPIC, DirectWire, World

LIMIT_MS = 20_000


def whole_log(deadline, connection):
    end = partition_log.end_offset(connection, 0, deadline)
    return b"".join(data for data, _ in partition_log.fetch_log(connection, 0, 0, end, deadline, fetch_bytes=1 << 20))


@pytest.fixture
def world():
    return World()


@pytest.fixture
def holding(world):
    """(group g, when its member `a` was asked to give up two of its four partitions, in ms): it says no more."""
    world.pass_by(1)
    group = HeartbeatGroup(DirectWire(world.cluster), "g", [TOPIC], "uniform")
    group.rebalance_timeout_ms = LIMIT_MS
    group.join("a", None)
    group.heartbeat_until_stable()
    group.join("b", None)
    group.heartbeat("a")
    assert sum(map(len, group.owned["a"].values())) == 2
    return group, round(world.now_s * 1000)


def test_a_new_coordinator_gives_a_member_all_of_its_time_again(world, holding):
    _, asked_ms = holding
    with world.client() as client:

        def told():
            client.renew()
            wait = read_rebalance_wait(client, client.describe_group("g"))
            (awaited,) = wait.awaited
            assert awaited.member_id == "a"
            return wait, awaited.fenced_at_ms

        wait, fenced_ms = told()
        assert fenced_ms == asked_ms + LIMIT_MS
        assert wait.lines()[0].endswith(f"it is fenced at {rfc3339(fenced_ms)}")
        world.pass_by(10)
        world.cluster.fail_over()
        world.pass_by(2)
        wait, fenced_ms = told()
        assert (fenced_ms, wait.limit_ms, wait.headline) == (None, None, "waits for a")
        assert wait.lines()[0].endswith("it is fenced 20s after its coordinator took over")
        world.cluster.request(commit_without_member("other", TOPIC), version=9)
        written_ms = round(world.now_s * 1000)
        wait, fenced_ms = told()
        assert fenced_ms == written_ms + LIMIT_MS
        assert wait.headline == f"waits for a, at most until {rfc3339(fenced_ms)}"
        assert wait.lines()[0].endswith(f"it is fenced by {rfc3339(fenced_ms)}")
    world.pass_by((asked_ms + LIMIT_MS) / 1000 - world.now_s + 1)
    assert {one for one, _ in world.cluster.members("g")} == {"a", "b"}
    world.pass_by(fenced_ms / 1000 - world.now_s)
    assert {one for one, _ in world.cluster.members("g")} == {"b"}


def test_a_history_has_it_from_its_records(world, holding, tmp_path):
    def told():
        with world.client() as client:
            (broker,) = (one for one in client.brokers.brokers() if one.id == world.cluster.coordinator)
            log = client.brokers.on_broker(broker, partial(whole_log, client.deadline), client.deadline)
        folder = tmp_path / f"{len(log)}" / f"{OFFSETS_TOPIC}-0"
        folder.mkdir(parents=True)
        (folder / f"{0:020}.log").write_bytes(log)
        run = kgm("history", "explain", "g", "--source", f"segments:{folder.parent}", "-o", "json")
        assert run.code == 0, run.err
        (awaited,) = json.loads(run.out)["data"]["wait"]["awaited"]
        assert awaited["member_id"] == "a"
        return awaited["fenced_at"]

    group, asked_ms = holding
    assert told() == rfc3339(asked_ms + LIMIT_MS)
    world.pass_by(10)
    world.cluster.fail_over()
    world.pass_by(2)
    commit = commit_without_member("g", TOPIC)
    commit.member_id, commit.generation_id_or_member_epoch = "b", group.epochs["b"]
    assert world.cluster.request(commit, version=9).topics[0].partitions[0].error_code == 0
    assert told() == rfc3339(round(world.now_s * 1000) + LIMIT_MS)
