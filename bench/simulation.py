#!/usr/bin/env python3
"""What predicting a bounce costs as the group grows: `kgm simulate-bounce --all --rolling`, one process each.

usage: python bench/simulation.py [--sizes N[,N...]] [--dynamic-sizes N[,N...]] [--drawn N] [--draws N] [--runs N]
       python bench/simulation.py --only fleet [--groups N] [--kinds TEXT] [--runs N] [--before DIR]

There is no peer: nothing else predicts what a bounce does. Each run is the whole command, from start-up to the JSON that
it prints, one draw, 10 partitions a member, `range`. A rolling bounce of static members costs no rebalance, one of N
dynamic members 2 N rebalances of N members; so the cost per member and rebalance is what should stay flat. The second
table is one prediction of dynamic members with many draws, on one core (the process is bound to it) and on all, in
turn; the answers must be equal. The last table is
`kgm drain` of a fleet in a file: groups of 4 to 20 members that are alike in nothing but what the kind says, of which
the first member is taken away. --before: another checkout of kgm, whose commands are run in turn with this one's; on a
busy machine trust the ratios of CPU.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import replace

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from processes import side_by_side

from kgm.model.uuids import uuid_text


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


KINDS = [
    (membership, assignor, how)
    for how in (("--restart-time", "10s"), ("--for-good",))
    for assignor in ("range", "cooperative-sticky", "uniform")
    for membership in ("static", "dynamic")
]


def write_fleet(path, groups, membership, assignor):
    """Groups of 4 to 20 members, each with names, sizes and member ids of its own."""
    from kgm.model.snapshot import TopicSnapshot
    from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership
    from kgm.simulation.plan.synthetic_group import newly_assigned, synthetic_group

    chance, made = random.Random(1), []
    protocol = GroupProtocol.CONSUMER if assignor == "uniform" else GroupProtocol.CLASSIC
    for number in range(groups):
        name = f"team-{chance.getrandbits(32):08x}-{number}"
        topic = TopicSnapshot(name=f"{name}-events", partitions=chance.choice((12, 24, 48, 50)))
        group = synthetic_group(chance.randint(4, 20), [topic], Membership(membership), assignor, protocol)
        members = []
        for place, member in enumerate(group.members):
            static = f"{name}-{place}" if membership == "static" else None
            drawn = uuid.UUID(int=chance.getrandbits(128), version=4)
            member_id = uuid_text(drawn.bytes) if assignor == "uniform" else f"{static or name}-{drawn}"
            members.append(
                replace(
                    member, member_id=member_id, group_instance_id=static, client_id=static or name,
                    client_host=f"/10.0.{chance.randrange(200)}.{place}",
                )
            )  # fmt: skip
        made.append(newly_assigned(replace(group, group_id=name, members=tuple(members))).to_json())
    path.write_text(json.dumps({"groups": made}))


def fleets(groups, wanted, runs, before):
    print(f"{groups:,} groups of 4 to 20 members, the first of each is taken away, medians of {runs}")
    print("| members | assignor | plan | wall s | CPU s | CPU ms a group | CPU s before | before / now |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="kgm-bench-") as folder:
        path = pathlib.Path(folder) / "fleet.json"
        for membership, assignor, how in KINDS:
            if wanted not in f"{membership} {assignor} {' '.join(how)}":
                continue
            write_fleet(path, groups, membership, assignor)
            words = ["drain", "--from-file", str(path), "--host", "10.0.*.0", *how, "-o", "json"]
            entry = "import sys; sys.path.insert(0, {!r}); from kgm.cli.entry import main; main()"
            homes = {"now": str(ROOT)} | ({"before": before} if before else {})
            commands = {name: [sys.executable, "-c", entry.format(home), *words] for name, home in homes.items()}
            found = side_by_side(commands, runs)
            (cpu, wall), then = found["now"], found.get("before")
            ratio = "| |" if then is None else f"{then[0]:.1f} | {then[0] / cpu:.1f} |"
            row = f"| {membership} | {assignor} | {' '.join(how)} | {wall:.1f} | {cpu:.1f} | {cpu / groups * 1e3:.1f}"
            print(f"{row} | {ratio}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,300,1000")
    parser.add_argument("--dynamic-sizes", default="100,300,1000")
    parser.add_argument("--drawn", type=int, default=100, help="members of the group that is drawn many times")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--groups", type=int, default=2_000, help="of the fleet that is drained")
    parser.add_argument("--kinds", default="", help="only fleets whose row has this text")
    parser.add_argument("--only", choices=["fleet"])
    parser.add_argument("--before")
    arguments = parser.parse_args()
    if arguments.only == "fleet":
        fleets(arguments.groups, arguments.kinds, arguments.runs, arguments.before)
        return
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
    fleets(arguments.groups, arguments.kinds, arguments.runs, arguments.before)


if __name__ == "__main__":
    main()
