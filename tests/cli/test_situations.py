"""What public reports tell of, with real clients on a real Kafka: what is in the way of a group, and that no member is
blamed for what it cannot help. The situations wait side by side."""

from __future__ import annotations

import contextlib
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from kgm.client import connect
from kgm.client.offsets_topic.member_activity import CommitRecord, GroupActivity
from kgm.operations.doctor.diagnosis import diagnose
from tests.kafka.heartbeat_group import wait_coordinator_knows
from tests.kafka.members import JavaMembers, RdMembers, wait_settled
from tests.kafka.versions import LONG_CONSUMER_SESSION, shared_broker
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.scenes, pytest.mark.timeout(300)]

COMMITS = {"enable.auto.commit": "true", "auto.commit.interval.ms": "500"}
#: So far above a session of 6 s that no session can have expired as late.
POLL_MS = 15_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where a situation plays: a group with the name of its topic, which has two partitions. other: one more topic."""

    kafka: object
    java: JavaMembers
    rd: RdMembers
    name: str = field(default_factory=lambda: f"sit-{uuid.uuid4().hex[:8]}")

    @property
    def other(self):
        return f"{self.name}-other"

    def started(self, owner, *, settled=2, topics=(), **options):
        member = owner.start(group=self.name, topics=topics or [self.name], **{"config": COMMITS} | options)
        if settled:
            wait_settled([member], settled, 60)
        return member

    def finding(self, check, *, window_ms=0, **options):
        """Of the doctor; None if it has none."""
        with connect(self.kafka.bootstrap, timeout_ms=30_000) as cluster:
            there = diagnose(cluster, [self.name], window_ms=window_ms, **options).findings
        return next((one for one in there if one.check == check), None)

    def commits(self):
        """How often each of the two partitions was committed; librdkafka commits only what it has read."""
        with connect(self.kafka.bootstrap, timeout_ms=30_000) as cluster:
            records = GroupActivity(cluster, self.name).read_back(lambda _: False, cluster.deadline)
        return [sum(isinstance(one, CommitRecord) and one.partition == number for one in records) for number in (0, 1)]

    def until_found(self, check, **options):
        return until(lambda: self.finding(check, **options), f"{self.name}: no {check}", 90, every_s=1)


def stalls(stage):
    """An application does not poll: its library leaves the group, and joins again."""
    stalled = stage.started(stage.java, max_poll_interval_ms=POLL_MS, client_id="stalled")
    other = stage.started(stage.rd, max_poll_interval_ms=POLL_MS, client_id="other", settled=0)
    wait_settled([stalled, other], 2, 60)
    was, mixed = stalled.member_id, stage.until_found("mixed-clients")
    until(lambda: max(stage.commits()) >= 5, "no regular commits", every_s=0.5)
    stalled.stall(POLL_MS + 8_000)
    return was, mixed, stage.until_found("max-poll-exceeded")


def hides(stage):
    """librdkafka takes a topic that is deleted out of its subscription. Until it notices, the topic is still in it."""
    config = COMMITS | {"topic.metadata.refresh.interval.ms": "1000"}
    member = stage.started(stage.rd, topics=[stage.name, stage.other], settled=4, config=config)
    admin = stage.kafka.admin()
    for done in admin.delete_topics([stage.other]).values():
        done.result(30)
    wait_settled([member], 2, 60)
    return stage.until_found("missing-topics")


def grows(stage):
    """Partitions that are added after the subscription."""
    stage.started(stage.java)
    admin = stage.kafka.admin()
    for done in admin.create_partitions([NewPartitions(stage.name, 4)]).values():
        done.result(30)
    return stage.until_found("unowned-partitions")


def mismatches(stage):
    """A client whose assignor the group does not use."""
    stage.started(stage.java, assignor="range")
    refused = stage.started(stage.rd, assignor="cooperative-sticky", settled=0)
    error = refused.wait_event("error", "fatal").data["error"]
    settings = {"partition.assignment.strategy": "cooperative-sticky"}
    return error, stage.finding("refused-consumer", consumer_settings=settings)


def takes(stage):
    """A second process with the instance id of a member of a consumer group."""
    owner = stage.started(stage.java, protocol="consumer", instance_id="app-1", client_id="owner")
    refused = stage.started(stage.java, protocol="consumer", instance_id="app-1", settled=0)
    error = refused.wait_event("error", "fatal").data["error"]
    settings = {"group.instance.id": "app-1", "group.protocol": "consumer"}
    return error, owner.member_id, stage.finding("refused-consumer", consumer_settings=settings)


def holds(stage):
    """A transaction is open, so that a read_committed consumer has nothing to read."""
    producer = Producer({"bootstrap.servers": stage.kafka.bootstrap, "transactional.id": stage.name})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(stage.name, b"record", partition=1)
    producer.flush(60)
    stage.started(stage.java, config=COMMITS | {"isolation.level": "read_committed"})
    found = stage.until_found("open-transaction", window_ms=1_000)
    blamed = stage.finding("stalled-owner", window_ms=1_000)
    producer.abort_transaction(60)
    return found, blamed


SITUATIONS = {one.__name__: one for one in (stalls, hides, grows, mismatches, takes, holds)}


@pytest.fixture(scope="module")
def played(request):
    """{situation: future of what it returned}, all at the same time."""
    names = [name for name in SITUATIONS if any(name in item.name for item in request.session.items)]
    kafka = shared_broker()
    with contextlib.ExitStack() as stack:
        java, rd = stack.enter_context(JavaMembers(kafka.bootstrap)), stack.enter_context(RdMembers(kafka.bootstrap))
        stages = {name: Stage(kafka=kafka, java=java, rd=rd) for name in names}
        topics = {topic: 2 for stage in stages.values() for topic in (stage.name, stage.other)}
        kafka.create_topics(topics)
        for stage in stages.values():
            kafka.configure_group(stage.name, LONG_CONSUMER_SESSION)
        wait_coordinator_knows(kafka.bootstrap, topics)
        pool = stack.enter_context(ThreadPoolExecutor(len(SITUATIONS)))
        yield {name: pool.submit(SITUATIONS[name], stage) for name, stage in stages.items()}


def test_stalls(played):
    was, mixed, found = played["stalls"].result()
    assert "several client libraries" in mixed.message
    assert found.about == (was,)
    assert f"its max.poll.interval.ms is {POLL_MS // 1000} s" in found.evidence[0]
    assert "silent for 1" in found.evidence[0]


def test_hides(played):
    found = played["hides"].result()
    assert "does not exist any more" in found.message
    assert [name.endswith("-other") for name in found.about] == [True]


def test_grows(played):
    found = played["grows"].result()
    assert [name[-2:] for name in found.about] == ["-2", "-3"]
    assert found.evidence[1].startswith("probably added after the last rebalance")


def test_mismatches(played):
    error, found = played["mismatches"].result()
    assert error == "INCONSISTENT_GROUP_PROTOCOL"
    assert error in found.message


def test_takes(played):
    error, owner, found = played["takes"].result()
    assert error == "UNRELEASED_INSTANCE_ID"
    assert error in found.message
    assert owner in found.evidence[0]


def test_holds(played):
    found, blamed = played["holds"].result()
    assert found.evidence[0].endswith("[1]: from offset 0")
    assert blamed is None
