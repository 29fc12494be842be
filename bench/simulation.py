#!/usr/bin/env python3
"""What predicting a bounce costs as the group grows: `kgm simulate-bounce --all --rolling`, one process each.

usage: python bench/simulation.py [--sizes N[,N...]] [--dynamic-sizes N[,N...]] [--drawn N] [--draws N] [--runs N]

There is no peer: nothing else predicts what a bounce does. Each run is the whole command, from start-up to the JSON that
it prints, one draw, 10 partitions a member, `range`. A rolling bounce of static members costs no rebalance, one of N
dynamic members 2 N rebalances of N members; so the cost per member and rebalance is what should stay flat. The second
table is one prediction of dynamic members with many draws, on one core (the process is bound to it) and on all, in
turn; the answers must be equal. The last table is many small predictions in one process, as a job over a fleet of
groups makes them.
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


def run(members, kind, draws=1, cores=None):
    """(CPU seconds, wall seconds, peak MB, the scenario) of one command, its processes included. cores: those that it is
    bound to."""
    flags = ["--members", str(members), "--topic", f"orders:{10 * members}", "--as", kind, "--all", "--rolling"]
    command = [sys.executable, "-m", "kgm.cli.main", "simulate-bounce", *flags, "--restart-time", "5s"]
    command += ["--draws", str(draws), "--budget", "10h", "-o", "json"]
    start = time.perf_counter()
    bind = None if cores is None else lambda: os.sched_setaffinity(0, cores)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, preexec_fn=bind)  # noqa: PLW1509  (no threads here)
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


def drawn(members, draws, runs):
    """The same prediction on one core and on all."""
    cores = sorted(os.sched_getaffinity(0))
    by_count = {1: cores[:1], len(cores): cores}
    found = {count: [] for count in by_count}
    for _ in range(runs):
        for count, bound in by_count.items():
            found[count].append(run(members, "dynamic", draws, bound))
    answers = [scenario for each in found.values() for _, _, _, scenario in each]
    assert all(answer == answers[0] for answer in answers)
    for count, each in found.items():
        cpu, wall, memory = (statistics.median(row[column] for row in each) for column in range(3))
        played = answers[0]["draws"]
        print(f"| {members} | {played} | {count} | {wall:.2f} | {cpu:.2f} | {memory:.0f} |", flush=True)


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
    parser.add_argument("--drawn", type=int, default=100, help="members of the group that is drawn many times")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--groups", type=int, default=200)
    arguments = parser.parse_args()
    print(f"medians of {arguments.runs} runs")
    print("| members | how many | partitions | rebalances | CPU s | wall s | peak MB | us per member and rebalance |")
    print("|---|---|---|---|---|---|---|---|")
    for kind, sizes in (("static", arguments.sizes), ("dynamic", arguments.dynamic_sizes)):
        rows(kind, [int(size) for size in sizes.split(",") if size], arguments.runs)
    print()
    print("| dynamic members | draws | cores | wall s | CPU s | peak MB of one process |")
    print("|---|---|---|---|---|---|")
    drawn(arguments.drawn, arguments.draws, arguments.runs)
    print()
    print("| members | groups | members each | CPU s | groups a minute of one core |")
    print("|---|---|---|---|---|")
    fleet(arguments.groups, 10)


if __name__ == "__main__":
    main()
