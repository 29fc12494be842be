"""Makes a real librdkafka consumer the leader of groups that do not exist, to see what it assigns.

A broker of our own on a loopback port answers its JoinGroup with whatever members a case has, takes the SyncGroup that
follows, and answers that with REBALANCE_IN_PROGRESS, so that the consumer joins again, a second later, to the next."""

from __future__ import annotations

import queue
import socketserver
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer

from kgm.assignors import MemberSpec
from kgm.model.errors import ErrorCode
from kgm.protocol.apis import API, ApiKey
from kgm.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kgm.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse
from kgm.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from kgm.protocol.messages.leave_group_response import LeaveGroupResponse
from kgm.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kgm.protocol.messages.sync_group_response import SyncGroupResponse
from kgm.protocol.subscription import Subscription, decode_assignment, encode_subscription
from kgm.protocol.wire import decode_request, encode_response, framed

ME = "leader"
_VERSIONS = {
    ApiKey.API_VERSIONS: 0, ApiKey.METADATA: 4, ApiKey.FIND_COORDINATOR: 2, ApiKey.JOIN_GROUP: 5,
    ApiKey.SYNC_GROUP: 3, ApiKey.HEARTBEAT: 3, ApiKey.LEAVE_GROUP: 1,
}  # fmt: skip
_ALSO_CLAIMED = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group to be assigned; its first member is the leader, `ME`."""

    members: Sequence[MemberSpec]
    topics: Mapping[str, int]


@dataclass(slots=True)
class Desk:
    """Cases to do, and what came of them."""

    assignor: str
    todo: queue.SimpleQueue[Group | None] = field(default_factory=queue.SimpleQueue)
    done: queue.SimpleQueue[tuple[Group, dict[str, dict[str, list[int]]]]] = field(default_factory=queue.SimpleQueue)
    topics: dict[str, int] = field(default_factory=dict)
    port: int = 0


class _Connection(socketserver.BaseRequestHandler):
    desk: Desk

    def handle(self) -> None:
        group: Group | None = None
        while (frame := self._read()) is not None:
            request = decode_request(frame)
            version = request.version
            match request.api_key:
                case ApiKey.API_VERSIONS:
                    rows = [ApiVersion(api_key=key, min_version=API[key].min_version, max_version=top) for key, top in _VERSIONS.items()]
                    rows += [ApiVersion(api_key=key, min_version=API[key].min_version, max_version=API[key].min_version + 1) for key in _ALSO_CLAIMED]
                    reply = ApiVersionsResponse(api_keys=rows)
                    version = 0
                    if request.version > 0:
                        reply.error_code = ErrorCode.UNSUPPORTED_VERSION
                case ApiKey.METADATA:
                    reply = self._metadata(request.message)
                case ApiKey.FIND_COORDINATOR:
                    reply = FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=self.desk.port)
                case ApiKey.JOIN_GROUP:
                    group = self.desk.todo.get()
                    reply = JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
                    if group is not None:
                        reply = JoinGroupResponse(
                            generation_id=10, protocol_name=self.desk.assignor, leader=ME, member_id=ME,
                            members=[row(member) for member in group.members],
                        )  # fmt: skip
                case ApiKey.SYNC_GROUP:
                    assert group is not None
                    given = {each.member_id: {t: sorted(p) for t, p in decode_assignment(each.assignment).partitions.items()} for each in request.message.assignments}
                    self.desk.done.put((group, given))
                    reply = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
                case ApiKey.HEARTBEAT:
                    reply = HeartbeatResponse()
                case ApiKey.LEAVE_GROUP:
                    reply = LeaveGroupResponse()
                case other:
                    raise AssertionError(other)
            self.request.sendall(framed(encode_response(reply, version=version, correlation_id=request.correlation_id)))

    def _metadata(self, message: object) -> MetadataResponse:
        wanted = getattr(message, "topics", None)
        names = sorted(self.desk.topics) if wanted is None else [topic.name for topic in wanted]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.desk.port)],
            cluster_id="leading",
            controller_id=1,
            topics=[
                MetadataResponseTopic(
                    name=name,
                    error_code=ErrorCode.NONE if name in self.desk.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    partitions=[
                        MetadataResponsePartition(partition_index=p, leader_id=1, replica_nodes=[1], isr_nodes=[1])
                        for p in range(self.desk.topics.get(name, 0))
                    ],
                )
                for name in names
            ],
        )

    def _read(self) -> bytes | None:
        try:
            head = self._exactly(4)
            return None if head is None else self._exactly(struct.unpack(">i", head)[0])
        except OSError:
            return None

    def _exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            part = self.request.recv(count - len(data))
            if not part:
                return None
            data += part
        return data


def row(member: MemberSpec) -> JoinGroupResponseMember:
    said = Subscription(
        topics=member.topics, owned_partitions=member.owned, rack_id="",
        generation_id=-1 if member.generation is None else member.generation,
    )  # fmt: skip
    return JoinGroupResponseMember(
        member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=encode_subscription(said)
    )


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64


def assign_by_librdkafka(
    assignor: str, groups: Sequence[Group], topics: Mapping[str, int], *, leaders: int = 12, timeout_s: float = 150.0
) -> list[tuple[Group, dict[str, dict[str, list[int]]]]]:
    """Each group with what a real librdkafka leader assigns, in any order. topics: all that any group has."""
    desk = Desk(assignor, topics=dict(topics))
    handler = type("Connection", (_Connection,), {"desk": desk})
    with _Server(("127.0.0.1", 0), handler) as server:
        desk.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        for group in groups:
            desk.todo.put(group)
        consumers = []
        for _ in range(leaders):
            consumer = Consumer({
                "bootstrap.servers": f"127.0.0.1:{desk.port}", "group.id": "leading", "log_level": 2,
                "partition.assignment.strategy": assignor, "api.version.request.timeout.ms": 3000,
            })  # fmt: skip
            consumer.subscribe(sorted(topics)[:1])
            consumers.append(consumer)
        try:
            return _collect(desk, len(groups), timeout_s)
        finally:
            for _ in range(2 * leaders):
                desk.todo.put(None)
            for consumer in consumers:
                consumer.close()
            server.shutdown()


def _collect(desk: Desk, count: int, timeout_s: float) -> list[tuple[Group, dict[str, dict[str, list[int]]]]]:
    deadline = time.monotonic() + timeout_s
    found = []
    while len(found) < count:
        found.append(desk.done.get(timeout=max(deadline - time.monotonic(), 0.1)))
    return found
