"""A load generator of raw group members, in a separate process: many members over many connections, one thread.

usage: python bench/heartbeats.py '{"address": [HOST, PORT], "server_pid": PID, ...}'

It prints one line of JSON: latencies, and the CPU time that the server used. Everything sent is encoded before the
clock starts, and responses are checked by comparing bytes, so that its own work is only a small part of what is
measured."""

import array
import heapq
import itertools
import json
import os
import pathlib
import select
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from kgm.protocol import wire
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.describe_groups_response import DescribeGroupsResponse
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.join_group_response import JoinGroupResponse
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.messages.sync_group_response import SyncGroupResponse
from kgm.protocol.subscription import Subscription, encode_subscription

SESSION_MS = 1_800_000
REBALANCE_MS = 300_000
MOST_LOOKS = 1_200
#: How many members join at a time.
JOINING = 500
GOOD = struct.pack(">iiBihB", 12, 7, 0, 0, 0, 0)
"""A Heartbeat v4 response to correlation id 7 without error or throttling, including its length prefix."""
TICKS = os.sysconf("SC_CLK_TCK")
BLOB = encode_subscription(Subscription(topics=("orders",)))


def cpu_of(pid):
    """CPU seconds of a process so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Member:
    def __init__(self, connection, group, instance_id):
        self.connection, self.group, self.instance_id = connection, group, instance_id
        self.member_id, self.generation, self.leads = "", -1, False
        self.assignments = []

    def frame(self, message, version):
        return wire.framed(wire.encode_request(message, version=version, correlation_id=7, client_id="bench"))

    def join(self):
        request = JoinGroupRequest(
            group_id=self.group, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS,
            group_instance_id=self.instance_id, protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=BLOB)],
        )  # fmt: skip
        self.connection.sendall(self.frame(request, 9))

    def joined(self, reply):
        assert reply.error_code == 0, reply
        self.member_id, self.generation, self.leads = reply.member_id, reply.generation_id, bool(reply.members)
        self.assignments = [
            SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"x" * 40) for member in reply.members
        ]

    def sync(self):
        request = SyncGroupRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id,
            group_instance_id=self.instance_id, protocol_type="consumer", protocol_name="range",
            assignments=self.assignments,
        )  # fmt: skip
        self.connection.sendall(self.frame(request, 5))

    def heartbeat(self):
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id,
            group_instance_id=self.instance_id,
        )  # fmt: skip
        return self.frame(request, 4)


def receive(connection, cls, version):
    (length,) = struct.unpack(">i", exactly(connection, 4))
    return wire.decode_response(cls, exactly(connection, length), version=version)[1]


def exactly(connection, size):
    data = connection.recv(size, socket.MSG_WAITALL)
    if len(data) != size:
        raise ConnectionError("the server closed the connection")
    return data


def connect(address):
    connection = socket.create_connection(tuple(address), timeout=120)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def await_coordinator(address, groups):
    """Wait until the broker coordinates all groups: after creating `__consumer_offsets` that takes a moment, and on a
    busy machine it happens partition by partition. Raises TimeoutError."""
    request = wire.encode_request(DescribeGroupsRequest(groups=groups), version=5, correlation_id=7, client_id="bench")
    with connect(address) as connection:
        for _ in range(MOST_LOOKS):
            connection.sendall(wire.framed(request))
            if not any(group.error_code for group in receive(connection, DescribeGroupsResponse, 5).groups):
                return
            time.sleep(0.1)
    raise TimeoutError("the broker does not coordinate all groups yet")


def form(members):
    """Let members join and sync, each on its own connection; afterwards all groups are in their first generation.
    Returns the seconds from each member's JoinGroup to its SyncGroup response."""
    clock = time.perf_counter
    began = []
    for member in members:
        began.append(clock())
        member.join()
    for member in members:
        member.joined(receive(member.connection, JoinGroupResponse, 9))
    assert {member.generation for member in members} == {1}, "raise group.initial.rebalance.delay.ms"
    for member in members:
        member.sync()
    took = []
    for member, since in zip(members, began, strict=True):
        assert receive(member.connection, SyncGroupResponse, 5).error_code == 0
        took.append(clock() - since)
    return took


def form_all(address, names, members):
    """Create members with these (group, instance id) names, and let them join. members: receives them. Returns the
    seconds from each one's JoinGroup to its SyncGroup response."""
    latencies = array.array("d")
    for at in range(0, len(names), JOINING):
        joining = [Member(connect(address), *name) for name in names[at : at + JOINING]]
        latencies.extend(form(joining))
        members += joining
    return latencies


def saturate(connections, seconds):
    """Keep one heartbeat in flight on each connection, from its members in turn. Returns the latencies in s."""
    epoll = select.epoll()
    turns = {}
    for connection, frames in connections:
        epoll.register(connection.fileno(), select.EPOLLIN)
        turns[connection.fileno()] = [connection, itertools.cycle(frames), 0.0]
    latencies = array.array("d")
    clock = time.perf_counter
    begun = clock()
    for turn in turns.values():
        turn[2] = clock()
        turn[0].send(next(turn[1]))
    until = begun + seconds
    in_flight = len(turns)
    while in_flight:
        for fd, _ in epoll.poll(10):
            turn = turns[fd]
            connection, frames, sent = turn
            if connection.recv(64) != GOOD:
                raise ValueError("a heartbeat failed")
            now = clock()
            latencies.append(now - sent)
            if now < until:
                turn[2] = now
                connection.send(next(frames))
            else:
                in_flight -= 1
    epoll.close()
    return latencies


def pace(connections, seconds, interval_s):
    """Every member sends a heartbeat every `interval_s`. Returns the latencies in s, counted from when each was due."""
    epoll = select.epoll()
    due = []
    total = sum(len(frames) for _, frames in connections)
    for number, (connection, frames) in enumerate(connections):
        epoll.register(connection.fileno(), select.EPOLLIN)
        for turn, frame in enumerate(frames):
            offset = interval_s * (turn * len(connections) + number) / total
            due.append((offset, connection.fileno(), connection, frame))
    latencies = array.array("d")
    waiting = {}
    clock = time.perf_counter
    begun = clock()
    due = [(begun + offset, fd, connection, frame) for offset, fd, connection, frame in due]
    heapq.heapify(due)
    until = begun + seconds
    while due or any(waiting.values()):
        now = clock()
        while due and due[0][0] <= now:
            at, fd, connection, frame = due[0]
            waiting.setdefault(fd, []).append(at)
            connection.send(frame)
            if at + interval_s < until:
                heapq.heapreplace(due, (at + interval_s, fd, connection, frame))
            else:
                heapq.heappop(due)
        timeout = max(due[0][0] - clock(), 0) if due else 1
        for fd, _ in epoll.poll(timeout):
            answer = os.read(fd, 4096)
            now = clock()
            count = len(answer) // len(GOOD)
            if answer != GOOD * count:
                raise ValueError("a heartbeat failed")
            for _ in range(count):
                latencies.append(now - waiting[fd].pop(0))
    epoll.close()
    return latencies


def quantiles(latencies):
    ordered = sorted(latencies)
    pick = lambda share: 1000 * ordered[min(int(len(ordered) * share), len(ordered) - 1)]  # noqa: E731
    return {"p50_ms": pick(0.5), "p99_ms": pick(0.99)}


def measured(pid, act):
    """The latencies of `act`, with the CPU time of both sides."""
    server, own, begun = cpu_of(pid), time.process_time(), time.perf_counter()
    latencies = act()
    wall = time.perf_counter() - begun
    count = len(latencies)
    server_s = cpu_of(pid) - server
    return quantiles(latencies) | {
        "requests": count,
        "every_us": 1e6 * wall / count,
        "server_s": server_s,
        "server_us": 1e6 * server_s / count,
        "generator_us": 1e6 * (time.process_time() - own) / count,
    }


def main():
    plan = json.loads(sys.argv[1])
    address, pid = plan["address"], plan["server_pid"]
    forming = [f"large-{run}" for run in range(plan.get("runs", 0))]
    await_coordinator(
        address, [*forming, *(f"g-{group}" for group in range(plan.get("members", 0) // plan.get("group_size", 1)))]
    )
    results = {}
    if "forming" in plan:
        rows = []
        for run in range(plan["runs"]):
            members = [Member(connect(address), f"large-{run}", f"member-{n:05d}") for n in range(plan["forming"])]
            time.sleep(0.5)
            server, begun = cpu_of(pid), time.perf_counter()
            form(members)
            rows.append((time.perf_counter() - begun, cpu_of(pid) - server))
            for member in members:
                member.connection.close()
        results["forming"] = rows
    if "members" in plan:
        groups, rest = divmod(plan["members"], plan["group_size"])
        assert rest == 0
        names = [(f"g-{group}", f"member-{number}") for group in range(groups) for number in range(plan["group_size"])]
        members = []
        results["joined"] = measured(pid, lambda: form_all(address, names, members))
        rows = [(member.connection, [member.heartbeat()]) for member in members]
        saturate(rows, plan["warm_up_s"])
        results["saturated"] = measured(pid, lambda: saturate(rows, plan["seconds"]))
        results["paced"] = measured(pid, lambda: pace(rows, plan["seconds"], plan["interval_s"]))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
