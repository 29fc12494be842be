#!/usr/bin/env python3
"""How long garbage collections stop a coordinator that keeps many groups: with Python's own thresholds, with those of
the `kgm` command, and as `kgm serve` collects. There is no peer: the JVM collects in other threads.

usage: python bench/pauses.py [--groups N] [--requests N] [--rounds N]

Each policy is a process of its own: groups of 10 members, then requests by which members join further groups, so that
the heap goes on growing. Shown: the longest pause while requests were served, the sum of all pauses, and what a full
collection of everything takes, which `kgm serve` makes after a minute without requests; last, the longest of the
collections that it makes in other quiet moments, after which it freezes what is left (here there is such a moment
whenever one is due)."""

import argparse
import gc
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

import engine

from kgm.model.gc_threshold import collect_rarely
from kgm.server.embedded import quiet_collections

POLICIES = {
    "Python's thresholds": lambda: None,
    "the `kgm` command's thresholds": collect_rarely,
    "`kgm serve`": lambda: gc.set_threshold(
        quiet_collections._YOUNG, quiet_collections._MIDDLE, quiet_collections._NEVER
    ),
}
MEMBERS = 10


def joins(numbers):
    for number in numbers:
        for member in range(MEMBERS):
            request = engine.join("", f"member-{member}")
            request.message.group_id = f"group-{number}"
            yield request


def one_process(policy, groups, requests):
    POLICIES[policy]()
    bench = engine.Bench()
    for request in joins(range(groups)):
        bench.runtime.handle(request, ticket=next(engine.TICKETS), now=bench.now)
    objects, pauses, began = len(gc.get_objects()), [], 0.0

    def note(phase, _info):
        nonlocal began
        if phase == "start":
            began = time.thread_time()
        else:
            pauses.append((time.thread_time() - began) * 1e3)

    gc.callbacks.append(note)
    for request in itertools.islice(joins(itertools.count(groups)), requests):
        bench.runtime.handle(request, ticket=next(engine.TICKETS), now=bench.now)
    gc.callbacks.remove(note)
    quiet = []
    for request in itertools.islice(joins(itertools.count(10 * groups)), requests):
        bench.runtime.handle(request, ticket=next(engine.TICKETS), now=bench.now)
        if policy == "`kgm serve`" and gc.get_count()[2] >= quiet_collections._DUE:
            start = time.thread_time()
            gc.collect()
            gc.freeze()
            quiet.append((time.thread_time() - start) * 1e3)
    gc.unfreeze()
    start = time.thread_time()
    found = gc.collect()
    full = (time.thread_time() - start) * 1e3
    print(
        json.dumps([objects, max(pauses, default=0), sum(pauses), len(pauses), full, found, max(quiet[1:], default=0)])
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=3_000)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--policy", choices=POLICIES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.policy:
        one_process(arguments.policy, arguments.groups, arguments.requests)
        return
    found = {policy: [] for policy in POLICIES}
    for _ in range(arguments.rounds):
        for policy, rows in found.items():
            words = ["--policy", policy, "--groups", str(arguments.groups), "--requests", str(arguments.requests)]
            done = subprocess.run([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True, check=True)
            rows.append(json.loads(done.stdout))
    print(
        f"{arguments.groups} groups of {MEMBERS} members, then {arguments.requests} joins; medians of {arguments.rounds}"
    )
    print(
        "| collections | objects | longest pause ms | all pauses ms | how many | all objects ms | garbage found | in quiet moments ms |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for policy, rows in found.items():
        objects, longest, total, count, full, garbage, quiet = map(statistics.median, zip(*rows, strict=True))
        print(
            f"| {policy} | {objects:,.0f} | {longest:.1f} | {total:.0f} | {count:.0f} | {full:.0f} | {garbage:.0f} "
            f"| {quiet:.1f} |"
        )


if __name__ == "__main__":
    main()
