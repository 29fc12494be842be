"""What no API returns of a classic group, from the log of its coordinator: session and rebalance timeout, generation.

Kafka keeps a group's last rebalance as a record of the topic `__consumer_offsets`, which may be read like any other
topic by who has READ on it (Kafka: GroupMetadataValue). It is read from its end back, until the group's record or the
limit of bytes or time is reached. The record counts only if it has the same members as the group has now.

A failure here, such as a missing permission or a broker that does not answer, is not an error: the fields stay None."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from kgm.client.admin_client import AdminClient
from kgm.client.offsets_topic import partition_log
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import KgmError
from kgm.model.snapshot import GroupSnapshot

#: Bytes that are read for one group at most, plus one fetch.
MAX_BYTES: Final = 16 << 20
_FIRST_WINDOW = 2_000
#: The share of the remaining time.
_SHARE = 0.25


def with_logged_timeouts(cluster: AdminClient, snapshot: GroupSnapshot) -> GroupSnapshot:
    """The snapshot of a live classic group, completed from its coordinator's log. Never raises KgmError."""
    if snapshot.type != "classic" or snapshot.state != "Stable":
        return snapshot
    from kgm.records.messages.group_metadata_value import GroupMetadataValue

    deadline = cluster.deadline.part(_SHARE)
    try:
        record = _last_record(cluster, snapshot.group_id, deadline)
    except KgmError:
        return snapshot
    if not isinstance(record, GroupMetadataValue) or not record.members:
        return snapshot
    if {member.member_id for member in record.members} != {member.member_id for member in snapshot.members}:
        return snapshot
    sessions = {member.session_timeout for member in record.members}
    return replace(
        snapshot,
        generation=record.generation if snapshot.generation is None else snapshot.generation,
        session_timeout_ms=sessions.pop() if len(sessions) == 1 else snapshot.session_timeout_ms,
        rebalance_timeout_ms=max(member.rebalance_timeout for member in record.members),
    )


def _last_record(cluster: AdminClient, group_id: str, deadline: Deadline) -> object | None:
    """The value of the group's last record, or None without one within bounds. Raises KgmError."""
    from kgm.java.partitions import partition_for

    topic = partition_log.look_up(cluster, deadline)
    number = partition_for(group_id, topic.partition_count)
    leader = topic.leaders.get(number)
    if leader is None:
        return None
    task = partial(find_last_records, number, (group_id,), deadline)
    return _decode(group_id, cluster.brokers.on_broker(leader.broker, task, deadline).get(group_id))


def _decode(group_id: str, record: tuple[bytes, int] | None) -> object | None:
    from kgm.records.record import decode_record

    return None if record is None else decode_record(partition_log.group_record_key(group_id), record[0]).value


def find_last_records(
    partition: int, group_ids: Iterable[str], deadline: Deadline, connection: BrokerConnection
) -> dict[str, tuple[bytes, int]]:
    """The value of each group's last record and when it was written, by group, from the end of the partition back. A
    group is missing if it has none within bounds, or if that is a tombstone. Raises KgmError."""
    wanted = {partition_log.group_record_key(group_id): group_id for group_id in group_ids}
    records: dict[str, tuple[bytes, int]] = {}
    start = partition_log.start_offset(connection, partition, deadline)
    end = partition_log.end_offset(connection, partition, deadline)
    read = 0
    for first, window_end in partition_log.windows_back(start, end, _FIRST_WINDOW):
        newest: dict[bytes, tuple[bytes | None, int]] = {}
        for fetched in partition_log.fetch_records(connection, partition, first, window_end, deadline):
            read += fetched.size_bytes
            newest |= {
                key: (value, at_ms) for key, value, at_ms in fetched.records if key is not None and key in wanted
            }
            if read >= MAX_BYTES:
                return records  # the rest of the window may hold later records
        for key, (value, at_ms) in newest.items():
            group_id = wanted.pop(key)
            if value is not None:
                records[group_id] = value, at_ms
        if not wanted:
            break
    return records
