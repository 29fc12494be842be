"""Up to which version an API is served. A broker of an earlier Kafka serves fewer (`--kafka-version`): from 4.0 on
those that Kafka has; before, as far as the answers of the coordinator depend on it."""

from typing import Final

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.protocol.apis import API, ApiKey

#: No version at all.
NOT_SERVED = -1
_NO_RELEASE = 0, 0
#: Since when brokers know of consumer groups (KIP-848), even if their coordinator refuses them.
_CONSUMER_GROUPS_SINCE = (3, 7)

#: The highest version of an API up to a release. (OffsetCommit and OffsetFetch v10 are in 4.1, but not enabled.)
_HIGHEST_UNTIL: Final[dict[ApiKey, tuple[tuple[int, int], int]]] = {
    ApiKey.PRODUCE: ((4, 0), 12),
    ApiKey.FETCH: ((4, 0), 17),
    ApiKey.LIST_OFFSETS: ((4, 1), 10),
    ApiKey.OFFSET_COMMIT: ((4, 1), 9),
    ApiKey.OFFSET_FETCH: ((4, 1), 9),
    ApiKey.DESCRIBE_LOG_DIRS: ((4, 2), 4),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ((4, 0), 0),
}


def highest_version(key: ApiKey, settings: BrokerSettings) -> int:
    """The highest version of an API that a broker with these settings serves, or NOT_SERVED."""
    match key:
        case ApiKey.JOIN_GROUP:
            return min(API[key].max_version, settings.behavior.highest_join_version)
        case ApiKey.DESCRIBE_GROUPS:
            return min(API[key].max_version, settings.behavior.highest_describe_version)
        case ApiKey.CONSUMER_GROUP_HEARTBEAT | ApiKey.CONSUMER_GROUP_DESCRIBE if (
            settings.kafka_version.release < _CONSUMER_GROUPS_SINCE
        ):
            return NOT_SERVED
        case _:
            last, highest = _HIGHEST_UNTIL.get(key, (_NO_RELEASE, 0))
            return highest if settings.kafka_version.release <= last else API[key].max_version
