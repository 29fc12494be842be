"""ApiVersions v0-4: the APIs that are served, and their versions. A request with a later version of ApiVersions is
answered in the version 0 format, so that the client can ask again (KIP-511): see kgm.server.broker."""

import re
from collections.abc import Callable, Iterable

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.broker_version import PLAYED_VERSION_FEATURE
from kgm.model.errors import ErrorCode
from kgm.protocol.apis import API, ApiKey
from kgm.protocol.messages.api_versions_request import ApiVersionsRequest
from kgm.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply
from kgm.server.contract.served_versions import NOT_SERVED, highest_version

#: What Kafka accepts as the name and version of the client software (KIP-511).
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_FROM = 3
#: The features that consumer groups (KIP-848) and streams groups (KIP-1071) depend on.
_GROUP_VERSION, _STREAMS_VERSION = "group.version", "streams.version"


def handler_for(served: Iterable[ApiKey]) -> Callable[[ClientRequest, EmbeddedCluster], Replies]:
    """The handler for a broker that serves these APIs in addition to ApiVersions itself."""
    keys = sorted({*served, ApiKey.API_VERSIONS})

    def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
        message = request.message
        assert isinstance(message, ApiVersionsRequest)
        software = (message.client_software_name, message.client_software_version)
        if request.version >= _SOFTWARE_FROM and not all(_SOFTWARE.fullmatch(text) for text in software):
            return (Reply(request.ticket, ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)),)
        settings = cluster.settings
        played = settings.kafka_version.level
        features = {_GROUP_VERSION: settings.has_consumer_protocol}
        if settings.behavior.has_streams_groups:
            features[_STREAMS_VERSION] = settings.has_streams_protocol
        response = ApiVersionsResponse(
            api_keys=[
                _versions(key, highest) for key in keys if (highest := highest_version(key, settings)) != NOT_SERVED
            ],
            supported_features=[
                *(SupportedFeatureKey(name=name, min_version=0, max_version=1) for name in features),
                SupportedFeatureKey(name=PLAYED_VERSION_FEATURE, min_version=played, max_version=played),
            ],
            finalized_features_epoch=0,
            finalized_features=[
                FinalizedFeatureKey(name=name, min_version_level=1, max_version_level=1)
                for name, is_enabled in features.items()
                if is_enabled
            ],
        )
        return (Reply(request.ticket, response),)

    return handle


def unsupported_version(settings: BrokerSettings) -> ApiVersionsResponse:
    """The version 0 response to a request whose version is not supported."""
    highest = highest_version(ApiKey.API_VERSIONS, settings)
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_versions(ApiKey.API_VERSIONS, highest)]
    )


def _versions(key: ApiKey, highest: int) -> ApiVersion:
    """The versions of one API. As in a 4.x broker, Produce is listed from v0 on although it is served from v3 on: older
    versions of librdkafka derive the supported compression types from that
    (ApiKeys.PRODUCE_API_VERSIONS_RESPONSE_MIN_VERSION)."""
    lowest = 0 if key is ApiKey.PRODUCE else API[key].min_version
    return ApiVersion(api_key=key, min_version=lowest, max_version=highest)
