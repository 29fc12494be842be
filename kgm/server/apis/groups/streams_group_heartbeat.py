"""StreamsGroupHeartbeat v0-0: a member of a streams group (KIP-1071) joins, reports that it is alive, gives up tasks,
or leaves; the group's coordinator answers. The internal topics that the group needs are created, without their
configurations.

Stricter than Kafka: a request is refused if it would create more groups, or need more memory for its group, than the
server allows, or if the group's topology has more subtopologies or tasks than the server assigns."""

from collections.abc import Iterable, Sequence
from typing import Final

from kgm.coordinator.contract.error_responses import refusal
from kgm.coordinator.contract.outcome import Request
from kgm.coordinator.groups.streams_topology import input_topics
from kgm.coordinator.streams.heartbeat import request_error
from kgm.coordinator.streams.topology import MISSING_INTERNAL_TOPICS
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, Subtopology
from kgm.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from kgm.protocol.struct import Message
from kgm.records.messages.streams_group_topology_value import Subtopology as RecordedSubtopology
from kgm.server.apis.routing import ask_coordinator, refuse_growth, refuse_new_group, size_of_names
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.cluster.topics import is_legal_name
from kgm.server.contract.exchange import ClientRequest, Millis, Replies, Reply

_MOST_SUBTOPOLOGIES: Final = 1_000
#: The bytes that one entry in a list of topics is assumed to take, including its configurations.
_TOPIC: Final = 64


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, StreamsGroupHeartbeatRequest)
    sent = message.topology.subtopologies if message.topology is not None else []
    has_protocol = cluster.settings.has_streams_protocol
    if has_protocol and (wrong := _topology_error(message.group_id, sent, request.now, cluster)):
        code = ErrorCode.STREAMS_INVALID_TOPOLOGY
        return (Reply(request.ticket, StreamsGroupHeartbeatResponse(error_code=code, error_message=wrong)),)
    replies = (
        refuse_new_group(request, cluster)
        or refuse_growth(request, cluster, _size(request, sent))
        or ask_coordinator(request, cluster, unavailable=_unavailable)
    )
    others, failures = cluster.create_internal_topics(request.now)
    if failures:
        _add_failures(replies, request, failures)
    return (*others, *replies)


def _topology_error(group_id: str, sent: Sequence[Subtopology], now: Millis, cluster: EmbeddedCluster) -> str:
    """What is wrong with the topology in the request or, if the request has none, with the group's topology (Kafka:
    KafkaApis); empty if it is valid."""
    for row in sent:
        for name in _topics(row):
            if cluster.topics.is_internal(name):
                return f"A topology cannot use Kafka's internal topic {name}."
            if not is_legal_name(name):
                return f"{name!r} is not a legal topic name."
    rows: Sequence[Subtopology | RecordedSubtopology] = sent
    if not sent:
        engine = cluster.shards.of(group_id, now).engine
        group = None if engine is None else engine.streams_group(group_id)
        rows = [] if group is None or group.topology is None else [*group.topology.subtopologies.values()]
    tasks = sum(max((cluster.topics.get(name, 0) for name in input_topics(row)), default=0) for row in rows)
    if len(rows) > _MOST_SUBTOPOLOGIES or tasks > cluster.limits.max_items:
        return f"kgm serve assigns up to {cluster.limits.max_items} tasks of {_MOST_SUBTOPOLOGIES} subtopologies."
    return ""


def _topics(row: Subtopology) -> Iterable[str]:
    yield from row.source_topics
    yield from row.repartition_sink_topics
    yield from (topic.name for topic in (*row.repartition_source_topics, *row.state_changelog_topics))


def _size(request: ClientRequest, sent: Sequence[Subtopology]) -> int:
    """How much memory the request may add to what the groups use, in bytes."""
    message = request.message
    assert isinstance(message, StreamsGroupHeartbeatRequest)
    if message.member_epoch != 0:
        return 0
    tags = [text for row in message.client_tags or () for text in (row.key, row.value)]
    host = message.user_endpoint.host if message.user_endpoint is not None else None
    size = size_of_names(request, message.rack_id, message.process_id, host, *tags)
    for row in sent:
        internal = [*row.repartition_source_topics, *row.state_changelog_topics]
        size += sum(_TOPIC + len(name) for name in _topics(row)) + len(row.subtopology_id)
        size += sum(len(each.key) + len(each.value) for topic in internal for each in topic.topic_configs)
        size += 8 * sum(len(one.source_topics) + len(one.repartition_source_topics) for one in row.copartition_groups)
    return size


def _add_failures(replies: Replies, request: ClientRequest, failures: Sequence[str]) -> None:
    """Add to the response why internal topics could not be created."""
    for reply in replies:
        if isinstance(reply, Reply) and reply.ticket == request.ticket:
            assert isinstance(reply.message, StreamsGroupHeartbeatResponse)
            for status in reply.message.status or ():
                if status.status_code == MISSING_INTERNAL_TOPICS:
                    status.status_detail += f" Not created: {'; '.join(failures)}."


def _unavailable(group_request: Request, error: ErrorCode, cluster: EmbeddedCluster) -> Message:
    message = group_request.message
    assert isinstance(message, StreamsGroupHeartbeatRequest)
    wrong, text = request_error(message, cluster.settings)
    if wrong:
        return StreamsGroupHeartbeatResponse(error_code=wrong, error_message=text)
    return refusal(group_request, error)
