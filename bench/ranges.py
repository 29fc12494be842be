#!/usr/bin/env python3
"""How often the ranges of a prediction hold, and how narrow they are: random groups and plans, each predicted once.

usage: python bench/ranges.py [--plans N] [--times N] [--seed TEXT] [--misses]

The judge is the same engine with scripted members, but with other timings than those used for predictions: starts
follow an exponential distribution whose mean differs from library to library, members stop within a millisecond or
within half a second, heartbeats are in step, in two bunches, or anywhere. Real clients are the other judge:
tests/simulation/reality. A plan holds in a draw of the judge if generations, rebalances, moved partitions and handovers
are all within their ranges, or equal if the prediction is exact.
"""

import argparse
import pathlib
import random
import statistics
import sys
from dataclasses import replace

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench.figures import figure
from kgm.model.client_library import stated_library
from kgm.model.snapshot import TopicSnapshot
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan, Rolling, Stop, WhatIf
from kgm.simulation.plan.client_library import Library
from kgm.simulation.plan.synthetic_group import synthetic_group
from kgm.simulation.play.timing import DrawTiming
from kgm.simulation.simulation import Simulation

COUNTS = ("generations", "rebalances", "moved_partitions", "handovers")
SESSION_MS = 6_000


class JudgeTiming(DrawTiming):
    """Timings as they might be on another machine."""

    def __init__(self, chance, heartbeat_interval_ms, session_timeout_ms):
        super().__init__(chance, heartbeat_interval_ms, session_timeout_ms)
        self._mean_ms = {library: chance.choice((1.0, 20.0, 100.0, 200.0)) for library in Library}
        self._least_ms = {library: chance.choice((10.0, 30.0, 150.0)) for library in Library}
        if chance.random() < 0.5:  # a common cause, such as a shared machine
            self._mean_ms = dict.fromkeys(Library, chance.choice((1.0, 20.0, 100.0, 200.0)))
            self._least_ms = dict.fromkeys(Library, chance.choice((10.0, 30.0, 150.0)))
        self._stop_ms = chance.choice((0.5, 5.0, 50.0, 100.0))
        self._bunches = chance.choice(((0.0,), (0.0, chance.random()), None))
        self._timers_late = chance.choice(((0.0, 0.0), (0.0, 1.0), (1.0, 4.0)))

    def phase(self):
        if self._bunches is None:
            return self._chance.random()
        return (self._phase + self._chance.choice(self._bunches) + abs(self._chance.gauss(0, 0.01))) % 1.0

    def stop_ms(self):
        return self._stop_ms * self._chance.random()

    def start_ms(self, profile, *, may_be_slow):
        late_ms = self._chance.expovariate(1 / self._mean_ms[profile.library])
        return self._least_ms[profile.library] + min(late_ms, 2_000.0 if may_be_slow else 350.0)


def some_group(chance):
    protocol = chance.choice([GroupProtocol.CLASSIC] * 3 + [GroupProtocol.CONSUMER])
    assignors = (
        ["uniform", "range"] if protocol is GroupProtocol.CONSUMER else ["range", "roundrobin", "cooperative-sticky"]
    )
    membership = chance.choice([Membership.STATIC, Membership.DYNAMIC, Membership.DYNAMIC])
    topic = TopicSnapshot(name="orders", partitions=chance.choice([2, 12, 13, 17]))
    group = synthetic_group(chance.randint(2, 5), [topic], membership, chance.choice(assignors), protocol)
    kind = chance.choice(["java", "librdkafka", "both"])
    libraries = ["java", "librdkafka"] if kind == "both" else [kind]
    members = tuple(
        replace(member, client_library=stated_library(libraries[number % len(libraries)]))
        for number, member in enumerate(group.members)
    )
    return replace(group, members=members, session_timeout_ms=SESSION_MS)


def some_plan(group, chance):
    identities = [member.identity for member in group.members]
    some = tuple(sorted(chance.sample(identities, chance.randint(1, len(identities)))))
    if chance.random() < 0.4:
        some = tuple(identities)
    common = {
        "what_if": WhatIf(session_timeout_ms=SESSION_MS),
        "heartbeat_interval_ms": chance.choice([1_000, 1_000, None]),
        "settings": {"group.initial.rebalance.delay.ms": chance.choice(["0", "0", "3000"])},
    }
    match chance.choice(["bounce", "bounce", "bounce", "late", "in", "out", "remove"]):
        case "bounce":
            rolling = Rolling(max_unavailable=chance.randint(1, 2)) if chance.random() < 0.4 else None
            stop = Stop.CRASH if chance.random() < 0.2 else Stop.CLEAN
            return Plan(
                bounce=some, rolling=rolling, stop=stop, restart_time_ms=chance.choice([0, 1_000, 1_500]), **common
            )
        case "late":
            return Plan(bounce=some[:2], restart_time_ms=9_000, **common)
        case "in":
            return Plan(scale_in=some[: len(identities) - 1], **common)
        case "out":
            return Plan(scale_out=chance.randint(1, 3), **common)
        case _:
            return Plan(remove=some[: len(identities) - 1], **common)


def span_of(prediction, name):
    if prediction.ranges is None:
        value = getattr(prediction.typical, name)
        return value, value
    drawn = getattr(prediction.ranges, name)
    return drawn.min, drawn.max


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=100)
    parser.add_argument("--times", type=int, default=10, help="draws of the judge for each plan")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--misses", action="store_true", help="show what was outside its range")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    held, judged, exact, wrong, widths, ratios = 0, 0, 0, 0, [], []
    for _ in range(arguments.plans):
        group = some_group(chance)
        plan = some_plan(group, chance)
        prediction = simulate(group, plan)
        judge = Simulation.of(group, plan, seed=f"judge/{chance.random()}")
        spans = {name: span_of(prediction, name) for name in COUNTS}
        partitions = sum(topic.partitions for topic in group.topics)
        least, most = spans["moved_partitions"]
        widths.append((most - least) / partitions)
        for number in range(arguments.times):
            draw = judge.runner(number + 1, timing=JudgeTiming).play()
            misses = {
                name: (spans[name], getattr(draw, name))
                for name in COUNTS
                if not spans[name][0] <= getattr(draw, name) <= spans[name][1]
            }
            judged += 1
            held += not misses
            exact += prediction.exact
            wrong += prediction.exact and bool(misses)
            if prediction.typical.stopped_partition_ms:
                ratios.append(draw.stopped_partition_ms / prediction.typical.stopped_partition_ms)
            if misses and arguments.misses:
                libraries = ",".join(
                    sorted({member.client_library.text for member in group.members if member.client_library})
                )
                print(
                    group.type,
                    group.assignor,
                    libraries,
                    len(group.members),
                    partitions,
                    plan.to_json(),
                    misses,
                    flush=True,
                )
    ratios.sort()
    of = f"{arguments.plans} plans, {arguments.times} draws each"
    figure(f"{of}: within the ranges", "%", held / judged * 100)
    figure(f"{of}: predicted as exact", "%", exact / judged * 100)
    figure(f"{of}: predicted as exact, and wrong", "draws", wrong)
    figure("width of the range of moved partitions, median, of all partitions", "%", statistics.median(widths) * 100)
    figure(
        "time without a consumer by the typical one, twentieth least of a hundred", "times", ratios[len(ratios) // 20]
    )
    figure("time without a consumer by the typical one, twentieth most", "times", ratios[-1 - len(ratios) // 20])


if __name__ == "__main__":
    main()
