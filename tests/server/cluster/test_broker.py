"""The broker without its sockets: cluster APIs, refusals, and what reaches the coordinator."""

import struct

import pytest

from kgm.model.errors import ErrorCode
from kgm.protocol.apis import API, ApiKey, request_class
from kgm.protocol.messages.api_versions_request import ApiVersionsRequest
from kgm.protocol.messages.api_versions_response import ApiVersionsResponse
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kgm.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
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
from kgm.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kgm.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.wire import decode_response, encode_request
from kgm.server.cluster.topics import topic_id
from kgm.server.contract.exchange import CloseConnection, ResponseFrame
from kgm.server.contract.limits import Limits
from tests.server.broker_driver import Driver

UNKNOWN_ID = b"\x11" * 16
SERVED = {key: info for key, info in API.items() if key in Driver().broker._handlers}
EVERY_VERSION = [(key, v) for key, info in SERVED.items() for v in range(info.min_version, info.max_version + 1)]


def api_versions():
    return ApiVersionsRequest(client_software_name="kgm", client_software_version="1.0")


# -- ApiVersions


@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_what_is_served_and_nothing_else(version):
    response = Driver().ask(api_versions(), version=version)
    assert response.error_code == 0
    listed = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
    expected = {key: (info.min_version, info.max_version) for key, info in SERVED.items()}
    assert listed == expected | {ApiKey.PRODUCE: (0, API[ApiKey.PRODUCE].max_version)}  # so does Kafka
    if version >= 3:
        assert [(row.name, row.max_version_level) for row in response.finalized_features] == [("group.version", 1)]


@pytest.mark.parametrize("version", [5, 9, 32767])
def test_an_api_versions_of_the_future_is_answered_in_the_layout_of_version_0(version):
    driver = Driver()
    frame = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 5, 1) + b"c\0" + b"\2k\2v\0future"
    event = driver.events[driver.frame(frame)]
    assert isinstance(event, ResponseFrame)
    correlation_id, response = decode_response(ApiVersionsResponse, event.frame, version=0)
    assert correlation_id == 5
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in response.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("name", ["", "-x", "a b", "x.", "ä"])
def test_api_versions_checks_the_name_of_the_software(name):
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    assert Driver().ask(request).error_code == ErrorCode.INVALID_REQUEST
    assert Driver().ask(request, version=2).error_code == 0


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION, ids=[f"{SERVED[k].name}-v{v}" for k, v in EVERY_VERSION])
def test_every_version_that_is_listed_is_answered(key, version):
    """An all-defaults request is odd, but each has an answer that can be encoded at its version."""
    driver = Driver()
    message = api_versions() if key == ApiKey.API_VERSIONS else request_class(key)()
    ticket = driver.send(message, version=version)
    if key == ApiKey.PRODUCE:  # acks 0
        assert driver.events
    else:
        driver.answer(ticket)


# -- what is hung up on


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\3",
        b"\xff" * 40,
        struct.pack(">hhih", 3, 1, 1, 9) + b"short",
        struct.pack(">hhih", 3, 1, 1, -2),
        struct.pack(">hhih", 3, 1, 1, 1) + b"\xff" + struct.pack(">i", 0),
        struct.pack(">hhih", 4, 0, 1, -1),  # LeaderAndIsr
        struct.pack(">hhih", 76, 0, 1, -1) + b"\0",  # ShareGroupHeartbeat
        struct.pack(">hhih", 999, 0, 1, -1),
        struct.pack(">hhih", 3, 14, 1, -1),
        struct.pack(">hhih", 3, -1, 1, -1),
        struct.pack(">hhih", 8, 1, 1, -1),
        struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", 0x7FFFFFFF),
        struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", -2),
        struct.pack(">hhih", 3, 12, 1, -1) + b"\0\xff\xff\xff\xff\x0f",
    ],
)
def test_what_cannot_be_read_ends_the_connection(frame):
    driver = Driver()
    event = driver.events[driver.frame(frame)]
    assert isinstance(event, CloseConnection)
    assert event.reason


def test_trailing_bytes_are_ignored():
    driver = Driver()
    frame = encode_request(MetadataRequest(topics=None), version=12, correlation_id=1, client_id="librdkafka")
    assert isinstance(driver.events[driver.frame(frame + b"\0\0\0")], ResponseFrame)


def test_a_request_with_too_many_entries_is_hung_up_on():
    driver = Driver(limits=Limits(max_items=100))
    topics = [MetadataRequestTopic(name=f"t{n}") for n in range(101)]
    assert isinstance(driver.events[driver.send(MetadataRequest(topics=topics))], CloseConnection)
    parts = [OffsetCommitRequestPartition(partition_index=n) for n in range(100)]
    commit = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=parts)])
    assert isinstance(driver.events[driver.send(commit, version=9)], CloseConnection)
    assert isinstance(driver.events[driver.send(MetadataRequest(topics=topics[:100]))], ResponseFrame)


# -- Metadata, DescribeCluster, FindCoordinator


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_this_broker_and_the_topics_asked_for(version):
    driver = Driver({"b": 2, "a": 1})
    asked = [MetadataRequestTopic(name=name) for name in ("b", "nope", "b", "no/pe")]
    response = driver.ask(MetadataRequest(topics=asked), version=version)
    assert [(row.node_id, row.host, row.port) for row in response.brokers] == [(1, "192.0.2.1", 9092)]
    assert [(row.name, row.error_code) for row in response.topics] == [("b", 0), ("nope", 3), ("no/pe", 17)]
    parts = response.topics[0].partitions
    assert [(p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in parts] == [
        (0, 1, [1], [1]),
        (1, 1, [1], [1]),
    ]
    if version >= 2:
        assert response.cluster_id == "kgm-embedded-cluster"
    if version >= 10:
        assert response.topics[0].topic_id == topic_id("b")


@pytest.mark.parametrize(("version", "topics"), [(0, []), (1, None), (13, None)])
def test_metadata_of_all_topics(version, topics):
    response = Driver({"b": 2, "a": 1}).ask(MetadataRequest(topics=topics), version=version)
    assert [(row.name, len(row.partitions)) for row in response.topics] == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("version", [1, 13])
def test_metadata_of_no_topics(version):
    assert Driver().ask(MetadataRequest(topics=[]), version=version).topics == []


@pytest.mark.parametrize("version", [12, 13])
def test_metadata_by_topic_id(version):
    asked = [
        MetadataRequestTopic(topic_id=topic_id("t"), name=None),
        MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None),
    ]
    rows = Driver().ask(MetadataRequest(topics=asked), version=version).topics
    assert [(row.name, row.topic_id, row.error_code) for row in rows] == [
        ("t", topic_id("t"), 0),
        (None, UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize("version", [10, 12])
def test_metadata_of_a_topic_without_name_and_id(version):
    rows = Driver().ask(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), version=version).topics
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_REQUEST]


def test_metadata_tells_authorized_operations_when_asked():
    request = MetadataRequest(
        topics=None, include_cluster_authorized_operations=True, include_topic_authorized_operations=True
    )
    response = Driver().ask(request, version=8)
    assert response.cluster_authorized_operations == 8096
    assert response.topics[0].topic_authorized_operations == 3576
    assert Driver().ask(MetadataRequest(topics=None), version=8).cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster(version):
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = Driver().ask(request, version=version)
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, "kgm-embedded-cluster", 1)
    assert [(row.broker_id, row.host, row.port) for row in response.brokers] == [(1, "192.0.2.1", 9092)]
    assert response.cluster_authorized_operations == 8096


def test_describe_cluster_of_controllers_is_refused():
    response = Driver().ask(DescribeClusterRequest(endpoint_type=2))
    assert response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator(version):
    driver = Driver()
    if version < 4:
        row = driver.ask(FindCoordinatorRequest(key="g"), version=version)
    else:
        response = driver.ask(FindCoordinatorRequest(coordinator_keys=["g", "h"]), version=version)
        assert [row.key for row in response.coordinators] == ["g", "h"]
        row = response.coordinators[1]
    assert (row.error_code, row.node_id, row.host, row.port) == (0, 1, "192.0.2.1", 9092)


@pytest.mark.parametrize("version", [1, 3, 4, 6])
@pytest.mark.parametrize("key_type", [2, 9])
def test_share_groups_have_no_coordinator(version, key_type):
    keys = {"key": "x"} if version < 4 else {"coordinator_keys": ["x"]}
    response = Driver().ask(FindCoordinatorRequest(key_type=key_type, **keys), version=version)
    row = response if version < 4 else response.coordinators[0]
    assert (row.error_code, row.node_id) == (ErrorCode.INVALID_REQUEST, -1)
    assert "no share groups" in row.error_message


def test_sasl_is_refused():
    driver = Driver()
    assert driver.ask(SaslHandshakeRequest(mechanism="PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert driver.ask(SaslAuthenticateRequest(auth_bytes=b"x")).error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_producer_ids_are_never_given_twice():
    driver = Driver()
    ids = [driver.ask(InitProducerIdRequest(transactional_id=None)).producer_id for _ in range(3)]
    assert len(set(ids)) == 3
    assert driver.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1)).producer_id not in ids


# -- CreateTopics


def created(driver, *topics, validate_only=False):
    response = driver.ask(CreateTopicsRequest(topics=list(topics), validate_only=validate_only))
    return [(row.name, ErrorCode(row.error_code).name) for row in response.topics]


def test_topics_are_created_and_then_there():
    driver = Driver()
    request = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=4, replication_factor=1)])
    row = driver.ask(request).topics[0]
    assert (row.error_code, row.num_partitions, row.replication_factor) == (0, 4, 1)
    assert row.topic_id == topic_id("new")
    assert driver.cluster.topics["new"] == 4


def test_a_topic_is_created_with_defaults_or_by_assignment():
    driver = Driver()
    by_hand = [CreatableReplicaAssignment(partition_index=n, broker_ids=[1]) for n in range(3)]
    assert created(
        driver,
        CreatableTopic(name="default", num_partitions=-1, replication_factor=-1),
        CreatableTopic(name="by-hand", num_partitions=-1, replication_factor=-1, assignments=by_hand),
    ) == [("default", "NONE"), ("by-hand", "NONE")]
    assert (driver.cluster.topics["default"], driver.cluster.topics["by-hand"]) == (1, 3)


def test_what_is_only_validated_is_not_created():
    driver = Driver()
    topic = CreatableTopic(name="new", num_partitions=4, replication_factor=1)
    assert created(driver, topic, validate_only=True) == [("new", "NONE")]
    assert driver.cluster.topics.by_name("new") is None


def test_topics_that_cannot_be_created():
    driver = Driver(limits=Limits(max_partitions=10))
    assert created(
        driver,
        CreatableTopic(name="t", num_partitions=1, replication_factor=1),
        CreatableTopic(name="a/b", num_partitions=1, replication_factor=1),
        CreatableTopic(name="none", num_partitions=0, replication_factor=1),
        CreatableTopic(name="copies", num_partitions=1, replication_factor=3),
        CreatableTopic(name="twice", num_partitions=1, replication_factor=1),
        CreatableTopic(name="twice", num_partitions=1, replication_factor=1),
        CreatableTopic(name="large", num_partitions=8, replication_factor=1),
    ) == [
        ("t", "TOPIC_ALREADY_EXISTS"),
        ("a/b", "INVALID_TOPIC_EXCEPTION"),
        ("none", "INVALID_PARTITIONS"),
        ("copies", "INVALID_REPLICATION_FACTOR"),
        ("twice", "INVALID_REQUEST"),
        ("twice", "INVALID_REQUEST"),
        ("large", "POLICY_VIOLATION"),
    ]
    assert dict(driver.cluster.topics) == {"t": 3}


# -- groups


def join(instance="i", *, group="g", member="", session_ms=10_000):
    return JoinGroupRequest(
        group_id=group,
        member_id=member,
        group_instance_id=instance,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=20_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")],
    )


def lead(driver, joined):
    """The leader's SyncGroup."""
    assignments = [SyncGroupRequestAssignment(member_id=m.member_id, assignment=b"x") for m in joined.members]
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id="i",
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    return driver.ask(request)


def stable(driver):
    joined = driver.send(join())
    driver.advance(0)
    joined = driver.answer(joined)
    assert lead(driver, joined).assignment == b"x"
    return joined


def test_a_join_waits_for_the_initial_delay_and_is_answered_by_the_clock():
    driver = Driver(group_initial_rebalance_delay_ms=500)
    first, second = driver.send(join("i")), driver.send(join("j"))
    assert driver.events == {}
    assert driver.cluster.next_deadline() == driver.now + 500
    driver.advance(499)
    assert driver.events == {}
    driver.advance(1)
    driver.advance(500)
    answers = [driver.answer(first), driver.answer(second)]
    assert [a.error_code for a in answers] == [0, 0]
    assert {a.generation_id for a in answers} == {1}
    assert [a.member_id[:2] for a in answers] == ["i-", "j-"]


def test_members_are_described_with_client_id_and_host():
    driver = Driver()
    stable(driver)
    group = driver.ask(DescribeGroupsRequest(groups=["g"])).groups[0]
    assert group.group_state == "Stable"
    assert [(m.group_instance_id, m.client_id, m.client_host) for m in group.members] == [("i", "c", "/192.0.2.7")]


def test_an_overdue_timer_fires_before_the_request_that_comes_later():
    driver = Driver()
    joined = stable(driver)
    driver.now += 10_001  # nobody called advance
    beat = HeartbeatRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, group_instance_id="i"
    )
    assert driver.ask(beat).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_forgotten_request_is_never_answered():
    driver = Driver(group_initial_rebalance_delay_ms=500)
    ticket = driver.send(join())
    driver.cluster.disconnected(ticket)
    driver.advance(500)
    assert driver.events == {}
    assert driver.cluster.view.group("g").members


def test_static_members_are_removed_together():
    driver = Driver()
    stable(driver)
    request = LeaveGroupRequest(
        group_id="g",
        members=[MemberIdentity(member_id="", group_instance_id=name, reason="test") for name in ("i", "nobody")],
    )
    rows = driver.ask(request).members
    assert [(m.group_instance_id, m.error_code) for m in rows] == [("i", 0), ("nobody", 25)]


def test_a_classic_group_is_no_consumer_group():
    driver = Driver()
    stable(driver)
    row = driver.ask(ConsumerGroupDescribeRequest(group_ids=["g"])).groups[0]
    assert row.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_groups_are_bounded_and_deleting_one_makes_room():
    driver = Driver(limits=Limits(max_groups=2))
    for group in ("g", "h"):
        driver.send(join(group=group))
    refused = driver.ask(join(group="k"))
    assert (refused.error_code, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    simple = driver.ask(commit("k", name="t"), version=9)
    assert simple.topics[0].partitions[0].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.send(join("j", group="g"))  # a known one goes on
    assert [row.group_id for row in driver.ask(ListGroupsRequest()).groups] == ["g", "h"]


def test_a_repeated_describe_is_bounded():
    driver = Driver(limits=Limits(max_items=50))
    stable(driver)
    assert len(driver.ask(DescribeGroupsRequest(groups=["g"] * 25)).groups) == 25
    assert isinstance(driver.events[driver.send(DescribeGroupsRequest(groups=["g"] * 26))], CloseConnection)
    assert isinstance(
        driver.events[driver.send(DescribeGroupsRequest(groups=[f"g{n}" for n in range(50)]))], ResponseFrame
    )


# -- offsets


def commit(group, *, partition=0, offset=5, **topic):
    row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="m")
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(partitions=[row], **topic)],
    )


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
