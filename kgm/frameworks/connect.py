"""Kafka Connect: what a worker sends when it joins, and what the leader assigns to it.

Source: the classes ConnectProtocol (version 0, `eager`) and IncrementalCooperativeConnectProtocol (versions 1,
`compatible`, and 2, `sessioned`) of Kafka Connect, and WorkerCoordinator.onJoinComplete for what a worker then runs.
Kafka reads newer versions as these, and so does this module."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from kgm.frameworks.bounded_reader import BoundedReader

#: The number that stands for the connector itself among the numbers of its tasks.
CONNECTOR: Final = -1
_EAGER: Final = 0
#: The prefix of a sink connector's consumer group; the connector's name follows (SinkUtils.consumerGroupId).
SINK_GROUP: Final = "connect-"
_SINK_CLIENT: Final = "connector-consumer-"
#: More tasks than any connector has: what the network says must not decide how long a list becomes.
_MOST_TASKS: Final = 100_000
#: The fewest bytes that a connector's name and the number of its tasks take.
_LEAST_BYTES: Final = 6

#: A connector's name and the number of one of its tasks, or CONNECTOR for the connector itself.
Work = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerMetadata:
    """What a worker sends when it joins. url: of its REST interface. current: what it ran at that moment; empty in
    version 0, whose workers stop everything before they join."""

    version: int
    url: str
    config_offset: int
    current: tuple[Work, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAssignment:
    """What a worker is assigned. leader: the member id of the group's leader, None only if nothing is assigned.

    assigned, revoked: what the worker will start and stop; in version 0 `assigned` is everything. delay_ms: how long
    after the assignment the worker joins again; until then the leader holds back what was lost with another worker."""

    version: int
    error_code: int
    leader: str | None
    leader_url: str | None
    config_offset: int
    assigned: tuple[Work, ...] = ()
    revoked: tuple[Work, ...] = ()
    delay_ms: int = 0


def decode_worker_metadata(data: bytes) -> WorkerMetadata:
    """Raises DecodeError."""
    read = BoundedReader(data, "the metadata of a Connect worker")
    version = _version(read)
    url, offset = read.string(), read.int64()
    joined = read.nullable_blob() if version > _EAGER and read.left else None
    current = () if joined is None else decode_worker_assignment(joined).assigned
    return WorkerMetadata(version=version, url=url, config_offset=offset, current=current)


def decode_worker_assignment(data: bytes) -> WorkerAssignment:
    """Raises DecodeError."""
    read = BoundedReader(data, "the assignment of a Connect worker")
    version = _version(read)
    error_code = read.int16()
    leader, leader_url, offset = read.nullable_string(), read.nullable_string(), read.int64()
    is_incremental = version > _EAGER
    return WorkerAssignment(
        version=version,
        error_code=error_code,
        leader=leader,
        leader_url=leader_url,
        config_offset=offset,
        assigned=_work(read),
        revoked=_work(read) if is_incremental and read.left else (),
        delay_ms=read.int32() if is_incremental and read.left else 0,
    )


def running(joined: WorkerMetadata, given: WorkerAssignment) -> tuple[Work, ...]:
    """What a worker runs after this assignment, sorted by connector and task."""
    kept = set(joined.current) - set(given.revoked) if given.version > _EAGER else set()
    return tuple(sorted(kept | set(given.assigned)))


def sink_connector(group_id: str, client_ids: Iterable[str]) -> str | None:
    """The sink connector whose tasks are the members of a consumer group, judging by the names that Connect gives the
    group and its clients; None for any other group (SinkUtils.consumerGroupId, Worker.baseConsumerConfigs)."""
    name = group_id.removeprefix(SINK_GROUP)
    tasks = [client_id.removeprefix(f"{_SINK_CLIENT}{name}-") for client_id in client_ids]
    is_sink = bool(name) and name != group_id and bool(tasks) and all(map(str.isdecimal, tasks))
    return name if is_sink else None


def is_settled(assignments: Collection[WorkerAssignment | None]) -> bool | None:
    """Whether the group, which is Stable, will stay Stable: no lost work is held back, and no worker has to give
    something up or was given an error, after either of which it joins again. None if an assignment cannot be read."""
    known = [one for one in assignments if one is not None]
    if any(one.delay_ms or one.revoked or one.error_code for one in known):
        return False
    return True if len(known) == len(assignments) else None


def missing_work(running: Iterable[Work]) -> tuple[Work, ...]:
    """Work that must exist although no worker runs it: a connector whose tasks run, and tasks whose number lies between
    two others, up to _MOST_TASKS. The last tasks of a connector may be missing too, or a whole connector of which
    nothing runs; that cannot be seen."""
    numbers: dict[str, set[int]] = {}
    for name, number in running:
        numbers.setdefault(name, set()).add(number)
    return tuple(
        (name, number)
        for name, has in sorted(numbers.items())
        for number in range(CONNECTOR, min(max(has), _MOST_TASKS))
        if number not in has
    )


def _version(read: BoundedReader) -> int:
    version = read.int16()
    if version < 0:
        raise read.malformed(f"version {version}")
    return version


def _work(read: BoundedReader) -> tuple[Work, ...]:
    work: dict[Work, None] = {}
    for _ in range(read.nullable_count(_LEAST_BYTES) or 0):
        name = read.string()
        work |= dict.fromkeys([(name, read.int32()) for _ in range(read.count(4))])
    return tuple(work)
