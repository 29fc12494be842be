#!/usr/bin/env python3
"""Remove 500 static members in one LeaveGroup: `kgm remove-members` compared with kafka-python's CLI, on equal groups.

usage: python bench/removal.py [--members N] [--runs N]      (needs Java 17 and Maven; starts a real Kafka broker)

Each run removes the members of a fresh group, since a removed member cannot be removed again. kgm describes the group
before and after, and would watch the committed offsets for signs of life; `--allow-live --assume-stopped` skips that
watch, because the peer has none.
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from crowd import join_crowd
from figures import figure
from processes import medians, once

from tests.kafka.broker import KafkaCluster


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    kgm = str(pathlib.Path(sys.executable).with_name("kgm"))
    with KafkaCluster(properties={"group.initial.rebalance.delay.ms": "3000"}) as kafka:
        kafka.create_topics({"orders": arguments.members})

        def ours(group, names):
            ids = ",".join(names)
            command = [kgm, "remove-members", group, "-b", kafka.bootstrap, "--instance-ids", ids]
            return [*command, "--yes", "--allow-live", "--assume-stopped", "-o", "json"]

        def peer(group, names):
            command = [sys.executable, "-m", "kafka.admin", "--bootstrap-servers", kafka.bootstrap, "groups"]
            command += ["remove-members", "-g", group]
            return command + [word for name in names for word in ("-i", name)]

        found = {"kgm": [], "kafka-python": []}
        for run in range(arguments.runs):
            for name, build in (("kgm", ours), ("kafka-python", peer)):
                group = f"{name}-{run}"
                names = join_crowd(kafka.bootstrap, group, arguments.members, "orders", arguments.members)
                found[name].append(once(build(group, names)))
    ours, theirs = medians(found["kgm"]), medians(found["kafka-python"])
    for name, unit, at in (("CPU", "CPU s", 0), ("from start to end", "s", 1)):
        figure(f"{arguments.members} members removed: {name}", unit, ours[at], {"kafka-python 3.0.12": theirs[at]})


if __name__ == "__main__":
    main()
