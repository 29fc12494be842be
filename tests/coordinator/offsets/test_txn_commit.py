"""TxnOffsetCommit, pending offsets, and markers, after Kafka's OffsetMetadataManagerTest (names in brackets)."""

import pytest

from kgm.coordinator.contract.error_responses import refusal
from kgm.coordinator.contract.outcome import Outcome, Producer, Request, Ticket
from kgm.coordinator.runtime import AppendError
from kgm.model.errors import ErrorCode as E
from kgm.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kgm.records.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from kgm.records.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from kgm.records.record import Record
from tests.coordinator.harness import Harness, compacted

P, Q = (100, 1), (200, 0)
AT = ("orders", 0)


@pytest.fixture
def h():
    return Harness()


def committed(h, group="g"):
    return {at: row.offset for at, row in h.engine.offsets.of(group).items()}


def unstable(h, group="g"):
    return {at: set(producers) for at, producers in h.engine.offsets.unstable_of(group).items()}


def in_preparing(h):
    ids = h.stable("a", "b")
    h.join(ids[0], "a")
    assert h.state() == "PreparingRebalance"
    return ids[0]


# -- who may commit in a transaction


@pytest.mark.parametrize("v", range(6))
def test_without_a_group_one_comes_into_being(h, v):
    """[testSimpleGroupTransactionalOffsetCommit]: simple, as with OffsetCommit, whatever becomes of the transaction."""
    assert h.commit_in_transaction(P, v=v) == E.NONE
    assert (h.state(), h.engine.group("g").protocol_type) == ("Empty", None)
    assert committed(h) == {}
    h.end_transaction(P, commit=False)
    assert (h.state(), committed(h)) == ("Empty", {})


def test_without_a_group_a_generation_is_refused(h):
    """At every version: TxnOffsetCommit has no GROUP_ID_NOT_FOUND. [testTransactionalOffsetCommitWithUnknownGroup]"""
    assert [h.commit_in_transaction(P, "m", 3, v=v) for v in (3, 4, 5)] == [E.ILLEGAL_GENERATION] * 3
    assert h.engine.group("g") is None


def test_an_empty_group_id_is_refused(h):
    """Other than for OffsetCommit, which takes it for a group like any other."""
    assert h.commit_in_transaction(P, group="") == E.INVALID_GROUP_ID
    assert h.commit(group="") == E.NONE


@pytest.mark.parametrize("v", range(6))
@pytest.mark.parametrize("bring", [lambda h: h.stable("a"), in_preparing, lambda h: h.completing("a")[0]])
def test_who_says_nothing_of_a_member_is_let_through_in_every_state(h, bring, v):
    """As v0-2 always do; an OffsetCommit like that is refused. [testGenericGroupTransactionalOffsetCommit*]"""
    bring(h)
    assert h.commit() == E.UNKNOWN_MEMBER_ID
    assert h.commit_in_transaction(P, v=v) == E.NONE


def test_who_names_a_member_has_to_be_it(h):
    """[testGenericGroupTransactionalOffsetCommitWithUnknownMemberId, ...IllegalGeneration, ...FencedInstanceId]"""
    static, dynamic = h.stable("a", dynamic=1)
    generation = h.generation()
    assert h.commit_in_transaction(P, static, generation, "a") == E.NONE
    assert h.commit_in_transaction(P, static, generation) == E.NONE
    assert h.commit_in_transaction(P, dynamic, generation) == E.NONE
    assert h.commit_in_transaction(P, "stranger", generation) == E.UNKNOWN_MEMBER_ID
    assert h.commit_in_transaction(P, "", generation) == E.UNKNOWN_MEMBER_ID
    assert h.commit_in_transaction(P, static, generation, "z") == E.UNKNOWN_MEMBER_ID
    assert h.commit_in_transaction(P, dynamic, generation, "a") == E.FENCED_INSTANCE_ID
    assert h.commit_in_transaction(P, static, generation - 1, "a") == E.ILLEGAL_GENERATION
    assert h.commit_in_transaction(P, static, generation + 1, "a") == E.ILLEGAL_GENERATION
    assert h.commit_in_transaction(P, static, -1, "a") == E.ILLEGAL_GENERATION
    assert h.commit_in_transaction(P, "", -1, "a") == E.FENCED_INSTANCE_ID


def test_who_was_fenced_commits_nothing(h):
    (old,) = h.stable("a")
    h.join("", "a")
    assert h.commit_in_transaction(P, old, h.generation(), "a") == E.FENCED_INSTANCE_ID
    assert h.commit_in_transaction(P, old, h.generation()) == E.UNKNOWN_MEMBER_ID
    assert (committed(h), unstable(h)) == ({}, {})


def test_a_sync_phase_does_not_stand_in_the_way(h):
    """Where an OffsetCommit is told REBALANCE_IN_PROGRESS."""
    (member,) = h.completing("a")
    assert h.commit(member, h.generation(), "a") == E.REBALANCE_IN_PROGRESS
    assert h.commit_in_transaction(P, member, h.generation(), "a") == E.NONE


def test_an_empty_group_looks_at_the_generation_only(h):
    (member,) = h.stable("a")
    h.leave((member, None))
    assert h.commit_in_transaction(P, member, -1, "a") == E.NONE
    assert h.commit_in_transaction(P, member, h.generation(), "a") == E.UNKNOWN_MEMBER_ID


def test_a_dead_group(h):
    h.stable("a")
    h.take(h.runtime.unload(now=h.now))
    assert h.commit_in_transaction(P) == E.COORDINATOR_NOT_AVAILABLE


def test_it_is_no_sign_of_life(h):
    (member,) = h.stable("a", session=10_000)
    h.sleep(9_000)
    assert h.commit_in_transaction(P, member, h.generation(), "a") == E.NONE
    h.sleep(1_000)
    assert h.state() == "Empty"


def test_metadata_that_is_too_long_refuses_its_partition_only(h):
    """[testConsumerGroupTransactionalOffsetCommit..., OFFSET_METADATA_TOO_LARGE]"""
    rows = [
        TxnOffsetCommitRequestPartition(partition_index=n, committed_metadata=metadata)
        for n, metadata in enumerate(["", "x" * 4_097, None])
    ]
    topics = [TxnOffsetCommitRequestTopic(name="orders", partitions=rows)]
    message = TxnOffsetCommitRequest(group_id="g", producer_id=P[0], producer_epoch=P[1], topics=topics)
    reply = h.got(h.send(message, 5))
    assert [row.error_code for row in reply.topics[0].partitions] == [E.NONE, E.OFFSET_METADATA_TOO_LARGE, E.NONE]
    assert unstable(h) == {("orders", 0): {P[0]}, ("orders", 2): {P[0]}}


def test_partitions_that_do_not_exist_are_refused_before_the_group_is_looked_at():
    h = Harness(topics={"orders": 1})
    assert h.commit_in_transaction(P, partition=1) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert h.commit_in_transaction(P, "m", 7, topic="ghost") == E.UNKNOWN_TOPIC_OR_PARTITION
    assert h.engine.group("g") is None
    assert h.commit_in_transaction(P, "m", 7) == E.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("v", "error", "told"),
    [
        (1, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE),
        (2, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_LOAD_IN_PROGRESS),
        (0, E.NOT_COORDINATOR, E.NOT_COORDINATOR),
    ],
)
def test_old_producers_are_not_told_of_loading(v, error, told):
    """KAFKA-7296"""
    topics = [TxnOffsetCommitRequestTopic(name="orders", partitions=[TxnOffsetCommitRequestPartition()])]
    message = TxnOffsetCommitRequest(group_id="g", topics=topics)
    assert refusal(Request(message=message, version=v), error).topics[0].partitions[0].error_code == told


# -- how it is written


def test_the_records_belong_to_the_producer(h):
    assert h.engine.handle(
        Request(message=TxnOffsetCommitRequest(group_id="g"), version=0), ticket=Ticket(1), now=h.now
    ) == Outcome(replies=h.runtime.handle(
        Request(message=TxnOffsetCommitRequest(group_id="g"), version=0), ticket=Ticket(1), now=h.now
    ), producer=Producer(0, 0))  # fmt: skip
    h.commit_in_transaction(P)
    h.commit()
    assert [producer for _, producer in h.entries] == [P, None]


def test_a_record_is_replayed_with_the_producer_that_wrote_it(h):
    topics = [TxnOffsetCommitRequestTopic(name="orders", partitions=[TxnOffsetCommitRequestPartition()])]
    message = TxnOffsetCommitRequest(group_id="g", producer_id=P[0], producer_epoch=P[1], topics=topics)
    outcome = h.engine.handle(Request(message=message, version=0), ticket=Ticket(1), now=h.now)
    with pytest.raises(AssertionError):
        h.engine.replay(outcome.records[0])
    with pytest.raises(AssertionError):
        h.engine.replay_end_transaction(*P, commit=True)


def test_without_a_producer_id_it_is_a_commit_like_any_other(h):
    """[-1 is NO_PRODUCER_ID in Kafka's batches]"""
    assert h.commit_in_transaction((-1, -1)) == E.NONE
    assert committed(h) == {AT: 42}


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
        (E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH),
        (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        (E.NETWORK_EXCEPTION, E.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_what_the_log_refuses_is_pending_nowhere(h, failure, told):
    """The log (or the transaction coordinator, which a writer has to ask first) knows the producer's epoch."""
    h.fail_with = AppendError(failure)
    assert h.commit_in_transaction(P) == told
    assert (h.engine.group("g"), unstable(h), h.entries) == (None, {}, [])


# -- markers


def test_a_commit_marker_makes_pending_offsets_count(h):
    h.commit(offset=1)
    h.commit_in_transaction(P, offset=7)
    h.commit_in_transaction(P, partition=1, offset=8)
    assert committed(h) == {AT: 1}
    assert unstable(h) == {AT: {P[0]}, ("orders", 1): {P[0]}}
    h.end_transaction(P, commit=True)
    assert (committed(h), unstable(h)) == ({AT: 7, ("orders", 1): 8}, {})


def test_an_abort_marker_makes_them_forgotten(h):
    h.commit(offset=1)
    h.commit_in_transaction(P, offset=7)
    h.end_transaction(P, commit=False)
    assert (committed(h), unstable(h)) == ({AT: 1}, {})


def test_a_marker_is_for_its_producer_only_and_for_what_was_written_before_it(h):
    h.commit_in_transaction(P, offset=1)
    h.commit_in_transaction(Q, offset=2)
    h.end_transaction(Q, commit=True)
    assert (committed(h), unstable(h)) == ({AT: 2}, {AT: {P[0]}})
    h.commit_in_transaction(Q, offset=3)
    h.end_transaction(P, commit=False)
    assert (committed(h), unstable(h)) == ({AT: 2}, {AT: {Q[0]}})


def test_a_marker_for_nothing_means_nothing(h):
    h.end_transaction(P, commit=True)
    h.stable("a")
    h.end_transaction(P, commit=True)
    assert (committed(h), h.state()) == ({}, "Stable")


def test_the_newest_in_the_log_counts_not_the_last_to_be_committed(h):
    """[testReplayTransactionEndMarkerKeepsTheMostRecentCommittedOffset]"""
    h.commit_in_transaction(P, offset=1)
    h.commit(offset=2)
    h.end_transaction(P, commit=True)
    assert committed(h) == {AT: 2}
    h.commit(offset=3)
    h.commit_in_transaction(P, offset=4)
    h.end_transaction(P, commit=True)
    assert committed(h) == {AT: 4}


def test_of_two_transactions_the_newest_record_counts(h):
    h.commit_in_transaction(P, offset=1)
    h.commit_in_transaction(Q, offset=2)
    h.end_transaction(Q, commit=True)
    h.end_transaction(P, commit=True)
    assert committed(h) == {AT: 2}


def test_one_transaction_may_be_for_several_groups_and_write_a_partition_twice(h):
    h.commit_in_transaction(P, offset=1)
    h.commit_in_transaction(P, offset=2)
    h.commit_in_transaction(P, group="other", offset=3)
    h.end_transaction(P, commit=True)
    assert (committed(h), committed(h, "other")) == ({AT: 2}, {AT: 3})


def test_an_old_record_may_be_part_of_a_transaction(h):
    key = LegacyOffsetCommitKey(group="g", topic="orders", partition=0)
    h.engine.replay(Record(key, LegacyOffsetCommitValue(offset=5, metadata="", commit_timestamp=1)), P)
    assert unstable(h) == {AT: {P[0]}}
    h.engine.replay_end_transaction(*P, commit=True)
    assert committed(h) == {AT: 5}


# -- what others see


def test_require_stable_waits_for_the_end_of_transactions(h):
    """[testFetchOffsetsWithPendingTransactionalOffsets]"""
    h.commit(offset=1)
    h.commit_in_transaction(P, offset=2)
    assert [h.fetch_stable(v=v) for v in (8, 9)] == [(E.UNSTABLE_OFFSET_COMMIT, -1)] * 2
    assert h.fetch_stable(1) == (E.NONE, -1)
    assert h.fetch(topics={"orders": [0]}) == {AT: 1}
    h.end_transaction(P, commit=True)
    assert h.fetch_stable() == (E.NONE, 2)


def test_all_offsets_are_those_that_were_committed_once(h):
    """[testFetchAllOffsetsWithPendingTransactionalOffsets]"""
    h.commit_in_transaction(P, partition=1)
    assert h.fetch() == {}
    h.commit(offset=1)
    assert h.fetch() == {AT: 1}


def test_other_groups_are_stable(h):
    h.commit(offset=1, group="other")
    h.commit_in_transaction(P)
    assert h.fetch_stable(group="other") == (E.NONE, 1)


# -- deletion and expiry


def test_deleting_an_offset_takes_the_pending_ones_along(h):
    """[testOffsetDeletionsSensor / testDeleteOffsetsWithPendingTransactionalOffsets]: also where none was committed."""
    h.commit(offset=1)
    h.commit_in_transaction(P, offset=2)
    h.commit_in_transaction(P, partition=1, offset=3)
    h.commit_in_transaction(Q, partition=1, offset=4)
    assert h.delete_offset(partition=0) == (E.NONE, E.NONE)
    assert h.delete_offset(partition=1) == (E.NONE, E.NONE)
    assert (committed(h), unstable(h)) == ({}, {})
    h.end_transaction(P, commit=True)
    h.end_transaction(Q, commit=True)
    assert committed(h) == {}


def test_deleting_a_group_takes_the_pending_offsets_along(h):
    """[testDeleteGroupAllOffsetsWithPendingTransactionalOffsets]: one tombstone for each partition."""
    h.commit(offset=1)
    h.commit_in_transaction(P, offset=2)
    h.commit_in_transaction(Q, partition=1, offset=3)
    before = len(h.log)
    assert h.delete("g") == {"g": E.NONE}
    assert [(type(r.key).__name__, getattr(r.key, "partition", None), r.value) for r in h.log[before:]] == [
        ("OffsetCommitKey", 0, None),
        ("OffsetCommitKey", 1, None),
        ("GroupMetadataKey", None, None),
    ]
    h.end_transaction(P, commit=True)
    h.end_transaction(Q, commit=True)
    assert (h.engine.group("g"), committed(h)) == (None, {})


def test_unstable_offsets_do_not_expire_and_keep_their_group():
    """[testCleanupExpiredOffsetsWithPendingTransactionalOffsets(Only)]"""
    h = Harness(offsets_retention_minutes=1, offsets_retention_check_interval_ms=60_000)
    h.take(h.runtime.loaded(now=h.now))
    h.commit(offset=1)
    h.commit(partition=1, offset=2)
    h.commit_in_transaction(P, offset=3)
    h.commit_in_transaction(P, group="other", offset=4)
    h.sleep(120_000)
    assert committed(h) == {AT: 1}
    h.end_transaction(P, commit=False)
    h.sleep(60_000)
    assert (h.engine.group("g"), h.engine.group("other")) == (None, None)


# -- forks and logs


def test_a_fork_has_its_own_transactions(h):
    h.commit_in_transaction(P, offset=1)
    twin = h.engine.fork()
    twin.replay_end_transaction(*P, commit=True)
    assert (committed(h), unstable(h)) == ({}, {AT: {P[0]}})
    assert twin.offsets.of("g")[AT].offset == 1
    h.end_transaction(P, commit=False)
    assert twin.offsets.of("g")[AT].offset == 1


def test_a_log_with_transactions_makes_the_same_offsets(h):
    h.commit(offset=1)
    h.commit_in_transaction(P, offset=2)
    h.commit_in_transaction(Q, partition=1, offset=3)
    h.end_transaction(Q, commit=True)
    h.commit_in_transaction(Q, partition=1, offset=4)
    h.end_transaction(Q, commit=False)
    again = h.reload()
    assert again.engine.offsets == h.engine.offsets
    assert again.fetch_stable() == (E.UNSTABLE_OFFSET_COMMIT, -1)
    h.end_transaction(P, commit=True)
    h.entries = compacted(h.entries)
    assert len(h.entries) == 5  # two offsets, three markers
    assert h.reload().engine.offsets == h.engine.offsets
