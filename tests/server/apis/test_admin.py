"""CreateTopics without sockets. Reassignments and elections are in tests/server/cluster/test_failover.py, configurations
and other topics in test_consumer_groups.py."""

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kgm.server.cluster.topics import topic_id
from kgm.server.contract.limits import Limits
from tests.server.broker_driver import Driver


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
    assert driver.cluster.topics.of_users() == {"t": 3}
