"""The consumer protocol's blobs inside JoinGroup, SyncGroup and DescribeGroups: subscription and assignment, v0-v3.

Version 1 added owned partitions (KIP-429), version 2 the generation in which they were owned (KIP-792), version 3 the
rack (KIP-881). In a newer version, the known prefix is read (ConsumerProtocol.deserializeSubscription)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kgm.model.errors import DecodeError
from kgm.protocol import codec
from kgm.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kgm.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from kgm.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kgm.protocol.messages.consumer_protocol_subscription import TopicPartition as OwnedTopic

PROTOCOL_TYPE = "consumer"
NEWEST = 3
NO_GENERATION = -1
#: The version that added owned partitions, and in which some libraries leave them out.
SHORT_VERSION = 1
_VERSION = struct.Struct(">h")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A member's subscription in JoinGroup.

    owned_partitions: partitions by topic, owned in generation `generation_id` (-1: none, or from before KIP-792).
    says_owned: False for version 1 without owned partitions, as some libraries write it."""

    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned_partitions: Mapping[str, Sequence[int]] = field(default_factory=dict)
    generation_id: int = NO_GENERATION
    rack_id: str | None = None
    version: int = NEWEST
    says_owned: bool = True

    @property
    def distinct_topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.topics))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAssignment:
    """A member's assignment: partitions by topic. A topic that occurs twice is merged (librdkafka writes such)."""

    partitions: Mapping[str, Sequence[int]] = field(default_factory=dict)
    user_data: bytes | None = None
    version: int = NEWEST


def encode_subscription(subscription: Subscription) -> bytes:
    """The bytes of a subscription, starting with its version."""
    version = subscription.version
    owned = [OwnedTopic(topic=t, partitions=list(p)) for t, p in sorted(subscription.owned_partitions.items())]
    message = ConsumerProtocolSubscription(
        topics=list(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=owned if version >= 1 else [],
        generation_id=subscription.generation_id if version >= 2 else NO_GENERATION,
        rack_id=subscription.rack_id if version >= 3 else None,
    )
    is_short = version == SHORT_VERSION and not subscription.says_owned
    return _VERSION.pack(version) + codec.encode(message, version - is_short)


def decode_subscription(data: bytes, *, is_strict: bool = False) -> Subscription:
    """Decode a subscription. Raises DecodeError, also if there are no bytes at all.

    kafka-go and platformatic write version 1 without the owned partitions, which counts as owning none. is_strict:
    refuse that, as Kafka's own classes do."""
    version, known = _versions(data, "subscription")
    says_owned = True
    try:
        message = codec.decode(ConsumerProtocolSubscription, data, known, offset=2, allow_trailing=True)
    except DecodeError:
        if version != SHORT_VERSION or is_strict:
            raise
        # Nothing may follow: data that ends inside the owned partitions is truncated, and not from these libraries.
        message = codec.decode(ConsumerProtocolSubscription, data, version - 1, offset=2)
        says_owned = False
    return Subscription(
        topics=tuple(message.topics),
        user_data=message.user_data,
        owned_partitions=_merged(message.owned_partitions),
        generation_id=message.generation_id,
        rack_id=message.rack_id,
        version=version,
        says_owned=says_owned,
    )


def encode_assignment(assignment: MemberAssignment) -> bytes:
    """The bytes of an assignment, starting with its version; topics in the order given."""
    topics = [AssignedTopic(topic=t, partitions=list(p)) for t, p in assignment.partitions.items()]
    message = ConsumerProtocolAssignment(assigned_partitions=topics, user_data=assignment.user_data)
    return _VERSION.pack(assignment.version) + codec.encode(message, assignment.version)


def decode_assignment(data: bytes, *, is_listed: bool = False) -> MemberAssignment:
    """Decode an assignment; no bytes at all mean that nothing is assigned. is_listed: keep partitions in the order in
    which they are written. Raises DecodeError."""
    if not data:
        return MemberAssignment()
    version, known = _versions(data, "assignment")
    message = codec.decode(ConsumerProtocolAssignment, data, known, offset=2, allow_trailing=True)
    partitions = _merged(message.assigned_partitions, is_listed=is_listed)
    return MemberAssignment(partitions=partitions, user_data=message.user_data, version=version)


def readable_subscription(data: bytes) -> Subscription | None:
    """The subscription; None if it cannot be read."""
    try:
        return decode_subscription(data)
    except DecodeError:
        return None


def readable_assignment(data: bytes) -> MemberAssignment | None:
    """The assignment; None if it cannot be read. A member has no bytes until it has synced."""
    try:
        return decode_assignment(data)
    except DecodeError:
        return None


def _versions(data: bytes, what: str) -> tuple[int, int]:
    """(the version in the bytes, the version to decode them with)."""
    if len(data) < _VERSION.size:
        raise DecodeError(f"a consumer protocol {what} of {len(data)} bytes has no version")
    version = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"consumer protocol {what} version {version}")
    return version, min(version, NEWEST)


def _merged(rows: Sequence[OwnedTopic] | Sequence[AssignedTopic], *, is_listed: bool = False) -> dict[str, list[int]]:
    merged: dict[str, list[int]] = {}
    for row in rows:
        merged.setdefault(row.topic, []).extend(row.partitions)
    if is_listed:
        return {topic: [*dict.fromkeys(partitions)] for topic, partitions in merged.items()}
    return {topic: sorted(set(partitions)) for topic, partitions in merged.items()}
