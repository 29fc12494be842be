#!/usr/bin/env python3
"""Read the history of groups from a log of `__consumer_offsets`: kgm and Kafka's own kafka-dump-log, from the same
segments.

usage: python bench/history.py [--commits N] [--snapshots N] [--changes N] [--members N] [--in-batch N] [--rounds N]
       (needs numpy, pyarrow, Java 17+, and Maven for the jars)

Two logs: offset commits of 100 groups, --in-batch records per batch (as a commit of that many partitions writes them);
and GroupMetadata records with --members members, one per batch, where each record has one member that came back. kgm,
in process: read (file -> batches, with checksums verified -> table of raw records) and decode (-> every field; for
GroupMetadata, a row per member with its subscription and assignment decoded). kafka-dump-log --offsets-decoder is a
whole process that prints JSON, here into /dev/null; the time it takes for a log of one record is subtracted, so that
neither side is charged for its start. They take turns; medians of --rounds.

Then kgm alone: the membership changes in --changes GroupMetadata records (half of them rebalances, the others bounces
that were absorbed), read from the segment in pieces; and the same for the log of commits, which has no changes. These
logs have two partitions, with a process for each, as Spark would run on two cores; CPU and memory are added up, and
wall time is that of the slower process.
"""

import argparse
import concurrent.futures
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from figures import figure
from processes import medians, once
from reload import NOW, member, metadata

from kgm.model.gc_threshold import collect_rarely
from kgm.records.batch import new_batch
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record, encode_record
from tests.kafka.jars import classpath
from tests.kafka.java_tools import java_command

HEAP_MB = 1_000
#: The number of partitions processed in parallel.
CORES = 2
GROUPS, PARTITIONS = 100, 240
SEGMENT = "00000000000000000000.log"
#: Where the generation is in the value of a group of protocol type "consumer".
GENERATION = struct.Struct(">12xi")


def write(directory, batches):
    directory.mkdir(parents=True)
    offset = 0
    with (directory / SEGMENT).open("wb") as file:
        for pairs in batches:
            file.write(new_batch(pairs, base_offset=offset, timestamp_ms=NOW + offset // 10))
            offset += len(pairs)


def commit(number, groups):
    at = number // PARTITIONS
    key = OffsetCommitKey(group=f"payments-{at % groups:03d}", topic="orders.eu", partition=number % PARTITIONS)
    value = OffsetCommitValue(
        offset=1_000 + number // (groups * PARTITIONS) * 500, leader_epoch=3, commit_timestamp=NOW + number // 10,
        topic_id=b"0123456789abcdef",
    )  # fmt: skip
    return encode_record(Record(key, value))


def commits(count, in_batch, groups=GROUPS):
    for start in range(0, count, in_batch):
        yield [commit(number, groups) for number in range(start, min(start + in_batch, count))]


def snapshots(count, size, groups=GROUPS):
    """The records of the groups in turn: in each, one member comes back under another id; every other time that takes a
    rebalance."""
    names = [f"fleet-{number:03d}" for number in range(groups)]
    fleets = [[encoded(name, at, 0)[1] for at in range(size)] for name in names]
    heads = [encoded(name, 0, 0)[0] for name in names]
    keys = [encode_record(metadata(name, []))[0] for name in names]
    for number in range(count):
        group, turn = number % groups, number // groups
        members = fleets[group]
        members[turn % size] = encoded(names[group], turn % size, number)[1]
        head = bytearray(heads[group])
        struct.pack_into(">i", head, GENERATION.size - 4, 1 + turn // 2)
        yield [(keys[group], b"".join((head, struct.pack(">i", size), *members)))]


def encoded(name, at, life):
    """(a value up to its members, the bytes of one member)."""
    one, two = (encode_record(metadata(name, [member(name, at, life)] * times))[1] for times in (1, 2))
    size = len(two) - len(one)
    return one[: -size - 4], one[-size:]


def measured(task):
    cpu, wall = time.process_time(), time.perf_counter()
    found = task()
    return found, time.process_time() - cpu, time.perf_counter() - wall


def decode(directory):
    """[records, members, read cpu, read wall, decode cpu, decode wall]."""
    import pyarrow as pa

    from kgm.history.decode.raw import segment_records
    from kgm.history.decode.record_tables import decode
    from kgm.history.tables import member_table

    path = directory / SEGMENT
    with path.open("rb") as file:
        raw, *read = measured(lambda: pa.Table.from_batches(segment_records(0, file, path.stat().st_size)))

    def taken_apart():
        found = decode(raw)
        return found, member_table(found)

    (found, apart), *decoded = measured(taken_apart)
    assert len(found.bad) == 0
    return [found.count, len(apart), *read, *decoded]


def changes(directory):
    """[records, changes, rebalances, cpu, wall, peak MB]."""
    import resource

    import pyarrow as pa

    from kgm.history.decode.raw import segment_records
    from tests.history.reconstruct.log_replay import LogReplay

    path = directory / SEGMENT

    def told():
        log, count, changed, rebalanced = LogReplay(), 0, 0, 0
        with path.open("rb") as file:
            for batch in segment_records(0, file, path.stat().st_size):
                count += len(batch)
                for found in log.feed(pa.Table.from_batches([batch])):
                    changed += len(found.history.changes)
                    rebalanced += len(found.history.rebalances)
        return count, changed, rebalanced

    collect_rarely()
    (count, changed, rebalanced), cpu, wall = measured(told)
    return [count, changed, rebalanced, cpu, wall, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3]


TASKS = {"decode": decode, "changes": changes}


def in_process(task, directory):
    command = [sys.executable, str(pathlib.Path(__file__).resolve()), "--task", task, str(directory)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def dump(directory):
    main_class = "org.apache.kafka.tools.DumpLogSegments"
    return java_command(
        main_class, "--offsets-decoder", "--files", str(directory / SEGMENT), heap_mb=HEAP_MB, options=(),
        class_path=classpath("kafka"),
    )  # fmt: skip


def beside_the_peer(folder, arguments):
    logs = {
        "OffsetCommit": commits(arguments.commits, arguments.in_batch),
        f"GroupMetadata x {arguments.members}": snapshots(arguments.snapshots, arguments.members),
        "one record": commits(1, 1),
    }
    places = {name: folder / f"peer-{number}" for number, name in enumerate(logs)}
    for name, batches in logs.items():
        write(places[name], batches)
    kafkas, ours = {name: [] for name in logs}, {name: [] for name in logs}
    for _ in range(arguments.rounds):
        for name, place in places.items():
            kafkas[name].append(once(dump(place))[:2])
            ours[name].append(in_process("decode", place))
    start = medians(kafkas.pop("one record"))
    for name, rows in kafkas.items():
        their_cpu, their_wall = (time - less for time, less in zip(medians(rows), start, strict=True))
        count, _, read, read_wall, cpu, wall = medians(ours[name])
        title = f"{count:,.0f} {name} read and decoded"
        figure(title, "CPU s", read + cpu, {"kafka-dump-log": their_cpu})
        figure(title, "s", read_wall + wall, {"kafka-dump-log": their_wall})


def told(folder, arguments):
    logs = {
        f"GroupMetadata x {arguments.members}": [
            snapshots(arguments.changes // CORES, arguments.members) for _ in range(CORES)
        ],
        "OffsetCommit": [commits(arguments.commits // CORES, arguments.in_batch) for _ in range(CORES)],
    }
    for number, (name, partitions) in enumerate(logs.items()):
        places = [folder / f"told-{number}-{partition}" for partition in range(CORES)]
        for place, batches in zip(places, partitions, strict=True):
            write(place, batches)
        with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
            found = [*zip(*pool.map(in_process, ["changes"] * CORES, places), strict=True)]
        count, _, _, cpu, _, peak = map(sum, found)
        for place in places:
            (place / SEGMENT).unlink()
        for unit, value in (("CPU s", cpu), ("s", max(found[4])), ("MB", peak)):
            figure(f"changes told of {count:,} {name}", unit, value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=1_000_000)
    parser.add_argument("--snapshots", type=int, default=20_000)
    parser.add_argument("--changes", type=int, default=200_000)
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--in-batch", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        task, directory = TASKS[arguments.task[0]], pathlib.Path(arguments.task[1])
        if task is decode:
            task(directory)  # compiles the decoders and runs deferred imports
        print(json.dumps(task(directory)))
        return
    with tempfile.TemporaryDirectory(prefix="kgm-history-") as name:
        folder = pathlib.Path(name)
        beside_the_peer(folder, arguments)
        told(folder, arguments)


if __name__ == "__main__":
    main()
