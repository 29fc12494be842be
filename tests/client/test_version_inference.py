"""Which version of Kafka a broker has, by what real brokers reported (tests/compatibility asks real ones again)."""

import pytest

from kgm.client import connect
from kgm.client.connection_test import run_connection_test
from kgm.client.transport.bootstrap import Address
from kgm.client.transport.connection import Plaintext
from kgm.client.transport.deadline import Deadline
from kgm.client.version_inference import possible_versions
from kgm.model.broker_version import PLAYED_VERSION_FEATURE, BrokerVersion, releases_in_words
from kgm.protocol.apis import ApiKey
from kgm.protocol.released_apis import API_VERSIONS, SUPPORTED_FEATURES
from tests.kafka.broker import KafkaCluster
from tests.kafka.versions import VERSIONS

BROKERS = list(API_VERSIONS)
#: What does not differ in what a broker reports.
ALIKE = {
    "3.3 with ZooKeeper": {"3.3", "3.4"},
    **{release: {release, f"{release}+new"} for release in ("3.7", "3.8", "3.9")},
}
GET_TELEMETRY_SUBSCRIPTIONS, CREATE_TOPICS = 71, 19


def release_of(broker):
    """`3.9 with ZooKeeper` of `3.9.1 with ZooKeeper`."""
    number, _, rest = broker.partition(" ")
    release = ".".join(number.partition("+")[0].split(".")[:2])
    return f"{release} {rest}".strip()


def inferred(broker, versions=None, features=None):
    """The versions that a broker of the table may have, if it reported these in the place of its own."""
    found = possible_versions(
        API_VERSIONS[broker] if versions is None else versions,
        SUPPORTED_FEATURES[broker] if features is None else features,
    )
    return set(map(str, found))


def test_the_table_has_every_minor_version_from_2_4_on():
    minors = [f"2.{n}" for n in range(4, 9)] + [f"3.{n}" for n in range(10)] + [f"4.{n}" for n in range(5)]
    assert list(dict.fromkeys(release_of(broker).partition(" ")[0] for broker in BROKERS)) == minors
    assert set(VERSIONS) <= set(BROKERS)


@pytest.mark.parametrize("broker", BROKERS)
def test_a_broker_is_told_from_those_of_every_other_release(broker):
    release = release_of(broker)
    assert inferred(broker) == ALIKE.get(release, {release.partition(" ")[0]})


@pytest.mark.parametrize("broker", BROKERS)
def test_what_depends_on_settings_or_on_the_controller_changes_nothing(broker):
    with_telemetry = {**API_VERSIONS[broker], GET_TELEMETRY_SUBSCRIPTIONS: (0, 0)}
    assert inferred(broker) == inferred(broker, with_telemetry)
    lowest, highest = API_VERSIONS[broker][CREATE_TOPICS]
    behind_an_old_controller = {**API_VERSIONS[broker], CREATE_TOPICS: (lowest, highest - 1)}
    assert inferred(broker) <= inferred(broker, behind_an_old_controller)


@pytest.mark.parametrize("broker", BROKERS)
@pytest.mark.parametrize("key", [ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.DESCRIBE_GROUPS])
def test_a_broker_with_apis_of_no_release_is_of_none(broker, key):
    lowest, highest = API_VERSIONS[broker][key]
    assert inferred(broker, {**API_VERSIONS[broker], key: (lowest, highest + 50)}) == set()
    assert inferred(broker, {one: pair for one, pair in API_VERSIONS[broker].items() if one != key}) == set()
    assert inferred(broker, {**API_VERSIONS[broker], 10_000: (0, 0)}) == set()


def test_another_metadata_version_is_another_release():
    features = {**SUPPORTED_FEATURES["4.3.0"], "metadata.version": (7, 999)}
    assert inferred("4.3.0", features=features) == set()
    assert inferred("4.3.0", features={}) == set()


def test_kgm_serve_reports_the_version_that_it_plays(server):
    with connect(server.bootstrap, timeout_ms=10_000) as cluster:
        connection = cluster.brokers.connection(Address(server.host, server.port), cluster.deadline)
        assert possible_versions(connection.versions, connection.supported_features) == (BrokerVersion.parse("4.3"),)
    for text in ("2.8", "3.9", "3.9+new", "4.4"):
        level = BrokerVersion.parse(text).level
        assert inferred("4.3.0", features={PLAYED_VERSION_FEATURE: (level, level)}) == {text}
    for level in (-1, 0, 9_990, 32_767):
        assert inferred("4.3.0", features={PLAYED_VERSION_FEATURE: (level, level)}) == set()


def test_versions_in_words():
    assert releases_in_words([BrokerVersion.parse("3.9"), BrokerVersion.parse("3.9+new")]) == "3.9"
    assert releases_in_words([BrokerVersion.parse("3.3"), BrokerVersion.parse("3.4")]) == "3.3 to 3.4"


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_brokers_of_one_cluster_that_differ_are_told_apart():
    """A rolling upgrade: the version of a group is that of its coordinator."""
    # Each broker keeps its own partitions of the offsets topic, whichever of them is restarted.
    with KafkaCluster(2, {"offsets.topic.replication.factor": "1"}, version="3.9.1") as kafka:
        kafka._version = "4.0.1"
        kafka.restart(1)
        with connect(kafka.bootstrap, timeout_ms=60_000) as cluster:
            names = [f"group-{number}" for number in range(12)]
            nodes = cluster.brokers.find_coordinators(names, cluster.deadline)
            versions = {
                node.id: set(map(str, cluster._kafka_versions(node, cluster.deadline))) for node in nodes.values()
            }
        assert versions == {1: {"4.0"}, 2: {"3.9", "3.9+new"}}
        addresses = [Address("127.0.0.1", int(kafka.address(1).rpartition(":")[2]))]
        report = run_connection_test(addresses, Plaintext(), Deadline.after(20_000), group_id=None)
        assert {check.where.partition(" ")[0]: check.kafka_versions for check in report.checks if check.step == "broker"} == {
            "1": (BrokerVersion.parse("4.0"),), "2": (BrokerVersion.parse("3.9"), BrokerVersion.parse("3.9+new")),
        }  # fmt: skip
        (last,) = [check for check in report.checks if check.where == "Cluster" and check.step == "versions"]
        assert last.result == "limited"
        assert "Kafka 4.0: 1; Kafka 3.9: 2" in last.detail
