"""One partition of `__consumer_offsets`, read as a consumer reads it: its first and end offset, and its records.

Reading takes READ on the topic. Everything here raises KgmError for what cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import DecodeError, ErrorCode, KgmError, error_name
from kgm.protocol.apis import ApiKey

if TYPE_CHECKING:
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
    from kgm.records.batch import whole_batches

    while first < end:
        fetched = whole_batches(_fetch(connection, partition, first, deadline))
        if not fetched:
            raise DecodeError(f"partition {partition} of {OFFSETS_TOPIC} has no records from offset {first} on")
        first = fetched[-1].last_offset + 1
        yield fetched


def fetch_log(
    connection: BrokerConnection, partition: int, first: int, end: int, deadline: Deadline, *, fetch_bytes: int
) -> Iterator[tuple[bytes, int]]:
    """(whole record batches as they are in the log, the offset after them) of each fetch, from the batch with offset
    `first` to the one before `end`. fetch_bytes: of one fetch, about. Raises KgmError."""
    from kgm.records.batch import whole_batches

    while first < end:
        data = _fetch(connection, partition, first, deadline, fetch_bytes)
        batches = whole_batches(data)
        if not batches:
            raise DecodeError(f"partition {partition} of {OFFSETS_TOPIC} has no records from offset {first} on")
        first = batches[-1].last_offset + 1
        yield data[: sum(len(batch.data) for batch in batches)], first


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
    return next((_checked(one.error_code, one.offset) for topic in answer.topics for one in topic.partitions), 0)


def _fetch(
    connection: BrokerConnection, partition: int, offset: int, deadline: Deadline, fetch_bytes: int | None = None
) -> bytes:
    from kgm.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
    from kgm.protocol.messages.fetch_response import FetchResponse

    fetch_bytes = _FETCH_BYTES if fetch_bytes is None else fetch_bytes
    row = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=fetch_bytes)
    topics = [FetchTopic(topic=OFFSETS_TOPIC, partitions=[row])]
    request = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=fetch_bytes, topics=topics)
    version = connection.version(ApiKey.FETCH, at_most=_NEWEST_FETCH)
    answer = connection.call(request, FetchResponse, version=version, deadline=deadline)
    _checked(answer.error_code, 0)
    for topic in answer.responses:
        for one in topic.partitions:
            _checked(one.error_code, 0)
            return one.records or b""
    return b""


def _checked(error_code: int, value: int) -> int:
    if error_code != ErrorCode.NONE:
        raise KgmError(f"{OFFSETS_TOPIC} cannot be read: {error_name(error_code)}", kafka_error=error_code)
    return value
