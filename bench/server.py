#!/usr/bin/env python3
"""`kgm serve` compared with a real Kafka broker, under the same load, one after the other in one run.

usage: python bench/server.py [--members N] [--seconds N] [--runs N]      (needs Java 17 and Maven; starts a real Kafka)

1. Static members in groups of 100, each on its own connection, join, 500 at a time. Each JoinGroup includes the initial
   rebalance delay of 1 s, which is extended while members are still joining.
2. They send heartbeats: as clients do, each member every 3 s; and as fast as the server responds, with one request in
   flight on each connection.
3. One large group, from the first JoinGroup request to the last SyncGroup response.

Members are requests and responses as clients send them, from another process (bench/heartbeats.py) on the same cores.
The broker is Apache Kafka 4.3.0 with -Xmx1g and the JVM options of Kafka's scripts, after a warm-up; kgm serve is a
single process with one thread, while Kafka could use more cores. A ratio above 1 means that kgm takes less.
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

from figures import figure

from tests.kafka.broker import KafkaCluster

GROUP_SIZE, INTERVAL_S = 100, 3
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
    command = [sys.executable, "-m", "kgm", "serve", "--listen", "127.0.0.1:0", "--topic", "orders:12"]
    command += [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    command += ["--set", "max.connections=20000"]
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
    parser.add_argument("--forming", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=["kgm", "kafka"])
    arguments = parser.parse_args()
    beating = {
        "members": arguments.members, "group_size": GROUP_SIZE,
        "seconds": arguments.seconds, "warm_up_s": arguments.warm_up, "interval_s": INTERVAL_S,
    }  # fmt: skip
    plan = beating | {"forming": arguments.forming, "runs": arguments.runs}
    results = {
        name: load(server, plan) for name, server in (("kgm", kgm), ("kafka", kafka)) if arguments.only in (None, name)
    }
    for load_name, words in (("paced", f"each member every {INTERVAL_S} s"), ("saturated", "as fast as it goes")):
        rows = {name: result[load_name] for name, result in results.items()}
        of = f"{arguments.members:,} members, {words}"
        for title, unit, key in (
            ("CPU of a Heartbeat", "us", "server_us"),
            ("a Heartbeat, p50", "ms", "p50_ms"),
            ("a Heartbeat, p99", "ms", "p99_ms"),
            ("time between Heartbeats", "us", "every_us"),
        ):
            tell(f"{of}: {title}", unit, {name: row[key] for name, row in rows.items()})
    # A busy machine serves fewer heartbeats than the members would send; this is the cost of all of them.
    each_s = arguments.members / INTERVAL_S
    cores = {name: result["paced"]["server_us"] / 1e6 * each_s for name, result in results.items()}
    tell(f"{arguments.members:,} members, each member every {INTERVAL_S} s: CPU of the server", "cores", cores)
    joined = {name: result["joined"] for name, result in results.items()}
    of = f"{arguments.members:,} members join in groups of {GROUP_SIZE}"
    tell(f"{of}: JoinGroup to SyncGroup, p99", "ms", {name: row["p99_ms"] for name, row in joined.items()})
    tell(f"{of}: CPU of the server", "CPU s", {name: row["server_s"] for name, row in joined.items()})
    best = {name: min(result["forming"]) for name, result in results.items()}
    of = f"{arguments.forming:,} members of one group, from the first JoinGroup to Stable"
    tell(of, "s", {name: wall for name, (wall, _) in best.items()})
    tell(f"{of}: CPU of the server", "CPU s", {name: cpu for name, (_, cpu) in best.items()})


def tell(name, unit, found):
    figure(name, unit, found.get("kgm"), {"Kafka": found["kafka"]} if "kafka" in found else {})


if __name__ == "__main__":
    main()
