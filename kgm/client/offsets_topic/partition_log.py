"""`__consumer_offsets` read as a consumer reads it: its leaders, the first and end offset of a partition, its records.

Reading takes READ on the topic. Everything here raises KgmError for what cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import (
    AuthorizationError,
    DecodeError,
    ErrorCode,
    KgmError,
    NotFoundError,
    UnreachableError,
    error_name,
)
from kgm.protocol.apis import ApiKey

if TYPE_CHECKING:
    from kgm.client.admin_client import AdminClient
    from kgm.client.transport.brokers import BrokerNode
    from kgm.records.batch import Batch

OFFSETS_TOPIC: Final = "__consumer_offsets"
_FETCH_BYTES = 1 << 20
_EARLIEST, _LATEST = -2, -1
#: From version 13 on topics have ids.
_NEWEST_FETCH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRecords:
    """The result of one fetch. records: (key, value, timestamp in ms), oldest first; next_offset: of the next fetch."""

    size_bytes: int
    next_offset: int
    records: list[tuple[bytes | None, bytes | None, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLeader:
    """epoch: the leader epoch, -1 where a broker does not tell it."""

    broker: BrokerNode
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsTopic:
    """partition_count: of the topic; leaders: by partition, without the partitions that have none now."""

    partition_count: int
    leaders: Mapping[int, PartitionLeader]


def look_up(cluster: AdminClient, deadline: Deadline) -> OffsetsTopic:
    """Where the partitions are now.

    Raises AuthorizationError without READ on the topic, NotFoundError where there is none, another KgmError for what
    cannot be known now."""
    topics = cluster.brokers.metadata([OFFSETS_TOPIC], deadline).topics
    if not topics or topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise NotFoundError(
            f"the brokers report no topic {OFFSETS_TOPIC}",
            facts=("it is created with the first group of a cluster",),
        )
    topic = topics[0]
    if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise unauthorized()
    _check(topic.error_code)
    if not topic.partitions:
        raise DecodeError(f"the brokers report no partition of {OFFSETS_TOPIC}")
    by_id = {broker.id: broker for broker in cluster.brokers.brokers()}
    leaders = {
        row.partition_index: PartitionLeader(broker=by_id[row.leader_id], epoch=row.leader_epoch)
        for row in topic.partitions
        if row.leader_id in by_id
    }
    return OffsetsTopic(partition_count=len(topic.partitions), leaders=leaders)


def unauthorized() -> AuthorizationError:
    """The error for a principal that may not read the topic."""
    return AuthorizationError(
        f"{OFFSETS_TOPIC} cannot be read",
        facts=(f"required: READ on Topic '{OFFSETS_TOPIC}'",),
        kafka_error=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )


def leaderless(partition: int) -> UnreachableError:
    """The error for a partition without a leader."""
    return UnreachableError(f"partition {partition} of {OFFSETS_TOPIC} has no leader")


def why_unreadable(error: KgmError) -> str:
    """The error in one phrase."""
    if error.kafka_error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"no READ on Topic '{OFFSETS_TOPIC}'"
    if isinstance(error, NotFoundError):
        return error.message
    reason = error_name(error.kafka_error) if error.kafka_error else error.message
    return f"{OFFSETS_TOPIC} cannot be read ({reason})"


def windows_back(start: int, end: int, first_window: int) -> Iterator[tuple[int, int]]:
    """(first offset, offset after the last) from the end back to the start, twice as many offsets each time: a topic
    cannot be searched backwards."""
    window = first_window
    while end > start:
        first = max(start, end - window)
        yield first, end
        end, window = first, window * 2


def group_record_key(group_id: str) -> bytes:
    """The key of a classic group's own records."""
    from kgm.records.messages.group_metadata_key import GroupMetadataKey
    from kgm.records.record import Record, encode_record

    key, _ = encode_record(Record(GroupMetadataKey(group=group_id), None))
    return key


def fetch_records(
    connection: BrokerConnection, partition: int, first: int, end: int, deadline: Deadline
) -> Iterator[FetchedRecords]:
    """Fetch after fetch, from offset `first` to before `end`. Raises KgmError."""
    for fetched in fetch_batches(connection, partition, first, end, deadline):
        read = [row for batch in fetched if not batch.is_control for row in batch.records]
        records = [(row.key, row.value, row.timestamp) for row in read if first <= row.offset < end]
        size = sum(len(batch.data) for batch in fetched)
        yield FetchedRecords(size_bytes=size, next_offset=fetched[-1].last_offset + 1, records=records)


def fetch_batches(
    connection: BrokerConnection, partition: int, first: int, end: int, deadline: Deadline
) -> Iterator[list[Batch]]:
    """The record batches of each fetch, from the one with offset `first` to the one before `end`.

    Raises KgmError."""
    return (batches for _, batches in _fetches(connection, partition, first, end, deadline, _FETCH_BYTES))


def fetch_log(
    connection: BrokerConnection, partition: int, first: int, end: int, deadline: Deadline, *, fetch_bytes: int
) -> Iterator[tuple[bytes, int]]:
    """(whole record batches as they are in the log, the offset after them) of each fetch, from the batch with offset
    `first` to the one before `end`. fetch_bytes: of one fetch, about. Raises KgmError."""
    for data, batches in _fetches(connection, partition, first, end, deadline, fetch_bytes):
        yield data[: sum(len(batch.data) for batch in batches)], batches[-1].last_offset + 1


def offset_at(connection: BrokerConnection, partition: int, at_ms: int, deadline: Deadline) -> int:
    """The offset of the first record of that time or later, -1 if there is none. Raises KgmError."""
    return _offset(connection, partition, at_ms, deadline)


def end_offset(connection: BrokerConnection, partition: int, deadline: Deadline) -> int:
    """The offset of the next record. Raises KgmError."""
    return _offset(connection, partition, _LATEST, deadline)


def start_offset(connection: BrokerConnection, partition: int, deadline: Deadline) -> int:
    """The offset of the first record that is left. Raises KgmError."""
    return _offset(connection, partition, _EARLIEST, deadline)


def _offset(connection: BrokerConnection, partition: int, at: int, deadline: Deadline) -> int:
    from kgm.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
    from kgm.protocol.messages.list_offsets_response import ListOffsetsResponse

    row = ListOffsetsPartition(partition_index=partition, timestamp=at)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=OFFSETS_TOPIC, partitions=[row])])
    version = connection.version(ApiKey.LIST_OFFSETS)
    answer = connection.call(request, ListOffsetsResponse, version=version, deadline=deadline)
    for topic in answer.topics:
        for one in topic.partitions:
            _check(one.error_code)
            return one.offset
    return 0


def _fetches(
    connection: BrokerConnection, partition: int, first: int, end: int, deadline: Deadline, fetch_bytes: int
) -> Iterator[tuple[bytes, list[Batch]]]:
    """(what was fetched, its whole batches, at least one) of each fetch. Raises KgmError."""
    from kgm.records.batch import whole_batches

    while first < end:
        data = _fetch(connection, partition, first, deadline, fetch_bytes)
        batches = whole_batches(data)
        if not batches:
            raise DecodeError(f"partition {partition} of {OFFSETS_TOPIC} has no records from offset {first} on")
        first = batches[-1].last_offset + 1
        yield data, batches


def _fetch(connection: BrokerConnection, partition: int, offset: int, deadline: Deadline, fetch_bytes: int) -> bytes:
    from kgm.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
    from kgm.protocol.messages.fetch_response import FetchResponse

    row = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=fetch_bytes)
    topics = [FetchTopic(topic=OFFSETS_TOPIC, partitions=[row])]
    request = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=fetch_bytes, topics=topics)
    version = connection.version(ApiKey.FETCH, at_most=_NEWEST_FETCH)
    answer = connection.call(request, FetchResponse, version=version, deadline=deadline)
    _check(answer.error_code)
    for topic in answer.responses:
        for one in topic.partitions:
            _check(one.error_code)
            return one.records or b""
    return b""


def _check(error_code: int) -> None:
    if error_code != ErrorCode.NONE:
        raise KgmError(f"{OFFSETS_TOPIC} cannot be read: {error_name(error_code)}", kafka_error=error_code)
