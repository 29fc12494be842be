"""One request to one broker, and its response for each group: describe, committed offsets, end offsets, settings.

Each function here takes an open connection, picks the version, and turns error codes into errors; nothing is retried
and nothing is remembered. A described group is a `GroupDescription`: the type of group and that API's struct."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kgm.client.failures import from_code, not_found
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import BrokerError, ErrorCode, KgmError, UnsupportedError
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.describe_groups_response import DescribeGroupsResponse
from kgm.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kgm.protocol.messages.offset_fetch_response import OffsetFetchResponse

if TYPE_CHECKING:
    from kgm.protocol.messages.describe_configs_response import DescribeConfigsResult

#: Offsets by (topic, partition).
Offsets: TypeAlias = dict[tuple[str, int], int]

_OTHER_TYPE = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
_BATCHED_FETCH = 8
#: The timestamp that makes ListOffsets return the end of a partition.
_LATEST: Final = -1
_EARLIEST: Final = -2
#: The isolation level for the last stable offset, and the version of ListOffsets that has it.
_READ_COMMITTED: Final = 1
_ISOLATED_OFFSETS: Final = 2
#: Heartbeat with an instance id (KIP-345).
_STATIC_HEARTBEAT = 3
#: Metadata of topics by id.
_METADATA_BY_ID = 12
#: The version of ConsumerGroupHeartbeat that came with the settings of groups (ConfigResource.Type.GROUP), in 4.0.
_HEARTBEAT_OF_4_0: Final = 1
#: The resources of DescribeConfigs (Kafka: ConfigResource.Type).
_TOPIC, _BROKER, _GROUP = 2, 4, 32
#: The source of a setting that is the group's own (Kafka: ConfigSource.GROUP_CONFIG).
_SET_FOR_GROUP: Final = 8
#: Version 10 names topics by id, which would require a lookup.
_NEWEST_FETCH = 9


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as the broker described it. kind: classic, consumer, share or streams; raw: that API's group struct."""

    kind: str
    raw: object


class GroupSettings(NamedTuple):
    """A group's settings by name, as a broker states them. own: names of those that are set for this group, not the
    broker's; maybe also of others."""

    values: dict[str, str]
    own: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffsets:
    """A share group's offsets: the first offset not yet processed in each partition, and how many records are left."""

    starts: Offsets = field(default_factory=dict)
    lags: Offsets = field(default_factory=dict)


def describe(
    connection: BrokerConnection, group_ids: list[str], deadline: Deadline, *, listed_as_classic: Container[str] = ()
) -> dict[str, GroupDescription | KgmError]:
    """Describe groups of any type.

    ConsumerGroupDescribe first, DescribeGroups for the groups that it does not know, the share and streams APIs for the
    rest: Kafka's admin client requires the type, and users rarely know it. For groups that were listed as classic,
    DescribeGroups comes first; if their type has changed, they are then requested like all others."""
    results: dict[str, GroupDescription | KgmError] = {}
    classic = [group_id for group_id in group_ids if group_id in listed_as_classic]
    if classic:
        results.update(_describe_classic(connection, classic, deadline))
    rest = [group_id for group_id in group_ids if group_id not in results]
    if rest and connection.supports(ApiKey.CONSUMER_GROUP_DESCRIBE):
        results.update(_describe_consumer(connection, rest, deadline))
        rest = [group_id for group_id in rest if group_id not in results]
    if rest:
        results.update(_describe_classic(connection, rest, deadline))
    absent = [group_id for group_id in rest if group_id not in results]
    if absent and connection.supports(ApiKey.SHARE_GROUP_DESCRIBE, 1):
        results.update(_describe_other(connection, absent, deadline, "share"))
        absent = [group_id for group_id in absent if group_id not in results]
    if absent and connection.supports(ApiKey.STREAMS_GROUP_DESCRIBE):
        results.update(_describe_other(connection, absent, deadline, "streams"))
    for group_id in group_ids:
        if group_id not in results:
            results[group_id] = not_found(
                group_id, (f"its coordinator, broker {connection.address}, has no such group",)
            )
    return results


def instance_ids_in_use(
    connection: BrokerConnection, group_id: str, instance_ids: Sequence[str], deadline: Deadline
) -> set[str] | KgmError:  # fmt: skip
    """Which of these instance ids belong to a member. Raises UnsupportedError, LostError."""
    from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
    from kgm.protocol.messages.heartbeat_response import HeartbeatResponse

    version = connection.version(ApiKey.HEARTBEAT)
    if version < _STATIC_HEARTBEAT:
        raise UnsupportedError(f"broker {connection.address} does not support instance ids in Heartbeat v{version}")
    in_use = set()
    for instance_id in instance_ids:
        request = HeartbeatRequest(group_id=group_id, generation_id=-1, member_id="", group_instance_id=instance_id)
        code = connection.call(request, HeartbeatResponse, version=version, deadline=deadline).error_code
        if code == ErrorCode.FENCED_INSTANCE_ID:
            in_use.add(instance_id)
        elif code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            return from_code(
                code, f"the coordinator does not report which member of group {group_id!r} has {instance_id!r}",
                broker=str(connection.address), api="Heartbeat", operation="READ", group_id=group_id,
            )  # fmt: skip
    return in_use


def _describe_consumer(
    connection: BrokerConnection, group_ids: list[str], deadline: Deadline
) -> dict[str, GroupDescription | KgmError]:
    version = connection.version(ApiKey.CONSUMER_GROUP_DESCRIBE)
    request = ConsumerGroupDescribeRequest(group_ids=group_ids)
    answer = connection.call(request, ConsumerGroupDescribeResponse, version=version, deadline=deadline)
    return _results_of_type("consumer", answer.groups, connection, "ConsumerGroupDescribe")


def _describe_classic(
    connection: BrokerConnection, group_ids: list[str], deadline: Deadline
) -> dict[str, GroupDescription | KgmError]:
    version = connection.version(ApiKey.DESCRIBE_GROUPS)
    request = DescribeGroupsRequest(groups=group_ids)
    answer = connection.call(request, DescribeGroupsResponse, version=version, deadline=deadline)
    # Before v6, a group that does not exist is "Dead" without an error.
    groups = [group for group in answer.groups if group.error_code or group.group_state != "Dead"]
    return _results_of_type("classic", groups, connection, "DescribeGroups")


def _describe_other(
    connection: BrokerConnection, group_ids: list[str], deadline: Deadline, kind: str
) -> dict[str, GroupDescription | KgmError]:
    if kind == "share":
        from kgm.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
        from kgm.protocol.messages.share_group_describe_response import ShareGroupDescribeResponse

        version = connection.version(ApiKey.SHARE_GROUP_DESCRIBE)
        share_request = ShareGroupDescribeRequest(group_ids=group_ids)
        share = connection.call(share_request, ShareGroupDescribeResponse, version=version, deadline=deadline)
        return _results_of_type(kind, share.groups, connection, "ShareGroupDescribe")
    from kgm.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
    from kgm.protocol.messages.streams_group_describe_response import StreamsGroupDescribeResponse

    version = connection.version(ApiKey.STREAMS_GROUP_DESCRIBE)
    request = StreamsGroupDescribeRequest(group_ids=group_ids)
    streams = connection.call(request, StreamsGroupDescribeResponse, version=version, deadline=deadline)
    return _results_of_type(kind, streams.groups, connection, "StreamsGroupDescribe")


def _results_of_type(
    kind: str, groups: Iterable[object], connection: BrokerConnection, api: str
) -> dict[str, GroupDescription | KgmError]:
    """Descriptions and errors; groups of another type are left out."""
    results: dict[str, GroupDescription | KgmError] = {}
    for group in groups:
        group_id: str = group.group_id  # type: ignore[attr-defined]
        code: int = group.error_code  # type: ignore[attr-defined]
        if not code:
            results[group_id] = GroupDescription(kind, group)
        elif code not in _OTHER_TYPE:
            results[group_id] = from_code(
                code, f"group {group_id!r} cannot be described", broker=str(connection.address), api=api,
                group_id=group_id, text=group.error_message,  # type: ignore[attr-defined]
            )  # fmt: skip
    return results


def fetch_committed(
    connection: BrokerConnection, group_ids: list[str], deadline: Deadline
) -> dict[str, Offsets | KgmError]:
    """All committed offsets of groups. Partitions without a committed offset are left out."""
    version = connection.version(ApiKey.OFFSET_FETCH, at_most=_NEWEST_FETCH)
    if version >= _BATCHED_FETCH:
        groups = [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in group_ids]
        request = OffsetFetchRequest(groups=groups)
        answer = connection.call(request, OffsetFetchResponse, version=version, deadline=deadline)
        return {row.group_id: _committed(row.group_id, row.error_code, row.topics, connection) for row in answer.groups}
    results: dict[str, Offsets | KgmError] = {}
    for group_id in group_ids:
        if version < 2:  # v1 cannot ask for all topics
            results[group_id] = {}
            continue
        one = OffsetFetchRequest(group_id=group_id, topics=None)
        answer = connection.call(one, OffsetFetchResponse, version=version, deadline=deadline)
        results[group_id] = _committed(group_id, answer.error_code, answer.topics, connection)
    return results


def _committed(group_id: str, code: int, topics: Sequence[Any], connection: BrokerConnection) -> Offsets | KgmError:
    """The offsets; an error if even one partition cannot be read: otherwise some of them would pass for all."""
    offsets: Offsets = {}
    place = ""
    for topic in topics:
        for row in topic.partitions:
            if row.error_code:
                code, place = code or row.error_code, place or f" of {topic.name}[{row.partition_index}]"
            elif row.committed_offset >= 0:
                offsets[topic.name, row.partition_index] = row.committed_offset
    if not code:
        return offsets
    return from_code(
        code, f"the committed offsets of group {group_id!r}{place} cannot be read", broker=str(connection.address),
        api="OffsetFetch", group_id=group_id,
    )  # fmt: skip


def fetch_share_offsets(
    connection: BrokerConnection, group_ids: list[str], deadline: Deadline
) -> dict[str, ShareOffsets | KgmError]:
    """Where share groups start to read, and their lags (KIP-1226, Kafka 4.2). Empty for brokers without the API."""
    from kgm.protocol.messages.describe_share_group_offsets_request import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )
    from kgm.protocol.messages.describe_share_group_offsets_response import DescribeShareGroupOffsetsResponse

    if not connection.supports(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS):
        return dict.fromkeys(group_ids, ShareOffsets())
    groups = [DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None) for group_id in group_ids]
    request = DescribeShareGroupOffsetsRequest(groups=groups)
    version = connection.version(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)
    answer = connection.call(request, DescribeShareGroupOffsetsResponse, version=version, deadline=deadline)
    return {row.group_id: _share_offsets(row, connection) for row in answer.groups}


def _share_offsets(group: Any, connection: BrokerConnection) -> ShareOffsets | KgmError:
    """The offsets; an error if even one partition cannot be read, as with committed offsets."""
    rows = [(topic.topic_name, row) for topic in group.topics for row in topic.partitions]
    code = group.error_code or next((row.error_code for _, row in rows if row.error_code), 0)
    if code:
        return from_code(
            code, f"the offsets of share group {group.group_id!r} cannot be read", broker=str(connection.address),
            api="DescribeShareGroupOffsets", group_id=group.group_id, text=group.error_message,
        )  # fmt: skip
    begun = {(topic, row.partition_index): row for topic, row in rows if row.start_offset >= 0}
    return ShareOffsets(
        starts={pair: row.start_offset for pair, row in begun.items()},
        lags={pair: row.lag for pair, row in begun.items() if row.lag >= 0},
    )


def fetch_offsets(
    connection: BrokerConnection,
    partitions: Mapping[str, Sequence[int]],
    deadline: Deadline,
    *,
    is_stable: bool = False,
    is_start: bool = False,
) -> tuple[Offsets, dict[tuple[str, int], KgmError]]:
    """(the end offset of each partition that this broker leads, why it does not report the others).

    is_stable: the last stable offset instead, if the broker supports it (ListOffsets v2, KIP-98). is_start: the first
    offset still in the log."""
    from kgm.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
    from kgm.protocol.messages.list_offsets_response import ListOffsetsResponse

    timestamp = _EARLIEST if is_start else _LATEST
    topics = [
        ListOffsetsTopic(
            name=name, partitions=[ListOffsetsPartition(partition_index=p, timestamp=timestamp) for p in numbers]
        )
        for name, numbers in partitions.items()
    ]
    version = connection.version(ApiKey.LIST_OFFSETS)
    isolation_level = _READ_COMMITTED if is_stable and version >= _ISOLATED_OFFSETS else 0
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
    answer = connection.call(request, ListOffsetsResponse, version=version, deadline=deadline)
    offsets: Offsets = {}
    refused: dict[tuple[str, int], KgmError] = {}
    for topic in answer.topics:
        for row in topic.partitions:
            pair = topic.name, row.partition_index
            if row.error_code:
                refused[pair] = from_code(
                    row.error_code, f"the offsets of {topic.name}[{row.partition_index}] cannot be read",
                    broker=str(connection.address), api="ListOffsets",
                )  # fmt: skip
            elif row.offset >= 0:
                offsets[pair] = row.offset
    return offsets, refused


def fetch_topic_names(connection: BrokerConnection, topic_ids: Iterable[bytes], deadline: Deadline) -> dict[bytes, str]:
    """The names of topics that exist and may be described, by id (3.1)."""
    from kgm.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
    from kgm.protocol.messages.metadata_response import MetadataResponse

    version = connection.version(ApiKey.METADATA)
    if version < _METADATA_BY_ID:
        return {}
    topics = [MetadataRequestTopic(topic_id=each, name=None) for each in topic_ids]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    answer = connection.call(request, MetadataResponse, version=version, deadline=deadline)
    return {row.topic_id: row.name for row in answer.topics if row.name and not row.error_code}


def fetch_group_settings(
    connection: BrokerConnection, group_ids: list[str], names: list[str], deadline: Deadline
) -> dict[str, GroupSettings | KgmError]:
    """Settings of groups as the broker states them, by group id, or why they cannot be read (4.0, DESCRIBE_CONFIGS):
    see `effective_settings`.

    None of brokers without settings of groups: those are not asked, since some log an error with a stack trace."""
    from kgm.coordinator.contract.settings import GroupConfig

    are_known = connection.supports(ApiKey.CONSUMER_GROUP_HEARTBEAT, _HEARTBEAT_OF_4_0)
    if not are_known or not connection.supports(ApiKey.DESCRIBE_CONFIGS):
        return {}
    settings: dict[str, GroupSettings | KgmError] = {}
    of_streams = any(map(_is_of_streams, names))  # then it matters whether the group has any of its own
    asked = sorted({*names, *GroupConfig.names()}) if of_streams else names
    for row in _describe_configs(connection, _GROUP, group_ids, asked, deadline):
        if row.error_code in (0, ErrorCode.INVALID_REQUEST):
            values = {
                config.name: config.value for config in row.configs if config.name in names and config.value is not None
            }
            own = frozenset(config.name for config in row.configs if config.config_source == _SET_FOR_GROUP)
            settings[row.resource_name] = GroupSettings(values, own)
        else:
            settings[row.resource_name] = from_code(
                row.error_code, f"the settings of group {row.resource_name!r} cannot be read",
                broker=str(connection.address), api="DescribeConfigs", operation="DESCRIBE_CONFIGS",
                group_id=row.resource_name, text=row.error_message,
            )  # fmt: skip
    return settings


def effective_settings(
    connection: BrokerConnection, broker_id: int, stated: Mapping[str, GroupSettings], deadline: Deadline
) -> dict[str, dict[str, str] | KgmError]:
    """The settings that apply to groups, by group id and name, from those that any broker states: from 4.3 on a
    coordinator limits a group's own settings to the range that its own broker allows now, and does not state that
    (GroupConfig). Up to 4.2 a broker states Kafka's defaults for streams settings that a group does not have itself.
    They apply to a group that has any settings of its own; to others, the broker's do. connection, broker_id: of that
    coordinator.

    An error for a group of which it is not known whether they are limited, or to what. Raises KgmError if the broker's
    own settings cannot be read."""
    from kgm.client.version_inference import possible_versions
    from kgm.coordinator.contract.behavior import behavior_of
    from kgm.coordinator.contract.settings import limits_of

    settings: dict[str, dict[str, str] | KgmError] = {group_id: one.values for group_id, one in stated.items()}
    set_for = {group_id: one.own & one.values.keys() for group_id, one in stated.items()}
    own = {group_id: names for group_id, names in set_for.items() if any(map(any, map(limits_of, names)))}
    unset = {group_id: {*filter(_is_of_streams, one.values)} for group_id, one in stated.items() if not one.own}
    is_open = bool(own) or any(unset.values())
    versions = possible_versions(connection.versions, connection.supported_features) if is_open else ()
    are_limited = {behavior_of(version).limits_group_configs for version in versions}
    if any(unset.values()) and are_limited != {True}:
        asked = sorted({f"group.{name}" for names in unset.values() for name in names})
        brokers = fetch_broker_settings(connection, broker_id, asked, deadline)
        for group_id, of_streams in unset.items():
            rest = {name: value for name, value in stated[group_id].values.items() if name not in of_streams}
            settings[group_id] = rest | {
                name: brokers[f"group.{name}"] for name in of_streams if f"group.{name}" in brokers
            }
    if not own or are_limited == {False}:
        return settings
    limits = {limit for names in own.values() for name in names for limit in limits_of(name) if limit is not None}
    bounds = fetch_broker_settings(connection, broker_id, sorted(limits), deadline)
    for group_id, names in own.items():
        values = stated[group_id].values
        limited = {name: _limited(values[name], *limits_of(name), bounds) for name in names}
        known = {name: value for name, value in limited.items() if value is not None}
        is_certain = are_limited == {True} or all(values[name] == value for name, value in known.items())
        if len(known) == len(limited) and is_certain:
            settings[group_id] = {**values, **known}
        else:
            settings[group_id] = BrokerError(
                "it is not known which limits the broker sets to a group's own settings", group_id=group_id
            )
    return settings


def _is_of_streams(name: str) -> bool:
    return name.startswith("streams.")


def _limited(value: str, low: str | None, high: str | None, bounds: Mapping[str, str]) -> str | None:
    """A group's own setting within the range that the broker allows; None if the broker does not report that. low,
    high: the broker's settings that limit it; None: it has no such limit."""
    try:
        number = int(value)
        number = number if low is None else max(number, int(bounds[low]))
        return str(number if high is None else min(number, int(bounds[high])))
    except (KeyError, ValueError):
        return None


def fetch_broker_settings(
    connection: BrokerConnection, broker_id: int, names: list[str], deadline: Deadline
) -> dict[str, str]:
    """Settings of this broker, by name, if it has them. Raises KgmError (DESCRIBE_CONFIGS on the cluster)."""
    settings = fetch_stated_settings(connection, broker_id, names, deadline)
    return {name: value for name, value in settings.items() if value is not None}


def fetch_stated_settings(
    connection: BrokerConnection, broker_id: int, names: list[str], deadline: Deadline
) -> dict[str, str | None]:
    """Like `fetch_broker_settings`, with None for settings that the broker has but does not show: secrets, and those
    that only its plugins know. Raises KgmError (DESCRIBE_CONFIGS on the cluster)."""
    return _fetch_settings(connection, _BROKER, str(broker_id), names, f"broker {broker_id}", deadline)


def fetch_topic_settings(
    connection: BrokerConnection, topic: str, names: list[str], deadline: Deadline
) -> dict[str, str | None]:
    """Effective settings of a topic, by name, if the broker has them. Raises KgmError (DESCRIBE_CONFIGS on the
    topic)."""
    return _fetch_settings(connection, _TOPIC, topic, names, f"topic {topic}", deadline)


def _fetch_settings(
    connection: BrokerConnection, resource_type: int, resource_name: str, names: list[str], what: str,
    deadline: Deadline,
) -> dict[str, str | None]:  # fmt: skip
    """Settings of one resource. what: the resource in words."""
    results = _describe_configs(connection, resource_type, [resource_name], names, deadline)
    for row in results:
        if row.error_code:
            raise from_code(
                row.error_code, f"the settings of {what} cannot be read", broker=str(connection.address),
                api="DescribeConfigs", operation="DESCRIBE_CONFIGS", text=row.error_message,
            )  # fmt: skip
    return {config.name: config.value for row in results for config in row.configs if config.name in names}


def _describe_configs(
    connection: BrokerConnection, resource_type: int, resource_names: list[str], names: list[str], deadline: Deadline
) -> list[DescribeConfigsResult]:
    from kgm.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
    from kgm.protocol.messages.describe_configs_response import DescribeConfigsResponse

    resources = [
        DescribeConfigsResource(resource_type=resource_type, resource_name=one, configuration_keys=names)
        for one in resource_names
    ]
    version = connection.version(ApiKey.DESCRIBE_CONFIGS)
    request = DescribeConfigsRequest(resources=resources)
    return connection.call(request, DescribeConfigsResponse, version=version, deadline=deadline).results
