"""Random histories of streams groups (KIP-1071), in lockstep with Apache Kafka's own coordinator (4.3.0) in a JVM.

`--long` and `--seed` are as in `test_classic_histories`."""

from collections import Counter

import pytest

pytest.register_assert_rewrite("tests.coordinator.lockstep.driver")

from tests.coordinator.lockstep.streams_histories import StreamsWalk  # noqa: E402
from tests.coordinator.lockstep.test_classic_histories import COUNTS, FIRST, OPERATIONS, PATIENCE, report  # noqa: E402
from tests.kafka.jars import KAFKA_VERSION  # noqa: E402

#: What at least one of the histories must have come upon.
PLACES = {
    f"{request} {answer}"
    for request, answers in {
        "StreamsGroupHeartbeatRequest": "NONE FENCED_MEMBER_EPOCH GROUP_ID_NOT_FOUND GROUP_MAX_SIZE_REACHED "
        "INVALID_REQUEST UNKNOWN_MEMBER_ID STREAMS_INVALID_TOPOLOGY UNKNOWN_SERVER_ERROR NOT_COORDINATOR",
        "StreamsGroupDescribeRequest": "NONE GROUP_ID_NOT_FOUND INVALID_GROUP_ID",
        "JoinGroupRequest": "NONE INCONSISTENT_GROUP_PROTOCOL",
        "OffsetCommitRequest": "NONE STALE_MEMBER_EPOCH UNKNOWN_MEMBER_ID UNSUPPORTED_VERSION",
        "TxnOffsetCommitRequest": "NONE ILLEGAL_GENERATION UNKNOWN_MEMBER_ID",
        "OffsetFetchRequest": "NONE STALE_MEMBER_EPOCH UNKNOWN_MEMBER_ID",
        "OffsetDeleteRequest": "NONE GROUP_ID_NOT_FOUND GROUP_SUBSCRIBED_TO_TOPIC",
        "DeleteGroupsRequest": "NONE GROUP_ID_NOT_FOUND NON_EMPTY_GROUP",
        "streams group": "Empty NotReady Assigning Reconciling Stable",
        "streams member": "STABLE UNREVOKED_TASKS UNRELEASED_TASKS",
        "standby": "task",
        "status": "0 1 2 3 4 5",
        "SESSION": "writes",
        "REBALANCE": "writes",
        "INITIAL_DELAY": "writes",
        "OFFSET_EXPIRATION": "writes",
    }.items()
    for answer in answers.split()
} | {"endpoints"}


@pytest.fixture(scope="module")
def kafka(kafkas):
    return kafkas(KAFKA_VERSION)


def history(kafka, seed, operations=OPERATIONS):
    return StreamsWalk(kafka, seed).history(operations)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize(("operations", "count"), COUNTS.items())
def test_random_histories_of_streams_groups_are_kafkas(kafka, operations, count):
    """Whatever the history, our coordinator does what Kafka's does."""
    seen = Counter()
    for seed in range(FIRST, FIRST + count):
        step, difference = history(kafka, seed, operations)
        assert difference is None, report(kafka, seed, step, difference)
        assert len(step.deeds) >= operations
        seen += step.seen
    # Enough walks have been to the places that matter.
    assert count < 1_000 or {place for place in PLACES if not seen[place]} == set(), seen
