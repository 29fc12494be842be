"""Random histories of consumer groups (KIP-848), in lockstep with Apache Kafka's own coordinator (4.3.0) in a JVM.

`--long` and `--seed` are as in `test_classic_histories`. Every third history is one of members of the new protocol only, the
others mix the protocols. A history depends on its seed alone, member ids and the order of hash maps included."""

import random
from collections import Counter

import pytest

from kgm.coordinator.consumer import target
from kgm.coordinator.groups.consumer_member import AWAY
from kgm.java.hash_map import DEFAULT_CAPACITY, first_in_map
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

pytest.register_assert_rewrite("tests.coordinator.lockstep.driver")

from tests.coordinator.lockstep.consumer_histories import ConsumerWalk, joining, topic_id  # noqa: E402
from tests.coordinator.lockstep.driver import Lockstep  # noqa: E402
from tests.coordinator.lockstep.test_classic_histories import COUNTS, FIRST, OPERATIONS, PATIENCE, report  # noqa: E402
from tests.kafka.jars import KAFKA_VERSION  # noqa: E402

#: What at least one of the histories must have come upon: "request answer", states, and what timers did.
PLACES = {
    f"{request} {answer}"
    for request, answers in {
        "ConsumerGroupHeartbeatRequest": "NONE FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH GROUP_ID_NOT_FOUND "
        "GROUP_MAX_SIZE_REACHED INVALID_REGULAR_EXPRESSION INVALID_REQUEST UNKNOWN_MEMBER_ID UNRELEASED_INSTANCE_ID "
        "UNSUPPORTED_ASSIGNOR COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR",
        "ConsumerGroupDescribeRequest": "NONE GROUP_ID_NOT_FOUND INVALID_GROUP_ID",
        "JoinGroupRequest": "NONE MEMBER_ID_REQUIRED FENCED_INSTANCE_ID GROUP_MAX_SIZE_REACHED UNKNOWN_MEMBER_ID "
        "INCONSISTENT_GROUP_PROTOCOL REBALANCE_IN_PROGRESS",
        "SyncGroupRequest": "NONE REBALANCE_IN_PROGRESS UNKNOWN_MEMBER_ID INCONSISTENT_GROUP_PROTOCOL",
        "HeartbeatRequest": "NONE REBALANCE_IN_PROGRESS FENCED_INSTANCE_ID ILLEGAL_GENERATION UNKNOWN_MEMBER_ID",
        "LeaveGroupRequest": "NONE FENCED_INSTANCE_ID UNKNOWN_MEMBER_ID",
        "OffsetCommitRequest": "NONE STALE_MEMBER_EPOCH ILLEGAL_GENERATION UNKNOWN_MEMBER_ID UNSUPPORTED_VERSION "
        "OFFSET_METADATA_TOO_LARGE",
        "TxnOffsetCommitRequest": "NONE ILLEGAL_GENERATION UNKNOWN_MEMBER_ID",
        "OffsetFetchRequest": "NONE STALE_MEMBER_EPOCH ILLEGAL_GENERATION UNKNOWN_MEMBER_ID UNSTABLE_OFFSET_COMMIT",
        "OffsetDeleteRequest": "NONE GROUP_ID_NOT_FOUND GROUP_SUBSCRIBED_TO_TOPIC",
        "DeleteGroupsRequest": "NONE GROUP_ID_NOT_FOUND NON_EMPTY_GROUP",
        "consumer group": "Empty Assigning Reconciling Stable",
        "member": "STABLE UNREVOKED_PARTITIONS UNRELEASED_PARTITIONS away",
        "upgrade": "live empty",
        "downgrade": "live empty",
        "mixed": "group",
        "SESSION": "writes",
        "REBALANCE": "writes",
        "MEMBER_JOIN": "writes",
        "MEMBER_SYNC": "writes",
        "REGEX": "writes",
        "OFFSET_EXPIRATION": "writes",
    }.items()
    for answer in answers.split()
}


@pytest.fixture(scope="module")
def kafka(kafkas):
    return kafkas(KAFKA_VERSION)


def history(kafka, seed, operations=OPERATIONS):
    return ConsumerWalk(kafka, seed, mixed=seed % 3 != 0).history(operations)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize(("operations", "count"), COUNTS.items())
def test_random_histories_of_consumer_groups_are_kafkas(kafka, monkeypatch, operations, count):
    """Whatever the history, our coordinator does what Kafka's does; in every other one it keeps a tally of targets, which
    it does for larger groups only."""
    seen = Counter()
    for seed in range(FIRST, FIRST + count):
        monkeypatch.setattr(target, "TALLIED_FROM", 1 if seed % 2 else 10**9)
        step, difference = history(kafka, seed, operations)
        assert difference is None, report(kafka, seed, step, difference)
        assert len(step.deeds) >= operations
        seen += step.seen
    # Enough walks have been to the places that matter.
    assert count < 1_000 or {place for place in PLACES if not seen[place]} == set(), seen


@pytest.mark.slow
@pytest.mark.kafka
def test_a_member_is_replaced_where_the_map_of_members_is_full(kafka):
    """Twelve members fill a map of 16 buckets: whether it grows depends on which of the two goes first."""
    firsts = Counter()
    for seed in range(20):
        step = Lockstep(kafka, seed=seed, group_consumer_assignment_interval_ms=0)
        step.topics({name: (topic_id(name, seed), 40) for name in ("orders", "payments")}, racks=False)
        draw = random.Random(seed)
        *ids, away, new = (draw.randbytes(11).hex() for _ in range(13))
        for member_id in [*ids, away]:
            step.request(joining(member_id, "a" if member_id == away else None, subscribed_topic_names=["orders"]), 1)
        step.request(ConsumerGroupHeartbeatRequest(group_id="g", member_id=away, instance_id="a", member_epoch=AWAY), 1)
        step.request(joining(new, "a", subscribed_topic_names=["orders", "payments"]), 1)
        firsts[first_in_map([new, away], DEFAULT_CAPACITY) == new] += 1
    assert min(firsts[True], firsts[False]) > 3
