"""Whom a group waits for while it rebalances, in `describe`, `watch` and `doctor`: one member does not rejoin."""

from __future__ import annotations

import json
import uuid

import pytest

from kgm.cli.main import run
from kgm.client import connect
from kgm.protocol.subscription import MemberAssignment, encode_assignment
from kgm.server import serve_in_thread
from tests.client.joiners import REBALANCE_MS, SESSION_MS, Joiner
from tests.kafka.heartbeat_group import wait_coordinator_knows
from tests.waiting import until

SLOW = "slow-1"


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def scene(request):
    """(bootstrap, group, member id of the newcomer): a static member has a generation for itself and
    has committed; another one joins, and the first does nothing."""
    topic = f"t-{uuid.uuid4().hex[:8]}"
    if request.param == "embedded":
        with serve_in_thread(topics={topic: 2}, settings={"group.initial.rebalance.delay.ms": 0}) as server:
            yield from _waiting(server.bootstrap, topic)
    else:
        kafka = request.getfixturevalue("kafka")
        kafka.create_topics({topic: 2})
        wait_coordinator_knows(kafka.bootstrap, {topic: 2})
        yield from _waiting(kafka.bootstrap, topic)


def _waiting(bootstrap, topic):
    group, port = f"g-{uuid.uuid4().hex[:8]}", int(bootstrap.rpartition(":")[2])
    slow, newcomer = Joiner(port, group, SLOW, topic), Joiner(port, group, None, topic)
    slow.join()
    blob = encode_assignment(MemberAssignment(partitions={topic: [0, 1]}))
    assert slow.sync({slow.member_id: blob}).error_code == 0
    assert slow.commit(0, 0) == 0
    newcomer.join(rounds=1)  # this much only gives it its id
    newcomer.send_join()

    def rebalances():
        with connect(bootstrap, timeout_ms=20_000) as cluster:
            seen = cluster.describe_group(group, offsets=False)
        return seen.state == "PreparingRebalance" and len(seen.members) == 2

    until(rebalances, "the newcomer does not join")
    yield bootstrap, group, newcomer.member_id
    slow.close()
    newcomer.close()


@pytest.mark.slow
def test_describe_tells_who_has_not_come_back(scene, capsys):
    bootstrap, group, newcomer = scene
    assert run(["describe", group, "-b", bootstrap, "-o", "json"]) == 0
    (wait,) = json.loads(capsys.readouterr().out)["data"]["waits"]
    assert (wait["group_id"], wait["phase"]) == (group, "join")
    (awaited,) = wait["awaited"]
    assert (awaited["group_instance_id"], awaited["limit_ms"]) == (SLOW, REBALANCE_MS)
    assert awaited["session_timeout_ms"] == SESSION_MS
    assert awaited["idle_ms"] >= 0
    assert (wait["arrived"], wait["gone"], wait["generation"], wait["limit_ms"]) == (
        [newcomer],
        [],
        1,
        REBALANCE_MS,
    )
    assert run(["describe", group, "-b", bootstrap]) == 0
    assert "\nwaits for members to rejoin" in capsys.readouterr().out


@pytest.mark.slow
def test_doctor_and_watch_tell_it_too(scene, capsys):
    bootstrap, group, _ = scene
    run(["doctor", group, "--check", "rebalancing", "--window", "100ms", "-b", bootstrap, "-o", "json"])
    (finding,) = json.loads(capsys.readouterr().out)["data"]["findings"]
    assert finding["evidence"][0].startswith("waits for members to rejoin")
    assert SLOW in finding["about"]
    words = ["watch", group, "--until", "stable", "--count", "1", "--interval", "100ms", "-b", bootstrap, "-o", "json"]
    assert run(words) == 8
    (verdict,) = json.loads(capsys.readouterr().out)["data"]["groups"]
    (missing,) = verdict["missing"]
    assert missing.startswith("its state is PreparingRebalance: waits for members to rejoin")
    assert missing.endswith(f": {SLOW}, at most 1m from its start")
