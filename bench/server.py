#!/usr/bin/env python3
"""`kgm serve` beside a real Kafka broker, under the same load, one after the other in one run.

usage: python bench/server.py [--seconds N] [--runs N]      (needs Java 17 and Maven; starts a real Kafka broker)

1. 5,000 static members in 50 groups send heartbeats over 500 connections: as fast as the server responds, with one
   request in flight on each connection; and as clients do, each member every 3 s.
2. A group of 1,000 static members, each on a connection of its own, from the first JoinGroup request to the last
   SyncGroup response. The broker's initial rebalance delay is 1 s, and is extended while members still join.

The load comes from another process (bench/heartbeats.py), whose CPU time is shown too. The broker is Apache Kafka 4.3.0
with -Xmx1g and the JVM options of Kafka's scripts, after a warm-up; kgm serve is one process with one thread.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from tests.kafka.broker import KafkaCluster

SETTINGS = {"group.initial.rebalance.delay.ms": "1000"}
KAFKAS_JVM = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")


@contextlib.contextmanager
def kafka():
    # Threads and partitions as in Kafka's default configuration; the brokers of the tests have fewer.
    threads = {"num.network.threads": "3", "num.io.threads": "8", "offsets.topic.num.partitions": "50"}
    with KafkaCluster(properties={**SETTINGS, **threads}, heap_mb=1024, jvm_options=KAFKAS_JVM) as cluster:
        host, _, port = cluster.bootstrap.rpartition(":")
        yield (host, int(port)), cluster.pid(1)


@contextlib.contextmanager
def kgm():
    command = [sys.executable, "-m", "kgm.cli.main", "serve", "--listen", "127.0.0.1:0", "--topic", "orders:12"]
    command += [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    command += ["--set", "max.connections=3000"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    try:
        host, _, port = json.loads(process.stdout.readline())["listening"].rpartition(":")
        yield (host, int(port)), process.pid
    finally:
        process.terminate()
        process.wait()


def load(server, plan):
    """What the load generator measured."""
    with server() as (address, pid):
        text = json.dumps({"address": address, "server_pid": pid, **plan})
        command = [sys.executable, str(ROOT / "bench/heartbeats.py"), text]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--warm-up", type=float, default=10)
    parser.add_argument("--members", type=int, default=5_000)
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--forming", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=["kgm", "kafka"])
    arguments = parser.parse_args()
    beating = {
        "members": arguments.members, "connections": arguments.connections, "group_size": 100,
        "seconds": arguments.seconds, "warm_up_s": arguments.warm_up, "interval_s": 3,
    }  # fmt: skip
    plan = beating | {"forming": arguments.forming, "runs": arguments.runs}
    results = {
        name: load(server, plan) for name, server in (("kgm", kgm), ("kafka", kafka)) if arguments.only in (None, name)
    }
    print(f"{arguments.members} static members, {arguments.connections} connections")
    print("| load | server | requests/s | p50 ms | p99 ms | server CPU us/request | generator CPU us/request |")
    print("|---|---|---|---|---|---|---|")
    for load_name, words in (("saturated", "as fast as it goes"), ("paced", "each member every 3 s")):
        for name, result in results.items():
            row = result[load_name]
            print(
                f"| {words} | {name} | {row['requests_per_s']:,.0f} | {row['p50_ms']:.2f} | {row['p99_ms']:.2f} "
                f"| {row['server_us']:.1f} | {row['generator_us']:.1f} |"
            )
    print(f"\n{arguments.forming} static members from the first JoinGroup to Stable, best of {arguments.runs}")
    print("| server | wall s | server CPU s |")
    print("|---|---|---|")
    for name, result in results.items():
        wall, cpu = min(result["forming"])
        print(f"| {name} | {wall:.2f} | {cpu:.2f} |")
    if len(results) == 2:
        ours, theirs = results["kgm"], results["kafka"]
        print("\nkgm / Kafka:", end=" ")
        print(f"requests/s {ours['saturated']['requests_per_s'] / theirs['saturated']['requests_per_s']:.2f}", end=", ")
        print(
            f"CPU per request {ours['saturated']['server_us'] / theirs['saturated']['server_us']:.2f} saturated",
            end=", ",
        )
        print(f"{ours['paced']['server_us'] / theirs['paced']['server_us']:.2f} paced", end=", ")
        print(f"forming {min(ours['forming'])[0] / min(theirs['forming'])[0]:.2f} wall")


if __name__ == "__main__":
    main()
