"""The group APIs of one broker: each request goes to the shard of its group, or is refused if that is elsewhere.

What stands in front of the shards is what Kafka does in KafkaApis and GroupCoordinatorService: topic ids are turned
into names and back (OffsetCommit and OffsetFetch v10), and requests for several groups are split over the shards and
their answers joined in the order of the request. The rest bounds what one client can make the server hold or say."""

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from kgm.coordinator.contract.error_responses import refusal
from kgm.coordinator.contract.outcome import Request
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.list_groups_response import ListGroupsResponse
from kgm.protocol.messages.offset_commit_request import OffsetCommitRequest
from kgm.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kgm.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kgm.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kgm.protocol.struct import Message
from kgm.server.apis.unavailable import unavailable
from kgm.server.cluster.shard import Shard
from kgm.server.cluster.shards import Shards
from kgm.server.cluster.topics import Topics
from kgm.server.contract.exchange import Call, Hangup, Reply, Response
from kgm.server.contract.limits import Limits

_BY_TOPIC_ID_FROM = 10
_MANY_GROUPS_FROM = 8


def _request(call: Call, version: int, message: Message | None = None) -> Request:
    return Request(call.message if message is None else message, version, call.client_id, call.peer.client_host)


def _self(element: str) -> str:
    return element


def _group_id(group: OffsetFetchRequestGroup) -> str:
    return group.group_id


class Groups:
    """What one broker answers about groups."""

    def __init__(self, node_id: int, shards: Shards, topics: Topics, limits: Limits) -> None:
        self._node_id = node_id
        self._shards = shards
        self._topics = topics
        self._limits = limits

    # -- requests for one group

    def submit(self, call: Call) -> Response:
        """Hand a request over as it is, to the shard of its group."""
        return self._submit(call, call.version)

    def _submit(self, call: Call, version: int) -> tuple[Reply, ...]:
        group_id: str = call.message.group_id  # type: ignore[attr-defined]
        return self._ask(self._shards.of(group_id, call.now), call, _request(call, version))

    def _ask(self, shard: Shard, call: Call, request: Request) -> tuple[Reply, ...]:
        if shard.serving == self._node_id:
            return self._shards.submit(shard, request, ticket=call.ticket, now=call.now)
        error = shard.refusal_at(self._node_id)
        answer = unavailable(request, error, settings=self._shards.settings, topics=self._topics)
        return (Reply(call.ticket, answer),)

    def create(self, call: Call) -> Response:
        """JoinGroup v0-9, TxnOffsetCommit v0-5, and OffsetCommit of before v10. A group that would be one too many is
        refused with GROUP_MAX_SIZE_REACHED, which clients take as final."""
        return self._refuse_one_too_many(call) or self.submit(call)

    def _refuse_one_too_many(self, call: Call) -> Response:
        known = self._shards.group_ids
        if len(known) < self._limits.max_groups or call.message.group_id in known:  # type: ignore[attr-defined]
            return ()
        return (Reply(call.ticket, refusal(_request(call, call.version), ErrorCode.GROUP_MAX_SIZE_REACHED)),)

    # -- requests for several groups

    def list_groups(self, call: Call) -> Response:
        """ListGroups v0-5: the groups that this broker coordinates; an error as long as some of them are loading."""
        message = call.message
        assert isinstance(message, ListGroupsRequest)
        joined = ListGroupsResponse()
        others: tuple[Reply, ...] = ()
        for shard in self._shards.all():
            error = shard.refusal_at(self._node_id)
            if error is ErrorCode.NOT_COORDINATOR:
                continue
            for reply in self._ask(shard, call, _request(call, call.version)):
                if reply.ticket != call.ticket:
                    others += (reply,)
                    continue
                assert isinstance(reply.message, ListGroupsResponse)
                joined.error_code = joined.error_code or reply.message.error_code
                joined.groups += reply.message.groups
        joined.groups.sort(key=lambda group: group.group_id)
        if joined.error_code:
            joined.groups = []
        return (*others, Reply(call.ticket, joined))

    def describe(self, call: Call) -> Response:
        """DescribeGroups v0-6. A repeated group id is answered each time, as in Kafka, up to a limit."""
        message = call.message
        assert isinstance(message, DescribeGroupsRequest)
        return self._refuse_repeats(message.groups, call) or self._fan_out(call, "groups", _self, "groups")

    def consumer_group_describe(self, call: Call) -> Response:
        """ConsumerGroupDescribe v0-1. Likewise."""
        message = call.message
        assert isinstance(message, ConsumerGroupDescribeRequest)
        return self._refuse_repeats(message.group_ids, call) or self._fan_out(call, "group_ids", _self, "groups")

    def _refuse_repeats(self, group_ids: Sequence[str], call: Call) -> Response:
        times = Counter(group_ids)
        if len(times) == len(group_ids):
            return ()
        rows = sum(count * (1 + self._rows(group_id, call)) for group_id, count in times.items())
        asks = type(call.message).__name__.removesuffix("Request")
        return (Hangup(call.ticket, f"{asks} asks for {rows} rows"),) if rows > self._limits.max_items else ()

    def _rows(self, group_id: str, call: Call) -> int:
        """Members, and partitions of members of consumer groups."""
        engine = self._shards.of(group_id, call.now).engine
        group = None if engine is None else engine.group(group_id)
        if group is None:
            return 0
        seats = [member.consumer for member in group.members if member.consumer is not None]
        held = (rows for seat in seats for rows in (seat.assigned, seat.pending_revocation, seat.target))
        return len(group.members) + sum(len(partitions) for rows in held for partitions in rows.values())

    def delete(self, call: Call) -> Response:
        """DeleteGroups v0-2. A repeated group id is answered once, as in Kafka."""
        message = call.message
        assert isinstance(message, DeleteGroupsRequest)
        message.groups_names = list(dict.fromkeys(message.groups_names))
        return self._fan_out(call, "groups_names", _self, "results")

    def _fan_out(self, call: Call, asked: str, group_id_of: Callable[[Any], str], answered: str) -> tuple[Reply, ...]:
        """Ask each shard for its groups, and put the answers into the order of the request.

        asked, answered: the lists of the request and of the response that correspond to each other."""
        elements: Sequence[Any] = getattr(call.message, asked)
        version = min(call.version, _BY_TOPIC_ID_FROM - 1)  # no other of these APIs has as many versions
        parts: dict[Shard, list[int]] = {}
        for position, element in enumerate(elements):
            parts.setdefault(self._shards.of(group_id_of(element), call.now), []).append(position)
        if not parts:
            parts = {self._shards.at(0, call.now): []}
        rows: list[Any] = [None] * len(elements)
        response: Message | None = None
        others: tuple[Reply, ...] = ()
        for shard, positions in parts.items():
            part = copy.copy(call.message)
            setattr(part, asked, [elements[position] for position in positions])
            for reply in self._ask(shard, call, _request(call, version, part)):
                if reply.ticket != call.ticket:
                    others += (reply,)
                    continue
                response = reply.message
                for position, row in zip(positions, getattr(response, answered), strict=True):
                    rows[position] = row
        assert response is not None
        setattr(response, answered, rows)
        return (*others, Reply(call.ticket, response))

    # -- OffsetCommit v2-10

    def commit(self, call: Call) -> Response:
        if call.version < _BY_TOPIC_ID_FROM:
            return self.create(call)
        message = call.message
        assert isinstance(message, OffsetCommitRequest)
        if refused_group := self._refuse_one_too_many(call):
            return refused_group
        known, refused = [], []
        for topic in message.topics:
            found = self._topics.identified(topic.topic_id)
            if found is not None:
                topic.name = found.name
                known.append(topic)
                continue
            rows = [
                OffsetCommitResponsePartition(
                    partition_index=part.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_ID
                )
                for part in topic.partitions
            ]
            refused.append(OffsetCommitResponseTopic(topic_id=topic.topic_id, partitions=rows))
        message.topics = known
        replies = self._submit(call, _BY_TOPIC_ID_FROM - 1)
        for reply in replies:
            if reply.ticket == call.ticket:
                assert isinstance(reply.message, OffsetCommitResponse)
                for row in reply.message.topics:
                    row.topic_id = self._id_of(row.name)
                reply.message.topics += refused
        return replies

    def _id_of(self, name: str) -> bytes:
        topic = self._topics.named(name)
        assert topic is not None, "offsets are of topics that exist, and none is deleted"
        return topic.topic_id

    # -- OffsetFetch v1-10

    def fetch(self, call: Call) -> Response:
        message = call.message
        assert isinstance(message, OffsetFetchRequest)
        if call.version < _MANY_GROUPS_FROM:
            return self.submit(call)
        everything = [group.group_id for group in message.groups if group.topics is None]
        rows = sum(self._offsets(group_id, call) for group_id in everything)
        if rows > self._limits.max_items:
            return (Hangup(call.ticket, f"OffsetFetch asks for {rows} rows"),)
        by_id = call.version >= _BY_TOPIC_ID_FROM
        refused = [self._resolve(group) for group in message.groups] if by_id else []
        replies = self._fan_out(call, "groups", _group_id, "groups")
        for reply in replies:
            if by_id and reply.ticket == call.ticket:
                assert isinstance(reply.message, OffsetFetchResponse)
                for answer, more in zip(reply.message.groups, refused, strict=True):
                    self._identify(answer, more)
        return replies

    def _offsets(self, group_id: str, call: Call) -> int:
        engine = self._shards.of(group_id, call.now).engine
        return 0 if engine is None else len(engine.offsets.of(group_id))

    def _resolve(self, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
        """Put names to the topics that are known; returns the answers for the others."""
        known, refused = [], []
        for topic in group.topics or ():
            found = self._topics.identified(topic.topic_id)
            if found is not None:
                topic.name = found.name
                known.append(topic)
                continue
            rows = [
                OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=-1, error_code=ErrorCode.UNKNOWN_TOPIC_ID
                )
                for index in topic.partition_indexes
            ]
            refused.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=rows))
        if group.topics is not None:
            group.topics = known
        return refused

    def _identify(self, answer: OffsetFetchResponseGroup, refused: list[OffsetFetchResponseTopics]) -> None:
        if answer.error_code:  # Kafka tells a group's error alone
            return
        answer.topics = [row for row in answer.topics if row.name in self._topics]  # others have no id to be told
        for row in answer.topics:
            row.topic_id = self._id_of(row.name)
        answer.topics += refused
