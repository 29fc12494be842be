"""DescribeConfigs and IncrementalAlterConfigs: what is set for single groups (KIP-848's config resource GROUP), and,
to look at, what the broker's settings are. Kafka: ConfigHelper, ControllerConfigurationValidator, GroupConfig.

Values for a group have to be within the bounds of the broker's settings, as in Kafka; those that a data directory has
from a run with other bounds are held within the new ones by the coordinator."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields

from kgm.coordinator.contract.settings import BrokerSettings, GroupConfig
from kgm.model.errors import ErrorCode, UsageError
from kgm.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kgm.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kgm.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kgm.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kgm.server.cluster.topics import Topics
from kgm.server.contract.exchange import Call, Reply, Response
from kgm.server.contract.limits import Limits

_TOPIC, _BROKER, _GROUP = 2, 4, 32
_SET, _DELETE = 0, 1
#: Where a value comes from (DescribeConfigsResponse.ConfigSource), and of which type it is (ConfigType).
_OF_BROKER, _DEFAULT, _OF_GROUP = 4, 5, 8
_STRING, _INT, _LIST = 2, 3, 7
_LISTS = ("group.consumer.assignors", "group.coordinator.rebalance.protocols")
_SESSION, _HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
_GROUP_NAMES = tuple(field.name.replace("_", ".") for field in fields(GroupConfig))

#: What is set, by group and name.
Values = dict[str, dict[str, str]]
_Answer = tuple[ErrorCode, str | None]
_DONE: _Answer = (ErrorCode.NONE, None)


class Configs:
    """What one broker answers about configurations. save: keeps those of groups over a restart, and raises OSError;
    configure: lets one for a group take effect."""

    def __init__(
        self,
        node_id: int,
        settings: BrokerSettings,
        topics: Topics,
        limits: Limits,
        of_groups: Values,
        *,
        save: Callable[[], None],
        configure: Callable[[str], None],
    ) -> None:
        self._node_id = node_id
        self._settings = settings
        self._topics = topics
        self._limits = limits
        self._of_groups = of_groups
        self._save = save
        self._configure = configure

    # -- IncrementalAlterConfigs v0-1

    def alter(self, call: Call) -> Response:
        """Set and unset what is set for groups. Nothing else can be altered."""
        message = call.message
        assert isinstance(message, IncrementalAlterConfigsRequest)
        times = Counter((row.resource_type, row.resource_name) for row in message.resources)
        response = IncrementalAlterConfigsResponse()
        for row in message.resources:
            error, text = self._altered(row, times, validate_only=message.validate_only)
            response.responses.append(
                AlterConfigsResourceResponse(
                    error_code=error,
                    error_message=text,
                    resource_type=row.resource_type,
                    resource_name=row.resource_name,
                )
            )
        return (Reply(call.ticket, response),)

    def _altered(self, row: AlterConfigsResource, times: Counter[tuple[int, str]], *, validate_only: bool) -> _Answer:
        if times[row.resource_type, row.resource_name] > 1:
            return ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
        if row.resource_type != _GROUP:
            return ErrorCode.INVALID_REQUEST, "kgm serve has configurations of groups only."
        if not row.resource_name:
            return ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."
        before = self._of_groups.get(row.resource_name, {})
        after = _edited(row, before)
        if not isinstance(after, dict):
            return after
        error, text = self._checked(after)
        if error or validate_only or after == before:
            return error, text
        if not before and len(self._of_groups) >= self._limits.max_groups:
            return ErrorCode.POLICY_VIOLATION, f"kgm serve keeps configurations of {self._limits.max_groups} groups."
        return self._keep(row.resource_name, before, after)

    def _checked(self, values: Mapping[str, str]) -> _Answer:
        """Whether these may be set for a group (GroupConfig.validate)."""
        try:
            held = GroupConfig.of(values, self._settings)
        except UsageError as error:
            return ErrorCode.INVALID_CONFIG, error.message
        for name, text in values.items():
            if int(text) != getattr(held, name.replace(".", "_")):
                low, high = (f"group.{name.replace('consumer', f'consumer.{bound}')}" for bound in ("min", "max"))
                return ErrorCode.INVALID_CONFIG, f"{name} must be within {low} and {high}."
        if int(self._in_force(_SESSION, values)) <= int(self._in_force(_HEARTBEAT, values)):
            return ErrorCode.INVALID_CONFIG, f"{_SESSION} must be greater than {_HEARTBEAT}."
        return _DONE

    def _keep(self, group_id: str, before: dict[str, str], after: dict[str, str]) -> _Answer:
        self._put(group_id, after)
        try:
            self._save()
        except OSError as error:
            self._put(group_id, before)
            return ErrorCode.KAFKA_STORAGE_ERROR, error.strerror or str(error)
        self._configure(group_id)
        return _DONE

    def _put(self, group_id: str, values: dict[str, str]) -> None:
        self._of_groups.pop(group_id, None)
        if values:
            self._of_groups[group_id] = values

    # -- DescribeConfigs v1-4

    def describe(self, call: Call) -> Response:
        """Configurations of groups, whether they exist or not, and of this broker; topics have none."""
        message = call.message
        assert isinstance(message, DescribeConfigsRequest)
        rows = [self._described(row, message) for row in message.resources]
        return (Reply(call.ticket, DescribeConfigsResponse(results=rows)),)

    def _described(self, asked: DescribeConfigsResource, message: DescribeConfigsRequest) -> DescribeConfigsResult:
        result = DescribeConfigsResult(resource_type=asked.resource_type, resource_name=asked.resource_name)
        if asked.resource_type == _GROUP and asked.resource_name:
            found = [self._group_row(asked.resource_name, name) for name in _GROUP_NAMES]
        elif asked.resource_type == _BROKER and asked.resource_name == str(self._node_id):
            found = [self._broker_row(name, field) for name, field in BrokerSettings.names().items()]
        elif asked.resource_type == _BROKER and not asked.resource_name:
            found = []
        elif asked.resource_type == _TOPIC:
            known = self._topics.named(asked.resource_name) is not None
            found, result.error_code = [], ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = "kgm serve describes groups by name, and this broker by its number."
            return result
        wanted = asked.configuration_keys
        result.configs = [row for row in found if not wanted or row.name in wanted]
        if not message.include_synonyms:
            for row in result.configs:
                row.synonyms = []
        return result

    def _group_row(self, group_id: str, name: str) -> DescribeConfigsResourceResult:
        own = self._of_groups.get(group_id, {})
        of_broker = self._broker_row(f"group.{name}", _field(name))
        of_broker.name, of_broker.read_only = name, False
        if name in own:
            of_broker.synonyms.insert(0, DescribeConfigsSynonym(name=name, value=own[name], source=_OF_GROUP))
            of_broker.value, of_broker.config_source = own[name], _OF_GROUP
        return of_broker

    def _broker_row(self, name: str, field: str) -> DescribeConfigsResourceResult:
        value, usual = str(getattr(self._settings, field)), str(getattr(BrokerSettings(), field))
        synonyms = [DescribeConfigsSynonym(name=name, value=usual, source=_DEFAULT)]
        if value != usual:
            synonyms.insert(0, DescribeConfigsSynonym(name=name, value=value, source=_OF_BROKER))
        is_number = isinstance(getattr(self._settings, field), int)
        return DescribeConfigsResourceResult(
            name=name,
            value=value,
            read_only=True,
            config_source=synonyms[0].source,
            synonyms=synonyms,
            config_type=_INT if is_number else _LIST if name in _LISTS else _STRING,
            documentation=None,
        )

    def _in_force(self, name: str, own: Mapping[str, str]) -> str:
        return own.get(name) or str(getattr(self._settings, _field(name)))


def _field(name: str) -> str:
    """The broker's setting that a setting for groups goes before."""
    return f"group_{name.replace('.', '_')}"


def _edited(row: AlterConfigsResource, before: Mapping[str, str]) -> dict[str, str] | _Answer:
    """The values with the changes of a request; or what is wrong with these."""
    after = dict(before)
    if len({config.name for config in row.configs}) < len(row.configs):
        return ErrorCode.INVALID_REQUEST, "Each configuration must appear at most once."
    for config in row.configs:
        if config.config_operation == _DELETE:
            after.pop(config.name, None)
        elif config.config_operation != _SET:
            return ErrorCode.INVALID_CONFIG, f"{config.name} is no list to append to or take from."
        elif config.value is None:
            return ErrorCode.INVALID_REQUEST, f"{config.name} cannot be null."
        else:
            after[config.name] = config.value
    return after
