"""Metadata, DescribeCluster and FindCoordinator without sockets."""

import pytest

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kgm.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kgm.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kgm.server.cluster.topics import topic_id
from tests.server.broker_driver import Driver

UNKNOWN_ID = b"\x11" * 16


@pytest.mark.parametrize("version", range(14))
def test_metadata_has_this_broker_and_the_named_topics(version):
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
    assert [(row.name, len(row.partitions)) for row in response.topics] == [
        ("__consumer_offsets", 50), ("a", 1), ("b", 2)
    ]  # fmt: skip


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


def test_metadata_has_authorized_operations_on_request():
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
