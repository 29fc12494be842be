"""DescribeConfigs v1-4: configurations of groups, whether or not they exist, and of this broker. Topics have none.
Kafka: ConfigHelper."""

from collections.abc import Iterable
from enum import IntEnum

from kgm.coordinator.contract.settings import BrokerSettings, GroupConfig
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kgm.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kgm.server.apis.admin.config_resources import ConfigResource, broker_field
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply

_GROUP_NAMES = tuple(GroupConfig.names())
_LISTS = ("group.consumer.assignors", "group.coordinator.rebalance.protocols")


class ConfigSource(IntEnum):
    """Where a value comes from (Kafka: DescribeConfigsResponse.ConfigSource)."""

    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class ConfigType(IntEnum):
    """Kafka: DescribeConfigsResponse.ConfigType."""

    STRING = 2
    INT = 3
    LIST = 7


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, DescribeConfigsRequest)
    rows = []
    for resource in message.resources:
        row = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        configs = _configs(request.node_id, cluster, resource)
        if isinstance(configs, ErrorCode):
            row.error_code = configs
            if configs is ErrorCode.INVALID_REQUEST:
                row.error_message = "kgm serve describes groups by name, and this broker by its number."
        else:
            wanted = resource.configuration_keys
            row.configs = [config for config in configs if not wanted or config.name in wanted]
        if not message.include_synonyms:
            for config in row.configs:
                config.synonyms = []
        rows.append(row)
    return (Reply(request.ticket, DescribeConfigsResponse(results=rows)),)


def _configs(
    node_id: int, cluster: EmbeddedCluster, resource: DescribeConfigsResource
) -> Iterable[DescribeConfigsResourceResult] | ErrorCode:
    """The configurations of a resource, or its error."""
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResource.GROUP if name:
            return [_group_config(cluster, name, config) for config in _GROUP_NAMES]
        case ConfigResource.BROKER if name == str(node_id):
            return [_broker_config(cluster.settings, config, field) for config, field in BrokerSettings.names().items()]
        case ConfigResource.BROKER if not name:
            return []
        case ConfigResource.TOPIC:
            return [] if name in cluster.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        case _:
            return ErrorCode.INVALID_REQUEST


def _group_config(cluster: EmbeddedCluster, group_id: str, name: str) -> DescribeConfigsResourceResult:
    own = cluster.group_configs.get(group_id, {})
    is_forgotten = cluster.settings.behavior.forgets_streams_settings and name.startswith("streams.")
    settings = BrokerSettings() if is_forgotten else cluster.settings  # whether or not the group has any of its own
    row = _broker_config(settings, f"group.{name}", broker_field(name))
    row.name, row.read_only = name, False
    if name in own:
        row.synonyms.insert(0, DescribeConfigsSynonym(name=name, value=own[name], source=ConfigSource.GROUP))
        row.value, row.config_source = own[name], ConfigSource.GROUP
    return row


def _broker_config(settings: BrokerSettings, name: str, field: str) -> DescribeConfigsResourceResult:
    value, default = getattr(settings, field), str(getattr(BrokerSettings(), field))
    synonyms = [DescribeConfigsSynonym(name=name, value=default, source=ConfigSource.DEFAULT)]
    if str(value) != default:
        synonyms.insert(0, DescribeConfigsSynonym(name=name, value=str(value), source=ConfigSource.STATIC_BROKER))
    text_type = ConfigType.LIST if name in _LISTS else ConfigType.STRING
    return DescribeConfigsResourceResult(
        name=name,
        value=str(value),
        read_only=True,
        config_source=synonyms[0].source,
        synonyms=synonyms,
        config_type=ConfigType.INT if isinstance(value, int) else text_type,
        documentation=None,
    )
