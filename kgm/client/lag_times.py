"""How far behind groups are in time, and when they last committed.

A partition's *seconds behind* is the age of the first record that its group has not committed: one Fetch from the
partition's leader, from the committed offset on (READ on the topic), of one record batch. It depends on the record's
timestamp, which was written by the producer (CreateTime) or the broker (LogAppendTime): a record that was copied from
elsewhere keeps its original age. A timestamp more than a minute in the future says nothing. Transaction markers are not
records: if only markers follow, the partition has been read to the end.

A commit's *age* is that of its record in `__consumer_offsets`, as timestamped by the coordinator's clock (READ on that
topic); in a transaction, that of the marker that committed it. Both are measured against this machine's clock, and None
if unknown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from kgm.client.offsets_topic.member_activity import ActivityRecord, CommitRecord, GroupActivity
from kgm.client.topic_log import partition_log
from kgm.client.transport.parallel import run_parallel
from kgm.model.errors import AuthorizationError, DecodeError, ErrorCode, KgmError, UnreachableError
from kgm.model.snapshot import GroupSnapshot, OffsetSnapshot, with_lag
from kgm.records.batch import decode_batches

if TYPE_CHECKING:
    from kgm.client.admin_client import AdminClient
    from kgm.client.transport.brokers import BrokerNode
    from kgm.client.transport.connection import BrokerConnection
    from kgm.client.transport.deadline import Deadline

#: (topic, partition), and (topic, partition, offset of the first record to read, end).
_Partition: TypeAlias = tuple[str, int]
_Place: TypeAlias = tuple[str, int, int, int]
#: When the record at an offset was written, in ms, by (topic, partition, offset).
KnownTimes: TypeAlias = dict[tuple[str, int, int], int]
#: Skip at most this many batches without records, which contain markers or were emptied by compaction.
_MOST_BATCHES: Final = 16
#: How far ahead the clock of a producer can be.
_SKEW_MS: Final = 60_000
#: For more groups than this, the log is not read back for commits, since that costs time and bytes for each group.
_MOST_LOGS: Final = 10
_SHARE: Final = 0.5


def with_lag_times(
    cluster: AdminClient, groups: Sequence[GroupSnapshot], known: KnownTimes | None = None
) -> list[GroupSnapshot]:
    """The groups with seconds behind; why one is unknown is in `cluster.offsets.unread_times`. Raises nothing.

    known: what earlier calls have read, which is not read again; this call adds to it."""
    places = {place for group in groups for row in group.offsets if (place := _place(row)) is not None}
    deadline = cluster.deadline.part(_SHARE)
    known = {} if known is None else known
    told: dict[_Place, int | None] = {place: known[place[:3]] for place in places if place[:3] in known}
    times, errors = _record_times(cluster, places - told.keys(), deadline) if places - told.keys() else ({}, {})
    known |= {place[:3]: at_ms for place, at_ms in times.items() if at_ms is not None}
    times |= told
    for topic, partition, *_ in places:
        cluster.offsets.unread_times.pop((topic, partition), None)
    cluster.offsets.unread_times |= errors
    now_ms = round(time.time() * 1000)
    return [_with_rows(group, [_behind(row, times, now_ms) for row in group.offsets]) for group in groups]


def unread_records(group: GroupSnapshot, known: KnownTimes) -> int:
    """How many records `with_lag_times` has to fetch for a group."""
    places = (place for row in group.offsets if (place := _place(row)) is not None)
    return sum(place[:3] not in known for place in places)


def with_lag_time(cluster: AdminClient, group: GroupSnapshot) -> GroupSnapshot:
    """One group with seconds behind. Raises AuthorizationError if the principal may not read a record that is
    needed."""
    (timed,) = with_lag_times(cluster, [group])
    for error in cluster.offsets.unread_times.values():
        if isinstance(error, AuthorizationError):
            raise error
    return timed


def with_commit_ages(
    cluster: AdminClient, groups: Sequence[GroupSnapshot], *, is_whole: bool = True
) -> list[GroupSnapshot]:
    """The groups with the ages of their commits; why one is unknown is in `cluster.offsets.unread_commit_times`. Raises
    nothing. is_whole: these are all groups, and not a part of very many."""
    unread = cluster.offsets.unread_commit_times
    if len(groups) > _MOST_LOGS or not is_whole:
        why = KgmError(f"the logs of more than {_MOST_LOGS} groups are not read")
        unread |= dict.fromkeys((one.group_id for one in groups), why)
        return [*groups]
    aged = []
    for group in groups:
        unread.pop(group.group_id, None)
        wanted = {(row.topic, row.partition) for row in group.offsets if row.committed is not None}
        if not wanted:
            aged.append(group)
            continue
        activity = GroupActivity(cluster, group.group_id)
        records = activity.read_back(partial(_has_all, wanted), cluster.deadline.part(_SHARE))
        if activity.unreadable_because is not None:
            unread[group.group_id] = KgmError(activity.unreadable_because)
        latest = latest_commits(records)
        now_ms = round(time.time() * 1000)
        aged.append(_with_rows(group, [_aged(row, latest, now_ms) for row in group.offsets]))
    return aged


def _place(row: OffsetSnapshot) -> _Place | None:
    """Where the first unread record is, skipping what retention has deleted. None if there is none, or it is
    unknown."""
    return (row.topic, row.partition, row.end - row.lag, row.end) if row.lag and row.end is not None else None


def _with_rows(group: GroupSnapshot, rows: Sequence[OffsetSnapshot]) -> GroupSnapshot:
    by_member: dict[str | None, list[OffsetSnapshot]] = {}
    for row in rows:
        by_member.setdefault(row.member_id, []).append(row)
    members = tuple(with_lag(member, by_member.get(member.member_id, ())) for member in group.members)
    return replace(group, members=members, offsets=tuple(rows))


def _behind(row: OffsetSnapshot, times: dict[_Place, int | None], now_ms: int) -> OffsetSnapshot:
    place = _place(row)
    if place not in times:
        return row
    written_ms = times[place]
    if written_ms is None:  # only markers follow
        return row._replace(lag_ms=0)
    if not 0 <= written_ms <= now_ms + _SKEW_MS:
        return row
    return row._replace(lag_ms=max(now_ms - written_ms, 0))


def _record_times(
    cluster: AdminClient, places: Iterable[_Place], deadline: Deadline
) -> tuple[dict[_Place, int | None], dict[_Partition, KgmError]]:
    """(when the first record at or after each place was written, why that is unknown for the others). A time of None
    means that there is no record."""
    errors: dict[_Partition, KgmError] = {}
    by_topic: dict[str, list[_Place]] = {}
    for place in sorted(places):
        by_topic.setdefault(place[0], []).append(place)
    by_leader: dict[BrokerNode, list[_Place]] = {}
    for topic, mine in by_topic.items():
        try:
            leaders = partition_log.look_up(cluster.brokers, deadline, name=topic).leaders
        except KgmError as error:
            errors |= {place[:2]: error for place in mine}
            continue
        for place in mine:
            leader = leaders.get(place[1])
            if leader is None:
                errors[place[:2]] = partition_log.leaderless(place[1], topic)
            else:
                by_leader.setdefault(leader.broker, []).append(place)
    times: dict[_Place, int | None] = {}
    tasks = {broker: _task(cluster, broker, mine, deadline) for broker, mine in by_leader.items()}
    for broker, result in run_parallel(tasks, deadline, "a partition leader").items():
        told, refused = ({}, {}) if isinstance(result, KgmError) else result
        late = result if isinstance(result, KgmError) else UnreachableError("not read within the time allowed")
        times |= told
        errors |= {p[:2]: refused.get(p[:2], late) for p in by_leader[broker] if p not in told}
    return times, errors


def _task(
    cluster: AdminClient, broker: BrokerNode, places: Sequence[_Place], deadline: Deadline
) -> Callable[[], tuple[dict[_Place, int | None], dict[_Partition, KgmError]]]:
    def ask(connection: BrokerConnection) -> tuple[dict[_Place, int | None], dict[_Partition, KgmError]]:
        told: dict[_Place, int | None] = {}
        refused: dict[_Partition, KgmError] = {}
        for place in places:
            if deadline.expired:
                break
            try:
                told[place] = _first_time(connection, place, deadline)
            except UnreachableError:
                raise
            except KgmError as error:
                refused[place[:2]] = _in_words(error, place[0])
        return told, refused

    return lambda: cluster.brokers.on_broker(broker, ask, deadline)


def _first_time(connection: BrokerConnection, place: _Place, deadline: Deadline) -> int | None:
    """When the first record at or after an offset was written, in ms; None if only markers follow. Raises KgmError."""
    topic, partition, offset, end = place
    # Each one-byte fetch returns one batch (KIP-74).
    fetches = partition_log.fetch_log(connection, partition, offset, end, deadline, fetch_bytes=1, name=topic)
    reached = offset
    for data, reached in islice(fetches, _MOST_BATCHES):  # noqa: B007  (needed after the loop)
        for batch in decode_batches(data):
            for row in () if batch.is_control else batch.records:
                if row.offset >= offset:
                    return row.timestamp
    if reached < end:
        raise DecodeError(f"{_MOST_BATCHES} batches from offset {offset} on have no record")
    return None


def _in_words(error: KgmError, topic: str) -> KgmError:
    if error.kafka_error != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return error
    return AuthorizationError(
        f"records of topic {topic!r} cannot be read",
        facts=(f"required: READ on Topic '{topic}'",),
        kafka_error=error.kafka_error,
    )


def _has_all(wanted: set[_Partition], records: Sequence[ActivityRecord]) -> bool:
    return wanted <= latest_commits(records).keys()


def latest_commits(records: Sequence[ActivityRecord]) -> dict[_Partition, int]:
    """When each partition was last committed, in ms of the coordinator's clock. records: oldest first. What is in a
    transaction is committed when that is; the latest record counts, as for the coordinator."""
    return {
        (one.topic, one.partition): one.committed_ms
        for one in records
        if isinstance(one, CommitRecord) and one.committed_ms is not None
    }


def _aged(row: OffsetSnapshot, latest: dict[_Partition, int], now_ms: int) -> OffsetSnapshot:
    at_ms = latest.get((row.topic, row.partition))
    if at_ms is None or row.committed is None:
        return row
    return row._replace(commit_age_ms=max(now_ms - at_ms, 0))
