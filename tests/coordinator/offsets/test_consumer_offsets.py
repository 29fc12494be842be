"""Offsets of consumer groups (KIP-848): behaviour B113 of Apache Kafka 4.3.0's coordinator, expiry, deletion."""

import pytest

from kgm.coordinator.contract.outcome import TimerKind
from kgm.model.errors import ErrorCode as E
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.coordinator.behaviours import rule
from tests.coordinator.consumer.harness import Consumers, topic_id


@pytest.fixture
def h():
    return Consumers()


# -- B113


def committed(h, member, epoch, *, v=9, partition=0, topic="a", **more):
    return h.commit(member, epoch, v=v, partition=partition, topic=topic, **more)


@pytest.fixture
def halves(h):
    """m1 has a0 to a2 since epoch 2, m2 a3 to a5 since epoch 3; both at epoch 3."""
    h.beat("m1")
    h.beat("m2")
    h.calm()
    return h


@rule("B113")
def test_commits_are_checked_by_epoch_and_partition(halves):
    h = halves
    assert committed(h, "m1", 3) == E.NONE
    assert committed(h, "m1", 3, partition=5) == E.NONE, "in its own epoch nothing else is asked"
    assert committed(h, "m1", 2) == E.NONE
    assert committed(h, "m1", 1) == E.STALE_MEMBER_EPOCH
    assert committed(h, "m1", 4) == E.STALE_MEMBER_EPOCH
    assert committed(h, "m1", 2, partition=5) == E.STALE_MEMBER_EPOCH
    assert committed(h, "m1", 2, topic="nowhere") == E.STALE_MEMBER_EPOCH
    assert committed(h, "m2", 2, partition=3) == E.STALE_MEMBER_EPOCH
    assert committed(h, "m2", 3, partition=3) == E.NONE
    assert committed(h, "x", 3) == E.UNKNOWN_MEMBER_ID
    assert committed(h, "", -1) == E.UNKNOWN_MEMBER_ID
    assert committed(h, "m1", 3, v=8) == E.UNSUPPORTED_VERSION
    assert h.engine.offsets.of("g")["a", 0].topic_id == topic_id("a")


@rule("B113")
def test_partitions_to_be_revoked_may_be_committed(h):
    h.beat("m1")
    h.beat("m2")
    h.beat("m1", 2)
    assert h.member("m1").pending_revocation == {"a": (3, 4, 5)}
    assert committed(h, "m1", 2, partition=5) == E.NONE
    assert committed(h, "m1", 1, partition=5) == E.STALE_MEMBER_EPOCH


@rule("B113")
def test_a_commit_does_not_extend_the_session(halves):
    h = halves
    h.sleep(1_000)
    committed(h, "m1", 3)
    assert h.deadline(TimerKind.SESSION, "m1") == 44_000


@rule("B113")
def test_a_client_without_membership_may_commit_to_an_empty_group(halves):
    h = halves
    h.beat("m1", -1)
    h.beat("m2", -1)
    assert committed(h, "", -1) == E.NONE
    assert committed(h, "m1", 3) == E.UNKNOWN_MEMBER_ID
    assert h.group().group_type == "consumer"


@rule("B113")
def test_one_refused_partition_refuses_the_request(halves):
    h = halves
    rows = [OffsetCommitRequestPartition(partition_index=p, committed_offset=1, committed_metadata="") for p in (0, 5)]
    rows[1].committed_metadata = "x" * 5_000
    topics = [OffsetCommitRequestTopic(name="a", partitions=rows)]
    message = OffsetCommitRequest(group_id="g", member_id="m1", generation_id_or_member_epoch=2, topics=topics)

    def errors():
        return [row.error_code for row in h.got(h.send(message, 9)).topics[0].partitions]

    assert errors() == [E.NONE, E.OFFSET_METADATA_TOO_LARGE], "nobody looks at whose a partition is then"
    rows[1].committed_metadata = ""
    assert errors() == [E.STALE_MEMBER_EPOCH] * 2


@rule("B113")
def test_transactions(halves):
    h = halves
    producer = (7, 0)

    def commit(member, epoch, **more):
        return h.commit_in_transaction(producer, member, epoch, topic="a", **more)

    assert commit("", -1) == E.NONE
    assert commit("m1", 3) == E.NONE
    assert commit("m1", 2) == E.NONE
    assert commit("m1", 2, partition=4) == E.ILLEGAL_GENERATION
    assert commit("m1", 4) == E.ILLEGAL_GENERATION
    assert commit("x", 3) == E.UNKNOWN_MEMBER_ID
    assert commit("", -1, instance="i") == E.UNKNOWN_MEMBER_ID
    assert h.commit_in_transaction(producer, "m1", 2, topic="nowhere", metadata="x" * 5_000) == E.ILLEGAL_GENERATION
    h.beat("m1", -1)
    h.beat("m2", -1)
    assert commit("m1", -1) == E.NONE
    h.end_transaction(producer, commit=True)
    assert h.fetch(topics={"a": [0]}) == {("a", 0): 42}


def fetched(h, member, epoch, v=9):
    asked = OffsetFetchRequestGroup(group_id="g", member_id=member, member_epoch=epoch, topics=None)
    return h.got(h.send(OffsetFetchRequest(groups=[asked]), v)).groups[0]


@rule("B113")
def test_fetching(halves):
    h = halves
    committed(h, "m1", 3)
    assert fetched(h, "m1", 3).topics[0].partitions[0].committed_offset == 42
    assert fetched(h, None, -1).error_code == E.NONE
    assert (fetched(h, "m1", 2).error_code, fetched(h, "m1", 2).topics) == (E.STALE_MEMBER_EPOCH, [])
    assert fetched(h, "x", 3).error_code == E.UNKNOWN_MEMBER_ID
    assert fetched(h, None, 3).error_code == E.UNKNOWN_MEMBER_ID
    assert h.got(h.send(OffsetFetchRequest(group_id="g"), 7)).error_code == E.NONE


def test_offsets_of_topics_in_use_stay_and_others_can_go(halves):
    h = halves
    committed(h, "m1", 3)
    committed(h, "m1", 3, topic="b")
    assert h.delete_offset("a", 0) == (E.NONE, E.GROUP_SUBSCRIBED_TO_TOPIC)
    assert h.delete_offset("b", 0) == (E.NONE, E.NONE)
    assert set(h.engine.offsets.of("g")) == {("a", 0)}


def test_offsets_expire_from_the_commit_on_if_nobody_subscribes():
    h = Consumers(offsets_retention_minutes=1, offsets_retention_check_interval_ms=20_000)
    h.take(h.runtime.loaded(now=h.now))
    h.beat("m1")
    h.commit("m1", 2, topic="a")
    h.commit("m1", 2, topic="b")
    for _ in range(6):
        h.sleep(10_000)
        h.beat("m1", 2)
    assert set(h.engine.offsets.of("g")) == {("a", 0)}
    h.beat("m1", -1)
    h.sleep(20_000)
    assert h.group() is None
    assert h.engine.offsets.of("g") == {}


def test_offsets_of_deleted_topics_are_deleted(halves):
    h = halves
    committed(h, "m1", 3)
    committed(h, "m1", 3, topic="b")
    h.commit_in_transaction((7, 0), topic="a", partition=1)
    h.topics({"b": 3})
    assert set(h.engine.offsets.of("g")) == {("b", 0)}
    assert h.engine.offsets.pending == {}
    h.topics({"b": 3}, turn=1)
    assert h.engine.offsets.of("g") == {}
