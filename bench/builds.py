#!/usr/bin/env python3
"""Builds on a standalone Spark cluster with one, two and four executors.

usage: python bench/builds.py [--snapshots N] [--members N] [--rounds N]      (needs PySpark and Java 17+)

A build goes from bronze to every table, for GroupMetadata records in four partitions, on a standalone master with
workers of one core and one executor each; Spark's start and a first small build are not counted. If there are more
executors than cores, they share the cores: then a figure shows what they cost, not how a cluster scales. CPU and memory
are those of whole process trees: driver, JVMs and Python.
"""

import argparse
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from figures import figure
from history import snapshots
from processes import medians
from sparks import WARM, in_process, spread, standalone, write

EXECUTORS = (1, 2, 4)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snapshots", type=int, default=60_000)
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    cores, one = len(os.sched_getaffinity(0)), None
    title = f"build of {arguments.snapshots:,} GroupMetadata x {arguments.members} on {cores} cores"
    with tempfile.TemporaryDirectory(prefix="kgm-bench-") as name:
        sizes = {"warm": WARM, "place": arguments.snapshots}
        places = {
            place: write(pathlib.Path(name) / place, spread(snapshots(number, arguments.members)))
            for place, number in sizes.items()
        }
        for count in EXECUTORS:
            with standalone(count) as asked:
                found = medians([in_process(how="build", **asked, **places) for _ in range(arguments.rounds)])
            one = one or found
            for unit, mine, of_one in zip(("s", "CPU s", "MB"), found, one, strict=True):
                figure(f"{title}, {count} executors", unit, mine, {"one executor": of_one})


if __name__ == "__main__":
    main()
