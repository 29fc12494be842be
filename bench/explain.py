#!/usr/bin/env python3
"""What a question costs on built tables of a million records: `kgm history explain GROUP --store`, one process each.

usage: python bench/explain.py [--groups N] [--commits N] [--rebalances N] [--members N] [--runs N] [--keep DIR]

There is no peer: nothing else explains a rebalance. The store is what a build leaves: raw records are made (N groups over
50 partitions, each with so many rebalances of so many members and so many offset commits), derived partition by partition,
and written as Parquet. Each run is the whole command, from start-up to the table on stdout. The beginning of it, without
a question, is `kgm history --help`.
"""

import argparse
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

PARTITIONS = 50
START_MS = 1_795_000_000_000


def raw_partition(number, groups, commits, rebalances, members):
    """Raw records of some groups, their rebalances spread over a day, commits between."""
    import pyarrow as pa

    from kgm.history.schema import RAW
    from kgm.protocol.subscription import (
        MemberAssignment,
        Subscription,
        encode_assignment,
        encode_subscription,
    )  # fmt: skip
    from kgm.records.messages.group_metadata_key import GroupMetadataKey
    from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
    from kgm.records.messages.offset_commit_key import OffsetCommitKey
    from kgm.records.messages.offset_commit_value import OffsetCommitValue
    from kgm.records.record import Record, encode_record

    said = encode_subscription(Subscription(topics=("orders",)))
    commit_value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=START_MS)
    key_value = []
    for group in groups:
        keys = [
            encode_record(Record(OffsetCommitKey(group=group, topic="orders", partition=place), commit_value))
            for place in range(members)
        ]
        step = max(commits // max(rebalances, 1), 1)
        for generation in range(1, rebalances + 1):
            there = [seat for seat in range(members + 1) if seat != generation % (members + 1)]
            rows = [
                MemberMetadata(
                    member_id=f"app-{seat}-00000000-0000-0000-0000-{generation // members:012d}", client_id=f"app-{seat}",
                    client_host=f"/10.0.0.{seat}", rebalance_timeout=300_000, session_timeout=45_000, subscription=said,
                    assignment=encode_assignment(MemberAssignment(partitions={"orders": (place,)})),
                )
                for place, seat in enumerate(there)
            ]  # fmt: skip
            at_ms = START_MS + generation * 86_400_000 // (rebalances + 1)
            value = GroupMetadataValue(
                protocol_type="consumer", generation=generation, protocol="range", leader=rows[0].member_id,
                current_state_timestamp=at_ms - 5, members=rows,
            )  # fmt: skip
            key_value.append((at_ms, *encode_record(Record(GroupMetadataKey(group=group), value))))
            key_value += [(at_ms + 5_000 * (n // members + 1), *keys[n % members]) for n in range(step)]
    key_value.sort(key=lambda row: row[0])
    count = len(key_value)
    columns = {
        "partition": [number] * count, "offset": range(count), "timestamp": [row[0] for row in key_value],
        "key": [row[1] for row in key_value], "value": [row[2] for row in key_value],
    }  # fmt: skip
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in RAW
    ]
    return pa.Table.from_arrays(arrays, schema=RAW)


def make_store(path, arguments):
    """Returns how many records went in."""
    import pyarrow as pa

    from kgm.history.derive import derive
    from kgm.history.store.tables import partition_for
    from tests.history.store.stores import write_store

    tables, records = {}, 0
    names = [f"group-{n:05d}" for n in range(arguments.groups)]
    for number in range(PARTITIONS):
        groups = [name for name in names if partition_for(name, PARTITIONS) == number]
        if not groups:
            continue
        raw = raw_partition(number, groups, arguments.commits, arguments.rebalances, arguments.members)
        records += len(raw)
        for name, table in derive(raw).tables.items():
            tables.setdefault(name, []).append(table)
    write_store(path, {name: pa.concat_tables(parts) for name, parts in tables.items()}, partitions=range(PARTITIONS))
    return records


def run(*command):
    """(CPU seconds, wall seconds, bytes on stdout)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "kgm.cli.main", *command], cwd=ROOT, capture_output=True, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, len(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--commits", type=int, default=1_960, help="of each group")
    parser.add_argument("--rebalances", type=int, default=40, help="of each group")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--keep", type=pathlib.Path, help="leave the store there, or use the one that is there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        store = arguments.keep or pathlib.Path(scratch) / "store"
        if not store.exists():
            start = time.process_time()
            records = make_store(store, arguments)
            print(f"{records:,} records of {arguments.groups} groups, {arguments.members} members each, derived in "
                  f"{time.process_time() - start:.1f} s of CPU")  # fmt: skip
        size = sum(file.stat().st_size for file in store.rglob("*.parquet"))
        print(f"the store: {size / (1 << 20):.0f} MiB in {len(list(store.rglob('*.parquet')))} files\n")
        where = ("--store", str(store))
        group = f"group-{arguments.groups // 2:05d}"
        print(f"medians of {arguments.runs} runs, whole commands")
        print("| command | CPU s | wall s | kB out |")
        print("|---|---|---|---|")
        for command in (
            ("history", "--help"), ("history", "explain", group, *where), ("history", "rebalances", group, *where),
            ("history", "timeline", group, *where), ("history", "movement", group, *where),
            ("history", "churn", *where), ("history", "rebalances", *where, "-o", "ndjson"),
        ):  # fmt: skip
            found = [run(*command) for _ in range(arguments.runs)]
            cpu, wall, size = (statistics.median(row[column] for row in found) for column in range(3))
            words = " ".join(word for word in command if word not in where)
            print(f"| {words} | {cpu:.2f} | {wall:.2f} | {size / 1000:.0f} |", flush=True)


if __name__ == "__main__":
    main()
