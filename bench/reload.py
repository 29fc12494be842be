#!/usr/bin/env python3
"""Reload a coordinator from its log: kgm's, and Kafka's own in a JVM, from the same segments.

usage: python bench/reload.py [--groups N] [--members N] [--commits N] [--rounds N]     (needs Java 17+ and Maven for the jars)

The log: each group is created, completes a rebalance and has two of its static members replaced, and each of its
members commits its two partitions --commits times; every write is a batch, as a server writes them. Timed, in turn, in
one process each:

- open: the log as after a crash: every batch is checked (kgm: OffsetsLog.open; Kafka: UnifiedLog.create, which rebuilds
       its indexes too)
- load: the coordinator from it (kgm: loading.Loader and Coordinator.loaded; Kafka: CoordinatorLoaderImpl into a
       GroupCoordinatorShard, and onLoaded)

The first round of each process is cold, as in a restart; shown are the medians of the other rounds, which are warm. CPU
time is that of the whole process: the JVM's includes its compiler and garbage collector, and Python's its own. In
addition, all are measured as whole processes, along with kafka-dump-log, which decodes the same records to text:
medians.
"""

import argparse
import contextlib
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from figures import figure
from processes import medians, side_by_side

from kgm.coordinator.engine import Coordinator
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription
from kgm.records.log import OffsetsLog
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record
from tests.coordinator.loaded import replay_into
from tests.kafka.jars import classpath
from tests.kafka.java_tools import compiled, java_command

HEAP_MB = 1_000
NOW = 1_790_000_000_000
SUBSCRIPTION = encode_subscription(Subscription(topics=("orders", "payments")))


def member(group, number, life):
    instance = f"{group}-{number:03d}"
    return MemberMetadata(
        member_id=f"{instance}-5c2f4a3e-9d6f-4b1c-8a77-{life:012d}",
        group_instance_id=instance,
        client_id=instance,
        client_host="/10.20.30.40",
        rebalance_timeout=300_000,
        session_timeout=45_000,
        subscription=SUBSCRIPTION,
        assignment=encode_assignment(MemberAssignment(partitions={"orders": [number], "payments": [number]})),
    )


def metadata(group, members):
    value = GroupMetadataValue(current_state_timestamp=NOW, protocol=None, leader=None)
    if members:
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol="range",
            leader=members[0].member_id,
            current_state_timestamp=NOW,
            members=members,
        )
    return Record(GroupMetadataKey(group=group), value)


def write(directory, groups, count, commits):
    with OffsetsLog.open(directory) as log:
        for number in range(groups):
            group = f"payments-fleet-{number:04d}"
            members = [member(group, at, 0) for at in range(count)]
            log.append([metadata(group, [])], now_ms=NOW)
            log.append([metadata(group, members)], now_ms=NOW)
            for life in (1, 2):
                members[life] = member(group, life, life)
                log.append([metadata(group, members)], now_ms=NOW)
            for time_ms in range(NOW, NOW + commits):
                for at in range(count):
                    value = OffsetCommitValue(offset=at, leader_epoch=0, commit_timestamp=time_ms)
                    keys = [OffsetCommitKey(group=group, topic=topic, partition=at) for topic in ("orders", "payments")]
                    log.append([Record(key, value) for key in keys], now_ms=time_ms)
        log.flush()
        return log.size, log.next_offset


def load(directory):
    """(open cpu ms, wall ms, load cpu ms, wall ms, groups, members) of one reload by kgm."""
    cpu, wall = time.process_time(), time.perf_counter()
    with OffsetsLog.open(directory) as log:
        opened = time.process_time() - cpu, time.perf_counter() - wall
        cpu, wall = time.process_time(), time.perf_counter()
        engine = Coordinator(new_member_id=lambda prefix: prefix)
        replay_into(engine, log.read())
        engine.loaded(now=NOW)
        loaded = time.process_time() - cpu, time.perf_counter() - wall
    found = engine.groups()
    times = [round(seconds * 1_000) for seconds in (*opened, *loaded)]
    return (*times, len(found), sum(len(group.members) for group in found))


def kgm_command(directory):
    return [sys.executable, str(pathlib.Path(__file__).resolve()), "--load", str(directory)]


def kafka_command(directory):
    path = classpath("coordinator-tests")
    classes = compiled([ROOT / "bench" / "java" / "ReloadBench.java"], path)
    main_class = "org.apache.kafka.coordinator.group.ReloadBench"
    return java_command(main_class, str(directory), heap_mb=HEAP_MB, options=(), class_path=f"{classes}:{path}")


def dump_command(directory):
    files = ",".join(map(str, sorted(directory.glob("*.log"))))
    main_class = "org.apache.kafka.tools.DumpLogSegments"
    return java_command(
        main_class, "--offsets-decoder", "--files", files, heap_mb=HEAP_MB, options=(), class_path=classpath("kafka")
    )


def in_turn(commands, rounds):
    """{name: [one line of numbers per round]}, with the processes staying alive between rounds."""
    found = {name: [] for name in commands}
    with contextlib.ExitStack() as stack:
        running = {}
        for name, command in commands.items():
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(process.wait)
            stack.callback(process.stdin.close)
            running[name] = process
        for _ in range(rounds):
            for name, process in running.items():
                process.stdin.write("\n")
                process.stdin.flush()
                found[name].append(tuple(map(int, process.stdout.readline().split())))
    return found


def show(title, ours, kafkas):
    for at, step in ((0, "open"), (2, "load")):
        figure(f"{title}: {step}, warm", "CPU ms", ours[at], {"Kafka's loader": kafkas[at]})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--commits", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--load", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.load:
        for _ in sys.stdin:
            print(*load(arguments.load), flush=True)
        return
    with tempfile.TemporaryDirectory(prefix="kgm-reload-") as folder:
        directory = pathlib.Path(folder) / "__consumer_offsets-0"
        size, records = write(directory, arguments.groups, arguments.members, arguments.commits)
        of = f"{arguments.groups:,} groups, {records:,} records, {size / 1e6:.0f} MB"
        commands = {"kgm": kgm_command(directory), "kafka": kafka_command(directory)}
        found = in_turn(commands, arguments.rounds)
        expected = arguments.groups, arguments.groups * arguments.members
        assert all(row[4:] == expected for rows in found.values() for row in rows), found
        show(of, *(medians(found[name][1:]) for name in ("kgm", "kafka")))
        once = {name: ["bash", "-c", 'echo | exec "$@"', "-", *command] for name, command in commands.items()}
        whole = side_by_side({**once, "kafka-dump-log": dump_command(directory)}, max(arguments.rounds // 2, 1))
        peers = {"Kafka's loader": whole["kafka"], "kafka-dump-log": whole["kafka-dump-log"]}
        for unit, at in (("CPU s", 0), ("s", 1)):
            figure(f"{of}: a whole process", unit, whole["kgm"][at], {name: row[at] for name, row in peers.items()})


if __name__ == "__main__":
    main()
