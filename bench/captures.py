#!/usr/bin/env python3
"""Captures from Kafka to bronze, compared with the console consumer using Kafka's own formatter.

usage: python bench/captures.py [--commits N] [--rounds N]      (needs PySpark, Java 17+, and Maven for the jars)

A capture is everything from the topic of a real broker to the Parquet files of bronze, without a row in a JVM: kgm's
own fetch, in its own process or in Spark's workers. The console consumer prints the same offset commits, 10 per batch,
as JSON into /dev/null. The broker finds them in the topic's directories when it starts, because producing batches as
small as a coordinator's would take most of the time. "A whole process" is the first capture, from the start of its
process, JVM and all, with nothing subtracted on either side. "The next in that process" is one more capture in the same
process, into another store, minus the shortest time for a capture of 500 records; it is compared with the console
consumer's time for twice as many records minus its time for one set. Spark takes seconds to start, which is why none is
started for small batches. CPU is that of whole process trees, JVM and Python.
"""

import argparse
import contextlib
import pathlib
import shutil
import struct
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from figures import figure
from history import SEGMENT, commits
from processes import medians, once
from sparks import PARTITIONS, WARM, in_process, segment, spread, standalone, write

from tests.kafka.broker import KafkaCluster
from tests.kafka.jars import classpath
from tests.kafka.java_tools import java_command

OFFSET = struct.Struct(">q")
CONSOLE = "console consumer"
FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
#: The heap size that the console consumer's script sets.
HEAP_MB = 512


def write_twice(folder, once):
    """Write the segments of another folder, followed by all their batches once more."""
    from kgm.records.batch import decode_batches

    for partition in range(PARTITIONS):
        data = segment(pathlib.Path(once), partition).read_bytes()
        batches = decode_batches(data)
        count = batches[-1].last_offset + 1
        with segment(folder, partition).open("wb") as file:
            file.write(data)
            for batch in batches:  # the checksum does not cover the offset
                file.write(OFFSET.pack(batch.base_offset + count) + batch.data[OFFSET.size :])
    return str(folder)


def put(cluster, topics):
    """Create topics with the segments of folders, {topic: folder}."""
    cluster.create_topics(dict.fromkeys(topics, PARTITIONS))
    cluster.shut_down(1)
    for topic, folder in topics.items():
        for partition in range(PARTITIONS):
            there = cluster.log_dir() / f"{topic}-{partition}"
            for path in there.glob("0*"):
                path.unlink()
            shutil.copy(segment(pathlib.Path(folder), partition), there / SEGMENT)
    cluster.restart(1)


def console(cluster, topic, count):
    return java_command(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", cluster.bootstrap, "--topic", topic,
        "--from-beginning", "--max-messages", str(count), "--formatter", FORMATTER, heap_mb=HEAP_MB, options=(),
        class_path=classpath("kafka"),
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    count = arguments.commits
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kgm-bench-")))
        sizes = {"warm": WARM, "once": count}
        places = {name: write(folder / name, spread(commits(number, 10))) for name, number in sizes.items()}
        places["twice"] = write_twice(folder / "twice", places["once"])
        # The records are old, and must not be deleted in the meantime.
        cluster = stack.enter_context(KafkaCluster(properties={"log.retention.ms": "-1"}))
        put(cluster, places)
        ways = {
            "no Spark": {"master": None},
            "Spark, local[2]": {"master": "local[2]"},
            "Spark, standalone, 2 executors": stack.enter_context(standalone(2)),
        }
        measure(cluster, count, ways, arguments.rounds)


def measure(cluster, count, ways, rounds):
    found = {way: [] for way in (CONSOLE, *ways)}
    for _ in range(rounds):
        first, both = (once(console(cluster, "twice", number)) for number in (count, 2 * count))
        found[CONSOLE].append([first[1::-1], (both[1] - first[1], both[0] - first[0])])
        for way, asked in ways.items():
            measured = in_process(how="capture", bootstrap=cluster.bootstrap, count=count, **asked)
            found[way].append([row[:2] for row in measured])
    middle = {way: [medians(each) for each in zip(*rows, strict=True)] for way, rows in found.items()}
    peer = middle.pop(CONSOLE)
    for which, title in enumerate(("a whole process", "the next in that process")):
        for way, rows in middle.items():
            for at, unit in enumerate(("s", "CPU s")):
                name = f"capture of {count:,} commits, {way}: {title}"
                figure(name, unit, rows[which][at], {CONSOLE: peer[which][at]})


if __name__ == "__main__":
    main()
