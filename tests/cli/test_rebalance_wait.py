"""Whom a group waits for while it rebalances, in `describe`, `watch`, `doctor` and `history explain`: one member does not
rejoin, or in a consumer group does not give up partitions."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from datetime import datetime
from pathlib import Path

import pytest

from kgm.cli.main import run
from kgm.client import connect
from kgm.protocol.subscription import MemberAssignment, encode_assignment
from kgm.server import serve_in_thread
from tests.client.joiners import SESSION_MS, Joiner
from tests.kafka.heartbeat_group import HeartbeatGroup, wait_coordinator_knows
from tests.kafka.versions import LONG_CONSUMER_SESSION, shared_broker
from tests.server.wire_client import WireClient
from tests.waiting import until

SLOW = "slow-1"


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def scene(request):
    """(bootstrap, group, member id of the newcomer): a static member has a generation for itself and
    has committed; another one joins, and the first does nothing. The rebalance timeout of the newcomer, which the log has
    not yet, may be longer than that of the first."""
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
    assert (awaited["group_instance_id"], awaited["limit_ms"]) == (SLOW, None)
    assert awaited["session_timeout_ms"] == SESSION_MS
    assert awaited["idle_ms"] >= 0
    assert (wait["arrived"], wait["gone"], wait["generation"], wait["limit_ms"]) == (
        [newcomer],
        [],
        1,
        None,
    )
    assert wait["text"][0].endswith(
        f": {SLOW}, at most 1m from its start, or max.poll.interval.ms of {newcomer} if that is longer"
    )
    assert run(["describe", group, "-b", bootstrap]) == 0
    assert "\nwaits for members to rejoin" in capsys.readouterr().out


@pytest.mark.slow
def test_doctor_and_watch_tell_it_too(scene, capsys):
    bootstrap, group, newcomer = scene
    run(["doctor", group, "--check", "rebalancing", "--window", "100ms", "-b", bootstrap, "-o", "json"])
    (finding,) = json.loads(capsys.readouterr().out)["data"]["findings"]
    assert finding["evidence"][0].startswith("waits for members to rejoin")
    assert SLOW in finding["about"]
    words = ["watch", group, "--until", "stable", "--count", "1", "--interval", "100ms", "-b", bootstrap, "-o", "json"]
    assert run(words) == 8
    (verdict,) = json.loads(capsys.readouterr().out)["data"]["groups"]
    (missing,) = verdict["missing"]
    assert missing.startswith("its state is PreparingRebalance: waits for members to rejoin")
    assert missing.endswith(
        f": {SLOW}, at most 1m from its start, or max.poll.interval.ms of {newcomer} if that is longer"
    )


@pytest.mark.few(1)
@pytest.mark.slow
def test_explain_tells_it_too(scene, capsys):
    bootstrap, group, newcomer = scene
    assert run(["history", "explain", group, "-b", bootstrap, "-o", "json"]) == 0
    wait = json.loads(capsys.readouterr().out)["data"]["wait"]
    assert (wait["phase"], wait["generation"], wait["limit_ms"]) == ("join", 1, None)
    assert ([one["group_instance_id"] for one in wait["awaited"]], wait["arrived"]) == ([SLOW], [newcomer])


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def holding(request, tmp_path_factory):
    """(bootstrap, folder with the broker's log, group, bounds in ms of when member `a` was asked to give up half of its
    partitions): it was, because `b` has joined, and does nothing more."""
    topic = f"t-{uuid.uuid4().hex[:8]}"
    if request.param == "embedded":
        folder = tmp_path_factory.mktemp("data")
        settings = {f"group.{name}": str(value) for name, value in LONG_CONSUMER_SESSION.items()}
        with (
            serve_in_thread(topics={topic: 4}, data_dir=folder, settings=settings) as server,
            WireClient(server.port) as wire,
        ):
            yield server.bootstrap, folder, *_holding(wire, topic)
    else:
        kafka = shared_broker()
        kafka.create_topics({topic: 4})
        wait_coordinator_knows(kafka.bootstrap, {topic: 4})
        with WireClient(kafka.port) as wire:
            yield kafka.bootstrap, kafka.log_dir(), *_holding(wire, topic, kafka)


def _holding(wire, topic, kafka=None):
    group = HeartbeatGroup(wire, f"g-{uuid.uuid4().hex[:8]}", [topic], "uniform")
    if kafka is not None:
        kafka.configure_group(group.group_id, LONG_CONSUMER_SESSION)
    group.join("a", None)
    group.heartbeat_until_stable()
    group.join("b", None)

    def asked() -> tuple[float, float] | None:
        before_ms = time.time() * 1000
        group.heartbeat("a")
        is_asked = sum(map(len, group.owned["a"].values())) == 2
        return (before_ms, time.time() * 1000) if is_asked else None

    return group.group_id, until(asked, "a is not asked to give up partitions")


def _is_held_by_a(wait, asked_ms):
    assert (wait["phase"], wait["limit_ms"]) == ("reconcile", 60_000)
    (awaited,) = wait["awaited"]
    assert (awaited["member_id"], sum(map(len, awaited["holds"].values()))) == ("a", 2)
    fenced_ms = datetime.fromisoformat(awaited["fenced_at"]).timestamp() * 1000
    assert asked_ms[0] - 1 <= fenced_ms - 60_000 <= asked_ms[1] + 1


@pytest.mark.slow
def test_who_holds_partitions_and_until_when(holding, capsys):
    bootstrap, _, group, asked_ms = holding
    assert run(["describe", group, "-b", bootstrap, "-o", "json"]) == 0
    (wait,) = json.loads(capsys.readouterr().out)["data"]["waits"]
    _is_held_by_a(wait, asked_ms)
    assert run(["history", "explain", group, "-b", bootstrap, "-o", "json"]) == 0
    _is_held_by_a(json.loads(capsys.readouterr().out)["data"]["wait"], asked_ms)


@pytest.mark.few(1)
@pytest.mark.slow
def test_a_copy_of_the_log_tells_it_without_the_broker(holding, tmp_path, capsys):
    _, folder, group, asked_ms = holding
    for log in Path(folder).glob("__consumer_offsets-*"):
        shutil.copytree(log, tmp_path / log.name)
    words = ["history", "explain", group, "--source", f"segments:{tmp_path}", "-o", "json"]
    assert run(words) == 0
    _is_held_by_a(json.loads(capsys.readouterr().out)["data"]["wait"], asked_ms)
    assert run([*words, "--until", "0s"]) == 0  # of another time than the end nothing is said
    assert json.loads(capsys.readouterr().out)["data"]["wait"] is None
