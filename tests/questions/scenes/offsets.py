"""Scenes about committed offsets: deleted, expired, jumped back, and groups that are no longer needed."""

from __future__ import annotations

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from kgm.client import connect
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.questions.stage import Stage
from tests.server.wire_client import WireClient
from tests.waiting import until


def topic_is_deleted(stage: Stage) -> None:
    """A member owns partitions of a topic that an admin deletes."""
    member = stage.alone("ledger-1")
    assert [member.commit(partition, 3) for partition in (0, 1)] == [0, 0]
    stage.delete_topic(stage.topic)

    def is_deleted() -> bool:
        with connect(stage.kafka.bootstrap, timeout_ms=60_000) as cluster:
            return cluster.describe_group(stage.name).deleted_topics == (stage.topic,)

    until(is_deleted, "the topic is still there")


def jumps_back(stage: Stage) -> None:
    """A member commits a lower offset than before; after it has left, the offset is reset."""
    stage.produce(10, 0, 1)
    member = stage.alone("ledger-1")
    for offset in (5, 8, 6):
        assert member.commit(0, offset) == 0
    assert member.commit(1, 4) == 0
    stage.leave(member)
    at = ConsumerGroupTopicPartitions(stage.name, [TopicPartition(stage.topic, 0, 1)])
    (done,) = stage.admin.alter_consumer_group_offsets([at]).values()
    done.result(30)


def expires(stage: Stage) -> None:
    """One of two committed offsets has a retention of 1 ms; the embedded server looks for expired offsets every 50 ms,
    a broker every ten minutes."""
    stage.commit(1, 4)
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topics = [OffsetCommitRequestTopic(name=stage.topic, partitions=[row])]
    request = OffsetCommitRequest(group_id=stage.name, member_id="", retention_time_ms=1, topics=topics)
    with WireClient(stage.port) as wire:
        assert wire.ask(request, version=4).topics[0].partitions[0].error_code == 0
    with connect(stage.kafka.bootstrap, timeout_ms=60_000) as cluster:
        until(lambda: (stage.topic, 0) not in cluster.committed_offsets(stage.name), "it does not expire")


def is_dead(stage: Stage) -> None:
    """The last member leaves."""
    stage.produce(4, 0)
    member = stage.alone("ledger-1")
    assert member.commit(0, 4) == 0
    stage.leave(member)


def is_in_use(stage: Stage) -> None:
    """The group has a member."""
    assert stage.alone("ledger-1").commit(0, 0) == 0
