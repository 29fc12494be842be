#!/usr/bin/env python3
"""What a draw costs in bulk and event by event: a rolling restart of all members of a group.

usage: python bench/rounds.py [--sizes N[,N...]] [--large N[,N...]] [--assignors NAME[,NAME...]] [--runs N]
                              [--draws N] [--drawn N] [--libraries NAME[,NAME...]] [--at-once N]

The peer is the plain path: the same draw with each message as an event. Both are played in this process, in turn, and
must be equal. There are 10 partitions per member, a restart takes 5 s, and the processes are half Java consumers and
half librdkafka, or alternate between --libraries (`sticky` is Java only), restarted one at a time or --at-once.
`uniform` and `consumer-range` are groups of the consumer protocol (KIP-848), whose heartbeats are played in bulk.
`static` is a group of static members (`range`), whose restarts cause no rebalance: the heartbeats of all other members
are submitted together. Each run is a different draw; the first one has the usual timing. The sizes of --large are
played in bulk only, because the plain path takes minutes. `--budget` counts requests, not time; its count is shown as
the seconds that it stands for.
--draws: one prediction of --drawn members with this many draws, on one core and on all, start-up included.
"""

import argparse
import pathlib
import statistics
import sys
import time
from dataclasses import replace

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from figures import figure
from simulation import drawn

from kgm.model.client_library import stated_library
from kgm.model.snapshot import TopicSnapshot
from kgm.simulation.draws.budget import affordable, cost_of
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan, Rolling
from kgm.simulation.plan.synthetic_group import synthetic_group
from kgm.simulation.play.bulk.consumer_members import ConsumerMembers
from kgm.simulation.play.plan_runner import PlanRunner
from kgm.simulation.play.timing import DrawTiming, UsualTiming
from kgm.simulation.simulation import Simulation

NEVER = 10**9


LIBRARIES = ["java", "librdkafka"]
CONSUMER_ASSIGNORS = ("uniform", "consumer-range")
STATIC = "static"


def played(members, assignor, bulk_from, number=0, at_once=1):
    """(CPU seconds, the draw with this number, the share of its rebalances that were played in bulk; for a consumer
    group and for static members, the share of all requests)."""
    topics = [TopicSnapshot(name="orders", partitions=10 * members)]
    protocol = GroupProtocol.CONSUMER if assignor in CONSUMER_ASSIGNORS else GroupProtocol.CLASSIC
    membership = Membership.STATIC if assignor == STATIC else Membership.DYNAMIC
    name = "range" if assignor == STATIC else assignor.removeprefix("consumer-")
    snapshot = synthetic_group(members, topics, membership, name, protocol)
    libraries = ("java",) if assignor == "sticky" else LIBRARIES
    rows = (
        replace(m, client_library=stated_library(libraries[n % len(libraries)])) for n, m in enumerate(snapshot.members)
    )
    snapshot = replace(snapshot, members=tuple(rows))
    everyone = tuple(member.identity for member in snapshot.members)
    simulation = Simulation.of(
        snapshot, Plan(bounce=everyone, rolling=Rolling(max_unavailable=at_once), restart_time_ms=5_000)
    )
    timing = DrawTiming if number else UsualTiming
    runner = PlanRunner(
        simulation.group, simulation.plan, simulation.settings, f"1/{number}", timing=timing, bulk_from=bulk_from
    )
    start = time.process_time()
    draw = runner.play()
    took = time.process_time() - start
    match runner.bulk:
        case None:
            share = 0.0
        case bulk if isinstance(bulk, ConsumerMembers) or not draw.rebalances:
            share = bulk.heartbeats_applied / draw.requests
        case rounds:
            share = rounds.played / draw.rebalances
    return took, draw, share


def row(members, assignor, runs, at_once, *, with_plain):
    bulk, plain = [], []
    for number in range(runs):
        took, draw, in_bulk = played(members, assignor, 1, number, at_once)
        bulk.append(took)
        if with_plain:
            took, other, _ = played(members, assignor, NEVER, number, at_once)
            plain.append(took)
            assert other == draw
    cpu = statistics.median(bulk)
    charged = cost_of([draw]) / affordable(1_000)
    name = f"{assignor}, {members:,} members, {draw.rebalances:,} rebalances, {in_bulk:.0%} in bulk"
    beside = {"event by event": statistics.median(plain)} if plain else {}
    figure(name, "CPU s", cpu, beside | {"as --budget counts": charged})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10,30,100,200")
    parser.add_argument("--large", default="1000,3000")
    parser.add_argument("--assignors", default="range,sticky,cooperative-sticky,uniform,consumer-range,static")
    parser.add_argument("--libraries", default=",".join(LIBRARIES))
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--draws", type=int, default=0)
    parser.add_argument("--drawn", type=int, default=1000)
    arguments = parser.parse_args()
    LIBRARIES[:] = arguments.libraries.split(",")
    for assignor in arguments.assignors.split(","):
        for size in (int(size) for size in arguments.sizes.split(",") if size):
            row(size, assignor, arguments.runs, arguments.at_once, with_plain=True)
    for assignor in arguments.assignors.split(","):
        for size in (int(size) for size in arguments.large.split(",") if size):
            row(size, assignor, 1, arguments.at_once, with_plain=False)
    if arguments.draws:
        drawn(arguments.drawn, arguments.draws, 1)


if __name__ == "__main__":
    main()
