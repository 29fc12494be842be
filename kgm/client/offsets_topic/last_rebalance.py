"""What no API tells of a classic group, from the log of its coordinator: session and rebalance timeout, and generation.

Kafka keeps a group's last rebalance as a record of the topic `__consumer_offsets`, which may be read like any other
topic by who has READ on it (Kafka: GroupMetadataValue). A topic cannot be searched backwards, so it is read in windows:
the last offsets first, then those before them, twice as many each time, until the group is found or the bounds of bytes
and time are met. The record counts only if it has the very members that the group has now.

Whatever goes wrong here, a missing right or a broker that does not answer, costs what would have been found, and is no
error."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from kgm.client.admin_client import AdminClient
from kgm.client.offsets_topic import partition_log
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import KgmError
from kgm.model.snapshot import GroupSnapshot

#: Bytes that are read for one group at most, more or less a fetch.
MAX_BYTES: Final = 16 << 20
_FIRST_WINDOW = 2_000
#: Of the time that is left.
_SHARE = 0.25


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

    for topic in cluster.brokers.metadata([partition_log.OFFSETS_TOPIC], deadline).topics:
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

    return None if found is None else decode_record(partition_log.key_of(group_id), found[0]).value


def search(partition: int, group_id: str, deadline: Deadline, connection: BrokerConnection) -> tuple[bytes, int] | None:
    """The value of the group's last record and when it was written, window by window from the end. None if it is not
    found within bounds, or is a tombstone. Raises KgmError."""
    key = partition_log.key_of(group_id)
    start = partition_log.start_offset(connection, partition, deadline)
    end = partition_log.end_offset(connection, partition, deadline)
    window, read = _FIRST_WINDOW, 0
    while end > start and read < MAX_BYTES:
        first = max(start, end - window)
        found: tuple[bytes | None, int] | None = None
        for fetched in partition_log.rows(connection, partition, first, end, deadline):
            read += fetched.size_bytes
            found = next(((value, at) for row_key, value, at in reversed(fetched.records) if row_key == key), found)
            if read >= MAX_BYTES:
                return None  # not all of the window has been seen, and there may be a later one in it
        if found is not None:
            value, at_ms = found
            return None if value is None else (value, at_ms)
        end, window = first, window * 2
    return None
