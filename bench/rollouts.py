#!/usr/bin/env python3
"""Random plans that `kgm rollout` carries out with real clients on a real Kafka: how often reality was as predicted.

usage: python bench/rollouts.py [--plans N] [--seed N] [--threads N]      (needs Java 17 and Maven; starts a broker)

Each plan has its own group: librdkafka or Java consumers, classic or KIP-848, static or dynamic, an assignor, 2 to 5
members, all together or in batches, some static ones removed before they start again. kgm predicts each step, runs a
command that stops and starts the consumer, watches, and compares; it exits with 0 only if every step was as predicted.
The consumers are checked, too: each was restarted once, and together they own every partition exactly once. A restart
that is quicker than the `--restart-time` given to kgm, or a process that is paused for seconds, can deviate: kgm then
stops."""

from __future__ import annotations

import argparse
import pathlib
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench.figures import figure
from tests.kafka.broker import KafkaCluster
from tests.kafka.members import wait_settled
from tests.operations.rollout.units import fleet, kgm

SESSION_MS = 20_000
#: At least as many as there are members: a KIP-848 member without a partition is not sent an assignment.
PARTITIONS = (6, 12)


@dataclass(frozen=True)
class RandomPlan:
    """A group and what happens to it."""

    number: int
    kind: str
    protocol: str
    static: bool
    assignor: str
    members: int
    partitions: int
    batch: int | None
    away_s: float
    removes_first: bool

    @classmethod
    def draw(cls, number, chance):
        protocol = chance.choice(("classic", "classic", "consumer"))
        assignors = ("range", "roundrobin", "cooperative-sticky") if protocol == "classic" else ("uniform", "range")
        members, static = chance.randrange(2, 6), chance.random() < 0.5
        return cls(
            number, chance.choice(("librdkafka", "java")), protocol, static, chance.choice(assignors), members,
            chance.choice(PARTITIONS), chance.choice((None, 1, 1, 2)), chance.choice((0.3, 1.0, 3.0)),
            static and chance.random() < 0.3,
        )  # fmt: skip

    def __str__(self):
        how = "together" if self.batch is None else f"rolling by {self.batch}"
        kind = "static" if self.static else "dynamic"
        return f"{self.kind} {self.protocol} {kind} {self.assignor} {self.members}x{self.partitions} {how}, {self.away_s:g} s{', removed first' if self.removes_first else ''}"


def carry_out(plan, kafka, folder):
    """(exit code, why it stopped, whether the consumers confirm the result)."""
    names = [f"app-{number}" for number in range(plan.members)]
    options = {"static": plan.static, "protocol": plan.protocol, "assignor": plan.assignor}
    if plan.protocol == "classic":
        options["session_timeout_ms"] = SESSION_MS
    group = f"rollout-{plan.number}"
    topics = [f"orders-{plan.partitions}"]
    with fleet(
        kafka.bootstrap,
        folder,
        names,
        partitions=plan.partitions,
        kind=plan.kind,
        group=group,
        topics=topics,
        **options,
    ) as units:
        units.restart_s = plan.away_s
        shape = ["--together"] if plan.batch is None else ["--rolling", "--max-unavailable", str(plan.batch)]
        # Handovers of a consumer group may happen between two polls.
        unseen = ["--accept-unseen"] if plan.protocol == "consumer" and (plan.removes_first or not plan.static) else []
        which = "{instance_id}" if plan.static else "{client_id}"
        commands = ["--exec", f"{units.command} restart {which}"]
        if plan.removes_first:
            units.start_s = plan.away_s
            commands = ["--exec-stop", f"{units.command} stop {which}", "--exec", f"{units.command} start {which}"]
            commands += ["--remove-first", "--assume-stopped"]
        ended = kgm(
            folder, kafka.bootstrap, "rollout", "--yes", group, "--all", *shape, *unseen, "--settle", "3s", "--restart-time",
            f"{plan.away_s:g}s", "--heartbeat-interval", "300ms", *commands, "-o", "ndjson",
            timeout_s=600,
        )  # fmt: skip
        agrees = sorted(name for _, name in units.calls) == sorted(names * (1 + plan.removes_first))
        if ended.code == 0:
            wait_settled([*units.members.values()], plan.partitions, 20)
        why = "" if ended.code == 0 else ended.err.partition("error: ")[2].partition("\n")[0]
        return ended.code, why, agrees


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    plans = [RandomPlan.draw(number, chance) for number in range(arguments.plans)]
    properties = {"group.consumer.session.timeout.ms": str(SESSION_MS)}
    with (
        KafkaCluster(properties=properties) as kafka,
        tempfile.TemporaryDirectory() as temporary,
        ThreadPoolExecutor(arguments.threads) as pool,
    ):
        kafka.create_topics({f"orders-{count}": count for count in PARTITIONS})
        folders = [pathlib.Path(temporary) / str(plan.number) for plan in plans]
        for folder in folders:
            folder.mkdir()
        results = []
        for plan, result in zip(plans, pool.map(carry_out, plans, [kafka] * len(plans), folders), strict=True):
            code, why, agrees = result
            results.append(result)
            print(
                f"{code} {'' if agrees or code else 'BUT THE CONSUMERS SAY OTHERWISE '}{plan}{': ' + why if why else ''}",
                flush=True,
            )
    held = sum(code == 0 and agrees for code, _, agrees in results)
    figure(f"carried out as predicted, of {len(plans)} plans (seed {arguments.seed})", "plans", held)


if __name__ == "__main__":
    main()
