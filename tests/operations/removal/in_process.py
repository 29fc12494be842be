"""kgm's client and embedded clusters in one process, without sockets, on a clock that is set by hand.

A removal that waits for half a minute takes milliseconds. What kgm sends goes to the embedded brokers unchanged; a test
can intervene (`World.between`): lose an answer, change it, or let something happen."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from kgm.client import AdminClient
from kgm.client.failures import LostError
from kgm.client.transport.bootstrap import Address
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.api_versions_request import ApiVersionsRequest
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription
from kgm.server.logs.shard_log import MemoryShardLog
from kgm.server.logs.storage import MemoryStorage
from tests.server.broker_driver import Driver

TOPIC = "orders"
HOST = "192.0.2.1"
SESSION_MS = 45_000
REBALANCE_MS = 60_000
_PORTS = {1: 9092, 2: 9093}
_STEP_S = 0.2


@dataclass
class SkewedLogs:
    """The logs of a cluster, in memory. skew_ms: how far the coordinators' clock is ahead."""

    skew_ms: int = 0

    def partitions(self) -> tuple[int, ...]:
        return ()

    def open(self, _partition: int) -> MemoryShardLog:
        return SkewedLog(self)


class SkewedLog(MemoryShardLog):
    def __init__(self, logs: SkewedLogs) -> None:
        super().__init__()
        self._logs = logs

    def append(self, records: Any, *, now: int, producer: Any) -> None:
        super().append(records, now=now + self._logs.skew_ms, producer=producer)


class Cluster(Driver):
    """An embedded cluster of two brokers."""

    def __init__(self, cluster_id: str, **settings: int) -> None:
        self.logs = SkewedLogs()
        storage = MemoryStorage(cluster_id=cluster_id, offsets=self.logs)
        how = {"group_consumer_assignment_interval_ms": 0, "offsets_topic_num_partitions": 1, **settings}
        super().__init__({TOPIC: 4}, brokers=2, storage=storage, **how)
        for node_id, port in _PORTS.items():
            self.cluster.nodes[node_id].port = port

    @property
    def coordinator(self) -> int:
        """The broker that coordinates every group."""
        leader = self.cluster.placement[0].leader
        assert leader is not None
        return leader

    def request(self, message: Any, *, version: int | None = None) -> Any:
        """Ask the coordinator."""
        self.load()
        return self.ask(message, version=version, to=self.coordinator)

    def fail_over(self) -> None:
        """Let the other broker take over, with everything that was written."""
        self.move(0, 3 - self.coordinator)
        self.load()

    def members(self, group: str) -> set[tuple[str, str | None]]:
        """(member id, instance id) of the members that the coordinator has, by its newest state."""
        self.load()
        found = self.cluster.view.group(group)
        return set() if found is None else {(one.member_id, one.group_instance_id) for one in found.members}


class ClassicMember:
    """A member of a classic group that does nothing unless told to; a dynamic one without an instance id."""

    def __init__(self, cluster: Cluster, group: str, instance_id: str | None, *, client_id: str = "c") -> None:
        self.cluster, self.group, self.instance_id, self.client_id = cluster, group, instance_id, client_id
        self.session_ms, self.rebalance_ms = SESSION_MS, REBALANCE_MS
        self.metadata = encode_subscription(Subscription(topics=(TOPIC,)))
        self.member_id, self.generation = "", -1
        self._ticket = 0

    def send_join(self) -> None:
        """Join, again or as a newly started process, without waiting."""
        self.cluster.load()
        request = JoinGroupRequest(
            group_id=self.group, session_timeout_ms=self.session_ms, rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id, group_instance_id=self.instance_id, protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=self.metadata)],
        )  # fmt: skip
        # Version 3 gives a dynamic member its id at once, later ones in an extra round trip.
        version = 3 if self.instance_id is None else None
        self._ticket = self.cluster.send(
            request, version=version, client_id=self.client_id, to=self.cluster.coordinator
        )  # fmt: skip

    def receive_join(self) -> str:
        """Take the answer; returns the leader's member id."""
        answer = self.cluster.answer(self._ticket)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer.leader

    def joined(self) -> Any:
        """The answer to the join, if it has arrived."""
        if self._ticket not in self.cluster.events:
            return None
        answer = self.cluster.answer(self._ticket)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, assignments: dict[str, list[int]] | None = None, *, check: bool = True) -> None:
        """check: require an immediate answer without an error; this holds if the leader has synced first."""
        blobs = {
            member_id: encode_assignment(MemberAssignment(partitions={TOPIC: partitions}))
            for member_id, partitions in (assignments or {}).items()
        }
        rows = [SyncGroupRequestAssignment(member_id=name, assignment=blob) for name, blob in blobs.items()]
        request = SyncGroupRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id,
            group_instance_id=self.instance_id, protocol_type="consumer", protocol_name="range", assignments=rows,
        )  # fmt: skip
        if check:
            assert self.cluster.request(request).error_code == 0
        else:
            self.cluster.load()
            self.cluster.send(request, to=self.cluster.coordinator)

    def heartbeat(self) -> int:
        """The error code."""
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id,
            group_instance_id=self.instance_id,
        )  # fmt: skip
        return self.cluster.request(request).error_code

    def commit(self, partition: int, offset: int) -> int:
        """The error code."""
        row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=self.group, generation_id_or_member_epoch=self.generation, member_id=self.member_id,
            group_instance_id=self.instance_id, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[row])],
        )  # fmt: skip
        return self.cluster.request(request, version=9).topics[0].partitions[0].error_code


def form_classic(
    cluster: Cluster, group: str, instance_ids: Sequence[str | None], *,
    session_ms: int = SESSION_MS, rebalances_ms: Sequence[int] = (), metadata: bytes | None = None,
) -> list[ClassicMember]:  # fmt: skip
    """A stable group; member i owns partition i. rebalances_ms: the rebalance timeout of each member, if they differ.
    metadata: the subscription of all members, as a library writes it."""
    members = [ClassicMember(cluster, group, name) for name in instance_ids]
    for one, rebalance_ms in zip(members, rebalances_ms or [REBALANCE_MS] * len(members), strict=True):
        one.session_ms, one.rebalance_ms = session_ms, rebalance_ms
        one.metadata = metadata or one.metadata
    leaders = set()
    for count in range(1, len(members) + 1):  # the join of the last one waits for the existing members
        for one in reversed(members[:count]):
            one.send_join()
        cluster.advance(0)
        leaders = {one.receive_join() for one in members[:count]}
    owned = {one.member_id: [index] for index, one in enumerate(members)}
    for one in sorted(members, key=lambda one: one.member_id not in leaders):  # the leader first
        one.sync(owned if one.member_id in leaders else None)
    return members


class DirectWire:
    """The part of a connection that `HeartbeatGroup` needs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def ask(self, message: Any, *, version: int | None = None) -> Any:
        return self._cluster.request(message, version=version)


class World:
    """Clusters, one of which answers; a clock; and actors that act while time passes. Times are in seconds."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.clusters = [Cluster("this-cluster"), Cluster("other-cluster")]
        self.current = 0
        self.sent: list[ApiKey] = []
        #: Called with (api, request, deliver) for each request; returns the answer, or raises.
        self.between: Callable[[ApiKey, Any, Callable[[], Any]], Any] | None = None
        #: The deadline of the request that `between` is handling.
        self.deadline: Deadline | None = None
        #: Called when time has passed.
        self.actors: list[Callable[[], None]] = []
        self._open: list[DirectConnection] = []

    @property
    def cluster(self) -> Cluster:
        return self.clusters[0]

    def clock(self) -> float:
        return self.now_s

    def pass_by(self, seconds: float) -> None:
        """Let time pass, in steps; in each step every actor acts."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s = min(end_s, self.now_s + _STEP_S)
            for cluster in self.clusters:
                cluster.advance(round(self.now_s * 1000) - cluster.now)
                cluster.load()
            for act in self.actors:
                act()

    def stay_silent(self, api: ApiKey) -> Any:
        """Never answer the request that `between` is handling. Raises LostError when kgm stops waiting."""
        assert self.deadline is not None
        began_s = self.deadline.now()
        self.pass_by(self.deadline.remaining())
        self.deadline.waited_in_vain(began_s)
        raise LostError("no answer in time", sent=True, facts=(api.name,))

    def break_connections(self) -> None:
        for one in self._open:
            one.closed = True

    def switch(self) -> None:
        """From now on the other cluster answers."""
        self.current = 1
        self.break_connections()

    @contextlib.contextmanager
    def client(self, *, timeout_ms: int = 5_000) -> Iterator[AdminClient]:
        """kgm's client, connected to the cluster that answers."""

        def connect(address: Address, *_: Any, **__: Any) -> DirectConnection:
            connection = DirectConnection(self, address)
            self._open.append(connection)
            return connection

        def after(budget_ms: int) -> Deadline:
            return Deadline(self.now_s + budget_ms / 1000, budget_ms=budget_ms, clock=self.clock)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BrokerConnection, "connect", connect)
            patch.setattr(Deadline, "after", after)
            patch.setattr(Deadline, "pause", lambda _, seconds: self.pass_by(seconds))
            with AdminClient(f"{HOST}:9092", timeout_ms=timeout_ms) as client:
                client.start()
                yield client


class DirectConnection(BrokerConnection):
    """A connection that calls the broker directly."""

    def __init__(self, world: World, address: Address) -> None:
        self._world, self._cluster = world, world.clusters[world.current]
        self._node = next(node for node, port in _PORTS.items() if port == address.port)
        self.address = address
        self.closed = False
        self.cluster_id = None
        self.features, self.supported_features = {}, {}
        answer = self._cluster.ask(ApiVersionsRequest(client_software_name="kgm", client_software_version="1"))
        self.versions = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

    def close(self) -> None:
        self.closed = True

    def call(self, request: Any, answer: Any, *, version: int, deadline: Deadline) -> Any:
        api = ApiKey(request.API_KEY)
        if self.closed:
            raise LostError("the connection is closed", sent=False)
        self._world.sent.append(api)
        self._world.deadline = deadline

        def deliver() -> Any:
            return self._deliver(request, version)

        try:
            return deliver() if self._world.between is None else self._world.between(api, request, deliver)
        except LostError:
            self.closed = True
            raise

    def _deliver(self, request: Any, version: int) -> Any:
        self._cluster.load()
        return self._cluster.ask(request, version=version, to=self._node)
