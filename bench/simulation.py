#!/usr/bin/env python3
"""What predicting a bounce costs as the group and the fleet grow: `kgm simulate-bounce --all --rolling`, `kgm drain`.

usage: python bench/simulation.py [--sizes N[,N...]] [--dynamic-sizes N[,N...]] [--drawn N] [--draws N] [--runs N]
       python bench/simulation.py --only fleet [--groups N[,N...]] [--kinds TEXT] [--before DIR]
       (--before: another checkout of kgm, whose commands are run in turn with this one's)

No other tool predicts what a bounce does. Each run is the whole command, from start-up to the JSON that it prints, with
10 partitions per member and `range`. A rolling bounce of static members causes no rebalance, one of N dynamic members
2N rebalances of N members. Draws are played on one core (the process is bound to it) and on all, in turn; the answers
must be equal. `kgm drain` reads a fleet from a file, one run each: groups of 4 to 20 members as brokers describe them,
each losing its first member. For comparison, some of these groups are also played separately, under their own names.
"""

import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from figures import figure
from processes import kgm, medians, side_by_side

from tests.simulation.groups import KINDS, mixed_fleet


def run(members, kind, draws=1, cores=None):
    """(CPU seconds, wall seconds, peak MB, the scenario) of one command, including its processes. cores: the cores that
    it is bound to."""
    flags = ["--members", str(members), "--topic", f"orders:{10 * members}", "--as", kind, "--all", "--rolling"]
    command = [sys.executable, "-m", "kgm", "simulate-bounce", *flags, "--restart-time", "5s"]
    command += ["--draws", str(draws), "--budget", "10h", "--timeout", "10h", "-o", "json"]
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
        cpu, _, memory = medians([row[:3] for row in found])
        assert found[0][3]["rebalances"] == (0 if kind == "static" else 2 * members)
        figure(f"a rolling restart of {members:,} {kind} members, one draw", "CPU s", cpu)
        figure(f"a rolling restart of {members:,} {kind} members, one draw", "MB", memory)


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
    wall = {count: medians([row[:3] for row in each])[1] for count, each in found.items()}
    name = f"{answers[0]['draws']} draws of {members:,} dynamic members on {len(cores)} cores"
    figure(name, "s", wall[len(cores)], {"on one core": wall[1]})


PLANS = (("--restart-time", "10s"), ("--for-good",))
#: The number of groups played one by one, to see what a group costs that shares nothing.
PLAIN = 2 * len(KINDS)


def kind_text(kind):
    membership, assignor, protocol = kind
    return f"{membership.value} {protocol.value} {assignor}"


def plain_ms(fleet, how):
    """CPU ms per group, for some of the fleet, if each is played separately under its own names."""
    from kgm.operations.drain.fleet import recorded_fleet
    from kgm.operations.drain.forecast import DRAWS, Drain, forecast
    from kgm.operations.drain.target import DrainTarget
    from kgm.simulation.played_bounce import BounceToPlay
    from kgm.simulation.simulation import Simulation

    target = DrainTarget(hosts=("gone",))
    drain = Drain(target=target, restart_time_ms=10_000 if "10s" in how else None)
    some = recorded_fleet(fleet[:PLAIN], target, path="fleet.json")
    plans = [(one.group, one.plan) for one in forecast(some, drain, draws=1).groups]
    start = time.process_time()
    for group, plan in plans:
        BounceToPlay.of(group, plan, Simulation.of(group, plan), DRAWS).play()
    return (time.process_time() - start) / len(plans) * 1e3


def fleets(sizes, wanted, before):
    """A row for a fleet of all kinds, for each size; and for the first size, one for each kind."""
    kinds = [(f"all {len(KINDS)} kinds mixed", KINDS, size) for size in sizes]
    kinds += [(kind_text(kind), (kind,), sizes[0]) for kind in KINDS]
    for (name, some, size), how in itertools.product(kinds, PLANS):
        if wanted not in f"{name} {' '.join(how)}":
            continue
        with tempfile.TemporaryDirectory(prefix="kgm-bench-") as folder:
            path = pathlib.Path(folder) / "fleet.json"
            fleet = mixed_fleet(size, 1, members=(4, 20), kinds=some)
            path.write_text(json.dumps({"groups": [group.to_json() for group in fleet]}))
            words = ["drain", "--from-file", str(path), "--host", "gon*", *how, "-o", "json"]
            homes = {"kgm": ROOT} | ({"before": before} if before else {})
            found = side_by_side({who: kgm(home, *words) for who, home in homes.items()}, 1, warm=False)
            each = {who: cpu / size * 1e3 for who, (cpu, *_) in found.items()}
            title = f"drain {' '.join(how)}, {size:,} groups, {name}"
            figure(title, "s", found["kgm"][1])
            peers = {"each group played by itself": plain_ms(fleet, how)}
            figure(f"{title}: a group", "CPU ms", each.pop("kgm"), peers | each)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,300,1000")
    parser.add_argument("--dynamic-sizes", default="100,300,1000")
    parser.add_argument("--drawn", type=int, default=100, help="members of the group that is drawn many times")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--groups", default="200,2000", help="of the fleets that are drained")
    parser.add_argument("--kinds", default="", help="only fleets whose row has this text")
    parser.add_argument("--only", choices=["fleet"])
    parser.add_argument("--before")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.groups.split(",")]
    if arguments.only == "fleet":
        fleets(sizes, arguments.kinds, arguments.before)
        return
    for kind, some in (("static", arguments.sizes), ("dynamic", arguments.dynamic_sizes)):
        rows(kind, [int(size) for size in some.split(",") if size], arguments.runs)
    drawn(arguments.drawn, arguments.draws, arguments.runs)
    fleets(sizes, arguments.kinds, arguments.before)


if __name__ == "__main__":
    main()
