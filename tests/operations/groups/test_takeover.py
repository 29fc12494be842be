"""Until when a member is waited for after another coordinator has taken over, on an embedded cluster and a clock set by
hand. With Kafka 4.3.0 a member that was to be fenced at :18 was fenced at :26, 20 s after the takeover."""

from __future__ import annotations

from kgm.operations.groups.rebalance_wait import read_rebalance_wait
from kgm.text.timestamps import rfc3339
from tests.client.joiners import commit_without_member
from tests.kafka.heartbeat_group import HeartbeatGroup
from tests.operations.removal.in_process import TOPIC, DirectWire, World

LIMIT_MS = 20_000


def test_a_new_coordinator_gives_a_member_all_of_its_time_again():
    world = World()
    world.pass_by(1)
    group = HeartbeatGroup(DirectWire(world.cluster), "g", [TOPIC], "uniform")
    group.rebalance_timeout_ms = LIMIT_MS
    group.join("a", None)
    group.heartbeat_until_stable()
    group.join("b", None)
    group.heartbeat("a")
    assert sum(map(len, group.owned["a"].values())) == 2  # it is asked to give up two of four, and says no more
    asked_ms = round(world.now_s * 1000)
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
