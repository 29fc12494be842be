"""The group APIs: everything goes to the coordinator's runtime.

What stands in front of it is what Kafka does in KafkaApis: topic ids are turned into names and back (OffsetCommit and
OffsetFetch v10). The rest bounds what one client can make the server hold or say."""

import uuid
from collections import Counter
from collections.abc import Sequence

from kgm.coordinator.engine import Coordinator
from kgm.coordinator.outcome import Producer, Request
from kgm.coordinator.refusals import refusal
from kgm.coordinator.runtime import Runtime
from kgm.coordinator.settings import BrokerSettings
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest
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
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.record import Record
from kgm.server.exchange import Call, Hangup, Millis, Reply, Response
from kgm.server.limits import Limits
from kgm.server.topics import Topics

_BY_TOPIC_ID_FROM = 10


def new_member_id(prefix: str) -> str:
    """A member id as Kafka makes them."""
    return f"{prefix}-{uuid.uuid4()}"


def _request(call: Call, version: int) -> Request:
    return Request(message=call.message, version=version, client_id=call.client_id, client_host=call.peer.client_host)


class Groups:
    """The group coordinator behind the broker's APIs."""

    def __init__(self, *, settings: BrokerSettings, topics: Topics, limits: Limits, now: Millis) -> None:
        self.coordinator = Coordinator(settings=settings, new_member_id=new_member_id, topics=topics)
        self._topics = topics
        self._limits = limits
        self._group_ids: set[str] = set()
        self.runtime = Runtime(self.coordinator, append=self._appended)
        self.runtime.load((), now=now)

    def _appended(self, records: Sequence[Record], _producer: Producer | None = None) -> None:
        """Keep count of the groups; nothing else is done with the records, which are not kept."""
        for record in records:
            match record.key:
                case GroupMetadataKey(group=group_id) if record.value is None:
                    self._group_ids.discard(group_id)
                case GroupMetadataKey(group=group_id) | OffsetCommitKey(group=group_id) if record.value is not None:
                    self._group_ids.add(group_id)

    def _one_too_many(self, group_id: str) -> bool:
        return len(self._group_ids) >= self._limits.max_groups and group_id not in self._group_ids

    def submit(self, call: Call) -> Response:
        """Hand a request over as it is."""
        return self._submit(call, call.version)

    def _submit(self, call: Call, version: int) -> tuple[Reply, ...]:
        return self.runtime.submit(_request(call, version), ticket=call.ticket, now=call.now)

    def join(self, call: Call) -> Response:
        """JoinGroup v0-9. A group that would be one too many is refused with GROUP_MAX_SIZE_REACHED, which clients
        take as final; so is an OffsetCommit that would create one."""
        message = call.message
        assert isinstance(message, JoinGroupRequest)
        if self._one_too_many(message.group_id):
            return (Reply(call.ticket, refusal(_request(call, call.version), ErrorCode.GROUP_MAX_SIZE_REACHED)),)
        return self.submit(call)

    def describe(self, call: Call) -> Response:
        """DescribeGroups v0-6. A repeated group id is answered each time, as in Kafka, up to a limit."""
        message = call.message
        assert isinstance(message, DescribeGroupsRequest)
        times = Counter(message.groups)
        if len(times) < len(message.groups):
            groups = {group_id: self.coordinator.group(group_id) for group_id in times}
            rows = sum(times[name] * (1 if group is None else 1 + len(group.members)) for name, group in groups.items())
            if rows > self._limits.max_items:
                return (Hangup(call.ticket, f"DescribeGroups asks for {rows} rows"),)
        return self.submit(call)

    # -- OffsetCommit v2-10

    def commit(self, call: Call) -> Response:
        message = call.message
        assert isinstance(message, OffsetCommitRequest)
        if self._one_too_many(message.group_id):
            return (Reply(call.ticket, refusal(_request(call, call.version), ErrorCode.GROUP_MAX_SIZE_REACHED)),)
        if call.version < _BY_TOPIC_ID_FROM:
            return self.submit(call)
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
        offsets = self.coordinator.offsets
        rows = sum(len(offsets.of(group.group_id)) for group in message.groups if group.topics is None)
        if rows > self._limits.max_items:
            return (Hangup(call.ticket, f"OffsetFetch asks for {rows} rows"),)
        if call.version < _BY_TOPIC_ID_FROM:
            return self.submit(call)
        refused = [self._resolve(group) for group in message.groups]
        replies = self._submit(call, _BY_TOPIC_ID_FROM - 1)
        for reply in replies:
            if reply.ticket == call.ticket:
                assert isinstance(reply.message, OffsetFetchResponse)
                for answer, more in zip(reply.message.groups, refused, strict=True):
                    self._identify(answer, more)
        return replies

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
        for row in answer.topics:
            row.topic_id = self._id_of(row.name)
        answer.topics += refused
