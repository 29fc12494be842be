"""The APIs that kgm supports: keys, versions, and the classes of their requests and responses."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from enum import IntEnum

from kgm.model.errors import DecodeError
from kgm.protocol.api_table import KAFKA_RELEASE, TABLE
from kgm.protocol.struct import Message

__all__ = ["API", "KAFKA_RELEASE", "ApiInfo", "ApiKey", "request_class", "response_class"]


@dataclass(frozen=True, slots=True)
class ApiInfo:
    """An API. Versions are inclusive; from `flexible_from` on, messages have compact lengths and tags (KIP-482)."""

    name: str
    min_version: int
    max_version: int
    flexible_from: int


API = {key: ApiInfo(*row) for key, row in TABLE.items()}


class ApiKey(IntEnum):
    """Kafka's API keys (org.apache.kafka.common.protocol.ApiKeys)."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    SHARE_GROUP_DESCRIBE = 77
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90


def request_class(key: int) -> type[Message]:
    """The request's class, imported on first use. Raises DecodeError for an API that kgm does not support."""
    return _class(key, "Request")


def response_class(key: int) -> type[Message]:
    """The response's class, imported on first use. Raises DecodeError for an API that kgm does not support."""
    return _class(key, "Response")


def _class(key: int, suffix: str) -> type[Message]:
    info = API.get(key)
    if info is None:
        raise DecodeError(f"API key {key} is not supported")

    stem = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", info.name).lower()
    module = importlib.import_module(f"kgm.protocol.messages.{stem}_{suffix.lower()}")
    message_class: type[Message] = getattr(module, info.name + suffix)
    return message_class
