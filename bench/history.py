#!/usr/bin/env python3
"""Decode a log of `__consumer_offsets`: kgm's columns, and Kafka's own kafka-dump-log, from the same segments.

usage: python bench/history.py [--commits N] [--snapshots N] [--members N] [--in-batch N] [--rounds N]
       (needs numpy, pyarrow, Java 17+, and Maven for the jars)

Two logs: offset commits of 100 groups, --in-batch records in each batch (what a commit of so many partitions writes);
and GroupMetadata records of --members members, a batch each, in which one member a time has come back.
kgm, in process: read (file -> batches, checksums checked -> table of raw records) and decode (-> a table of every field;
of GroupMetadata, also a row for each member with its subscription and assignment taken apart).
kafka-dump-log --offsets-decoder is a whole process that prints JSON, into /dev/null here; the time that it needs for a
log of one record is taken off, so that neither side is charged for its start. In turn, medians of --rounds.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from processes import once
from reload import NOW, member, metadata

from kgm.records.batch import new_batch
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record, encode_record
from tests.kafka.jars import classpath
from tests.kafka.java_tools import java_command

HEAP_MB = 1_000
GROUPS, PARTITIONS = 100, 240
SEGMENT = "00000000000000000000.log"


def write(directory, batches):
    directory.mkdir(parents=True)
    offset = 0
    with (directory / SEGMENT).open("wb") as file:
        for pairs in batches:
            file.write(new_batch(pairs, base_offset=offset, timestamp_ms=NOW + offset // 10))
            offset += len(pairs)


def commit(number):
    at = number // PARTITIONS
    key = OffsetCommitKey(group=f"payments-{at % GROUPS:03d}", topic="orders.eu", partition=number % PARTITIONS)
    value = OffsetCommitValue(
        offset=1_000 + number // (GROUPS * PARTITIONS) * 500, leader_epoch=3, commit_timestamp=NOW + number // 10,
        topic_id=b"0123456789abcdef",
    )  # fmt: skip
    return encode_record(Record(key, value))


def commits(count, in_batch):
    for start in range(0, count, in_batch):
        yield [commit(number) for number in range(start, min(start + in_batch, count))]


def snapshots(count, size):
    groups = [[member(f"fleet-{number:03d}", at, 0) for at in range(size)] for number in range(GROUPS)]
    for number in range(count):
        members = groups[number % GROUPS]
        place = number // GROUPS % size
        members[place] = member(f"fleet-{number % GROUPS:03d}", place, number)
        yield [encode_record(metadata(f"fleet-{number % GROUPS:03d}", members))]


def decode(directory):
    """[records, members, read cpu, read wall, decode cpu, decode wall]."""
    import pyarrow as pa

    from kgm.history.columns import decode
    from kgm.history.raw import segment_records
    from kgm.history.tables import members

    path = directory / SEGMENT
    cpu, wall = time.process_time(), time.perf_counter()
    with path.open("rb") as file:
        raw = pa.Table.from_batches(segment_records(0, file, path.stat().st_size))
    read = time.process_time() - cpu, time.perf_counter() - wall
    cpu, wall = time.process_time(), time.perf_counter()
    found = decode(raw)
    apart = members(found)
    decoded = time.process_time() - cpu, time.perf_counter() - wall
    assert len(found.bad) == 0
    return [sum(map(len, found.records.values())), len(apart), *read, *decoded]


def dump(directory):
    files = str(directory / SEGMENT)
    main_class = "org.apache.kafka.tools.DumpLogSegments"
    return java_command(
        main_class, "--offsets-decoder", "--files", files, heap_mb=HEAP_MB, options=(), class_path=classpath("kafka")
    )


def in_process(directory):
    command = [sys.executable, str(pathlib.Path(__file__).resolve()), "--decode", str(directory)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=1_000_000)
    parser.add_argument("--snapshots", type=int, default=20_000)
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--in-batch", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--decode", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.decode:
        decode(arguments.decode)  # compiles decoders and loads what is loaded late
        print(json.dumps(decode(arguments.decode)))
        return
    with tempfile.TemporaryDirectory(prefix="kgm-history-") as folder:
        logs = {
            "OffsetCommit": commits(arguments.commits, arguments.in_batch),
            f"GroupMetadata x {arguments.members}": snapshots(arguments.snapshots, arguments.members),
            "one record": commits(1, 1),
        }
        for name, batches in logs.items():
            write(pathlib.Path(folder) / name.replace(" ", "-"), batches)
        print(f"{arguments.in_batch} commits in a batch; JVM with -Xmx{HEAP_MB}m\n")
        print(
            "| log | MB | kgm read | decode | k records/CPU s | dump-log | k records/CPU s | CPU ratio | wall ratio |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
        kafkas, ours = {name: [] for name in logs}, {name: [] for name in logs}
        for _ in range(arguments.rounds):
            for name in logs:
                directory = pathlib.Path(folder) / name.replace(" ", "-")
                kafkas[name].append(once(dump(directory))[:2])
                ours[name].append(in_process(directory))
        start = [statistics.median(column) for column in zip(*kafkas.pop("one record"), strict=True)]
        for name, rows in kafkas.items():
            size = (pathlib.Path(folder) / name.replace(" ", "-") / SEGMENT).stat().st_size / 1e6
            their_cpu, their_wall = (
                statistics.median(column) - less for column, less in zip(zip(*rows, strict=True), start, strict=True)
            )
            count, _, read, read_wall, cpu, wall = map(statistics.median, zip(*ours[name], strict=True))
            print(
                f"| {count:.0f} {name} | {size:.0f} | {read:.2f} | {cpu:.2f} | {count / (read + cpu) / 1e3:.0f} | "
                f"{their_cpu:.2f} | {count / their_cpu / 1e3:.1f} | {their_cpu / (read + cpu):.1f} | "
                f"{their_wall / (read_wall + wall):.1f} |"
            )
        print(f"\nseconds of CPU; dump-log without its start ({start[0]:.2f} CPU s, {start[1]:.2f} s)")


if __name__ == "__main__":
    main()
