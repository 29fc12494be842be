#!/usr/bin/env python3
"""Record batches of a segment into a table of raw records, by how many records a batch has; beside the plain reader,
which goes from record to record.

usage: python bench/batches.py [--commits N] [--rounds N]

Offset commits of bench/history.py, every checksum checked. CPU of this process, the least of --rounds, in turn.
"""

import argparse
import io
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from history import NOW, commits

from kgm.history.decode.raw import segment_records
from kgm.records.batch import decode_batches, new_batch

SIZES = (1, 10, 100, 1_000, 8_000)


def segment(count, in_batch):
    batches, offset = [], 0
    for pairs in commits(count, in_batch):
        batches.append(new_batch(pairs, base_offset=offset, timestamp_ms=NOW))
        offset += len(pairs)
    return b"".join(batches)


def in_columns(data):
    return sum(len(batch) for batch in segment_records(0, io.BytesIO(data), len(data)))


def plainly(data):
    return sum(len(batch.records) for batch in decode_batches(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    print("| records in a batch | in columns, k records/CPU s | plain reader, k records/CPU s | plain / ours |")
    print("|---|---|---|---|")
    for size in SIZES:
        data, least = segment(arguments.commits, size), {}
        for _ in range(arguments.rounds):
            for reader in (in_columns, plainly):
                start = time.process_time()
                assert reader(data) == arguments.commits
                least[reader] = min(least.get(reader, float("inf")), time.process_time() - start)
        ours, plain = least[in_columns], least[plainly]
        rates = " | ".join(f"{arguments.commits / cpu / 1e3:.0f}" for cpu in (ours, plain))
        print(f"| {size:,} | {rates} | {plain / ours:.1f} |", flush=True)


if __name__ == "__main__":
    main()
