"""What no API returns about a classic group, from its coordinator's log: session and rebalance timeouts, generation,
leader, the assignors that it had before, and the end of the delay that the leader of a Connect group has set; about a
consumer group, what its regular expressions still match.

Kafka stores a group's last rebalance as a record in the topic `__consumer_offsets`, which anyone with READ on it can
read like any other topic (Kafka: GroupMetadataValue). It is read backward from its end, until the group's record or a
limit of bytes or time is reached. The record counts only if it has the same members as the group has now.

A failure here, such as a missing permission or a broker that does not answer, is not an error: the fields stay None.
What the login was allowed to read but could not is in `AdminClient.unread_records`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from kgm.client.admin_client import AdminClient
from kgm.client.topic_log import partition_log
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.clients.recognition import recognise_record
from kgm.java.partitions import partition_for
from kgm.model.errors import ErrorCode, KgmError, NotFoundError
from kgm.model.snapshot import GroupSnapshot
from kgm.protocol.subscription import PROTOCOL_TYPE
from kgm.records.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from kgm.records.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.records.record import Record, decode_record, encode_record

#: The most bytes read for one group, plus one fetch.
MAX_BYTES: Final = 16 << 20
_FIRST_WINDOW = 2_000
#: The highest timestamp that can still be formatted after adding a 32-bit delay.
_LAST_MS = 250_000_000_000_000
#: The share of the remaining time that this can take.
_SHARE = 0.25
#: Values and when they were written.
_Records: TypeAlias = list[tuple[bytes, int]]


def with_logged_timeouts(cluster: AdminClient, snapshot: GroupSnapshot) -> GroupSnapshot:
    """The snapshot of a live group, completed as in `all_with_logged_timeouts`."""
    return all_with_logged_timeouts(cluster, [snapshot])[0]


def all_with_logged_timeouts(cluster: AdminClient, snapshots: Sequence[GroupSnapshot]) -> list[GroupSnapshot]:
    """The snapshots of live groups; those of stable classic groups are completed from their coordinators' logs. Never
    raises KgmError."""
    incomplete = [each.group_id for each in snapshots if each.type == "classic" and each.state == "Stable"]
    keys = {partition_log.group_record_key(group_id): group_id for group_id in incomplete}
    records = {keys[key]: record for key, record in (_last_records(cluster, keys) if keys else {}).items()}
    return [_completed(snapshot, records.get(snapshot.group_id, ())) for snapshot in snapshots]


def with_resolved_topics(cluster: AdminClient, snapshots: Sequence[GroupSnapshot]) -> list[GroupSnapshot]:
    """The snapshots of live groups; the `deleted_topics` of consumer groups have the topics too that the coordinator
    still counts as matched by a regular expression of members. Never raises KgmError."""
    keys = {
        _regex_key(snapshot.group_id, member.regex): snapshot.group_id
        for snapshot in snapshots
        for member in snapshot.members
        if snapshot.type == "consumer" and member.regex
    }
    resolved: dict[str, set[str]] = {}
    for key, records in (_last_records(cluster, keys) if keys else {}).items():
        with suppress(KgmError):
            found = decode_record(key, records[-1][0]).value
            if isinstance(found, ConsumerGroupRegularExpressionValue):
                resolved.setdefault(keys[key], set()).update(found.topics)
    unseen = {
        snapshot.group_id: resolved.get(snapshot.group_id, set()) - {topic.name for topic in snapshot.topics}
        for snapshot in snapshots
    }
    names = sorted(set[str]().union(*unseen.values()))
    cluster.offsets.topics_and_ends(names, set(), cluster.deadline.part(_SHARE))
    return [
        replace(
            snapshot,
            deleted_topics=tuple(
                sorted({*snapshot.deleted_topics, *(unseen[snapshot.group_id] & cluster.offsets.missing_topics)})
            ),
        )
        for snapshot in snapshots
    ]


def _regex_key(group_id: str, regex: str) -> bytes:
    record = Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)
    return encode_record(record)[0]


def _completed(snapshot: GroupSnapshot, records: Sequence[tuple[bytes, int]]) -> GroupSnapshot:
    """records: the group's, oldest first."""
    value = _decoded(snapshot, records[-1][0]) if records else None
    if value is None or not value.members:
        return snapshot
    if {member.member_id for member in value.members} != {member.member_id for member in snapshot.members}:
        return snapshot
    return replace(
        _with_libraries(snapshot, value).with_member_timeouts(recorded_timeouts_ms(value)),
        generation=value.generation if snapshot.generation is None else snapshot.generation,
        leader=value.leader or None,
        unassigned_until=end_of_delay(snapshot, value.current_state_timestamp),
        earlier_assignors=_earlier_assignors(snapshot, [_decoded(snapshot, earlier) for earlier, _ in records[:-1]]),
    )


def _decoded(snapshot: GroupSnapshot, value: bytes) -> GroupMetadataValue | None:
    with suppress(KgmError):
        decoded = decode_record(partition_log.group_record_key(snapshot.group_id), value).value
        return decoded if isinstance(decoded, GroupMetadataValue) else None
    return None


def _earlier_assignors(
    snapshot: GroupSnapshot, earlier: Iterable[GroupMetadataValue | None]
) -> tuple[str, ...] | None:  # fmt: skip
    if snapshot.protocol_type != PROTOCOL_TYPE:
        return None
    generations = (
        (value.protocol, [name for one in value.members for name in (one.member_id, one.group_instance_id)])
        for value in earlier
        if value is not None and value.protocol_type == PROTOCOL_TYPE
    )
    return other_assignors_with(snapshot, generations)


def other_assignors_with(
    snapshot: GroupSnapshot, generations: Iterable[tuple[str | None, Collection[str | None]]]
) -> tuple[str, ...]:
    """The assignors besides the group's that generations with any of its members had. generations: the assignor and the
    member ids and instance ids of each."""
    here = {name for one in snapshot.members for name in (one.member_id, one.group_instance_id) if name is not None}
    found = {assignor for assignor, names in generations if assignor and not here.isdisjoint(names)}
    return tuple(sorted(found - {snapshot.assignor}))


def recorded_timeouts_ms(value: GroupMetadataValue) -> dict[str, tuple[int, int]]:
    """Each member's timeouts, in the form that `GroupSnapshot.with_member_timeouts` takes."""
    return {member.member_id: (member.session_timeout, member.rebalance_timeout) for member in value.members}


def end_of_delay(snapshot: GroupSnapshot, rebalanced_ms: int) -> str | None:
    """When the delay set by the leader of a Connect group ends, as RFC 3339. rebalanced_ms: when the group became
    Stable, which is when the leader sent the delay; -1 if unknown."""
    from kgm.text.timestamps import rfc3339

    if not snapshot.rebalance_delay_ms or not 0 <= rebalanced_ms <= _LAST_MS:
        return None
    return rfc3339(rebalanced_ms + snapshot.rebalance_delay_ms)


def _with_libraries(snapshot: GroupSnapshot, value: GroupMetadataValue) -> GroupSnapshot:
    """Add the client libraries. The record has all that the description has, plus timeouts, which tell more libraries
    apart."""
    verdict = recognise_record(snapshot.group_id, value)
    if verdict is None:
        return snapshot
    libraries = dict(zip([member.member_id for member in value.members], verdict.members, strict=True))
    return replace(
        snapshot,
        members=tuple(replace(member, client_library=libraries[member.member_id]) for member in snapshot.members),
        leader_library=verdict.leader,
    )


def _last_records(cluster: AdminClient, keys: Mapping[bytes, str]) -> dict[bytes, _Records]:
    """The last records with these keys of groups, as `_find_last` returns them, except those that cannot be read."""
    deadline = cluster.deadline.part(_SHARE)
    records: dict[bytes, _Records] = {}
    # Nothing more is read once a read has failed: describing groups must not wait for one timeout after another.
    try:
        topic = partition_log.look_up(cluster.brokers, deadline)
        by_partition: dict[int, list[bytes]] = {}
        for key, group_id in keys.items():
            by_partition.setdefault(partition_for(group_id, topic.partition_count), []).append(key)
        for number, there in by_partition.items():
            if (leader := topic.leaders.get(number)) is not None:
                task = partial(_find_last, number, there, deadline)
                records |= cluster.brokers.on_broker(leader.broker, task, deadline)
    except KgmError as error:
        is_denied = error.kafka_error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if not is_denied and not isinstance(error, NotFoundError):
            cluster.unread_records |= {group_id: error for key, group_id in keys.items() if key not in records}
    return records


def find_last_records(
    partition: int, keys: Mapping[bytes, str], deadline: Deadline, connection: BrokerConnection
) -> dict[bytes, tuple[bytes, int]]:
    """The value of each group's last record and when it was written, by key, searching backward from the end of the
    partition. keys: the keys of each group, of which one with a value is enough. A group is missing if it has no record
    within bounds, or if its last records are tombstones. Raises KgmError."""
    found = _find_last(partition, keys, deadline, connection, keys)
    return {key: records[-1] for key, records in found.items()}


def _find_last(
    partition: int, keys: Iterable[bytes], deadline: Deadline, connection: BrokerConnection,
    groups: Mapping[bytes, str] | None = None,
) -> dict[bytes, _Records]:  # fmt: skip
    """Like `find_last_records`, by the key of any record; each with those before it that were read along with it, back
    to a tombstone, oldest first. groups: the groups of which one record is enough, by key."""
    wanted = {*keys}
    records: dict[bytes, _Records] = {}
    start = partition_log.start_offset(connection, partition, deadline)
    end = partition_log.end_offset(connection, partition, deadline)
    read = 0
    for first, window_end in partition_log.windows_back(start, end, _FIRST_WINDOW):
        found: dict[bytes, _Records] = {}
        for fetched in partition_log.fetch_records(connection, partition, first, window_end, deadline):
            read += fetched.size_bytes
            for row in fetched.records:
                if row.key is not None and row.key in wanted:
                    there = found.setdefault(row.key, [])
                    if row.value is None:
                        there.clear()
                    else:
                        there.append((row.value, row.timestamp))
            if read >= MAX_BYTES:
                return records  # the rest of the window may contain later records
        wanted -= found.keys()
        records |= {key: there for key, there in found.items() if there}
        if groups is not None:
            known = {groups[key] for key in records}
            wanted = {key for key in wanted if groups[key] not in known}
        if not wanted:
            break
    return records
