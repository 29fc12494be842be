#!/usr/bin/env python3
"""CPU and memory of answers about a whole fleet: `list`, `describe --all-groups` in each format, `export`, `doctor`;
compared with kcl (franz-go, a tool in Go), which is given the groups by name (100,000 names do not fit into a command
line: then only `list` is compared).

usage: python bench/fleet_memory.py [--groups N] [--runs N] [--only WORDS] [--before DIR]      (needs kcl in PATH)
       (--before: another checkout of kgm, whose commands are run in turn with this one's)

Groups have 4 members, static ones in half of the groups, on one or two topics of 4 partitions, with committed offsets
and a lag. They are in the log that a `kgm serve` server has loaded, whose own cost is not counted. A run is a process;
CPU is user and system time, MB is the peak resident memory; medians of --runs."""

import argparse
import contextlib
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from crowd import BlockingConnection
from figures import figure
from processes import kcl, kgm, side_by_side

from kgm.java.partitions import partition_for
from kgm.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kgm.protocol.messages.produce_response import ProduceResponse
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription
from kgm.records.batch import new_batch
from kgm.records.log import OffsetsLog
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record

MEMBERS = PARTITIONS = 4
TOPICS = 200
RECORDS, COMMITTED = 10, 7
OFFSETS_PARTITIONS = 50
DAY_MS = 86_400_000
#: The most group names that fit into a command line.
MOST_NAMES = 50_000
SERVER = """
import pathlib, sys
from kgm.server import Limits, ServerOptions, serve_forever
limits = Limits(
    max_groups=10_000_000, max_items=10_000_000, group_members_max_bytes=16 << 30, max_topics=10_000,
    committed_offsets_max_bytes=16 << 30, socket_request_max_bytes=64 << 20, queued_max_response_bytes=1 << 30,
)
topics = {f"topic-{number:03d}": %d for number in range(%d)}
options = ServerOptions(topics=topics, limits=limits, data_dir=pathlib.Path(sys.argv[1]), port=0)
serve_forever(options, on_listening=lambda addresses: print(*addresses[1], sep=":", flush=True))
"""


def topic(number):
    return f"topic-{number % TOPICS:03d}"


def group_id(number):
    return f"service-{number:06d}"


def records_of(number, now_ms):
    """What the log has for a group: its last rebalance and its commits."""
    group, topics = group_id(number), (topic(number), topic(number * 7 + 3))[: 1 + number % 2]
    subscription = encode_subscription(Subscription(topics=topics))
    members = [
        MemberMetadata(
            member_id=f"{group}-{at}-5c2f4a3e-9d6f-4b1c-8a77-{number:012d}",
            group_instance_id=f"{group}-{at}" if number % 4 < 2 else None,
            client_id=f"{group}-{at}",
            client_host=f"/10.20.{number % 250}.{at + 1}",
            rebalance_timeout=300_000,
            session_timeout=DAY_MS,
            subscription=subscription,
            assignment=encode_assignment(MemberAssignment(partitions={name: [at] for name in topics})),
        )
        for at in range(MEMBERS)
    ]
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader=members[0].member_id,
        current_state_timestamp=now_ms, members=members,
    )  # fmt: skip
    yield Record(GroupMetadataKey(group=group), value)
    for name in topics:
        for at in range(PARTITIONS):
            yield Record(
                OffsetCommitKey(group=group, topic=name, partition=at),
                OffsetCommitValue(offset=COMMITTED, leader_epoch=0, commit_timestamp=now_ms),
            )


def write(folder, groups):
    """Write the log of a coordinator of this many groups, as a data directory of `kgm serve`."""
    now_ms = time.time_ns() // 1_000_000
    with contextlib.ExitStack() as stack:
        logs = [
            stack.enter_context(OffsetsLog.open(folder / f"__consumer_offsets-{number}"))
            for number in range(OFFSETS_PARTITIONS)
        ]
        for number in range(groups):
            log = logs[partition_for(group_id(number), OFFSETS_PARTITIONS)]
            log.append([*records_of(number, now_ms)], now_ms=now_ms)
        for log in logs:
            log.flush()


@contextlib.contextmanager
def fleet(groups):
    """The bootstrap address of a server with this many groups."""
    with tempfile.TemporaryDirectory(prefix="kgm-fleet-") as name:
        folder = pathlib.Path(name)
        write(folder, groups)
        command = [sys.executable, "-c", SERVER % (PARTITIONS, TOPICS), name]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        try:
            bootstrap = process.stdout.readline().strip()
            fill(bootstrap)
            yield bootstrap
        finally:
            process.terminate()
            process.wait()


def fill(bootstrap):
    """Write records into every topic."""
    host, port = bootstrap.rsplit(":", 1)
    connection = BlockingConnection((host, int(port)))
    now_ms = time.time_ns() // 1_000_000
    batch = new_batch([(b"key", b"value")] * RECORDS, base_offset=0, timestamp_ms=now_ms)
    for number in range(TOPICS):
        parts = [PartitionProduceData(index=at, records=batch) for at in range(PARTITIONS)]
        data = TopicProduceData(name=topic(number), partition_data=parts)
        connection.send(ProduceRequest(acks=1, topic_data=[data]), 7)
        answer = connection.receive(ProduceResponse, 7)
        assert all(not row.error_code for one in answer.responses for row in one.partition_responses)
    connection.close()


def commands(bootstrap):
    """{name: words of the kgm command}."""
    at = ["-b", bootstrap, "--timeout", "60m"]
    every = ["describe", "--all-groups", *at]
    return {
        "list": ["list", *at],
        "list -o json": ["list", *at, "-o", "json"],
        "list --lag": ["list", "--lag", *at],
        "describe": every,
        "describe -o json": [*every, "-o", "json"],
        "describe --offsets -o csv": [*every, "--offsets", "-o", "csv"],
        "describe --only-lagging --sort lag -o ndjson": [*every, "--only-lagging", "--sort", "lag", "-o", "ndjson"],
        "export": ["export", *at, "--findings-every", "0s", "--max-series", "100000000"],
        "doctor --window 0s": ["doctor", *at, "--window", "0s", "--fail-on", "never"],
    }


def of_kcl(path, bootstrap, groups):
    to = [path, "--no-config-file", "-B", bootstrap]
    of_list = {"list": [*to, "group", "list"], "list -o json": [*to, "--format", "json", "group", "list"]}
    if groups > MOST_NAMES:
        return of_list
    every = [group_id(number) for number in range(groups)]
    return of_list | {
        "describe": [*to, "group", "describe", *every],
        "describe -o json": [*to, "--format", "json", "group", "describe", *every],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", help="commands whose name contains these words")
    parser.add_argument("--before")
    parser.add_argument("--server", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with fleet(arguments.groups) if arguments.server is None else contextlib.nullcontext(arguments.server) as bootstrap:
        theirs = of_kcl(kcl(), bootstrap, arguments.groups)
        for name, words in commands(bootstrap).items():
            if arguments.only is None or arguments.only in name:
                found = {"kgm": kgm(ROOT, *words)} | ({"kcl": theirs[name]} if name in theirs else {})
                if arguments.before:
                    found["before"] = kgm(arguments.before, *words)
                measured = side_by_side(found, arguments.runs, warm=False)
                for unit, at in (("CPU s", 0), ("MB", 2)):
                    peers = {who: row[at] for who, row in measured.items()}
                    figure(f"{name}, {arguments.groups:,} groups", unit, peers.pop("kgm"), peers)


if __name__ == "__main__":
    main()
