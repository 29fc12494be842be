"""Heartbeats that the server answers in the short form (`EmbeddedBroker.answer_heartbeat`): whatever else happens, a
cluster that takes it is as one that does not."""

import itertools
import random
import uuid

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.protocol.heartbeat_frame import read_heartbeat
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.wire import encode_request
from kgm.server.contract.exchange import ResponseFrame
from kgm.server.contract.limits import Limits
from kgm.server.logs.data_directory import DataDirectory
from tests.selection import first_seed
from tests.server.broker_driver import Driver
from tests.server.group_requests import commit, join, stable

FIRST, HISTORIES = first_seed(), 80


class ShortDriver(Driver):
    """As the event loop does it (`ClusterDriver.answer_heartbeat`). shorts: how often there was a short form."""

    shorts = 0

    def frame(self, frame, *, to=1):
        response, heartbeat = None, read_heartbeat(b"1234" + frame, 4)
        if heartbeat is not None and self.cluster.is_quiet(self.now):
            response = self.brokers[to].answer_heartbeat(heartbeat, self.now)
        if response is None:
            return super().frame(frame, to=to)
        self.shorts += 1
        ticket = next(self._tickets)
        assert len(response) == 4 + int.from_bytes(response[:4], "big")
        self.events[ticket] = ResponseFrame(ticket, response[4:])
        return ticket


def state(driver):
    """Everything that may depend on how a Heartbeat came in."""
    return {
        shard.partition: (list(shard.engine.deadlines.items()), shard.engine.groups(), shard.alarm, shard._now)
        for shard in driver.cluster.shards.all()
        if shard.engine is not None
    }


def a_round(driver):
    """A member starts, others may be too late, and the group is Stable if its coordinator is there."""
    driver.load()
    driver.flush()
    placement = driver.cluster.placement
    to = placement[placement.partition_for("g")].leader
    driver.send(join("i", session_ms=30_000), to=to)
    driver.advance(0)
    if (view := driver.cluster.view.group("g")) is not None and view.state == "PreparingRebalance":
        driver.advance(20_000)
    view = driver.cluster.view.group("g")
    for member in view.members if view else ():
        rows = [SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"x") for each in view.members]
        sync = SyncGroupRequest(group_id="g", generation_id=view.generation, member_id=member.member_id)
        sync.protocol_type, sync.protocol_name, sync.assignments = "consumer", "range", rows
        driver.send(sync, to=to)


def history(seed, storages, monkeypatch):
    rng = random.Random(seed)
    settings = {"brokers": 2, "offsets_topic_num_partitions": 3}
    kinds = zip((ShortDriver, Driver), storages, strict=True)
    pair = [kind({"t": 1}, storage=storage, **settings) for kind, storage in kinds]
    known = [("m", None)]
    for step in range(60):
        group, to = rng.choice(("g", "g", "g", "h", "")), rng.choice((1, 1, 1, 2))
        member, instance = rng.choice(known[-4:] + known[:1])
        generation, partition = rng.choice((0, 1, 1, 2, 3)), rng.randrange(3)
        version, deed = rng.choice((0, 3, 4, 4)), rng.choices(DEEDS, WEIGHTS)[0]
        view = pair[1].cluster.view.group("g")
        if view is not None and rng.random() < 0.8:
            generation, group = view.generation, "g"
        newcomer, ms = rng.choice(("i", "j")), rng.choice((0, 1, 3_000, 9_999, 20_000))
        for driver in pair:
            ids = (uuid.UUID(int=seed << 64 | step << 32 | n) for n in itertools.count())
            monkeypatch.setattr("uuid.uuid4", lambda ids=ids: next(ids))
            match deed:
                case "heartbeat":
                    message = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
                    message.group_instance_id = instance if version >= 3 else None
                    driver.send(message, version=version, to=to)
                case "join":
                    driver.send(join(newcomer, group=group), to=to)
                case "round":
                    a_round(driver)
                case "leave":
                    row = MemberIdentity(member_id=member, group_instance_id=instance)
                    driver.send(LeaveGroupRequest(group_id="g", members=[row]), to=to)
                case "commit":
                    driver.send(commit(group, name="t"), version=9, to=to)
                case "advance":
                    driver.advance(ms)
                case "flush":
                    driver.flush()
                case "move":
                    driver.move(partition, to)
                case "load":
                    driver.load()
        view = pair[1].cluster.view.group("g")
        known += [(m.member_id, m.group_instance_id) for m in (view.members if view else ())]
        assert pair[0].events == pair[1].events, (seed, deed)
        assert state(pair[0]) == state(pair[1]), (seed, deed)
    for driver in pair:
        driver.cluster.close()
    return pair[0].shorts


DEEDS = ("heartbeat", "join", "round", "leave", "commit", "advance", "flush", "move", "load")
WEIGHTS = (14, 1, 3, 1, 2, 4, 5, 1, 2)


def on_disk(folder):
    settings = BrokerSettings(offsets_topic_num_partitions=3)
    return DataDirectory.open(folder, settings=settings, limits=Limits(), warn=pytest.fail)


def test_a_cluster_that_takes_the_short_form_is_as_one_that_does_not(monkeypatch):
    shorts = sum(history(seed, (None, None), monkeypatch) for seed in range(FIRST, FIRST + HISTORIES))
    assert shorts > 2 * HISTORIES


def test_a_cluster_on_a_disk_answers_nothing_before_it_is_flushed(monkeypatch, tmp_path):
    """As above: a Heartbeat after records that are not flushed waits with them."""
    shorts = 0
    for seed in range(HISTORIES // 10):
        storages = [on_disk(tmp_path / f"{seed}-{name}") for name in ("short", "plain")]
        shorts += history(FIRST + 10_000 + seed, storages, monkeypatch)
    assert shorts > HISTORIES // 10


def heartbeat(joined, *, version=4):
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id, group_instance_id="i")
    return encode_request(message, version=version, correlation_id=77, client_id="c")


def test_only_the_coordinator_takes_the_short_form():
    driver = Driver(brokers=2)
    partition = driver.cluster.placement.partition_for("g")
    driver.move(partition, 1)
    short = read_heartbeat(heartbeat(stable(driver)), 0)
    assert driver.brokers[1].answer_heartbeat(short, driver.now) is not None
    assert driver.brokers[2].answer_heartbeat(short, driver.now) is None
    driver.move(partition, 2)
    assert driver.brokers[2].answer_heartbeat(short, driver.now) is None  # it is loading
    driver.load()
    assert driver.brokers[2].answer_heartbeat(short, driver.now) is not None
    assert driver.brokers[1].answer_heartbeat(short, driver.now) is None


def test_a_cluster_with_something_to_flush_or_to_fire_is_not_quiet(tmp_path):
    driver = Driver({"t": 1}, storage=on_disk(tmp_path), offsets_topic_num_partitions=3)
    assert driver.cluster.is_quiet(driver.now)
    driver.send(commit("g", name="t"), version=9)
    assert not driver.cluster.is_quiet(driver.now)
    driver.flush()
    due = driver.cluster.next_deadline()
    assert driver.cluster.is_quiet(due - 1)
    assert not driver.cluster.is_quiet(due)
    driver.cluster.close()
