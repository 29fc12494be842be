"""Kafka Streams on the classic protocol: what its members report about themselves, and what its leader assigns.

Streams' assignor `stream` writes both as user data of the consumer protocol. Source: the class AssignmentInfo and the
schema SubscriptionInfoData.json of Kafka Streams, versions 1 to 11. Kafka 2.4 writes version 5, 2.5 writes 6, 2.6
writes 7, 2.7 writes 8, 2.8 writes 9, 3.0 writes 10, and 3.2 and later write 11; with `upgrade.from`, newer releases
write older versions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from kgm.frameworks.bounded_reader import BoundedReader

NEWEST: Final = 11
#: The offset sum of a task that is active on the member (Task.LATEST_OFFSET), and the one that stands for "not
#: reported" in older versions.
ACTIVE: Final = -2
UNKNOWN_OFFSET_SUM: Final = -3
_NEVER: Final = 2**63 - 1
#: The last millisecond that RFC 3339 can express.
_LAST_MS: Final = 253_402_300_799_999
_UNKNOWN_VERSION: Final = -1
# The version that introduced each part.
_ENDPOINT, _SUPPORTED, _ERROR, _DICTIONARY, _STANDBY_HOSTS, _OFFSET_SUMS = 2, 3, 4, 5, 6, 7
_NEXT_REBALANCE, _UNIQUE_FIELD, _SUBSCRIPTION_ERROR, _NAMED_TOPOLOGY, _CLIENT_TAGS = 7, 8, 9, 10, 11
_TASK_BYTES, _NAMED_TASK_BYTES, _HOST_BYTES, _UUID_BYTES = 8, 12, 10, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsSubscription:
    """What one thread sends when it joins (SubscriptionInfo).

    user_endpoint: `application.server`, None if it is not set. offset_sums: by task, how far its state has progressed,
    for every task whose state the process has; ACTIVE for tasks that run there, UNKNOWN_OFFSET_SUM before version 7."""

    version: int
    latest_version: int
    process_id: str
    user_endpoint: str | None = None
    offset_sums: Mapping[str, int] = field(default_factory=dict)
    error_code: int = 0
    client_tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsAssignment:
    """What one thread is assigned (AssignmentInfo). Warm-up tasks are written as standby tasks.

    standby_tasks: partitions by task. endpoints: `HOST:PORT` of every process that reported one. next_rebalance_ms:
    when this member will start the next rebalance, in ms since the epoch, 0 for immediately; None for never.
    tells_next_rebalance: False before version 7, which has no such time."""

    version: int
    common_version: int
    active_tasks: tuple[str, ...]
    standby_tasks: Mapping[str, Sequence[tuple[str, int]]]
    endpoints: tuple[str, ...] = ()
    error_code: int = 0
    next_rebalance_ms: int | None = None

    @property
    def tells_next_rebalance(self) -> bool:
        return self.version >= _NEXT_REBALANCE


def decode_streams_subscription(data: bytes) -> StreamsSubscription:
    """Raises DecodeError, also for a version newer than 11."""
    read = BoundedReader(data, "a subscription of Kafka Streams")
    version = _version(read)
    latest = read.int32() if version >= _SUPPORTED else _UNKNOWN_VERSION
    process_id = _uuid(read.take(_UUID_BYTES))
    sums: dict[str, int] = {}
    if version < _OFFSET_SUMS:
        for known in (ACTIVE, UNKNOWN_OFFSET_SUM):
            for _ in range(read.count(_TASK_BYTES)):
                sums[_task(read)] = known
    endpoint = read.text(read.blob()) if version >= _ENDPOINT else ""
    if version >= _OFFSET_SUMS:
        sums = _offset_sums(read, version)
    if version >= _UNIQUE_FIELD:
        read.int8()
    error_code = read.int32() if version >= _SUBSCRIPTION_ERROR else 0
    tags: dict[str, str] = {}
    for _ in range(read.count(8) if version >= _CLIENT_TAGS else 0):
        key = read.text(read.blob())
        tags[key] = read.text(read.blob())
    return StreamsSubscription(
        version=version,
        latest_version=latest,
        process_id=process_id,
        user_endpoint=endpoint or None,
        offset_sums=sums,
        error_code=error_code,
        client_tags=tags,
    )


def decode_streams_assignment(data: bytes) -> StreamsAssignment:
    """Raises DecodeError, also for a version newer than 11."""
    read = BoundedReader(data, "an assignment of Kafka Streams")
    version = _version(read)
    common = read.int32() if version >= _SUPPORTED else _UNKNOWN_VERSION
    least = _NAMED_TASK_BYTES if version >= _NAMED_TOPOLOGY else _TASK_BYTES
    # One entry for each partition of a task.
    active = dict.fromkeys([_assigned_task(read, version) for _ in range(read.count(least))])
    standby = {}
    for _ in range(read.count(least + 4)):
        task = _assigned_task(read, version)
        standby[task] = [(read.utf(), read.int32()) for _ in range(read.count(6))]
    endpoints = _endpoints(read, version) if version >= _ENDPOINT else []
    error_code = read.int32() if version >= _ERROR else 0
    next_ms = read.int64() if version >= _NEXT_REBALANCE else _NEVER
    return StreamsAssignment(
        version=version,
        common_version=common,
        active_tasks=tuple(active),
        standby_tasks=standby,
        endpoints=tuple(dict.fromkeys(endpoints)),
        error_code=error_code,
        next_rebalance_ms=None if next_ms == _NEVER else min(max(next_ms, 0), _LAST_MS),
    )


def is_settled(
    subscriptions: Iterable[StreamsSubscription | None], assignments: Collection[StreamsAssignment | None]
) -> bool | None:
    """Whether the group, which is Stable, will stay Stable: no member will start a rebalance, none has been assigned an
    error, and each finds its own endpoint among the endpoints of all processes (otherwise it rebalances immediately).
    None if members do not report this: before Kafka 2.6, and if they cannot be read.

    Source: StreamsPartitionAssignor.onAssignment, maybeScheduleFollowupRebalance, verifyHostInfo."""
    known = [one for one in assignments if one is not None]
    if any(one.next_rebalance_ms is not None or one.error_code for one in known):
        return False
    for own, given in zip(subscriptions, assignments, strict=True):
        if own is None or given is None or own.user_endpoint is None or not given.endpoints:
            continue
        if _host_and_port(own.user_endpoint) not in given.endpoints:
            return False
    is_told = len(known) == len(assignments) and all(one.tells_next_rebalance for one in known)
    return True if is_told else None


def in_order(tasks: Iterable[str]) -> tuple[str, ...]:
    """Tasks by topology, subtopology and partition."""
    return tuple(sorted(tasks, key=task_key))


@lru_cache(maxsize=1 << 16)
def task_key(task: str) -> tuple[str, int, int]:
    """Sort key of a task: topology, subtopology, partition (TaskId.compareTo). A broker accepts any subtopology id in a
    streams group, and a client that is not Java's may send one that is not a number: such tasks are sorted by name."""
    name, _, numbers = task.rpartition("__")
    subtopology, _, partition = numbers.partition("_")
    try:
        return name, int(subtopology), int(partition)
    except ValueError:
        return task, -1, -1


def _version(read: BoundedReader) -> int:
    version = read.int32()
    if not 1 <= version <= NEWEST:
        raise read.malformed(f"version {version}; 1 to {NEWEST} are known")
    return version


def _uuid(data: bytes) -> str:
    """A UUID as Java prints it."""
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _task(read: BoundedReader) -> str:
    """`SUBTOPOLOGY_PARTITION`."""
    return f"{read.int32()}_{read.int32()}"


def _assigned_task(read: BoundedReader, version: int) -> str:
    """`SUBTOPOLOGY_PARTITION`, or `NAME__SUBTOPOLOGY_PARTITION` in a named topology (TaskId.toString)."""
    task = _task(read)
    name = read.chars() if version >= _NAMED_TOPOLOGY else ""
    return f"{name}__{task}" if name else task


def _offset_sums(read: BoundedReader, version: int) -> dict[str, int]:
    sums = {}
    if version >= _NAMED_TOPOLOGY:
        for _ in range(read.count(18)):
            task, offset_sum, name = _task(read), read.int64(), read.nullable_string()
            sums[f"{name}__{task}" if name else task] = offset_sum
        return sums
    for _ in range(read.count(8)):
        subtopology = read.int32()
        for _ in range(read.count(12)):
            partition = read.int32()
            sums[f"{subtopology}_{partition}"] = read.int64()
    return sums


def _endpoints(read: BoundedReader, version: int) -> list[str]:
    """Those of all processes, from the map of their partitions. From version 5 on topics are numbers of a dictionary,
    and from version 6 on there is a second map, of standby tasks."""
    if version >= _DICTIONARY:
        for _ in range(read.count(6)):
            read.int32()
            read.utf()
    endpoints = []
    for _ in range(2 if version >= _STANDBY_HOSTS else 1):
        for _ in range(read.count(_HOST_BYTES)):
            host = read.utf()
            endpoints.append(f"{host}:{read.int32()}")
            if version >= _DICTIONARY:
                read.take(8 * read.count(8))
                continue
            for _ in range(read.count(6)):
                read.utf()
                read.int32()
    return endpoints


def _host_and_port(endpoint: str) -> str:
    """An `application.server` in the form of the endpoint map: without protocol and brackets (Utils.getHost)."""
    host, _, port = endpoint.rpartition("://")[2].rpartition(":")
    return f"{host.removeprefix('[').removesuffix(']')}:{port}"
