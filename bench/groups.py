#!/usr/bin/env python3
"""`kgm list` of many groups and `kgm describe --all-groups` of large ones, beside Kafka's own ConsumerGroupCommand.

usage: python bench/groups.py [--groups N] [--members N] [--listed N] [--runs N]
(needs Java 17 and Maven; starts a real Kafka broker with -Xmx1g)

kgm's list also describes every group, for the number of members. Kafka's `--describe --all-groups` tells offsets and lag,
and members with `--members --verbose`; kgm tells both at once. The peer runs with the JVM's own defaults, and with those
that suit a JVM that lives for seconds (C1 only, serial collector); the ratios are to the quicker of the two."""

import argparse
import pathlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from crowd import join_crowd
from processes import side_by_side

from tests.kafka.broker import KafkaCluster
from tests.kafka.java_tools import QUICK, java_command

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PARTITIONS = 20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=200, help="groups that are described")
    parser.add_argument("--members", type=int, default=20, help="members of each")
    parser.add_argument("--listed", type=int, default=1000, help="groups that are listed, the others with one member")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    kgm = str(pathlib.Path(sys.executable).with_name("kgm"))
    with KafkaCluster(properties={"group.initial.rebalance.delay.ms": "2000"}, heap_mb=1024) as kafka:
        kafka.create_topics({"orders": PARTITIONS})
        at = ["--bootstrap-server", kafka.bootstrap]

        def peer(*flags):
            return {
                "defaults": java_command(TOOL, *at, "--timeout", "60000", *flags, heap_mb=256, options=()),
                "C1, serial": java_command(TOOL, *at, "--timeout", "60000", *flags, heap_mb=256, options=QUICK),
            }

        form(kafka.bootstrap, {f"group-{i:04d}": arguments.members for i in range(arguments.groups)})
        describe = {
            "kgm describe --all-groups": [kgm, "describe", "--all-groups", *at],
            "kgm describe --all-groups -o json": [kgm, "describe", "--all-groups", *at, "-o", "json"],
            **{f"Kafka --describe --all-groups ({k})": v for k, v in peer("--describe", "--all-groups").items()},
            **{
                f"Kafka --describe --all-groups --members --verbose ({k})": v
                for k, v in peer("--describe", "--all-groups", "--members", "--verbose").items()
            },
        }
        show(f"{arguments.groups} groups of {arguments.members} static members", side_by_side(describe, arguments.runs))
        form(kafka.bootstrap, {f"small-{i:04d}": 1 for i in range(arguments.listed - arguments.groups)})
        listing = {
            "kgm list": [kgm, "list", *at],
            "kgm list -o json": [kgm, "list", *at, "-o", "json"],
            **{f"Kafka --list ({k})": v for k, v in peer("--list").items()},
            **{
                f"Kafka --describe --all-groups --state ({k})": v
                for k, v in peer("--describe", "--all-groups", "--state").items()
            },
        }
        show(f"{arguments.listed} groups", side_by_side(listing, arguments.runs))


def form(bootstrap, sizes):
    """Groups of silent static members, several at a time."""
    with ThreadPoolExecutor(40) as pool:
        for done in [pool.submit(form_one, bootstrap, name, size) for name, size in sizes.items()]:
            done.result()


def form_one(bootstrap, name, size):
    """A coordinator that was made a moment ago may still be loading."""
    for attempt in range(10):
        try:
            join_crowd(bootstrap, name, size, "orders", PARTITIONS)
            return
        except (StopIteration, RuntimeError):
            if attempt == 9:
                raise
            time.sleep(2)


def show(title, found):
    peers = [(cpu, wall) for name, (cpu, wall) in found.items() if name.startswith("Kafka")]
    best_cpu, best_wall = min(cpu for cpu, _ in peers), min(wall for _, wall in peers)
    print(f"\n{title}")
    print("| command | CPU s | wall s | quickest peer's CPU / ours | quickest peer's wall / ours |")
    print("|---|---|---|---|---|")
    for name, (cpu, wall) in found.items():
        print(f"| {name} | {cpu:.3f} | {wall:.3f} | {best_cpu / cpu:.1f} | {best_wall / wall:.1f} |")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
