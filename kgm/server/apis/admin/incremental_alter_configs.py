"""IncrementalAlterConfigs v0-1: configurations of individual groups (the GROUP resource of KIP-848). Not implemented:
all others. Kafka: ControllerConfigurationValidator, GroupConfig.

The values for a group must be within the bounds set by the broker's settings, as in Kafka. If a data directory holds
values from a run with other bounds, the coordinator clamps them."""

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum

from kgm.coordinator.contract.settings import GroupConfig, limits_of
from kgm.model.errors import ErrorCode, UsageError
from kgm.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kgm.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kgm.server.apis.admin.config_resources import ConfigResource, broker_field
from kgm.server.apis.admin.topic_changes import NO_ERROR, RowError
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply

#: In characters. The values are numbers, so they are short.
_LONGEST_GROUP_ID, _LONGEST_VALUE = 4_096, 20
_KINDS = ("consumer", "streams")


class Operation(IntEnum):
    """Kafka: AlterConfigOp.OpType; the other operations are for lists, and no group configuration is a list."""

    SET = 0
    DELETE = 1


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, IncrementalAlterConfigsRequest)
    times = Counter((resource.resource_type, resource.resource_name) for resource in message.resources)
    response = IncrementalAlterConfigsResponse()
    for resource in message.resources:
        repeated = times[resource.resource_type, resource.resource_name] > 1
        error, text = _alter(cluster, resource, repeated=repeated, validate_only=message.validate_only)
        response.responses.append(
            AlterConfigsResourceResponse(
                error_code=error,
                error_message=text,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return (Reply(request.ticket, response),)


def _alter(
    cluster: EmbeddedCluster, resource: AlterConfigsResource, *, repeated: bool, validate_only: bool
) -> RowError:
    group_id = resource.resource_name
    if repeated:
        return ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
    if resource.resource_type != ConfigResource.GROUP:
        return ErrorCode.INVALID_REQUEST, "kgm serve alters configurations of groups only."
    if not group_id:
        return ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."
    before = cluster.group_configs.get(group_id, {})
    after = _edited(resource, before)
    if not isinstance(after, dict):
        return after
    error, text = _check(cluster, after)
    if error or validate_only or after == before:
        return error, text
    most = cluster.limits.max_groups
    if len(group_id) > _LONGEST_GROUP_ID or any(len(value) > _LONGEST_VALUE for value in after.values()):
        return ErrorCode.POLICY_VIOLATION, "kgm serve does not keep a configuration with a name or value this long."
    if not before and len(cluster.group_configs) >= most:
        return ErrorCode.POLICY_VIOLATION, f"kgm serve has room for the configurations of {most} groups."
    return _save(cluster, group_id, before, after)


def _edited(resource: AlterConfigsResource, before: Mapping[str, str]) -> dict[str, str] | RowError:
    """The values after the operations of a request are applied, or the error."""
    after = dict(before)
    if len({config.name for config in resource.configs}) < len(resource.configs):
        return ErrorCode.INVALID_REQUEST, "Each configuration must appear at most once."
    for config in resource.configs:
        if config.config_operation == Operation.DELETE:
            after.pop(config.name, None)
        elif config.config_operation != Operation.SET:
            return ErrorCode.INVALID_CONFIG, f"{config.name} is not a list."
        elif config.value is None:
            return ErrorCode.INVALID_REQUEST, f"{config.name} cannot be null."
        else:
            after[config.name] = config.value
    return after


def _check(cluster: EmbeddedCluster, values: Mapping[str, str]) -> RowError:
    """Whether a group can have these values (GroupConfig.validate)."""
    try:
        limited = GroupConfig.of(values, cluster.settings)
    except UsageError as error:
        return ErrorCode.INVALID_CONFIG, error.message
    for name, text in values.items():
        if int(text) != getattr(limited, name.replace(".", "_")):
            return (
                ErrorCode.INVALID_CONFIG,
                f"{name} must be within {' and '.join(limit or '0' for limit in limits_of(name))}.",
            )
    for kind in _KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        session_ms, heartbeat_ms = (
            int(values.get(name) or getattr(cluster.settings, broker_field(name))) for name in (session, heartbeat)
        )
        if session_ms <= heartbeat_ms:
            return ErrorCode.INVALID_CONFIG, f"{session} must be greater than {heartbeat}."
    return NO_ERROR


def _save(cluster: EmbeddedCluster, group_id: str, before: dict[str, str], after: dict[str, str]) -> RowError:
    _set(cluster, group_id, after)
    try:
        cluster.save()
    except OSError as error:
        _set(cluster, group_id, before)
        return ErrorCode.KAFKA_STORAGE_ERROR, error.strerror or str(error)
    cluster.shards.configure(group_id)
    return NO_ERROR


def _set(cluster: EmbeddedCluster, group_id: str, values: dict[str, str]) -> None:
    cluster.group_configs.pop(group_id, None)
    if values:
        cluster.group_configs[group_id] = values
