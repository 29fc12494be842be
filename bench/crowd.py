"""A crowd of static members made with a handful of requests each, for benchmarks that need a large group.

The members join once with a session timeout of 30 minutes and then stay silent: a static member needs no heartbeat
until then (KIP-345), so a group of 500 costs no 500 consumers."""

import socket
import struct

from kgm.protocol import wire
from kgm.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kgm.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.join_group_response import JoinGroupResponse
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.messages.sync_group_response import SyncGroupResponse
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription

SESSION_MS = 1_800_000


class Peer:
    """One blocking connection that speaks requests in order."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=60)
        self.correlation_id = 0

    def send(self, message, version):
        self.correlation_id += 1
        frame = wire.encode_request(message, version=version, correlation_id=self.correlation_id, client_id="crowd")
        self.socket.sendall(wire.framed(frame))

    def receive(self, cls, version):
        length = struct.unpack(">i", self._exactly(4))[0]
        correlation_id, message = wire.decode_response(cls, self._exactly(length), version=version)
        assert correlation_id == self.correlation_id
        return message

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            data += chunk
        return data

    def close(self):
        self.socket.close()


def coordinator_of(bootstrap, group):
    """(host, port) of the group's coordinator; bounded retries while the broker creates __consumer_offsets."""
    import time

    host, port = bootstrap.rsplit(":", 1)
    peer = Peer((host, int(port)))
    try:
        for _ in range(60):
            peer.send(FindCoordinatorRequest(key=group), 2)
            answer = peer.receive(FindCoordinatorResponse, 2)
            if answer.error_code == 0:
                return answer.host, answer.port
            time.sleep(0.25)
        raise RuntimeError(f"no coordinator for {group}: error {answer.error_code}")
    finally:
        peer.close()


def join_crowd(bootstrap, group, members, topic, partitions):
    """Bring `members` static members (`seat-0000`, ...) into `group`, stable, `partitions` dealt round robin.

    The broker needs an initial rebalance delay in which they can all connect."""
    address = coordinator_of(bootstrap, group)
    blob = encode_subscription(Subscription(topics=(topic,)))
    names = [f"seat-{i:04d}" for i in range(members)]
    peers = {name: Peer(address) for name in names}
    try:
        # The broker's initial rebalance delay gathers them all in the first generation.
        for name in names:
            request = JoinGroupRequest(
                group_id=group, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=60_000, group_instance_id=name,
                protocol_type="consumer", protocols=[JoinGroupRequestProtocol(name="range", metadata=blob)],
            )  # fmt: skip
            peers[name].send(request, 5)
        answers = {name: peers[name].receive(JoinGroupResponse, 5) for name in names}
        known = {name: answers[name].member_id for name in names}
        generations = {answer.generation_id for answer in answers.values()}
        leader = next(name for name in names if answers[name].members)
        if len(generations) != 1 or len(answers[leader].members) != members:
            raise RuntimeError(f"{group} is not in one generation: raise group.initial.rebalance.delay.ms")
        dealt = {name: {topic: list(range(i, partitions, members))} for i, name in enumerate(names)}
        plan = [
            SyncGroupRequestAssignment(
                member_id=known[name], assignment=encode_assignment(MemberAssignment(partitions=dealt[name]))
            )
            for name in names
        ]
        generation = generations.pop()
        for name in names:
            request = SyncGroupRequest(
                group_id=group, generation_id=generation, member_id=known[name], group_instance_id=name,
                assignments=plan if name == leader else [],
            )  # fmt: skip
            peers[name].send(request, 3)
        for name in names:
            answer = peers[name].receive(SyncGroupResponse, 3)
            assert answer.error_code == 0, answer
    finally:
        for peer in peers.values():
            peer.close()
    return names
