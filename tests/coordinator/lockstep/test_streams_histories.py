"""Random histories of streams groups (KIP-1071), in lockstep with Apache Kafka's own coordinator (4.3.0) in a JVM.

`--long` and `--seed` are as in `test_classic_histories`."""

from collections import Counter

import pytest

pytest.register_assert_rewrite("tests.coordinator.lockstep.driver")

from kgm.model.errors import ErrorCode  # noqa: E402
from kgm.protocol.messages.offset_commit_request import (  # noqa: E402
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.streams_group_heartbeat_request import (  # noqa: E402
    Endpoint,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.coordinator.lockstep.consumer_histories import topic_id  # noqa: E402
from tests.coordinator.lockstep.driver import Lockstep  # noqa: E402
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


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("version", ["4.2.0", "4.3.0"])
def test_a_failed_append_takes_back_what_another_group_had_found_out(kafkas, version):
    """Topics that no longer fit fail a member with an endpoint, so nothing is written. Then the offsets of another group
    cannot be appended, and Kafka goes back to its last record, from before the topics were looked at. The epoch for which
    they were looked at comes when a member leaves; then one may join as if they still fitted."""
    step = Lockstep(kafkas(version), group_streams_initial_rebalance_delay_ms=0, group_streams_assignment_interval_ms=0)
    changelog = {"store": (topic_id("store", 0), 3)}
    step.topics({"orders": (topic_id("orders", 0), 3)} | changelog)
    row = Subtopology(subtopology_id="0", source_topics=["orders"], state_changelog_topics=[TopicInfo(name="store")])

    def join(member_id):
        message = StreamsGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=0, rebalance_timeout_ms=5_000, process_id=member_id,
            topology=Topology(subtopologies=[row]), user_endpoint=Endpoint(host=member_id, port=1),
            active_tasks=[], standby_tasks=[], warmup_tasks=[], endpoint_information_epoch=-1,
        )  # fmt: skip
        return step.answers[step.request(message, 0)][1].error_code

    assert [join("m"), join("l")] == [ErrorCode.NONE] * 2
    step.topics({"orders": (topic_id("orders", 0), 5)} | changelog)
    assert join("m") == ErrorCode.UNKNOWN_SERVER_ERROR
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[offset])]
    step.request(OffsetCommitRequest(group_id="h", topics=topics), 8, fail=ErrorCode.REQUEST_TIMED_OUT)
    step.request(StreamsGroupHeartbeatRequest(group_id="g", member_id="l", member_epoch=-1), 0)
    assert join("n") == ErrorCode.NONE
