#!/usr/bin/env python3
"""`kgm top` with many groups: its CPU time per frame, its memory, and how soon it reacts to a key.

usage: python bench/top.py [--groups N] [--members N] [--commits N] [--seconds N]

The groups are written the way Kafka writes them into `__consumer_offsets`, and `kgm serve` serves them; each reads the
8 partitions of one of 200 topics, and one in twenty lags. --commits is how many groups commit per second during the
run. kgm runs on a pseudo-terminal of 80 columns and 40 lines, one frame per second. Its CPU time is that of its
process, including decoding the brokers' answers; the server's is not counted."""

import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from confluent_kafka import Producer
from figures import figure

from kgm.java.partitions import partition_for
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription
from kgm.records.log import OffsetsLog
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record
from tests.server.wire_client import WireClient

TOPICS, PARTITIONS, RECORDS, SHARDS = 200, 8, 20, 50
SESSION_MS = 1_800_000
COLUMNS, LINES = 80, 40


def name_of(number):
    return f"payments-fleet-{number:05d}"


def topic_of(number):
    return f"topic-{number % TOPICS:03d}"


def member(group, topic, number, count):
    instance = f"{group}-{number}"
    return MemberMetadata(
        member_id=f"{instance}-5c2f4a3e-9d6f-4b1c-8a77-000000000000",
        group_instance_id=instance,
        client_id=instance,
        client_host="/10.20.30.40",
        rebalance_timeout=300_000,
        session_timeout=SESSION_MS,
        subscription=encode_subscription(Subscription(topics=(topic,))),
        assignment=encode_assignment(MemberAssignment(partitions={topic: [*range(number, PARTITIONS, count)]})),
    )


def write(directory, groups, members):
    """Write the groups, each with a generation and commits from the last minutes."""
    now_ms = round(time.time() * 1000)
    with contextlib.ExitStack() as stack:
        logs = [
            stack.enter_context(OffsetsLog.open(directory / f"__consumer_offsets-{number}")) for number in range(SHARDS)
        ]
        for number in range(groups):
            group, topic = name_of(number), topic_of(number)
            there = [member(group, topic, at, members) for at in range(members)]
            value = GroupMetadataValue(
                protocol_type="consumer", generation=7, protocol="range", leader=there[0].member_id,
                current_state_timestamp=now_ms - 600_000, members=there,
            )  # fmt: skip
            log = logs[partition_for(group, SHARDS)]
            log.append([Record(GroupMetadataKey(group=group), value)], now_ms=now_ms - 600_000)
            offset = 5 if number % 20 == 0 else RECORDS
            commit = OffsetCommitValue(offset=offset, leader_epoch=-1, commit_timestamp=now_ms)
            keys = [OffsetCommitKey(group=group, topic=topic, partition=at) for at in range(PARTITIONS)]
            log.append([Record(key, commit) for key in keys], now_ms=now_ms - number % 60_000)
        for log in logs:
            log.flush()


def produce(bootstrap):
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 100})
    for topic in range(TOPICS):
        for partition in range(PARTITIONS):
            for _ in range(RECORDS):
                producer.produce(topic_of(topic), b"record", partition=partition)
        producer.poll(0)
    assert producer.flush(120) == 0


def commit_on(port, groups, per_second, stop, committed):
    """Commit all partitions of one group after another, as their members would; each commit adds an entry to
    `committed`."""
    wire = WireClient(port)
    number, began = 0, time.monotonic()
    while not stop.wait(0.05):
        while not stop.is_set() and len(committed) < (time.monotonic() - began) * per_second:
            number = (number + 1) % groups
            if number % 20 == 0:
                continue
            group = name_of(number)
            rows = [
                OffsetCommitRequestPartition(partition_index=at, committed_offset=RECORDS) for at in range(PARTITIONS)
            ]
            wire.ask(
                OffsetCommitRequest(
                    group_id=group, generation_id_or_member_epoch=7, group_instance_id=f"{group}-0",
                    member_id=f"{group}-0-5c2f4a3e-9d6f-4b1c-8a77-000000000000",
                    topics=[OffsetCommitRequestTopic(name=topic_of(number), partitions=rows)],
                ),
                version=9,
            )  # fmt: skip
            committed.append(group)
    wire.close()


class Terminal:
    """kgm on a pseudo-terminal."""

    def __init__(self, *words):
        self.terminal, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        command = [sys.executable, "-m", "kgm", *words]
        environment = {**os.environ, "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            command, stdin=other, stdout=other, stderr=other, env=environment, cwd=ROOT, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  (it only takes the terminal)
        )  # fmt: skip
        os.close(other)

    def read(self, seconds):
        """What kgm prints within this time."""
        end, data = time.monotonic() + seconds, b""
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.terminal], [], [], left)[0]:
                break
            try:
                data += os.read(self.terminal, 1 << 16)
            except OSError:
                break
        return data.decode("utf-8", "replace")

    def answer_ms(self, key):
        """How long it takes until something is drawn after a key, in ms."""
        self.read(0.3)
        began = time.perf_counter()
        os.write(self.terminal, key)
        if not select.select([self.terminal], [], [], 10)[0]:
            raise TimeoutError("the key had no effect")
        return (time.perf_counter() - began) * 1000

    @property
    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def peak_mb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--commits", type=int, default=200, help="groups that commit in a second")
    parser.add_argument("--seconds", type=int, default=30)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        write(directory, arguments.groups, arguments.members)
        topics = [word for number in range(TOPICS) for word in ("--topic", f"{topic_of(number)}:{PARTITIONS}")]
        command = [sys.executable, "-m", "kgm", "serve", "--listen", "127.0.0.1:0", "--data-dir", name]
        server = subprocess.Popen([*command, *topics], stdout=subprocess.PIPE, cwd=ROOT, text=True)
        stop = threading.Event()
        try:
            bootstrap = json.loads(server.stdout.readline())["listening"]
            produce(bootstrap)
            port = int(bootstrap.rpartition(":")[2])
            committed = []
            committer = threading.Thread(
                target=commit_on, args=(port, arguments.groups, arguments.commits, stop, committed), daemon=True
            )
            committer.start()
            try:
                measure(bootstrap, arguments, committed)
            finally:
                stop.set()
                committer.join(10)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)


def measure(bootstrap, arguments, committed):
    began = time.monotonic()
    terminal = Terminal("top", "-b", bootstrap)
    try:
        seen = ""
        while "all read within" not in seen:
            seen = terminal.read(0.2)[-20_000:] or seen
            if terminal.process.poll() is not None or time.monotonic() - began > 300:
                raise RuntimeError(seen)
        filled_cpu_s = terminal.cpu_s
        terminal.read(5)
        before_s, frames = terminal.cpu_s, 0
        start, commits = time.monotonic(), len(committed)
        while time.monotonic() - start < arguments.seconds:
            frames += terminal.read(0.2).count("groups, ")
        span_s, used_s = time.monotonic() - start, terminal.cpu_s - before_s
        rate = (len(committed) - commits) / span_s
        answers = [terminal.answer_ms(key) for key in (b"j", b"k", b"\x1b[6~", b"\x1b[5~", b"l", b"t") * 4]
        of = f"{arguments.groups:,} groups of {arguments.members}"
        figure(f"{of}, read for the first time", "CPU s", filled_cpu_s)
        figure(f"{of}, a second of it while {rate:.0f} commit", "CPU ms", used_s / span_s * 1000)
        figure(f"{of}, a frame with what was read for it", "CPU ms", used_s / max(frames, 1) * 1000)
        figure("a key is answered, median", "ms", statistics.median(answers))
        figure("the most memory", "MB", terminal.peak_mb)
        os.write(terminal.terminal, b"q")
        terminal.read(3)
    finally:
        if terminal.process.poll() is None:
            terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.terminal)


if __name__ == "__main__":
    main()
