#!/usr/bin/env python3
"""What predicting a bounce costs as the group grows: `kgm simulate-bounce --all --rolling`, one process each.

usage: python bench/simulation.py [--sizes N[,N...]] [--dynamic-sizes N[,N...]] [--runs N]

There is no peer: nothing else predicts what a bounce does. Each run is the whole command, from start-up to the JSON that
it prints, one draw, 10 partitions a member, `range`. A rolling bounce of static members costs no rebalance, one of N
dynamic members 2 N rebalances of N members; so the cost per member and rebalance is what should stay flat. The last
table is many small predictions in one process, as a job over a fleet of groups makes them.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]


def run(members, kind):
    """(CPU seconds, wall seconds, peak MB, the scenario) of one command."""
    flags = ["--members", str(members), "--topic", f"orders:{10 * members}", "--as", kind, "--all", "--rolling"]
    command = [sys.executable, "-m", "kgm.cli.main", "simulate-bounce", *flags, "--restart-time", "5s", "--draws", "1"]
    start = time.perf_counter()
    process = subprocess.Popen([*command, "-o", "json"], stdout=subprocess.PIPE, cwd=ROOT)
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    scenario = json.loads(printed)["data"]["scenarios"][0]
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start, usage.ru_maxrss / 1024, scenario


def rows(kind, sizes, runs):
    for members in sizes:
        found = [run(members, kind) for _ in range(runs)]
        cpu, wall, memory = (statistics.median(row[column] for row in found) for column in range(3))
        rebalances = found[0][3]["rebalances"]
        assert rebalances == (0 if kind == "static" else 2 * members)
        each = f"{cpu / rebalances / members * 1e6:.0f}" if rebalances else ""
        print(
            f"| {kind} | {members} | {10 * members} | {rebalances} | {cpu:.2f} | {wall:.2f} | {memory:.0f} | {each} |",
            flush=True,
        )


def fleet(groups, members):
    """CPU seconds for as many groups, each predicted once in this process, static and dynamic."""
    from kgm.model.snapshot import TopicSnapshot
    from kgm.simulation.bounce import simulate
    from kgm.simulation.plan.bounce_plan import Membership, Plan, Rolling
    from kgm.simulation.plan.synthetic_group import synthetic_group

    for membership in Membership:
        snapshot = synthetic_group(
            members, [TopicSnapshot(name="orders", partitions=10 * members)], membership, "range"
        )
        plan = Plan(
            bounce=tuple(member.identity for member in snapshot.members), rolling=Rolling(), restart_time_ms=5_000
        )
        simulate(snapshot, plan, draws=1)
        start = time.process_time()
        for seed in range(groups):
            simulate(snapshot, plan, draws=1, seed=seed)
        took = time.process_time() - start
        print(f"| {membership.value} | {groups} | {members} | {took:.2f} | {groups / took * 60:,.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,300,1000")
    parser.add_argument("--dynamic-sizes", default="100,300,1000")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--groups", type=int, default=200)
    arguments = parser.parse_args()
    print(f"medians of {arguments.runs} runs")
    print("| members | how many | partitions | rebalances | CPU s | wall s | peak MB | us per member and rebalance |")
    print("|---|---|---|---|---|---|---|---|")
    for kind, sizes in (("static", arguments.sizes), ("dynamic", arguments.dynamic_sizes)):
        rows(kind, [int(size) for size in sizes.split(",") if size], arguments.runs)
    print()
    print("| members | groups | members each | CPU s | groups a minute of one core |")
    print("|---|---|---|---|---|")
    fleet(arguments.groups, 10)


if __name__ == "__main__":
    main()
