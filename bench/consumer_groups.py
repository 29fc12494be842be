#!/usr/bin/env python3
"""A large consumer group (KIP-848) on one core: kgm's coordinator, compared with Kafka's own (the Java classes, in one
process, with a warm JIT).

usage: python bench/consumer_groups.py [--members N] [--topics N] [--partitions N] [--rounds N] [--span MS] [--no-peer]
(the peer needs Java 17 and Maven; its heap is 1 GB, collected serially)

Requests are ready-made objects, the log discards what it is given (records are built and replayed, but appended
nowhere), only the bench moves the clock. Workloads:
- heartbeat: of a Stable group, one member after the other
- join: one more member joins, until every member has its target assignment. Members heartbeat every 5 s, spread evenly;
  a member gives up or takes over partitions immediately, and immediately sends a heartbeat about it. CPU of all
  requests; the first of them, the new member's own, computes the target assignment

Medians of the rounds, CPU time of the working thread; kgm and the JVM take turns.
"""

import argparse
import itertools
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from figures import figure
from processes import medians
from warm_jvm import WarmJvm

from kgm.coordinator.contract.outcome import Request
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.runtime import Runtime
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions

GROUP = "g"
INTERVAL_MS, REBALANCE_MS, CALM_MS = 5_000, 300_000, 2_000


class Client:
    """A consumer that takes over and gives up partitions immediately, and reports it with a heartbeat of its own."""

    def __init__(self, bench, member_id):
        self.bench = bench
        self.member_id = member_id
        self.epoch = self.owned = 0

    def beat(self, **said):
        message = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch, **{"topic_partitions": None, **said}
        )
        return Request(message=message, version=1, client_id="c", client_host="/127.0.0.1")

    def join(self):
        self.hear(
            self.bench.send(
                self.beat(
                    rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=self.bench.topics,
                    server_assignor="uniform", topic_partitions=[],
                )
            )
        )  # fmt: skip

    def hear(self, reply):
        at_epoch = self.bench.at_epoch
        at_epoch[self.epoch] = at_epoch.get(self.epoch, 0) - 1
        self.epoch = reply.member_epoch
        at_epoch[self.epoch] = at_epoch.get(self.epoch, 0) + 1
        if reply.assignment is None:
            return
        before, self.owned = self.owned, 0
        rows = []
        for row in reply.assignment.topic_partitions:
            self.owned += len(row.partitions)
            rows.append(TopicPartitions(topic_id=row.topic_id, partitions=row.partitions))
        self.bench.owned_by_all += self.owned - before
        if self.owned != before:
            self.hear(self.bench.send(self.beat(topic_partitions=rows)))


class Bench:
    """One coordinator and a Stable group, on a clock that stands still unless it is moved."""

    def __init__(self, members, topics, partitions):
        self.topics = [f"orders-{number}" for number in range(topics)]
        self.partitions = topics * partitions
        self.engine = Coordinator(
            settings=BrokerSettings(), new_member_id=lambda _prefix: "", topics=dict.fromkeys(self.topics, partitions)
        )
        self.written = 0
        self.runtime = Runtime(self.engine, append=self.append)
        self.now = 1_000_000
        self.took, self.requests, self.owned_by_all, self.at_epoch = 0.0, 0, 0, {}
        self.ids = (f"member-{number:029d}" for number in itertools.count())
        self.clients = []
        for _ in range(members):
            client = Client(self, next(self.ids))
            self.clients.append(client)
            client.join()
        self.until_reconciled(INTERVAL_MS)

    def append(self, records):
        self.written += len(records)

    def send(self, request):
        start = time.thread_time()
        (reply,) = self.runtime.handle(request, ticket=1, now=self.now)
        self.took += time.thread_time() - start
        self.requests += 1
        assert reply.message.error_code == ErrorCode.NONE
        return reply.message

    def until_reconciled(self, pause):
        """Members heartbeat in turn until all have their target assignments. Returns the virtual ms that took."""
        self.now += pause
        start, count = self.now, len(self.clients)
        number, is_reconciled = 0, False
        while not is_reconciled:
            self.now = start + INTERVAL_MS * number // count
            client = self.clients[number % count]
            client.hear(self.send(client.beat()))
            number += 1
            is_reconciled = self.owned_by_all == self.partitions and self.at_epoch[self.clients[0].epoch] == count
        assert self.engine.group(GROUP).state == "Stable"
        return self.now - start

    def heartbeats(self, span):
        """CPU nanoseconds per request, over as many requests as fit into the span."""
        done, took = 0, 0.0
        cycle = itertools.cycle([client.beat() for client in self.clients])
        while took < span:
            chunk = list(itertools.islice(cycle, 1_000))
            start = time.thread_time()
            for each in chunk:
                replies = self.runtime.handle(each, ticket=1, now=self.now)
            took += time.thread_time() - start
            done += len(chunk)
            assert replies[0].message.error_code == ErrorCode.NONE
        return took / done * 1e9

    def join(self):
        """(virtual ms, CPU ns, CPU ns of the new member's first heartbeat alone, requests, records)"""
        self.now += CALM_MS
        self.took, self.requests, before = 0.0, 0, self.written
        client = Client(self, next(self.ids))
        self.clients.insert(0, client)
        client.join()
        first = self.took
        span = self.until_reconciled(0)
        return span, self.took * 1e9, first * 1e9, self.requests, self.written - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=100_000, help="of all topics together")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--span", type=int, default=1_000, help="ms of CPU for the heartbeats of a round")
    parser.add_argument("--no-peer", action="store_true")
    arguments = parser.parse_args()
    ours, theirs = {}, {}
    sizes = (arguments.span, arguments.members, arguments.topics, arguments.partitions // arguments.topics)
    kafka = None if arguments.no_peer else WarmJvm("ConsumerBench", *sizes, heap_mb=1024)
    try:
        if kafka is not None:
            for _ in range(2):
                list(kafka.round(warm_up=True))
        bench = Bench(arguments.members, arguments.topics, arguments.partitions // arguments.topics)
        for _ in range(arguments.rounds):
            ours.setdefault("heartbeat", []).append([bench.heartbeats(arguments.span / 1_000)])
            ours.setdefault("join", []).append(bench.join())
            for work, *figures in kafka.round() if kafka is not None else ():
                theirs.setdefault(work, []).append([float(figure) for figure in figures])
    finally:
        if kafka is not None:
            kafka.close()
    found = [(name, {work: medians(rounds) for work, rounds in side.items()}) for name, side in
             (("kgm", ours), ("Kafka", theirs)) if side]  # fmt: skip
    mine, peer = found[0][1], found[1][1] if len(found) > 1 else None
    for name, unit, work, at, less in (
        ("heartbeat", "CPU us", "heartbeat", 0, 1e3),
        ("one joins, until all is reconciled", "virtual s", "join", 0, 1e3),
        ("one joins, until all is reconciled", "CPU s", "join", 1, 1e9),
        ("target assignment of a join", "CPU s", "join", 2, 1e9),
    ):
        title = f"{name}, {arguments.members:,} members, {arguments.partitions:,} partitions"
        figure(title, unit, mine[work][at] / less, {"Kafka": peer[work][at] / less} if peer else {})


if __name__ == "__main__":
    main()
