"""What no API tells of a classic group, from the log of its coordinator: session and rebalance timeout, and generation.

Kafka keeps a group's last rebalance as a record of the topic `__consumer_offsets`, which may be read like any other
topic by who has READ on it (Kafka: GroupMetadataValue). A topic cannot be searched backwards, so it is read in windows:
the last offsets first, then those before them, twice as many each time, until the group is found or the bounds of bytes
and time are met. The record counts only if it has the very members that the group has now.

Whatever goes wrong here, a missing right or a broker that does not answer, costs what would have been found, and is no
error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from kgm.client.admin_client import AdminClient
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import DecodeError, ErrorCode, KgmError
from kgm.model.snapshot import GroupSnapshot
from kgm.protocol.apis import ApiKey

if TYPE_CHECKING:
    from kgm.records.batch import Batch

OFFSETS_TOPIC: Final = "__consumer_offsets"
#: Bytes that are read for one group at most, more or less a fetch.
MAX_BYTES: Final = 16 << 20
_FETCH_BYTES = 1 << 20
_FIRST_WINDOW = 2_000
#: Of the time that is left.
_SHARE = 0.25
_EARLIEST, _LATEST = -2, -1
#: From version 13 on topics have ids.
_NEWEST_FETCH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What one fetch brought. records: (key, value, timestamp in ms), oldest first; next_offset: where it goes on."""

    size_bytes: int
    next_offset: int
    records: list[tuple[bytes | None, bytes | None, int]]


def completed_from_log(cluster: AdminClient, snapshot: GroupSnapshot) -> GroupSnapshot:
    """The snapshot of a live classic group, with what its coordinator's log tells beside. Never raises KgmError."""
    if snapshot.type != "classic" or snapshot.state != "Stable":
        return snapshot
    from kgm.records.messages.group_metadata_value import GroupMetadataValue

    deadline = cluster.deadline.part(_SHARE)
    try:
        found = _look_up(cluster, snapshot.group_id, deadline)
    except KgmError:
        return snapshot
    if not isinstance(found, GroupMetadataValue) or not found.members:
        return snapshot
    if {member.member_id for member in found.members} != {member.member_id for member in snapshot.members}:
        return snapshot
    sessions = {member.session_timeout for member in found.members}
    return replace(
        snapshot,
        generation=found.generation if snapshot.generation is None else snapshot.generation,
        session_timeout_ms=sessions.pop() if len(sessions) == 1 else snapshot.session_timeout_ms,
        rebalance_timeout_ms=max(member.rebalance_timeout for member in found.members),
    )


def _look_up(cluster: AdminClient, group_id: str, deadline: Deadline) -> object | None:
    """The value of the group's last record, or None if it is not found. Raises KgmError."""
    from kgm.java.partitions import partition_for

    for topic in cluster.brokers.metadata([OFFSETS_TOPIC], deadline).topics:
        if topic.error_code or not topic.partitions:
            continue
        wanted = partition_for(group_id, len(topic.partitions))
        leader_id = next((row.leader_id for row in topic.partitions if row.partition_index == wanted), None)
        for leader in cluster.brokers.brokers():
            if leader.id == leader_id:
                task = partial(search, wanted, group_id, deadline)
                return _decoded(group_id, cluster.brokers.on_broker(leader, task, deadline))
    return None


def _decoded(group_id: str, found: tuple[bytes, int] | None) -> object | None:
    from kgm.records.record import decode_record

    return None if found is None else decode_record(key_of(group_id), found[0]).value


def key_of(group_id: str) -> bytes:
    """The key of a classic group's own records."""
    from kgm.records.messages.group_metadata_key import GroupMetadataKey
    from kgm.records.record import Record, encode_record

    key, _ = encode_record(Record(GroupMetadataKey(group=group_id), None))
    return key


def search(partition: int, group_id: str, deadline: Deadline, connection: BrokerConnection) -> tuple[bytes, int] | None:
    """The value of the group's last record and when it was written, window by window from the end. None if it is not
    found within bounds, or is a tombstone. Raises KgmError."""
    key = key_of(group_id)
    start, end = (_offset(connection, partition, at, deadline) for at in (_EARLIEST, _LATEST))
    window, read = _FIRST_WINDOW, 0
    while end > start and read < MAX_BYTES:
        first = max(start, end - window)
        found: tuple[bytes | None, int] | None = None
        for fetched in rows(connection, partition, first, end, deadline):
            read += fetched.size_bytes
            found = next(((value, at) for row_key, value, at in reversed(fetched.records) if row_key == key), found)
            if read >= MAX_BYTES:
                return None  # not all of the window has been seen, and there may be a later one in it
        if found is not None:
            value, at_ms = found
            return None if value is None else (value, at_ms)
        end, window = first, window * 2
    return None


def rows(connection: BrokerConnection, partition: int, first: int, end: int, deadline: Deadline) -> Iterator[Rows]:
    """Fetch after fetch, from offset `first` to before `end`. Raises KgmError."""
    for fetched in batches(connection, partition, first, end, deadline):
        read = [row for batch in fetched if not batch.is_control for row in batch.records]
        records = [(row.key, row.value, row.timestamp) for row in read if first <= row.offset < end]
        size = sum(len(batch.data) for batch in fetched)
        yield Rows(size_bytes=size, next_offset=fetched[-1].last_offset + 1, records=records)


def batches(
    connection: BrokerConnection, partition: int, first: int, end: int, deadline: Deadline
) -> Iterator[list[Batch]]:
    """The record batches of each fetch, from the one that holds offset `first` to the one before `end`.

    Raises KgmError."""
    from kgm.records.batch import whole_batches

    while first < end:
        fetched = whole_batches(_fetch(connection, partition, first, deadline))
        if not fetched:
            raise DecodeError(f"partition {partition} of {OFFSETS_TOPIC} gives nothing from offset {first} on")
        first = fetched[-1].last_offset + 1
        yield fetched


def end_offset(connection: BrokerConnection, partition: int, deadline: Deadline) -> int:
    """Where the next record will be. Raises KgmError."""
    return _offset(connection, partition, _LATEST, deadline)


def start_offset(connection: BrokerConnection, partition: int, deadline: Deadline) -> int:
    """Where the first record is that is still there. Raises KgmError."""
    return _offset(connection, partition, _EARLIEST, deadline)


def _offset(connection: BrokerConnection, partition: int, at: int, deadline: Deadline) -> int:
    from kgm.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
    from kgm.protocol.messages.list_offsets_response import ListOffsetsResponse

    row = ListOffsetsPartition(partition_index=partition, timestamp=at)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=OFFSETS_TOPIC, partitions=[row])])
    version = connection.version(ApiKey.LIST_OFFSETS)
    answer = connection.call(request, ListOffsetsResponse, version=version, deadline=deadline)
    return next((_told(one.error_code, one.offset) for topic in answer.topics for one in topic.partitions), 0)


def _fetch(connection: BrokerConnection, partition: int, offset: int, deadline: Deadline) -> bytes:
    from kgm.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
    from kgm.protocol.messages.fetch_response import FetchResponse

    row = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
    topics = [FetchTopic(topic=OFFSETS_TOPIC, partitions=[row])]
    request = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=_FETCH_BYTES, topics=topics)
    version = connection.version(ApiKey.FETCH, at_most=_NEWEST_FETCH)
    answer = connection.call(request, FetchResponse, version=version, deadline=deadline)
    _told(answer.error_code, 0)
    for topic in answer.responses:
        for one in topic.partitions:
            _told(one.error_code, 0)
            return one.records or b""
    return b""


def _told(error_code: int, value: int) -> int:
    if error_code != ErrorCode.NONE:
        raise KgmError(f"{OFFSETS_TOPIC} cannot be read", kafka_error=error_code)
    return value
