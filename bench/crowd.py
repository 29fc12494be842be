"""Large groups for benchmarks: static members that join with a few requests and then stay silent.

Their session timeout is 30 minutes, and until it expires a static member needs no heartbeat (KIP-345). So a group of
500 members does not need 500 consumers."""

import contextlib
import pathlib
import socket
import struct
import subprocess
import sys

from kgm.protocol import wire
from kgm.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kgm.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.join_group_response import JoinGroupResponse
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.messages.sync_group_response import SyncGroupResponse
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription

ROOT = pathlib.Path(__file__).resolve().parent.parent
SESSION_MS = 1_800_000
#: The server of `kgm serve`, with limits raised to admit more groups than it normally does.
SERVER = """
import sys
from kgm.server import Limits, serve_in_thread
limits = Limits(max_groups=1_000_000, max_items=1_000_000, group_members_max_bytes=4 << 30)
with serve_in_thread(topics={"orders": 20}, settings={"group.initial.rebalance.delay.ms": 0}, limits=limits) as running:
    print(running.bootstrap, flush=True)
    sys.stdin.read()
"""


class BlockingConnection:
    """One connection that sends requests and receives their responses in order."""

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
    """(host, port) of the group's coordinator. Retries a limited number of times while the broker creates
    __consumer_offsets."""
    import time

    host, port = bootstrap.rsplit(":", 1)
    connection = BlockingConnection((host, int(port)))
    try:
        for _ in range(60):
            connection.send(FindCoordinatorRequest(key=group), 2)
            answer = connection.receive(FindCoordinatorResponse, 2)
            if answer.error_code == 0:
                return answer.host, answer.port
            time.sleep(0.25)
        raise RuntimeError(f"no coordinator for {group}: error {answer.error_code}")
    finally:
        connection.close()


def join_crowd(bootstrap, group, members, topic, partitions):
    """A stable group of static members `member-0000`, ...; the partitions are assigned round robin. Returns the ids.

    The broker's initial rebalance delay must be long enough for all of them to join."""
    address = coordinator_of(bootstrap, group)
    blob = encode_subscription(Subscription(topics=(topic,)))
    names = [f"member-{i:04d}" for i in range(members)]
    connections = {name: BlockingConnection(address) for name in names}
    try:
        # The broker's initial rebalance delay lets all of them join in the first generation.
        for name in names:
            request = JoinGroupRequest(
                group_id=group, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=60_000, group_instance_id=name,
                protocol_type="consumer", protocols=[JoinGroupRequestProtocol(name="range", metadata=blob)],
            )  # fmt: skip
            connections[name].send(request, 5)
        answers = {name: connections[name].receive(JoinGroupResponse, 5) for name in names}
        member_ids = {name: answers[name].member_id for name in names}
        generations = {answer.generation_id for answer in answers.values()}
        leader = next(name for name in names if answers[name].members)
        if len(generations) != 1 or len(answers[leader].members) != members:
            raise RuntimeError(f"{group} is not in one generation: raise group.initial.rebalance.delay.ms")
        assigned = {name: {topic: list(range(i, partitions, members))} for i, name in enumerate(names)}
        plan = [
            SyncGroupRequestAssignment(
                member_id=member_ids[name], assignment=encode_assignment(MemberAssignment(partitions=assigned[name]))
            )
            for name in names
        ]
        generation = generations.pop()
        for name in names:
            request = SyncGroupRequest(
                group_id=group, generation_id=generation, member_id=member_ids[name], group_instance_id=name,
                assignments=plan if name == leader else [],
            )  # fmt: skip
            connections[name].send(request, 3)
        for name in names:
            answer = connections[name].receive(SyncGroupResponse, 3)
            assert answer.error_code == 0, answer
    finally:
        for connection in connections.values():
            connection.close()
    return names


@contextlib.contextmanager
def server():
    """The bootstrap address of a server in a separate process."""
    command = [sys.executable, "-c", SERVER]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def form(connection, group):
    """Form a group of one static member with 20 partitions."""
    blob = encode_subscription(Subscription(topics=("orders",)))
    message = JoinGroupRequest(
        group_id=group, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=60_000, group_instance_id="one",
        protocol_type="consumer", protocols=[JoinGroupRequestProtocol(name="range", metadata=blob)],
    )  # fmt: skip
    connection.send(message, 5)
    joined = connection.receive(JoinGroupResponse, 5)
    assignment = encode_assignment(MemberAssignment(partitions={"orders": list(range(20))}))
    message = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, group_instance_id="one",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)],
    )  # fmt: skip
    connection.send(message, 3)
    assert connection.receive(SyncGroupResponse, 3).error_code == 0
