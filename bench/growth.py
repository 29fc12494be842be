#!/usr/bin/env python3
"""How the cost of kgm grows: with groups that are listed and described, with records of a history, with members of a
group whose rolling restart is simulated. Whole processes, CPU seconds and the most memory; there is no peer.

usage: python bench/growth.py [--groups 10,100,...] [--records 100000,...] [--members 10,100,...] [--runs N]

The stages of a build are timed on up to 2,000,000 records, with one thread.
Groups have one static member and lie on the server of `kgm serve`, with other limits. Records are commits of 100 groups,
10 in a batch: one block of 100,000 that is written again and again, each time with the offsets that follow. Members are
static, own two partitions each, and restart one after the other. And on paper, from what was measured: a cluster of
1,000,000 groups that write 10,000,000,000 records a day."""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from crowd import BlockingConnection
from history import GROUPS, SEGMENT, commits, write

from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.join_group_response import JoinGroupResponse
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.messages.sync_group_response import SyncGroupResponse
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription

KGM = [sys.executable, "-m", "kgm.cli.entry"]
BLOCK = 100_000
#: Records of the stages of a build, which are held as a table here.
MOST_IN_MEMORY = 2_000_000
BATCH_HEAD = struct.Struct(">qi")
DAY_S = 86_400
PAPER_GROUPS, PAPER_RECORDS = 1_000_000, 10_000_000_000


def run(words):
    """(CPU seconds, MB) of a process."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with open(os.devnull, "wb") as null:
        process = subprocess.Popen([*KGM, *words], stdout=null, stdin=subprocess.DEVNULL, env=env)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"kgm {' '.join(words)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def medians(words, runs):
    return [statistics.median(column) for column in zip(*(run(words) for _ in range(runs)), strict=True)]


#: The server of `kgm serve` with room for more groups than it admits.
SERVER = """
import sys
from kgm.server import Limits, serve_in_thread
limits = Limits(max_groups=1_000_000, max_items=1_000_000, group_members_max_bytes=4 << 30)
with serve_in_thread(topics={"orders": 20}, settings={"group.initial.rebalance.delay.ms": 0}, limits=limits) as running:
    print(running.bootstrap, flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def server():
    command = [sys.executable, "-c", SERVER]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def form(connection, group):
    blob = encode_subscription(Subscription(topics=("orders",)))
    protocols = [JoinGroupRequestProtocol(name="range", metadata=blob)]
    message = JoinGroupRequest(
        group_id=group, session_timeout_ms=1_800_000, rebalance_timeout_ms=60_000, group_instance_id="one",
        protocol_type="consumer", protocols=protocols,
    )  # fmt: skip
    connection.send(message, 5)
    joined = connection.receive(JoinGroupResponse, 5)
    assignment = encode_assignment(MemberAssignment(partitions={"orders": list(range(20))}))
    message = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, group_instance_id="one",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)],
    )  # fmt: skip
    connection.send(message, 3)
    assert connection.receive(SyncGroupResponse, 3).error_code == 0


def with_groups(sizes, runs):
    print(
        "| groups | list CPU s | list MB | describe CPU s | describe MB | describe -o json CPU s | us a group, list |"
    )
    print("|---|---|---|---|---|---|---|")
    with server() as bootstrap:
        host, port = bootstrap.rsplit(":", 1)
        connection, there = BlockingConnection((host, int(port))), 0
        for size in sizes:
            for number in range(there, size):
                form(connection, f"group-{number:06d}")
            there = size
            at = ["-b", bootstrap, "--timeout", "10m"]
            listed, described = medians(["list", *at], runs), medians(["describe", "--all-groups", *at], runs)
            as_json, _ = medians(["describe", "--all-groups", "-o", "json", *at], runs)
            print(
                f"| {size:,} | {listed[0]:.2f} | {listed[1]:.0f} | {described[0]:.2f} | {described[1]:.0f} | {as_json:.2f} "
                f"| {listed[0] / size * 1e6:,.0f} |",
                flush=True,
            )


def repeated(folder, count):
    """A segment of so many records."""
    write(folder, commits(BLOCK, 10))
    path = folder / SEGMENT
    block, heads, at = path.read_bytes(), [], 0
    while at < len(block):
        offset, length = BATCH_HEAD.unpack_from(block, at)
        heads.append((at, offset))
        at += BATCH_HEAD.size + length
    with path.open("wb") as file:
        copy = bytearray(block)
        for start in range(0, count, BLOCK):
            for place, offset in heads:  # the checksum of a batch does not include its offset
                struct.pack_into(">q", copy, place, start + offset)
            file.write(copy)


def with_records(sizes):
    """CPU seconds a record, of the largest."""
    print(f"\n| commits of {GROUPS} groups | told in CPU s | us a record | MB |")
    print("|---|---|---|---|")
    each = 0.0
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="kgm-growth-") as name:
            folder = pathlib.Path(name) / "__consumer_offsets-0"
            repeated(folder, size)
            script = str(ROOT / "bench/history.py")
            done = subprocess.run(
                [sys.executable, script, "--task", "changes", str(folder)],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            count, _, _, cpu, _, peak = json.loads(done.stdout)
            assert count == size, count
            each = cpu / size
            print(f"| {size:,} | {cpu:.2f} | {each * 1e6:.2f} | {peak:.0f} |", flush=True)
    return each


def by_stage(size):
    """CPU seconds a record and bytes a record of each stage of a build, in this process: {stage: (s, bytes)}."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from kgm.history.decode.raw import segment_records
    from kgm.history.decode.record_tables import decode
    from kgm.history.places.parquet import CODEC

    found = {}

    def timed(stage, place, act):
        cpu = time.process_time()
        result = act()
        found[stage] = (time.process_time() - cpu) / size, place.stat().st_size / size
        return result

    with tempfile.TemporaryDirectory(prefix="kgm-growth-") as name:
        folder = pathlib.Path(name)
        repeated(folder / "log", size)
        segment, raw_file, rows_file = folder / "log" / SEGMENT, folder / "raw.parquet", folder / "rows.parquet"
        pa.set_cpu_count(1)
        pa.set_io_thread_count(1)

        def batches():
            with segment.open("rb") as file:
                return pa.Table.from_batches(segment_records(0, file, segment.stat().st_size))

        timed("bytes of the segment read", segment, segment.read_bytes)
        raw = timed("segment to raw records, checksums checked", segment, batches)
        raw_file.touch()
        pq.write_table(raw, raw_file, compression=CODEC)
        timed(
            "raw records written as Parquet (bronze)",
            raw_file,
            lambda: pq.write_table(raw, raw_file, compression=CODEC),
        )
        raw = timed("raw records read from Parquet", raw_file, lambda: pq.read_table(raw_file))
        tables = decode(raw).records  # what is imported and compiled once
        rows = timed("every field decoded", raw_file, lambda: [*decode(raw).records.values()])
        assert sum(map(len, rows)) == sum(map(len, tables.values())) == size
        pq.write_table(rows[0], rows_file, compression=CODEC)
        timed(
            "decoded records written as Parquet",
            rows_file,
            lambda: pq.write_table(rows[0], rows_file, compression=CODEC),
        )
    return found


def with_stages(size, told_s):
    """The stages of a build, and what they make of a large cluster."""
    found = {**by_stage(size), "changes told": (told_s, 0)}
    print(
        f"\n| stage, {size:,} commits | CPU us a record | bytes a record | MB/s of one core | cores for {PAPER_RECORDS:,} a day |"
    )
    print("|---|---|---|---|---|")
    for stage, (cpu_s, size_bytes) in found.items():
        speed = f"{size_bytes / cpu_s / 1e6:,.0f}" if size_bytes and cpu_s else ""
        print(
            f"| {stage} | {cpu_s * 1e6:.2f} | {f'{size_bytes:.1f}' if size_bytes else ''} | {speed} "
            f"| {PAPER_RECORDS * cpu_s / DAY_S:.2f} |"
        )
    cores = PAPER_RECORDS * sum(cpu_s for cpu_s, _ in found.values()) / DAY_S
    slowest = max(found, key=lambda stage: found[stage][0])
    read, written = (
        found[stage][1] * PAPER_RECORDS / DAY_S / 1e6
        for stage in ("bytes of the segment read", "raw records written as Parquet (bronze)")
    )
    print(f"\nOn paper: {PAPER_RECORDS:,} commits a day take {cores:.2f} cores in all; the most: {slowest}.")
    print(f"They are {read:.1f} MB/s to read from the brokers, and {written:.2f} MB/s of raw records to write.")


def with_members(sizes, runs):
    print("\n| members | partitions | a rolling restart simulated in CPU s | ms a member | MB |")
    print("|---|---|---|---|---|")
    for size in sizes:
        words = ["simulate-bounce", "--members", str(size), "--topic", f"orders:{2 * size}", "--all", "--rolling"]
        cpu, memory = medians([*words, "--restart-time", "5s", "-o", "json"], runs)
        print(f"| {size:,} | {2 * size:,} | {cpu:.2f} | {cpu / size * 1e3:.1f} | {memory:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", default="10,100,1000,10000,100000")
    parser.add_argument("--records", default="100000,1000000,10000000")
    parser.add_argument("--members", default="10,100,1000,10000")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    sizes = {
        kind: [int(n) for n in getattr(arguments, kind).split(",") if n] for kind in ("groups", "records", "members")
    }
    start = time.perf_counter()
    # Records come last: a process that is started later has what is in memory here as its peak.
    if sizes["groups"]:
        with_groups(sizes["groups"], arguments.runs)
    if sizes["members"]:
        with_members(sizes["members"], arguments.runs)
    if sizes["records"]:
        each = with_records(sizes["records"])
        with_stages(min(max(sizes["records"]), MOST_IN_MEMORY), each)
        cores = PAPER_RECORDS * each / DAY_S
        print(f"\nOn paper: {PAPER_RECORDS:,} commits a day keep {cores:.1f} cores busy with reading and telling them.")
        print(
            f"A partition is told by one core, so {PAPER_RECORDS / DAY_S / 50:,.0f} records/s in each of 50 partitions"
        )
        print(f"keep it busy for {PAPER_RECORDS / 50 * each / DAY_S:.0%} of the day.\n")
    print(f"\nmeasured in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
