"""Offsets: behaviours B081-B084 and B087 of Apache Kafka 4.3.0 (OffsetMetadataManagerTest, ClassicGroupTest)."""

import pytest

from kgm.coordinator.groups.classic_group import topics_in
from kgm.coordinator.offsets.store import CommittedOffset
from kgm.model.errors import ErrorCode as E
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kgm.protocol.subscription import Subscription, encode_subscription
from tests.coordinator.behaviours import rule
from tests.coordinator.harness import SESSION_MS, Harness, subscription

DAY_MS = 86_400_000


@pytest.fixture
def h():
    return Harness()


@rule("B081")
@pytest.mark.parametrize(
    ("v", "error"), [(2, E.ILLEGAL_GENERATION), (8, E.ILLEGAL_GENERATION), (9, E.GROUP_ID_NOT_FOUND)]
)
def test_commit_to_an_unknown_group_as_a_member(h, v, error):
    assert h.commit("m", 5, v=v) == error
    assert h.engine.groups() == ()


@rule("B081")
def test_commit_checks(h):
    a, b = h.stable("a", dynamic=1)
    cases = {
        ("nobody", 1, None): E.UNKNOWN_MEMBER_ID,
        (a, 0, None): E.ILLEGAL_GENERATION,
        (a, 2, "a"): E.ILLEGAL_GENERATION,
        (a, -1, None): E.ILLEGAL_GENERATION,
        (b, 1, "nobody"): E.UNKNOWN_MEMBER_ID,
        (b, 1, "a"): E.FENCED_INSTANCE_ID,
        ("", -1, None): E.UNKNOWN_MEMBER_ID,
        ("", -1, "a"): E.FENCED_INSTANCE_ID,
        ("", 1, None): E.UNKNOWN_MEMBER_ID,
        (a, 1, "a"): E.NONE,
        (a, 1, None): E.NONE,
        (b, 1, None): E.NONE,
    }
    assert {case: h.commit(*case) for case in cases} == cases
    assert h.fetch() == {("orders", 0): 42}


@rule("B081")
def test_commit_by_state(h):
    (a,) = h.stable("a")
    ticket = h.join("", "b")
    assert h.commit(a, 1, "a") == E.NONE, "PreparingRebalance accepts"
    h.join(a, "a")
    assert h.got(ticket).generation_id == 2
    assert h.commit(a, 2, "a") == E.REBALANCE_IN_PROGRESS
    assert h.commit(a, 1, "a") == E.ILLEGAL_GENERATION


@rule("B081")
def test_commit_to_an_empty_group(h):
    (a,) = h.stable("a")
    h.leave((a, "a"))
    assert h.commit("", -1) == E.NONE
    assert h.commit("whoever", -1, "whatever") == E.NONE, "no ids are checked without a generation"
    assert h.commit(a, 2, "a") == E.UNKNOWN_MEMBER_ID


@rule("B081")
def test_commit_to_a_dead_group(h):
    (a,) = h.stable("a")
    h.take(h.runtime.unload(now=h.now))
    assert h.commit(a, 1) == E.COORDINATOR_NOT_AVAILABLE


@rule("B082")
def test_an_admin_commit_creates_a_simple_group(h):
    assert h.commit() == E.NONE
    group = h.engine.group("g")
    assert (group.state, group.protocol_type, group.generation, group.members) == ("Empty", None, 0, ())
    assert h.fetch() == {("orders", 0): 42}
    value = h.log[0].value
    assert (value.offset, value.commit_timestamp, value.expire_timestamp) == (42, h.now, -1)


@rule("B082")
def test_a_simple_group_can_become_a_real_one(h):
    h.commit()
    h.stable("a")
    assert h.fetch() == {("orders", 0): 42}


def test_a_commit_that_cannot_be_logged(h):
    h.fail_with = E.REQUEST_TIMED_OUT
    assert h.commit() == E.COORDINATOR_NOT_AVAILABLE
    assert (h.fetch(), h.engine.groups()) == ({}, ())


@pytest.mark.parametrize(
    ("metadata", "error"),
    [("x" * 10, E.NONE), ("x" * 11, E.OFFSET_METADATA_TOO_LARGE), ("é" * 10, E.NONE),
     ("\U0001f600" * 5, E.NONE), ("\U0001f600" * 6, E.OFFSET_METADATA_TOO_LARGE)],
)  # fmt: skip
def test_metadata_is_limited_in_utf16_units(metadata, error):
    h = Harness(offset_metadata_max_bytes=10)
    assert h.commit(metadata=metadata) == error
    assert len(h.log) == (0 if error else 1)


def test_offset_minus_one_is_stored(h):
    assert h.commit(offset=-1) == E.NONE
    assert len(h.log) == 1


def test_partitions_that_do_not_exist():
    h = Harness(topics={"orders": 2})
    assert h.commit(partition=2) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert h.commit(partition=-1) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert h.commit(topic="other") == E.UNKNOWN_TOPIC_OR_PARTITION
    # Nothing else is looked at when no partition exists.
    assert h.commit("nobody", 7, topic="other") == E.UNKNOWN_TOPIC_OR_PARTITION
    assert h.commit(partition=1) == E.NONE
    assert h.delete_offset("other") == (E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION)
    assert h.delete_offset(partition=1) == (E.NONE, E.NONE)


def by_id(h, v):
    commit = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(topic_id=b"t" * 16, partitions=[OffsetCommitRequestPartition(partition_index=3)])
        ],
    )
    return h.got(h.send(commit, v))


def test_v10_names_topics_by_id_and_none_is_known(h):
    topic = by_id(h, 10).topics[0]
    assert (topic.topic_id, [(p.partition_index, p.error_code) for p in topic.partitions]) == (
        b"t" * 16,
        [(3, E.UNKNOWN_TOPIC_ID)],
    )
    assert h.log == []
    h.commit()
    wanted = [OffsetFetchRequestTopics(topic_id=b"t" * 16, partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=topics) for topics in (wanted, None)]
    by_topic, everything = h.got(h.send(OffsetFetchRequest(groups=groups), 10)).groups
    row = by_topic.topics[0].partitions[0]
    assert (row.error_code, row.committed_offset, by_topic.topics[0].topic_id) == (E.UNKNOWN_TOPIC_ID, -1, b"t" * 16)
    assert everything.topics == []


# -- OffsetFetch


def test_fetch_of_what_is_there_and_what_is_not(h):
    h.commit(partition=1, offset=7, metadata="note")
    h.commit(partition=0, offset=5)
    h.commit(topic="other", offset=1)
    assert h.fetch() == {("orders", 0): 5, ("orders", 1): 7, ("other", 0): 1}
    assert h.fetch(topics={"orders": [1, 2]}) == {("orders", 1): 7, ("orders", 2): -1}
    assert h.fetch(group="unknown") == {}
    assert h.fetch(group="unknown", topics={"orders": [0]}) == {("orders", 0): -1}


@pytest.mark.parametrize("v", [1, 2, 7])
def test_fetch_of_one_group(h, v):
    h.commit(partition=1, offset=7, metadata="note")
    message = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1])]
    )
    reply = h.got(h.send(message, v))
    rows = reply.topics[0].partitions
    assert [(r.partition_index, r.committed_offset, r.metadata, r.committed_leader_epoch) for r in rows] == [
        (0, -1, "", -1),
        (1, 7, "note", -1),
    ]
    if v >= 2:
        every = h.got(h.send(OffsetFetchRequest(group_id="g", topics=None), v))
        assert [(t.name, [p.partition_index for p in t.partitions]) for t in every.topics] == [("orders", [1])]


def test_fetch_of_a_dead_group(h):
    h.commit()
    h.take(h.runtime.unload(now=h.now))
    assert (h.fetch(), h.fetch(topics={"orders": [0]})) == ({}, {("orders", 0): -1})


def test_fetch_of_many_groups_repeated_ones_too(h):
    h.commit()
    groups = [OffsetFetchRequestGroup(group_id=g, topics=None) for g in ("g", "none", "g")]
    reply = h.got(h.send(OffsetFetchRequest(groups=groups), 8))
    assert [(g.group_id, g.error_code, len(g.topics)) for g in reply.groups] == [
        ("g", 0, 1),
        ("none", 0, 0),
        ("g", 0, 1),
    ]


# -- OffsetDelete


@rule("B083")
def test_delete_of_offsets(h):
    assert h.delete_offset() == (E.GROUP_ID_NOT_FOUND, None)
    h.stable("a")
    h.commit("a-1", 1, topic="other")
    assert h.delete_offset("orders") == (E.NONE, E.GROUP_SUBSCRIBED_TO_TOPIC)
    assert h.delete_offset("other") == (E.NONE, E.NONE)
    assert h.fetch() == {}
    logged = len(h.log)
    assert h.delete_offset("other") == (E.NONE, E.NONE)
    assert len(h.log) == logged, "no tombstone for what is not there"


@rule("B083")
def test_delete_of_offsets_of_an_active_group_of_another_type(h):
    h.join(v=3, protocol_type="connect", protocols={"sessioned": b""})
    assert h.delete_offset() == (E.NON_EMPTY_GROUP, None)


@rule("B083")
def test_delete_of_offsets_of_an_empty_or_dead_group(h):
    h.stable("a")
    h.commit("a-1", 1)
    h.leave(("", "a"))
    assert h.delete_offset() == (E.NONE, E.NONE)
    h.take(h.runtime.unload(now=h.now))
    assert h.delete_offset() == (E.GROUP_ID_NOT_FOUND, None)


@rule("B083")
def test_a_delete_that_cannot_be_appended(h):
    h.commit()
    h.fail_with = E.NOT_ENOUGH_REPLICAS
    assert h.delete_offset() == (E.COORDINATOR_NOT_AVAILABLE, None)
    assert h.fetch() == {("orders", 0): 42}


# -- B084: expiry


@rule("B084")
def test_an_empty_group_keeps_its_offsets_since_it_became_empty(h):
    h.stable("a")
    h.commit("a-1", 1)
    h.sleep(SESSION_MS - 1)
    h.heartbeat("a-1", 1)
    h.sleep(SESSION_MS)
    assert h.state() == "Empty"
    emptied = h.now
    other = h.reload()
    other.sleep(7 * DAY_MS - 600_000)
    assert other.state() == "Empty"
    other.sleep(600_000 - (other.now - emptied) % 600_000 + 600_000)
    assert other.engine.groups() == ()
    assert other.fetch() == {}
    assert [record.value for record in other.log] == [None, None]


@rule("B084")
def test_a_simple_group_keeps_each_offset_since_its_commit(h):
    h.commit(partition=0)
    h.sleep(DAY_MS)
    h.commit(partition=1)
    other = h.reload()
    other.sleep(6 * DAY_MS + 600_000)
    assert other.fetch() == {("orders", 1): 42}
    other.sleep(DAY_MS)
    assert other.engine.groups() == ()


@rule("B084")
def test_offsets_without_a_subscriber_expire_in_a_stable_group_of_consumers(h):
    h.stable("a", session=1_800_000)
    h.commit("a-1", 1, topic="orders")
    h.commit("a-1", 1, topic="left-behind")
    other = h.reload(offsets_retention_minutes=10)
    other.sleep(1_200_000)
    assert other.state() == "Stable"
    assert other.fetch() == {("orders", 0): 42}


@rule("B084")
def test_other_groups_keep_their_offsets(h):
    (reply,) = h.until_answered(
        h.join(v=3, protocol_type="connect", protocols={"p": b""}, session=1_800_000, rebalance=1_800_000)
    )
    h.sync(reply.member_id, 1, {}, protocol_type="connect", protocol_name="p")
    h.commit(reply.member_id, 1)
    other = h.reload(offsets_retention_minutes=10)
    other.sleep(1_200_000)
    assert other.fetch() == {("orders", 0): 42}


@rule("B084")
def test_old_clients_request_a_retention(h):
    h.commit(v=4, retention=1_000, partition=0)
    h.commit(partition=1)
    assert h.log[0].value.expire_timestamp == h.now + 1_000
    other = h.reload()
    other.sleep(600_000)
    assert other.fetch() == {("orders", 1): 42}


@rule("B084")
def test_nothing_expires_while_the_tombstones_cannot_be_appended(h):
    h.commit()
    other = h.reload(offsets_retention_minutes=10)
    other.fail_with = E.NOT_ENOUGH_REPLICAS
    other.sleep(1_800_000)
    assert other.fetch() == {("orders", 0): 42}
    other.fail_with = None
    other.sleep(600_000)
    assert other.engine.groups() == ()


def test_committed_offsets_are_replayed_with_all_they_have(h):
    h.commit(v=4, retention=1_000, metadata="m", offset=3)
    assert h.engine.offsets.of("g") == {
        ("orders", 0): CommittedOffset(
            offset=3, metadata="m", commit_timestamp_ms=h.now, expire_timestamp_ms=h.now + 1_000
        )
    }


# -- B087: subscribed topics


@rule("B087")
def test_topics_are_read_by_the_common_prefix():
    newest = encode_subscription(
        Subscription(topics=("b", "c"), owned_partitions={"b": [0]}, generation_id=3, rack_id="r")
    )
    garbled_tail = subscription("d") + b"\xff\xff\xff"
    assert topics_in([subscription("a"), newest, garbled_tail]) == {"a", "b", "c", "d"}
    assert topics_in([]) == frozenset()


@rule("B087")
@pytest.mark.parametrize("blob", [b"", b"x", b"\x00\x00", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\xff\xff\xff\xff"])
def test_unreadable_metadata_counts_as_subscribed_to_everything(h, blob):
    assert topics_in([subscription("a"), blob]) is None
    (a,) = h.stable("a", protocols={"range": blob})
    assert h.commit(a, 1, topic="anything") == E.NONE
    assert h.delete_offset("anything") == (E.NONE, E.GROUP_SUBSCRIBED_TO_TOPIC)
