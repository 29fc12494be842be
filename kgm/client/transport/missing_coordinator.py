"""Explains why a group has no coordinator, with the partition of `__consumer_offsets` that the group belongs to.

The coordinator of a group is the leader of that partition (GroupMetadataManager.partitionFor). If the topic does not
exist, the partition has no leader, or its leader cannot load it, every request about the group is refused until that is
fixed, and no timeout is long enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kgm.client.transport.deadline import Deadline
from kgm.java.partitions import partition_for
from kgm.model.errors import ErrorCode, KgmError, UnreachableError, error_name
from kgm.protocol.messages.metadata_response import MetadataResponse

TOPIC: Final = "__consumer_offsets"
_LOOK: Final = f"kafka-topics.sh --describe --topic {TOPIC} --bootstrap-server"
_ANSWERED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


def look_up(errors: Iterable[KgmError], metadata: Callable[[], MetadataResponse]) -> MetadataResponse | KgmError | None:
    """What the brokers report about the topic, or why they do not; None if no error is about it."""
    if not any(error.kafka_error in _ANSWERED for error in errors):
        return None
    try:
        return metadata()
    except KgmError as error:
        return error


def error_in_vain(
    group_id: str, last: KgmError, topic: MetadataResponse | KgmError | None, deadline: Deadline
) -> KgmError:
    """The error for a group whose coordinator was asked until the deadline. last: its last result; topic: what
    `look_up` returned."""
    if last.kafka_error in _ANSWERED and topic is not None:
        name = error_name(last.kafka_error)
        broker = None if isinstance(topic, KgmError) or not topic.brokers else topic.brokers[0]
        server = "HOST:PORT" if broker is None else f"{broker.host}:{broker.port}"
        return UnreachableError(
            f"the coordinator of group {group_id!r} is not available: {name} for {deadline.budget_ms} ms",
            facts=(*last.facts, _where(group_id, topic)), group_id=group_id, kafka_error=last.kafka_error,
            hint=f"see the partition's leader and replicas: {_LOOK} {server}, and what its broker logs",
        )  # fmt: skip
    return UnreachableError(
        f"the coordinator of group {group_id!r} did not answer within {deadline.budget_ms} ms",
        facts=(f"last: {last.message}", *last.facts), hint=last.hint or "try a longer --timeout", group_id=group_id,
        kafka_error=last.kafka_error,
    )  # fmt: skip


def _where(group_id: str, found: MetadataResponse | KgmError) -> str:
    """The group's partition and its leader, as far as the brokers report them."""
    coordinator = f"a group's coordinator is the leader of its partition of {TOPIC}"
    if isinstance(found, KgmError):
        return f"{coordinator}, which could not be looked up: {found.message}"
    topic = next((one for one in found.topics if one.name == TOPIC), None)
    if topic is None or topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"{coordinator}, and the topic does not exist: creating it fails with too few brokers for its replicas"
    if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"{coordinator}, on which this login has no DESCRIBE"
    if topic.error_code or not topic.partitions:
        return f"{coordinator}, which cannot be described: {error_name(topic.error_code)}"
    number = partition_for(group_id, len(topic.partitions))
    row = next((one for one in topic.partitions if one.partition_index == number), None)
    known = {broker.node_id: broker for broker in found.brokers}
    if row is None or row.leader_id not in known:
        replicas = "" if row is None else f"; its replicas are on {', '.join(map(str, row.replica_nodes))}"
        return f"{coordinator}, and partition {number} has no leader{replicas}"
    broker = known[row.leader_id]
    return f"{coordinator}: partition {number}, led by broker {broker.node_id} ({broker.host}:{broker.port})"
