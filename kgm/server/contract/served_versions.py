"""The highest version of each API that is served: what kgm implements and the emulated Kafka release has."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.protocol.apis import API, ApiKey
from kgm.protocol.released_apis import API_VERSIONS

#: Lower than any version.
NOT_SERVED: Final = -1
#: Served only if the settings' Kafka behavior includes streams groups.
OF_STREAMS_GROUPS: Final = (ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE)


def highest_version(key: ApiKey, settings: BrokerSettings) -> int:
    """The highest version of an API that a broker with these settings serves, or NOT_SERVED."""
    if key in OF_STREAMS_GROUPS and not settings.behavior.has_streams_groups:
        return NOT_SERVED
    released = _released(settings.kafka_version.release)
    return min(API[key].max_version, released[key][1]) if key in released else NOT_SERVED


@lru_cache
def _released(release: tuple[int, int]) -> Mapping[int, tuple[int, int]]:
    """The APIs of a broker of that release, without ZooKeeper if the release can run without it."""
    prefix = "{}.{}.".format(*release)
    return next(apis for broker, apis in API_VERSIONS.items() if broker.startswith(prefix) and " " not in broker)
