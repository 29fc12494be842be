"""OffsetCommit and OffsetFetch without sockets."""

from copy import copy

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kgm.server.cluster.topics import topic_id
from kgm.server.contract.exchange import CloseConnection, ResponseFrame
from kgm.server.contract.limits import Limits
from tests.server.broker_driver import Driver
from tests.server.group_requests import commit

UNKNOWN_ID = b"\x11" * 16


def fetched(driver, group, topics, version):
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    rows = driver.ask(request, version=version).groups[0].topics
    return [
        (r.name if version < 10 else r.topic_id, p.partition_index, p.committed_offset, p.error_code)
        for r in rows
        for p in r.partitions
    ]


def test_offsets_are_committed_and_fetched_by_name():
    driver = Driver()
    assert driver.ask(commit("g", name="t"), version=9).topics[0].partitions[0].error_code == 0
    wanted = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
    assert fetched(driver, "g", wanted, 9) == [("t", 0, 5, 0), ("t", 1, -1, 0)]
    assert fetched(driver, "g", None, 9) == [("t", 0, 5, 0)]


def test_offsets_are_committed_and_fetched_by_topic_id():
    driver = Driver()
    request = commit("g", topic_id=topic_id("t"))
    unknown = OffsetCommitRequestPartition(partition_index=4, committed_offset=1)
    request.topics.append(OffsetCommitRequestTopic(topic_id=UNKNOWN_ID, partitions=[unknown]))
    rows = driver.ask(request, version=10).topics
    assert [(r.topic_id, r.partitions[0].partition_index, r.partitions[0].error_code) for r in rows] == [
        (topic_id("t"), 0, 0),
        (UNKNOWN_ID, 4, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    wanted = [
        OffsetFetchRequestTopics(topic_id=UNKNOWN_ID, partition_indexes=[7]),
        OffsetFetchRequestTopics(topic_id=topic_id("t"), partition_indexes=[0, 1]),
    ]
    assert fetched(driver, "g", wanted, 10) == [
        (topic_id("t"), 0, 5, 0),
        (topic_id("t"), 1, -1, 0),
        (UNKNOWN_ID, 7, -1, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert fetched(driver, "g", None, 10) == [(topic_id("t"), 0, 5, 0)]
    assert fetched(driver, "g", None, 9) == [("t", 0, 5, 0)]


def test_offsets_of_partitions_that_do_not_exist_are_refused():
    driver = Driver()
    for request in (commit("g", name="nope"), commit("g", name="t", partition=3)):
        row = driver.ask(request, version=9).topics[0].partitions[0]
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_asking_for_all_offsets_many_times_is_bounded():
    driver = Driver(limits=Limits(max_items=10))
    driver.ask(commit("g", name="t"), version=9)
    groups = [OffsetFetchRequestGroup(group_id="g", topics=None) for _ in range(10)]
    assert isinstance(driver.events[driver.send(OffsetFetchRequest(groups=groups))], ResponseFrame)
    driver.ask(commit("g", name="t", partition=1), version=9)
    assert isinstance(driver.events[driver.send(OffsetFetchRequest(groups=groups))], CloseConnection)


def commit_many(group, count, *, size=1_000, first=0):
    request = commit(group, name="t")
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="m" * size)
    rows = [copy(row) for _ in range(count)]
    for number, row in enumerate(rows):
        row.partition_index = first + number
    request.topics[0].partitions = rows
    return request


def test_what_all_offsets_take_is_bounded_and_deleted_groups_make_room():
    """However many groups they are spread over; offsets that are committed again and again are counted once."""
    driver = Driver({"t": 1_000}, limits=Limits(committed_offsets_max_bytes=1_000_000))

    def errors(request):
        return {row.error_code for row in driver.ask(request, version=9).topics[0].partitions}

    for number in range(5):
        assert errors(commit_many(f"g{number}", 100)) == {0}
    for _ in range(20):
        assert errors(commit_many("g0", 100)) == {0}
    driver.advance(1_000)
    for number in (5, 6):
        assert errors(commit_many(f"g{number}", 100)) == {0}
    for number in range(3):
        assert errors(commit_many(f"h{number}", 100)) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert driver.cluster.shards.offset_bytes() == 700 * 1_400
    by_id = commit_many("h", 100)
    by_id.topics[0].name, by_id.topics[0].topic_id = "", topic_id("t")
    assert driver.ask(by_id, version=10).topics[0].partitions[0].error_code == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert errors(commit_many("small", 1, size=10)) == {0}
    assert driver.ask(DeleteGroupsRequest(groups_names=["g1"])).results[0].error_code == 0
    driver.advance(1_000)
    assert errors(commit_many("h", 50)) == {0}
