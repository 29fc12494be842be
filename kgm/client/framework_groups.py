"""What members of Kafka Streams and Connect groups wrote, as part of a snapshot. What cannot be decoded is None."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kgm.frameworks import connect
from kgm.frameworks.connect import (
    CONNECTOR,
    decode_worker_assignment,
    decode_worker_metadata,
    running,
)
from kgm.frameworks.streams import (
    decode_streams_assignment,
    decode_streams_subscription,
    in_order,
    is_settled,
)
from kgm.model.errors import DecodeError
from kgm.model.work import MemberWork
from kgm.text.timestamps import rfc3339

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkGroup:
    """A group of a framework. work: per member, in the order given; the other fields as in `GroupSnapshot`."""

    work: tuple[MemberWork | None, ...]
    next_rebalance_at: str | None = None
    is_settled: bool | None = None
    rebalance_delay_ms: int | None = None
    leader: str | None = None


def streams_group(user_data: Sequence[tuple[bytes | None, bytes | None]]) -> FrameworkGroup:
    """A Stable classic group of Kafka Streams. user_data: from each member's subscription and assignment."""
    said = [_read(decode_streams_subscription, own) for own, _ in user_data]
    given = [_read(decode_streams_assignment, assigned) for _, assigned in user_data]
    work = tuple(
        None
        if own is None and assigned is None
        else MemberWork(
            process_id=None if own is None else own.process_id,
            user_endpoint=None if own is None else own.user_endpoint,
            active_tasks=None if assigned is None else in_order(assigned.active_tasks),
            standby_tasks=None if assigned is None else in_order(assigned.standby_tasks),
            client_tags=None if own is None else _tags(own.client_tags.items()),
            metadata_version=None if own is None else own.version,
        )
        for own, assigned in zip(said, given, strict=True)
    )
    times = [one.next_rebalance_ms for one in given if one is not None and one.next_rebalance_ms is not None]
    return FrameworkGroup(
        work=work,
        next_rebalance_at=rfc3339(min(times)) if times else None,
        is_settled=is_settled(said, given),
    )


def connect_group(members: Sequence[tuple[bytes, bytes]]) -> FrameworkGroup:
    """A Stable group of Connect workers. members: each one's metadata and assignment."""
    said = [_read(decode_worker_metadata, metadata) for metadata, _ in members]
    given = [_read(decode_worker_assignment, assigned) for _, assigned in members]
    work = []
    for joined, assigned in zip(said, given, strict=True):
        if joined is None or assigned is None:
            work.append(None if joined is None else MemberWork(user_endpoint=joined.url))
            continue
        runs = running(joined, assigned)
        work.append(
            MemberWork(
                user_endpoint=joined.url,
                active_tasks=tuple(f"{name}-{number}" for name, number in runs if number != CONNECTOR),
                connectors=tuple(name for name, number in runs if number == CONNECTOR),
            )
        )
    known = [one for one in given if one is not None]
    leaders = {one.leader for one in known}
    return FrameworkGroup(
        work=tuple(work),
        is_settled=connect.is_settled(given),
        rebalance_delay_ms=max((one.delay_ms for one in known), default=None),
        leader=leaders.pop() if len(leaders) == 1 else None,
    )


def work_of_streams_member(member: Any) -> MemberWork:
    """The work of a streams group member (KIP-1071). member: a member in a StreamsGroupDescribe response."""
    endpoint, now, target = member.user_endpoint, member.assignment, member.target_assignment
    return MemberWork(
        process_id=member.process_id or None,
        user_endpoint=None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
        active_tasks=_tasks(now.active_tasks),
        standby_tasks=_tasks(now.standby_tasks),
        warmup_tasks=_tasks(now.warmup_tasks),
        target_active_tasks=_tasks(target.active_tasks),
        target_standby_tasks=_tasks(target.standby_tasks),
        target_warmup_tasks=_tasks(target.warmup_tasks),
        topology_epoch=member.topology_epoch,
        client_tags=_tags((tag.key, tag.value) for tag in member.client_tags),
    )


def _tags(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...] | None:
    return tuple(sorted(f"{key}={value}" for key, value in pairs)) or None


def _tasks(rows: Any) -> tuple[str, ...]:
    return tuple(f"{row.subtopology_id}_{number}" for row in rows for number in sorted(row.partitions))


def _read(decode: Callable[[bytes], T], data: bytes | None) -> T | None:
    try:
        return decode(data) if data else None
    except DecodeError:
        return None
