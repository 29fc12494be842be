"""Infers which Kafka release a broker runs. Kafka does not report its release, but API versions and supported features
differ from release to release (`kgm.protocol.released_apis`, recorded from real brokers).

Releases with the same APIs cannot be told apart: the answer has all of them, as well as both coordinators of 3.7 to
3.9. A broker whose APIs match no release is not Apache Kafka, or is one that kgm does not know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from kgm.model.broker_version import (
    FIRST_WITH_JAVA,
    LAST_WITH_SCALA,
    NEWEST,
    OLDEST,
    PLAYED_VERSION_FEATURE,
    BrokerVersion,
)
from kgm.model.snapshot import GroupSnapshot
from kgm.protocol.apis import ApiKey
from kgm.protocol.released_apis import API_VERSIONS, SUPPORTED_FEATURES

#: API key: (lowest version, highest version).
ApiVersions: TypeAlias = Mapping[int, tuple[int, int]]

#: The feature whose highest level is different in each release, for brokers that run without ZooKeeper.
_METADATA_VERSION: Final = "metadata.version"
#: APIs whose reported versions depend only on the broker's own release, whatever its settings and its controller. The
#: others depend on the controller's release (requests that are forwarded to it), or on settings (telemetry, share
#: groups).
_OWN_APIS: Final = frozenset(
    {
        ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP,
        ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS,
        ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT, ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.SASL_AUTHENTICATE,
        ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE, ApiKey.DESCRIBE_CLUSTER, ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
    }
)  # fmt: skip
#: Apache Kafka's API keys are consecutive; keys of vendors that add APIs are far above.
_HIGHEST_KEY: Final = max(key for versions in API_VERSIONS.values() for key in versions)


def possible_versions(versions: ApiVersions, features: Mapping[str, tuple[int, int]]) -> tuple[BrokerVersion, ...]:
    """The releases whose brokers report these API versions and support these features, oldest first; none if no release
    does. `kgm serve` reports the release that it emulates."""
    if PLAYED_VERSION_FEATURE in features:
        played = BrokerVersion.of_level(features[PLAYED_VERSION_FEATURE][0])
        return (played,) if OLDEST.release <= played.release <= NEWEST.release else ()
    return tuple(sorted(set(_candidates(versions, features))))


def with_versions(group: GroupSnapshot, versions: Iterable[BrokerVersion]) -> GroupSnapshot:
    """The group with the versions that its broker may have. Only the new coordinator supports groups of types other
    than classic."""
    needs_java = group.type != "classic"
    return replace(group, kafka_versions=tuple([one for one in versions if one.has_java_coordinator or not needs_java]))


def _candidates(versions: ApiVersions, features: Mapping[str, tuple[int, int]]) -> Iterator[BrokerVersion]:
    if max(versions, default=0) > _HIGHEST_KEY:
        return
    for broker, released in API_VERSIONS.items():
        has_same = all(versions.get(key) == released.get(key) for key in _OWN_APIS)
        has_level = features.get(_METADATA_VERSION) == SUPPORTED_FEATURES[broker].get(_METADATA_VERSION)
        if has_same and has_level and _exceeds_nowhere(versions, released):
            yield from _coordinators(broker)


def _exceeds_nowhere(versions: ApiVersions, released: ApiVersions) -> bool:
    """Whether no API has a later version than in that release."""
    return all(highest <= released[key][1] for key, (_, highest) in versions.items() if key in released)


def _coordinators(broker: str) -> Iterator[BrokerVersion]:
    """The version of a broker in the table, with each coordinator that it may run: a broker setting decides."""
    number, _, metadata = broker.partition(" ")
    version = BrokerVersion.parse(number.partition("+")[0])
    yield version
    if not metadata and FIRST_WITH_JAVA <= version.release <= LAST_WITH_SCALA:
        yield version._replace(has_java_coordinator=True)
