#!/usr/bin/env python3
"""The coordinator alone, on one core: kgm's, compared with Kafka's own (the Java classes, in one process, with a warm
JIT).

usage: python bench/engine.py [--members N[,N...]] [--rounds N] [--span MS] [--no-peer]     (the peer needs Java 17 and
Maven; its heap is 512 MB, collected serially)

Requests are ready-made objects, the log discards what it is given (records are built and replayed, but appended
nowhere), the clock stands still, member ids come from a counter (Kafka draws a UUID). Workloads:
- heartbeat: of a Stable group of static members, one after the other
- static restart: JoinGroup v9 with a known instance id and no member id, same protocols; the member is replaced, and the
  record of the whole group is written
- formation: a group's members join (static, v9), its join phase ends, all sync; per member
- random: 20 members, half of them static, that join, restart, sync, heartbeat, leave and let time pass at random

Medians of the rounds, CPU time of the working thread; kgm and the JVM take turns. Python is slower per request; what
matters is that the cost does not grow with the group, while Kafka writes the whole group for each static restart.
`handle` is `Coordinator.handle` without the runtime that appends, replays and keeps timers.
"""

import argparse
import itertools
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from figures import figure
from warm_jvm import WarmJvm

from kgm.coordinator.contract.outcome import Request
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.runtime import Runtime
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.subscription import Subscription, encode_subscription

GROUP = "g"
SUBSCRIPTION = encode_subscription(Subscription(topics=("orders",), version=0))
TICKETS = itertools.count(1)
RANDOM_MEMBERS = 20


def request(message, version):
    return Request(message=message, version=version, client_id="c", client_host="/127.0.0.1")


def join(member_id, instance_id):
    message = JoinGroupRequest(
        group_id=GROUP, session_timeout_ms=45_000, rebalance_timeout_ms=300_000, member_id=member_id,
        group_instance_id=instance_id, protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    )  # fmt: skip
    return request(message, 9)


def sync(member_id, generation, assigned):
    message = SyncGroupRequest(
        group_id=GROUP, generation_id=generation, member_id=member_id, protocol_type="consumer", protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=each, assignment=bytes(20)) for each in assigned],
    )  # fmt: skip
    return request(message, 5)


def heartbeat(member_id, generation):
    return request(HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id), 4)


class Bench:
    """One coordinator on a clock that stands still."""

    def __init__(self):
        ids = itertools.count()
        settings = BrokerSettings(group_initial_rebalance_delay_ms=1_000)
        self.engine = Coordinator(settings=settings, new_member_id=lambda prefix: f"{prefix}-{next(ids):036d}")
        self.runtime = Runtime(self.engine, append=lambda _records: None)
        self.now = 1_000_000

    def form(self, joins):
        """Form a group. Returns CPU seconds."""
        start = time.thread_time()
        for each in joins:
            self.runtime.handle(each, ticket=next(TICKETS), now=self.now)
        joined = ()
        while not joined:
            self.now = self.runtime.next_deadline()
            joined = self.runtime.advance(self.now)
        took = time.thread_time() - start
        replies = [reply.message for reply in joined]
        ids = [reply.member_id for reply in replies]
        leader = replies[0].leader
        syncs = [sync(each, 1, ids if each == leader else []) for each in sorted(ids, key=leader.__eq__)]
        start = time.thread_time()
        for each in syncs:
            synced = self.runtime.handle(each, ticket=next(TICKETS), now=self.now)
        took += time.thread_time() - start
        assert len(synced) == len(ids)
        assert self.engine.group(GROUP).state == "Stable"
        return took

    def ids(self):
        return [member.member_id for member in self.engine.group(GROUP).members]

    def heartbeats(self, span):
        return timed(
            lambda each: self.runtime.handle(each, ticket=1, now=self.now), [heartbeat(m, 1) for m in self.ids()], span
        )

    def handled_heartbeats(self, span):
        engine = self.engine.fork()
        return timed(
            lambda each: engine.handle(each, ticket=1, now=self.now), [heartbeat(m, 1) for m in self.ids()], span
        )

    def restarts(self, joins, span):
        return timed(lambda each: self.runtime.handle(each, ticket=1, now=self.now), joins, span)


def timed(function, requests, span):
    """CPU nanoseconds per request, over as many requests as fit into the span."""
    done, took = 0, 0.0
    cycle = itertools.cycle(requests)
    while took < span:
        chunk = list(itertools.islice(cycle, 1_000))
        start = time.thread_time()
        for each in chunk:
            last = function(each)
        took += time.thread_time() - start
        done += len(chunk)
    replies = getattr(last, "replies", last)
    assert replies[0].message.error_code == ErrorCode.NONE
    return took / done * 1e9


class Walk:
    """Random operations; the same numbers choose them in CoordinatorBench.java."""

    seed = 1

    def __init__(self):
        self.bench = Bench()
        self.known = [""] * RANDOM_MEMBERS
        self.generations = [0] * RANDOM_MEMBERS
        self.leaders = ["-"] * RANDOM_MEMBERS
        self.waiting = {}

    @classmethod
    def draw(cls, below):
        cls.seed = (cls.seed * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        return (cls.seed >> 33) % below

    def submit(self, each, index=None):
        ticket = next(TICKETS)
        self.waiting[ticket] = index
        self.take(self.bench.runtime.handle(each, ticket=ticket, now=self.bench.now))

    def take(self, replies):
        for ticket, message in replies:
            index, error = self.waiting.pop(ticket), getattr(message, "error_code", 0)
            if index is None:
                continue
            if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                self.known[index] = ""
            elif hasattr(message, "generation_id") and error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.known[index] = message.member_id
                if error == ErrorCode.NONE:
                    self.generations[index], self.leaders[index] = message.generation_id, message.leader

    def operation(self):
        what, index = self.draw(100), self.draw(RANDOM_MEMBERS)
        known, instance = self.known, None if index % 2 else f"member-{index}"
        if what < 30:
            self.submit(heartbeat(known[index], self.generations[index]), index)
        elif what < 60:
            if what >= 55:
                known[index] = ""
            self.submit(join(known[index], instance), index)
        elif what < 90:
            leads = known[index] == self.leaders[index]
            self.submit(
                sync(known[index], self.generations[index], [each for each in known if each] if leads else []), index
            )
        elif what < 94:
            self.submit(request(LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=known[index])]), 5))
            known[index] = ""
        else:
            self.bench.now += self.draw(2_000)
            self.take(self.bench.runtime.advance(self.bench.now))


def random_operations(span):
    done, took = 0, 0.0
    Walk.seed = 1
    while took < span:
        walk = Walk()
        start = time.thread_time()
        for _ in range(5_000):
            walk.operation()
        took += time.thread_time() - start
        done += 5_000
    return took / done * 1e9


def round_of_ours(found, sizes, span):
    for members in sizes:
        joins = [join("", f"member-{number:04d}") for number in range(members)]
        took, formed = 0.0, 0
        while took < span / 4:
            bench = Bench()
            took += bench.form(joins)
            formed += 1
        found.setdefault(("form", members), []).append(took / formed / members * 1e9)
        found.setdefault(("heartbeat", members), []).append(bench.heartbeats(span))
        found.setdefault(("handle heartbeat", members), []).append(bench.handled_heartbeats(span))
        found.setdefault(("restart", members), []).append(bench.restarts(joins, span))
    found.setdefault(("random", RANDOM_MEMBERS), []).append(random_operations(2 * span))


NAMES = {
    "heartbeat": "heartbeat", "handle heartbeat": "heartbeat, `handle` alone", "restart": "static restart",
    "form": "formation, per member", "random": "random operations",
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", default="1,100,1000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--span", type=int, default=300, help="ms of CPU for each workload and round")
    parser.add_argument("--no-peer", action="store_true")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.members.split(",")]
    ours, theirs = {}, {}
    kafka = None if arguments.no_peer else WarmJvm("CoordinatorBench", arguments.span, *sizes, heap_mb=512)
    try:
        if kafka is not None:
            list(kafka.round(warm_up=True))
        for _ in range(arguments.rounds):
            round_of_ours(ours, sizes, arguments.span / 1_000)
            for work, members, nanos in kafka.round() if kafka is not None else ():
                theirs.setdefault((work, int(members)), []).append(float(nanos))
    finally:
        if kafka is not None:
            kafka.close()
    for work, name in NAMES.items():
        for members in [RANDOM_MEMBERS] if work == "random" else sizes:
            peers = {"Kafka": statistics.median(theirs[work, members]) / 1e3} if (work, members) in theirs else {}
            figure(f"{name}, {members:,} members", "CPU us", statistics.median(ours[work, members]) / 1e3, peers)


if __name__ == "__main__":
    main()
