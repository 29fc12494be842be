#!/usr/bin/env python3
"""What `kgm history simulate-fleet` does: a rolling restart of every group of a fleet, in this process and on Spark.

usage: python bench/spark_fleets.py [--groups N] [--rounds N]      (needs PySpark and Java 17+)

Each group has 10 dynamic members; one draw. Spark's start and a first small job are not counted. CPU and memory are
those of whole process trees, JVM and Python.
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from figures import figure
from processes import medians
from sparks import in_process

WAYS = {"Spark, local[1]": "local[1]", "Spark, local[2]": "local[2]"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    found = {way: [] for way in (None, *WAYS)}
    for _ in range(arguments.rounds):
        for way, rows in found.items():
            rows.append(in_process(how="fleet", master=WAYS.get(way), count=arguments.groups))
    alone = medians(found.pop(None))
    for way, rows in found.items():
        for unit, value, plain in zip(("s", "CPU s", "MB"), medians(rows), alone, strict=True):
            figure(f"{arguments.groups:,} groups, {way}", unit, value, {"one process, no Spark": plain})


if __name__ == "__main__":
    main()
