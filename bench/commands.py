#!/usr/bin/env python3
"""kgm's start-up and `kgm describe` of a large group, beside Kafka's own ConsumerGroupCommand on the same group.

usage: python bench/commands.py [--members N] [--runs N]      (needs Java 17 and Maven; starts a real Kafka broker)
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from crowd import join_crowd
from processes import side_by_side

from tests.kafka.broker import KafkaCluster
from tests.kafka.java_tools import java_command

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--runs", type=int, default=7)
    arguments = parser.parse_args()
    kgm = str(pathlib.Path(sys.executable).with_name("kgm"))
    with KafkaCluster(properties={"group.initial.rebalance.delay.ms": "3000"}) as kafka:
        kafka.create_topics({"orders": 2 * arguments.members})
        join_crowd(kafka.bootstrap, "crowd", arguments.members, "orders", 2 * arguments.members)
        at = ["--bootstrap-server", kafka.bootstrap]
        found = side_by_side(
            {
                "kgm --help": [kgm, "--help"],
                "kgm describe": [kgm, "describe", "crowd", *at],
                "kgm describe -o json": [kgm, "describe", "crowd", *at, "-o", "json"],
                "ConsumerGroupCommand": java_command(
                    TOOL, *at, "--describe", "--group", "crowd", "--members", "--verbose"
                ),
            },
            arguments.runs,
        )
    peer_cpu, peer_wall = found["ConsumerGroupCommand"]
    print(f"a group of {arguments.members} static members, medians of {arguments.runs} runs")
    print("| command | CPU s | wall s | peer CPU / ours | peer wall / ours |")
    print("|---|---|---|---|---|")
    for name, (cpu, wall) in found.items():
        print(f"| {name} | {cpu:.3f} | {wall:.3f} | {peer_cpu / cpu:.1f} | {peer_wall / wall:.1f} |")


if __name__ == "__main__":
    main()
