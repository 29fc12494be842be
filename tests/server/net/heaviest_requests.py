"""A script that sends the most expensive requests that fit the limits, one after the other, each to a new broker.
Prints one line of JSON: the slowest request's CPU time in s, and by how many MiB memory has grown over all of them."""

import json
import resource
import sys
import time

from kgm.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kgm.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kgm.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kgm.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.wire import encode_request
from tests.server.broker_driver import Driver


def requests(n):
    """Requests with `n` entries each, of the smallest and of other kinds."""
    names = [f"n{i}" for i in range(n)]
    yield FindCoordinatorRequest(coordinator_keys=[""] * n)
    yield DescribeGroupsRequest(groups=[""] * n)
    yield DescribeGroupsRequest(groups=names)
    yield DeleteGroupsRequest(groups_names=names)
    yield LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=name) for name in names])
    topics = [OffsetFetchRequestTopics(topic_id=bytes(16), partition_indexes=list(range(n - 2)))]
    yield OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    rows = [OffsetCommitRequestPartition(partition_index=i) for i in range(n - 1)]
    yield OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(topic_id=bytes(16), partitions=rows)])
    yield CreateTopicsRequest(topics=[CreatableTopic(name=x, num_partitions=1, replication_factor=1) for x in names])
    yield CreateTopicsRequest(topics=[CreatableTopic(name="", num_partitions=20_000) for _ in names])
    yield CreateTopicsRequest(topics=[CreatableTopic(name="big", num_partitions=20_000, replication_factor=1)])
    yield MetadataRequest(topics=[MetadataRequestTopic(name=x) for x in names])
    yield ListOffsetsRequest(
        topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=1)] * (n - 1))]
    )
    yield FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(partition=1)] * (n - 1))])
    parts = [PartitionProduceData(index=1)] * (n - 1)
    yield ProduceRequest(acks=1, transactional_id=None, topic_data=[TopicProduceData(partition_data=parts)])
    yield JoinGroupRequest(
        group_id="g",
        group_instance_id="i",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=x) for x in names],
    )
    assignments = [SyncGroupRequestAssignment(member_id=x) for x in names]
    yield SyncGroupRequest(group_id="g", protocol_type="consumer", protocol_name="r", assignments=assignments)


def main():
    for message in requests(3):  # compiles every codec
        Driver().send(message)
    frames = []
    for n in (30_000, 1_000_000 // 24):
        for message in requests(n):
            frame = encode_request(message, version=message.MAX_VERSION, correlation_id=1, client_id=None)
            frames.append(frame[: 2**20])  # longer frames are truncated
    del message
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    slowest, which = 0.0, ""
    for frame in frames:
        driver = Driver()
        begun = time.process_time()
        driver.frame(frame)
        taken = time.process_time() - begun
        if taken > slowest:
            slowest, which = taken, f"API key {int.from_bytes(frame[:2], 'big')}, {len(frame)} bytes"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    sys.stdout.write(json.dumps({"slowest_s": slowest, "which": which, "grown_mib": grown}) + "\n")


if __name__ == "__main__":
    main()
