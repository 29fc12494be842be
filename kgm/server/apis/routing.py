"""Hands requests to group coordinators: to the group's shard, or refuses them if another broker coordinates the group.

Requests for several groups are split by shard, and the answers are joined in the order of the request. Kafka:
GroupCoordinatorService."""

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from kgm.coordinator.contract.error_responses import refusal
from kgm.coordinator.contract.outcome import Request
from kgm.coordinator.offsets.store import OFFSET_BYTES
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.offset_commit_request import OffsetCommitRequest
from kgm.protocol.messages.offset_commit_response import OffsetCommitResponse
from kgm.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kgm.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from kgm.protocol.struct import Message
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.cluster.shard import Shard
from kgm.server.contract.exchange import ClientRequest, CloseConnection, Replies, Reply

#: Builds the response to a request that the coordinator cannot take: NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.
#: Errors in the request itself take precedence, as in Kafka.
Unavailable = Callable[[Request, ErrorCode, EmbeddedCluster], Message]


def refuse(group_request: Request, error: ErrorCode, _cluster: EmbeddedCluster) -> Message:
    """The response with this error."""
    return refusal(group_request, error)


def refuse_named_group(group_request: Request, error: ErrorCode, _cluster: EmbeddedCluster) -> Message:
    """The response with this error, or with INVALID_GROUP_ID for an empty group id."""
    return refusal(group_request, error if group_request.message.group_id else ErrorCode.INVALID_GROUP_ID)  # type: ignore[attr-defined]


def refuse_commit(group_request: Request, error: ErrorCode, cluster: EmbeddedCluster) -> Message:
    """The response with this error for each partition, or UNKNOWN_TOPIC_OR_PARTITION for partitions that do not exist,
    which a broker knows without the coordinator."""
    response = refusal(group_request, error)
    assert isinstance(response, OffsetCommitResponse | TxnOffsetCommitResponse)
    for topic in response.topics:
        for row in topic.partitions:
            if not 0 <= row.partition_index < cluster.topics.get(topic.name, 0):
                row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return response


def coordinator_request(
    request: ClientRequest, *, version: int | None = None, message: Message | None = None
) -> Request:
    """The request in the form the coordinator takes. version, message: replace those of the request."""
    return Request(
        message or request.message,
        request.version if version is None else version,
        request.client_id,
        request.endpoints.client_host,
    )


def ask_coordinator(
    request: ClientRequest,
    cluster: EmbeddedCluster,
    *,
    unavailable: Unavailable = refuse,
    shard: Shard | None = None,
    group_request: Request | None = None,
) -> tuple[Reply, ...]:
    """The replies of a group's coordinator, which may answer other requests as well, or the refusal of this request.

    shard: the shard to ask, if not the one for `message.group_id`. group_request: what to ask, if not the request
    itself."""
    if shard is None:
        shard = cluster.shards.of(request.message.group_id, request.now)  # type: ignore[attr-defined]
    if group_request is None:
        group_request = coordinator_request(request)
    if shard.active_on == request.node_id:
        return shard.handle(group_request, ticket=request.ticket, now=request.now)
    return (Reply(request.ticket, unavailable(group_request, shard.refusal_at(request.node_id), cluster)),)


def ask_coordinators(
    request: ClientRequest,
    cluster: EmbeddedCluster,
    *,
    request_field: str,
    response_field: str,
    group_id_of: Callable[[Any], str] = str,
    version: int | None = None,
) -> tuple[Reply, ...]:
    """Ask the coordinator of each group for its part, and join the answers in the order of the request.

    request_field, response_field: the corresponding lists in the request and the response. version: replaces that of
    the request."""
    elements: Sequence[Any] = getattr(request.message, request_field)
    parts: dict[Shard, list[int]] = {}
    for position, element in enumerate(elements):
        parts.setdefault(cluster.shards.of(group_id_of(element), request.now), []).append(position)
    if not parts:
        parts = {cluster.shards.at(0, request.now): []}
    rows: list[Any] = [None] * len(elements)
    response: Message | None = None
    others: tuple[Reply, ...] = ()
    for shard, positions in parts.items():
        part = copy.copy(request.message)
        setattr(part, request_field, [elements[position] for position in positions])
        group_request = coordinator_request(request, version=version, message=part)
        for reply in ask_coordinator(request, cluster, shard=shard, group_request=group_request):
            if reply.ticket != request.ticket:
                others += (reply,)
                continue
            response = reply.message
            for position, row in zip(positions, getattr(response, response_field), strict=True):
                rows[position] = row
    assert response is not None
    setattr(response, response_field, rows)
    return (*others, Reply(request.ticket, response))


# -- bounds


def refuse_new_group(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    """The refusal of a request that would create one group too many: GROUP_MAX_SIZE_REACHED, which makes clients give
    up. Empty if the group exists, or there is room for it."""
    known = cluster.shards.group_ids
    if len(known) < cluster.limits.max_groups or request.message.group_id in known:  # type: ignore[attr-defined]
        return ()
    return (Reply(request.ticket, refusal(coordinator_request(request), ErrorCode.GROUP_MAX_SIZE_REACHED)),)


def refuse_growth(
    request: ClientRequest, cluster: EmbeddedCluster, size: int, *, error: ErrorCode = ErrorCode.GROUP_MAX_SIZE_REACHED
) -> Replies:
    """The refusal of a request that would make groups use too much memory for their members; empty if it may be served.
    size: how much it may add, in bytes."""
    if cluster.group_memory.admits(size, request.now):
        return ()
    return (Reply(request.ticket, refusal(coordinator_request(request), error)),)


def size_of_names(request: ClientRequest, *names: str | None) -> int:
    """An upper bound for the memory that a joining member's ids take. A member id contains another of these names."""
    message: Any = request.message
    every = (message.group_id, message.member_id, request.client_id, *names)
    return 2 * sum(len(name) for name in every if name)


def refuse_offsets(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    """The refusal of a commit that would make groups keep too many offsets; empty if it may be served."""
    message = request.message
    assert isinstance(message, OffsetCommitRequest | TxnOffsetCommitRequest)
    rows = [row for topic in message.topics for row in topic.partitions]
    size = sum(OFFSET_BYTES + len(row.committed_metadata or "") for row in rows)
    if cluster.offset_memory.admits(size, request.now):
        return ()
    return (Reply(request.ticket, refusal(coordinator_request(request), ErrorCode.INVALID_COMMIT_OFFSET_SIZE)),)


def refuse_repeated_groups(request: ClientRequest, cluster: EmbeddedCluster, group_ids: Sequence[str]) -> Replies:
    """The refusal of a request that names groups repeatedly and whose response would have too many rows; empty if it
    may be answered."""
    times = Counter(group_ids)
    if len(times) == len(group_ids):
        return ()
    rows = sum(count * (1 + _described_rows(group_id, request, cluster)) for group_id, count in times.items())
    if rows <= cluster.limits.max_items:
        return ()
    api = type(request.message).__name__.removesuffix("Request")
    return (CloseConnection(request.ticket, f"{api} asks for {rows} rows"),)


def _described_rows(group_id: str, request: ClientRequest, cluster: EmbeddedCluster) -> int:
    """How many rows describe a group: its members, and their partitions or tasks; in a streams group also its
    topics."""
    engine = cluster.shards.of(group_id, request.now).engine
    streams = None if engine is None else engine.streams_group(group_id)
    if streams is not None:
        return streams.rows
    group = None if engine is None else engine.group(group_id)
    if group is None:
        return 0
    members = [member.consumer for member in group.members if member.consumer is not None]
    held = (rows for member in members for rows in (member.assigned, member.pending_revocation, member.target))
    return len(group.members) + sum(len(partitions) for rows in held for partitions in rows.values())
