"""Up to which version an API is served. A broker of an earlier Kafka serves fewer (`--kafka-version`), as far as the
coordinator's answers depend on it; other APIs are served in every version that kgm speaks."""

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.protocol.apis import API, ApiKey

#: No version at all.
NOT_SERVED = -1
#: Since when brokers know of consumer groups (KIP-848), even if their coordinator refuses them.
_CONSUMER_GROUPS_SINCE = (3, 7)


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
            return API[key].max_version
