"""Reads `__consumer_offsets` the way a consumer does: its leaders, a partition's first and end offset, its records.

Reading requires READ on the topic. Everything here raises KgmError for what cannot be read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kgm.client.requests import fetch_offsets
from kgm.client.transport.brokers import BrokerNode, Brokers
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
from kgm.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kgm.protocol.messages.fetch_response import FetchResponse
from kgm.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kgm.protocol.messages.list_offsets_response import ListOffsetsResponse
from kgm.records.batch import Batch, RawRecord, decode_batches, extent
from kgm.records.messages.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from kgm.records.messages.streams_group_target_assignment_metadata_key import StreamsGroupTargetAssignmentMetadataKey
from kgm.records.record import Record, encode_record

OFFSETS_TOPIC: Final = "__consumer_offsets"
#: How many times to try a read that fails because a partition temporarily has no leader, or has a new one; and the time
#: between two tries.
ATTEMPTS: Final = 4
PAUSE_S: Final = 0.5
_FETCH_BYTES = 1 << 20
#: The most bytes that the records of one fetch can take when decompressed.
MAX_UNPACKED = 64 << 20
_EARLIEST, _LATEST = -2, -1
#: Whose offsets ListOffsets is asked for: a consumer reads up to the high watermark. -2 (DEBUGGING_REPLICA_ID) has the
#: end of the log itself, with the same right, DESCRIBE.
_CONSUMER, _DEBUGGING = -1, -2
#: From version 13 on, topics are identified by id.
_NEWEST_FETCH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRecords:
    """The result of one fetch. size_bytes: compressed or decompressed, whichever is more. records: oldest first;
    next_offset: where the next fetch starts. gaps: as `gaps`, since the fetch before."""

    size_bytes: int
    next_offset: int
    records: list[RawRecord]
    gaps: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLeader:
    """epoch: the leader epoch, -1 if the broker does not report it."""

    broker: BrokerNode
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """How many replicas a partition has, and how many of them are in sync."""

    count: int
    in_sync: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsTopic:
    """partition_count: of the topic; leaders: by partition, except for partitions that have none now; replicas: by
    partition."""

    partition_count: int
    leaders: Mapping[int, PartitionLeader]
    replicas: Mapping[int, Replicas]


def look_up(brokers: Brokers, deadline: Deadline, *, name: str = OFFSETS_TOPIC) -> OffsetsTopic:
    """Where the partitions are now. name: the name of the topic, here and below; a copy has a different one.

    Raises AuthorizationError without READ on the topic, NotFoundError if there is no such topic, another KgmError for
    what cannot be determined now."""
    topics = brokers.metadata([name], deadline).topics
    if not topics or topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        created = ("it is created with the first group of a cluster",) if name == OFFSETS_TOPIC else ()
        raise NotFoundError(f"the brokers report no topic {name}", facts=created)
    topic = topics[0]
    if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise unauthorized(name)
    _check(topic.error_code, name)
    if not topic.partitions:
        raise DecodeError(f"the brokers report no partition of {name}")
    by_id = {broker.id: broker for broker in brokers.brokers()}
    leaders = {
        row.partition_index: PartitionLeader(broker=by_id[row.leader_id], epoch=row.leader_epoch)
        for row in topic.partitions
        if row.leader_id in by_id
    }
    replicas = {
        row.partition_index: Replicas(count=len(row.replica_nodes), in_sync=len(row.isr_nodes))
        for row in topic.partitions
    }
    return OffsetsTopic(partition_count=len(topic.partitions), leaders=leaders, replicas=replicas)


def unauthorized(name: str = OFFSETS_TOPIC) -> AuthorizationError:
    """The error for a principal that is not allowed to read the topic."""
    return AuthorizationError(
        f"{name} cannot be read",
        facts=(f"required: READ on Topic '{name}'",),
        kafka_error=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )


def leaderless(partition: int, name: str = OFFSETS_TOPIC) -> UnreachableError:
    """The error for a partition without a leader."""
    return UnreachableError(f"partition {partition} of {name} has no leader")


def why_unreadable(error: KgmError) -> str:
    """The error in one phrase."""
    if error.kafka_error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"no READ on Topic '{OFFSETS_TOPIC}'"
    if isinstance(error, NotFoundError):
        return error.message
    reason = error_name(error.kafka_error) if error.kafka_error else error.message
    return f"{OFFSETS_TOPIC} cannot be read ({reason})"


def windows_back(start: int, end: int, first_window: int) -> Iterator[tuple[int, int]]:
    """(first offset, offset after the last) of windows from the end back to the start, each twice as large as the one
    before: a topic cannot be searched backward."""
    window = first_window
    while end > start:
        first = max(start, end - window)
        yield first, end
        end, window = first, window * 2


def group_record_key(group_id: str) -> bytes:
    """The key of a classic group's own records."""
    key, _ = encode_record(Record(GroupMetadataKey(group=group_id), None))
    return key


def target_record_keys(group_id: str) -> list[bytes]:
    """The keys of the records that end a target assignment of a group: of the consumer protocol, a streams and a share
    group."""
    keys = (
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
    )
    return [encode_record(Record(key, None))[0] for key in keys]


def fetch_records(
    connection: BrokerConnection, partition: int, first: int, end: int, deadline: Deadline
) -> Iterator[FetchedRecords]:
    """Fetch repeatedly, from offset `first` up to but not including `end`. Raises KgmError, also for a fetch that
    decompresses to more than `MAX_UNPACKED` bytes or `MAX_PACKED_RECORDS` records: compressed batches can contain
    thousands of times their size."""
    from kgm.records.batch import MAX_PACKED_RECORDS

    following = first
    for fetched in fetch_batches(connection, partition, first, end, deadline):
        records: list[RawRecord] = []
        missing: list[int] = []
        size = unpacked = 0
        for batch in fetched:
            size += len(batch.data)
            read = () if batch.is_control else batch.records
            missing += gaps(batch, read, following, end)
            following = batch.last_offset + 1
            unpacked += sum(len(row.key or b"") + len(row.value or b"") for row in read)
            records += [row for row in read if first <= row.offset < end]
            if unpacked > max(MAX_UNPACKED, size) or len(records) > MAX_PACKED_RECORDS:
                raise DecodeError(
                    f"a fetch of partition {partition} of {OFFSETS_TOPIC} holds {len(records)} records of {unpacked} "
                    f"bytes or more, in {size} bytes"
                )
        size = max(size, unpacked)
        yield FetchedRecords(size_bytes=size, next_offset=following, records=records, gaps=missing)


def gaps(batch: Batch, records: Sequence[RawRecord], following: int, end: int) -> list[int]:
    """The offset after each run of offsets, from `following` to the end of the batch, or to `end`, whose records
    compaction has removed: a batch keeps its first and last offset, and a record its own. records: those of the batch;
    a control batch has none of groups, so none is missing there."""
    whole = range(batch.base_offset, batch.last_offset + 1)
    is_whole = batch.is_control or len(records) == len(whole)
    found = []
    for offset in [batch.base_offset] if is_whole else [*(row.offset for row in records), whole.stop]:
        if min(offset, end) > following:
            found.append(min(offset, end))
        following = max(following, offset + 1)
    return found


def last_gap(gaps: Sequence[int], offset: int, before: int) -> int:
    """The last of these `gaps` up to an offset; `before`, that of what was read earlier, if there is none."""
    place = bisect_right(gaps, offset)
    return gaps[place - 1] if place else before


def fetch_batches(
    connection: BrokerConnection, partition: int, first: int, end: int, deadline: Deadline
) -> Iterator[list[Batch]]:
    """The record batches of each fetch, from the one that contains offset `first` until offset `end` is reached.

    Raises KgmError."""
    fetches = fetch_log(connection, partition, first, end, deadline, fetch_bytes=_FETCH_BYTES)
    return (decode_batches(data) for data, _ in fetches)


def fetch_log(
    connection: BrokerConnection, partition: int, first: int, end: int, deadline: Deadline, *,
    fetch_bytes: int, name: str = OFFSETS_TOPIC,
) -> Iterator[tuple[bytes, int]]:  # fmt: skip
    """For each fetch: (whole record batches as they are in the log, at least one; the offset after them), from the
    batch that contains offset `first` until offset `end` is reached. Only the lengths of the batches are checked.
    fetch_bytes: the approximate size of one fetch. Raises KgmError."""
    while first < end:
        data, throttled_ms = _fetch(connection, partition, first, deadline, fetch_bytes, name)
        size, following = extent(data)
        if throttled_ms and not size:
            continue  # a client over its quota gets no records; the connection waits before the next request
        if following <= first:
            raise DecodeError(f"partition {partition} of {name} has no records from offset {first} on")
        first = following
        yield data[:size], first


def offset_at(connection: BrokerConnection, partition: int, at_ms: int, deadline: Deadline) -> int:
    """The offset of the first record at or after this time, -1 if there is none. Raises KgmError."""
    return offsets_at(connection, [partition], at_ms, deadline)[partition]


def offsets_at(
    connection: BrokerConnection, partitions: Sequence[int], at_ms: int, deadline: Deadline
) -> dict[int, int]:
    """Like `offset_at`, for several partitions. Raises KgmError."""
    return _offsets(connection, partitions, at_ms, deadline)


def end_offset(connection: BrokerConnection, partition: int, deadline: Deadline) -> int:
    """The offset that the next record will get. Raises KgmError."""
    return end_offsets(connection, [partition], deadline)[partition]


def end_offsets(connection: BrokerConnection, partitions: Sequence[int], deadline: Deadline) -> dict[int, int]:
    """Like `end_offset`, for several partitions. Raises KgmError."""
    return _offsets(connection, partitions, _LATEST, deadline)


def log_end_offset(connection: BrokerConnection, partition: int, deadline: Deadline) -> int:
    """Like `end_offset`, with the records that the leader has and in-sync replicas lack. Raises KgmError."""
    return _offsets(connection, [partition], _LATEST, deadline, replica_id=_DEBUGGING)[partition]


def stable_offset(connection: BrokerConnection, partition: int, deadline: Deadline) -> int:
    """The offset of the first record of the oldest open transaction, the end offset if none is open. Raises
    KgmError."""
    stable, refused = fetch_offsets(connection, {OFFSETS_TOPIC: [partition]}, deadline, is_stable=True)
    for error in refused.values():
        raise error
    if (OFFSETS_TOPIC, partition) not in stable:
        raise DecodeError(f"the response of a broker does not contain partition {partition} of {OFFSETS_TOPIC}")
    return stable[OFFSETS_TOPIC, partition]


def start_offset(connection: BrokerConnection, partition: int, deadline: Deadline) -> int:
    """The offset of the first record still in the log. Raises KgmError."""
    return _offsets(connection, [partition], _EARLIEST, deadline)[partition]


def bounds(
    connection: BrokerConnection, partitions: Sequence[int], deadline: Deadline, *, name: str = OFFSETS_TOPIC
) -> dict[int, tuple[int, int]]:
    """(offset of the first record still in the log, offset of the next record) of each partition. Raises KgmError."""
    starts, ends = (_offsets(connection, partitions, at, deadline, name) for at in (_EARLIEST, _LATEST))
    return {number: (starts[number], ends[number]) for number in partitions}


def _offsets(
    connection: BrokerConnection, partitions: Sequence[int], at: int, deadline: Deadline, name: str = OFFSETS_TOPIC, *,
    replica_id: int = _CONSUMER,
) -> dict[int, int]:  # fmt: skip
    rows = [ListOffsetsPartition(partition_index=number, timestamp=at) for number in partitions]
    request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name=name, partitions=rows)])
    version = connection.version(ApiKey.LIST_OFFSETS)
    answer = connection.call(request, ListOffsetsResponse, version=version, deadline=deadline)
    listed = {one.partition_index: one for topic in answer.topics for one in topic.partitions}
    for number in partitions:
        if number not in listed:
            raise DecodeError(f"the response of a broker does not contain partition {number} of {name}")
        _check(listed[number].error_code, name)
    return {number: listed[number].offset for number in partitions}


def _fetch(
    connection: BrokerConnection, partition: int, offset: int, deadline: Deadline, fetch_bytes: int, name: str
) -> tuple[bytes, int]:
    """(records, how many ms the client has to wait because it is over its quota)."""
    row = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=fetch_bytes)
    topics = [FetchTopic(topic=name, partitions=[row])]
    request = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=fetch_bytes, topics=topics)
    version = connection.version(ApiKey.FETCH, at_most=_NEWEST_FETCH)
    answer = connection.call(request, FetchResponse, version=version, deadline=deadline)
    _check(answer.error_code, name)
    for topic in answer.responses:
        for one in topic.partitions:
            _check(one.error_code, name)
            return one.records or b"", answer.throttle_time_ms
    return b"", answer.throttle_time_ms


def _check(error_code: int, name: str) -> None:
    if error_code != ErrorCode.NONE:
        raise KgmError(f"{name} cannot be read: {error_name(error_code)}", kafka_error=error_code)
