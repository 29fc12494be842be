#!/usr/bin/env python3
"""How close the typical time without a consumer (`stopped_partition_range_ms.median`) is to what is observed, by kind
of plan: real librdkafka and Java members on a real Kafka 4.3.0.

usage: python bench/stopped.py [--times N] [--protocol classic|consumer] [--only WORD]   (needs Java 17+ and Maven)

Each case is predicted as `kgm simulate-bounce` does it, and then carried out. An observation is near if it is between
0.8 and 1.25 times the typical value. How many draws of the prediction itself are near shows how much is random: if one
member joins, leaves or restarts, the others learn of it with their next heartbeat, which is due at any time within the
interval, and no API or record shows when. Use the range there. The typical value is tight if the plan determines how
long partitions are stopped: static members that are back in time, sessions that end, all members restarted together.
"""

import argparse
import pathlib
import statistics
import sys
from collections import defaultdict
from dataclasses import replace

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench.figures import figure
from kgm.model.errors import KgmError
from kgm.simulation.simulation import Simulation
from tests.kafka.broker import KafkaCluster
from tests.simulation.reality import test_classic, test_consumer
from tests.simulation.reality.case import Case
from tests.simulation.reality.play import played
from tests.simulation.reality.real_group import NotFormedError

DRAWS = 40
LIBRARIES = {"rd": "librdkafka", "java": "Java"}
LEAST, MOST = 0.8, 1.25
ALL = (0, 1, 2)
CLASSIC = {
    "static, back in time": Case(who=(1,)),
    "static, all back in time": Case(who=ALL),
    "static, session ends": Case(who=(1,), restart_ms=9_000),
    "static, removed": Case(remove=(1,)),
    "dynamic, eager: one restarts": Case(static=False, who=(1,)),
    "dynamic, eager: all restart": Case(static=False, who=ALL),
    "dynamic, eager: one leaves": Case(static=False, scale_in=(1,)),
    "eager: one joins": Case(static=False, scale_out=1),
    "dynamic, cooperative: one restarts": Case(static=False, assignor="cooperative-sticky", who=(1,)),
    "dynamic, cooperative: one leaves": Case(static=False, assignor="cooperative-sticky", scale_in=(1,)),
    "cooperative: one joins": Case(static=False, assignor="cooperative-sticky", scale_out=1),
}
CONSUMER = {
    "KIP-848 static, back in time": Case(assignor="uniform", who=(1,)),
    "KIP-848 static, session ends": Case(assignor="uniform", who=(1,), restart_ms=7_000),
    "KIP-848 dynamic: one restarts": Case(assignor="uniform", static=False, who=(1,)),
    "KIP-848 dynamic: one leaves": Case(assignor="uniform", static=False, scale_in=(1,)),
    "KIP-848: one joins": Case(assignor="uniform", static=False, scale_out=1),
}


def is_near(value, typical):
    return LEAST * typical <= value <= MOST * typical


def row_of(outcome):
    """(observed, typical, share of the prediction's own draws that are near)."""
    typical = outcome.prediction.stopped_partition_range_ms.median
    simulation = Simulation.of(outcome.before, outcome.plan)
    drawn = [simulation.runner(number).play().stopped_partition_ms for number in range(DRAWS)]
    return outcome.stopped_partition_ms, typical, sum(is_near(each, typical) for each in drawn) / DRAWS


def measured(kafka, plans, terms, times, **more):
    """Rows by (plan, library). Cases are keys, so repetitions of a case get different numbers of partitions."""
    rows = defaultdict(list)
    cases = {
        replace(case, kind=kind, partitions=12 + 3 * number): (name, kind)
        for name, case in plans.items()
        for kind in LIBRARIES
        for number in range(times)
    }
    with played(kafka, list(cases), terms, threads=4, **more) as futures:
        for case, future in futures.items():
            try:
                rows[cases[case]].append(row_of(future.result()))
            except (AssertionError, KgmError, NotFormedError, TimeoutError) as error:  # the machine was too busy for it
                print(f"{case}: {type(error).__name__}", file=sys.stderr)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=6)
    parser.add_argument("--protocol", choices=("classic", "consumer"))
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    rows = {}
    with KafkaCluster() as kafka:
        for protocol, plans, module in (("classic", CLASSIC, test_classic), ("consumer", CONSUMER, test_consumer)):
            chosen = {name: case for name, case in plans.items() if arguments.only in name}
            if arguments.protocol in (None, protocol) and chosen:
                more = {"configure": module.configure} if protocol == "consumer" else {}
                rows |= measured(kafka, chosen, module.TERMS, arguments.times, **more)
    every = []
    for (name, kind), found in rows.items():
        ratios = [observed / typical for observed, typical, _ in found if typical]
        every += [is_near(observed, typical) for observed, typical, _ in found]
        title = f"{name}, {LIBRARIES[kind]}"
        if ratios:
            figure(f"{title}: observed by typical, median of {len(found)}", "times", statistics.median(ratios))
        figure(f"{title}: draws of the prediction that are near", "%", statistics.mean(own for *_, own in found) * 100)
    figure(f"near, of {len(every)} observations", "%", sum(every) / len(every) * 100)


if __name__ == "__main__":
    main()
