"""A reply as one line of text that is the same from every server that behaves the same.

The rules. Left out: throttle_time_ms, features in ApiVersions, and fields with Kafka's default. Named instead of shown:
member ids (the prefix, and who got it), group ids (as in the story), topic ids, producer ids, the cluster id, the
coordinator's number, addresses. Sorted, because in Kafka the order comes from a hash map or from the order in which
partitions of its log answered: see `UNORDERED`. ListGroups and Metadata show only what belongs to the story,
ApiVersions only the APIs that kgm serves."""

import re
from typing import TYPE_CHECKING, Any

from kgm.model.errors import DecodeError, ErrorCode
from kgm.protocol.apis import ApiKey
from kgm.protocol.struct import Message, Struct
from kgm.protocol.subscription import decode_subscription

if TYPE_CHECKING:
    from tests.server.wire.play import Run

#: (message or struct, field)
UNORDERED = {
    ("Assignment", "topic_partitions"),
    ("Member", "subscribed_topic_names"),
    ("DescribeConfigsResult", "configs"),
    ("JoinGroupResponse", "members"),
    ("DescribeGroupsResponse", "groups"),
    ("DescribedGroup", "members"),
    ("ListGroupsResponse", "groups"),
    ("DeleteGroupsResponse", "results"),
    ("OffsetFetchResponse", "topics"),
    ("OffsetFetchResponse", "groups"),
    ("OffsetFetchResponseGroup", "topics"),
    ("OffsetFetchResponseTopic", "partitions"),
    ("OffsetFetchResponseTopics", "partitions"),
    ("OffsetCommitResponse", "topics"),
    ("OffsetDeleteResponse", "topics"),
    ("ListOffsetsResponse", "topics"),
    ("MetadataResponse", "topics"),
    ("MetadataResponseTopic", "partitions"),
    ("ConsumerGroupDescribeResponse", "groups"),
}
#: The APIs whose versions in ApiVersions are compared with Kafka's: those that kgm serves for coordinators and
#: consumers.
COMPARED_APIS = {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
}
#: Structs with an error text, which each server words in its own way.
_WORDED = {
    "AlterConfigsResourceResponse",
    "ConsumerGroupHeartbeatResponse",
    "CreatableTopicResult",
    "CreatePartitionsTopicResult",
    "DeletableTopicResult",
    "DescribeConfigsResult",
    "StreamsGroupHeartbeatResponse",
}
NOT_SHOWN = {
    "throttle_time_ms",
    # What a broker offers in addition to the APIs; kgm serve has no such features.
    "supported_features",
    "finalized_features",
    "finalized_features_epoch",
    "documentation",
}
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: An id as Kafka writes it; member ids of consumer groups look like this.
_BARE = re.compile(r"[A-Za-z0-9_-]{22}")
_SUBSCRIPTIONS = ("metadata", "member_metadata")


def text_of(message: Message, run: "Run") -> str:
    """The line for a reply."""
    shown = _struct(message, run)
    error = getattr(message, "error_code", None)
    parts = [_error(error)] if error is not None else []
    parts += [f"{name}={value}" for name, value in shown.items() if name != "error_code"]
    return run.anonymous(" ".join(parts) or "{}")


def _struct(struct: Struct, run: "Run") -> dict[str, str]:
    shown = {}
    for row in struct.FIELDS:
        name, default = row[0], row[4]
        value = getattr(struct, name)
        if name in NOT_SHOWN or (value == (list(default) if default == () else default)):
            continue
        if name == "error_message" and type(struct).__name__ in _WORDED and value is not None:
            value = "<text>" if value else ""
        if type(struct).__name__ == "CreatableTopicResult" and name in ("configs", "topic_id"):
            continue  # topics have none here; and an id made only for a validation means nothing
        text = _value(struct, name, value, run)
        if text:
            shown[name] = text
    return shown


def _value(struct: Struct, name: str, value: Any, run: "Run") -> str:
    if name == "error_code":
        return _error(value)
    if name == "node_id" and value == run.coordinator_id:
        return "<coordinator>"
    if name == "producer_id":
        return "<producer>"
    if isinstance(value, list):
        if isinstance(struct, Message):
            value = [item for item in value if _concerns(struct, item, run)]
            if not value:
                return ""
        if name == "partitions" and type(struct).__name__ == "TopicPartitions":
            value = sorted(value)
        items = [_item(item, run) for item in value]
        if (type(struct).__name__, name) in UNORDERED:
            items = sorted(run.anonymous(item) for item in items)
        return "[" + ", ".join(items) + "]"
    if isinstance(value, bytes):
        return _bytes(name, value, run)
    if isinstance(value, Struct):
        return _item(value, run)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, str):
        return value if re.fullmatch(r"[^\s,=\[\]{}']+", value) else repr(value)
    return str(value)


def _item(item: Any, run: "Run") -> str:
    if not isinstance(item, Struct):
        return _value(item, "", item, run) if not isinstance(item, int) else str(item)
    return "{" + " ".join(f"{name}={value}" for name, value in _struct(item, run).items()) + "}"


def _bytes(name: str, value: bytes, run: "Run") -> str:
    if name == "topic_id":
        return run.topic_of(value)
    if name in _SUBSCRIPTIONS and value:
        try:
            found = decode_subscription(value)
            return "<" + ",".join(found.topics) + ">"
        except DecodeError:
            pass
    return repr(value)[1:]


def _error(code: int) -> str:
    return ErrorCode(code).name


def _concerns(message: Message, item: Any, run: "Run") -> bool:
    """Whether a row belongs to the story: brokers are full of other stories' groups and topics."""
    match message.API_KEY:
        case ApiKey.LIST_GROUPS:
            return run.is_own(item.group_id)
        case ApiKey.METADATA:
            return not hasattr(item, "topic_id") or item.name is None or item.error_code or item.name in run.topics
        case ApiKey.API_VERSIONS:
            return not hasattr(item, "api_key") or item.api_key in COMPARED_APIS
    return True


def new_ids(text: str) -> list[str]:
    """Random member ids in a text, without their prefixes."""
    return _UUID.findall(text)


def id_in(member_id: str) -> str | None:
    """The random part of a member id; None if there is none."""
    found = _UUID.search(member_id)
    return found[0] if found is not None else member_id if _BARE.fullmatch(member_id) else None
