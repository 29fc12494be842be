"""Scenes about members: dead ones, duplicates of one instance id, idle ones, and invisible ones."""

from __future__ import annotations

from confluent_kafka.admin import NewPartitions

from kgm.model.errors import ErrorCode
from tests.kafka.members import wait_settled
from tests.questions.stage import COMMITS, Stage, owned
from tests.waiting import until

#: Longer than a scene takes.
_LONG = {"session_timeout_ms": 300_000, "max_poll_interval_ms": 300_000}


def dies_static(stage: Stage) -> None:
    """One of two processes with an instance id is killed, and records arrive."""
    members = [stage.start(stage.rd, instance_id=f"shop-{number}", settled=0, **_LONG) for number in (1, 2)]
    wait_settled(members, 2, 60)
    stage.produce(20, 0, 1)
    stage.until_read(0, 1)
    members[1].crash()
    stage.produce(20, 0, 1)
    stage.until_read(0)


def dies_static_848(stage: Stage) -> None:
    """The same with the new protocol; the members here only send heartbeats and commits."""
    group = stage.heartbeats()
    for number in (1, 2):
        group.join(f"member-{number}", f"shop-{number}")
        group.heartbeat_until_stable()
    stage.produce(20, 0, 1)
    for member_id in ("member-1", "member-2"):
        stage.commit_as(group, member_id, 20)
    stage.produce(20, 0, 1)

    def live() -> None:
        group.heartbeat("member-1")
        stage.commit_as(group, "member-1", 40)

    stage.meanwhile(live)


def says_it_will_be_back(stage: Stage) -> None:
    """A static member of a consumer group shuts down as for a restart, and does not come back."""
    group = stage.heartbeats()
    group.join("first", "shop-1")
    group.join("second", "shop-2")
    group.heartbeat_until_stable()
    group.step_away("second")
    stage.meanwhile(lambda: group.heartbeat("first"))


def fence_each_other(stage: Stage) -> None:
    """Two processes run with the same instance id, and each restarts when it is fenced: sooner than a single process
    could restart."""
    stage.alone("shop-1")
    starts = [stage.joiner("shop-1") for _ in range(4)]
    for one in starts:
        one.send_join()
    assert {one.receive_join().error_code for one in starts} <= {ErrorCode.NONE, ErrorCode.FENCED_INSTANCE_ID}


def is_taken(stage: Stage) -> None:
    """A second process starts with the instance id of a member of a consumer group."""
    stage.start(stage.java, protocol="consumer", instance_id="shop-1", client_id="owner")
    refused = stage.start(stage.rd, protocol="consumer", instance_id="shop-1", settled=0)
    assert refused.wait_event("error", "fatal").data["error"] == "UNRELEASED_INSTANCE_ID"
    stage.file("second.properties", {"group.instance.id": "shop-1", "group.protocol": "consumer"})


def owns_the_same(stage: Stage) -> None:
    """An assignor of the application's own gives a partition to both members."""
    first, second = stage.alone("shop-1"), stage.joiner("shop-2")
    second.send_join()
    until(lambda: stage.state() == "PreparingRebalance", "the second does not join")
    first.send_join()
    shares = {
        one.receive_join().member_id: owned(stage.topic, share) for one, share in ((first, (0, 1)), (second, (1,)))
    }
    for one in sorted((first, second), key=lambda one: one.member_id != one.leader):  # the leader first
        assert one.sync(shares if one.member_id == one.leader else None).error_code == 0


def sends_no_assignment(stage: Stage) -> None:
    """A leader sends bytes that are not an assignment."""
    one = stage.joiner("shop-1")
    assert one.join().error_code == 0
    assert one.sync({one.member_id: b"\x00\x01\x7f\xff\xff\xff"}).error_code == 0


def owns(stage: Stage) -> None:
    """Two members with four partitions each."""
    members = [stage.start(stage.rd, instance_id=f"shop-{number}", settled=0) for number in (1, 2)]
    wait_settled(members, 8, 60)


def has_nothing(stage: Stage) -> None:
    """Three members for two partitions."""
    group = stage.heartbeats()
    for number in (1, 2, 3):
        group.join(f"member-{number}", f"shop-{number}")
        group.heartbeat_until_stable()
    stage.meanwhile(group.heartbeat_until_stable)


def is_in_no_group(stage: Stage) -> None:
    """A consumer runs, and none of the topics that it subscribes to exists: librdkafka does not join."""
    stage.start(stage.rd, topics=[f"{stage.name}-orders"], settled=0)


def assigns_itself(stage: Stage) -> None:
    """A consumer assigns its partitions itself, and commits."""
    stage.produce(9, 0)
    stage.commit(0, 4)


def does_not_see(stage: Stage) -> None:
    """Partitions are added after the subscription."""
    stage.start(stage.rd, config=COMMITS | {"topic.metadata.refresh.interval.ms": "600000"})
    for done in stage.admin.create_partitions([NewPartitions(stage.topic, 4)]).values():
        done.result(30)
    until(
        lambda: len(stage.admin.list_topics(stage.topic, timeout=10).topics[stage.topic].partitions) == 4, "not added"
    )


def subscribes_in_vain(stage: Stage) -> None:
    """A Java client also subscribes to a topic whose name is misspelled."""
    stage.start(stage.java, topics=[stage.topic, f"{stage.name}-inn"])


def topic_was_deleted(stage: Stage) -> None:
    """librdkafka removes a deleted topic from its subscription."""
    old = f"{stage.name}-old"
    config = COMMITS | {"topic.metadata.refresh.interval.ms": "1000"}
    member = stage.start(stage.rd, topics=[stage.topic, old], settled=4, config=config)
    stage.delete_topic(old)
    wait_settled([member], 2, 60)


def are_two_applications(stage: Stage) -> None:
    """Two applications with the same group.id, each of which subscribes to a topic of its own."""
    stage.start(stage.rd, client_id="mail-sender", settled=2)
    stage.start(stage.rd, client_id="report-writer", topics=[f"{stage.name}-old"], settled=2)


def has_a_new_id_each_time(stage: Stage) -> None:
    """Pods of a Deployment, with their own names as instance ids."""
    stage.stable("shop-7d9f8b6c5d-x2x9k", "shop-7d9f8b6c5d-q4zt7")


def has_odd_names(stage: Stage) -> None:
    """Groups whose ids are hard to see and to type."""
    for name in ("odd café 🛒", "odd\x1b[31mred", "odd ", " "):
        stage.commit(0, 0, group=name)
    stage.alone("till\x07-1")


def is_half_upgraded(stage: Stage) -> None:
    """A consumer group has a member of the classic protocol next to one of the new protocol."""
    group = stage.heartbeats()
    group.join("shop-new", "shop-1")
    group.heartbeat_until_stable()
    assert stage.joiner("shop-2").join().error_code == 0
    stage.meanwhile(lambda: group.heartbeat("shop-new"))
    until(lambda: stage.has_finding("unfinished-migration"), "the new member is not there")
