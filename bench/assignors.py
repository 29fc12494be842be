#!/usr/bin/env python3
"""Large groups through Kafka's assignors in a JVM and through ours, taking turns; the bench aborts if their answers
differ.

usage: python bench/assignors.py [--rounds N] [--only TEXT] [--heap MB] [--limit SECONDS]     (needs Java 17+, Maven for the jars, 5 GB)

The public call is timed, from a group in memory to an answer in memory: ours is `kgm.assignors.assign`, Kafka's
is `assign` of ConsumerPartitionAssignor or ConsumerGroupPartitionAssignor (kafka-clients and kafka-group-coordinator
4.3.0), in process and warm. CPU time is the best of N rounds taken in turn (fewer if a JVM's round takes half a
minute). The JVM's is that of the calling thread: its garbage collector and compiler are not counted, while ours pays
for its memory as it goes. A row of its own shows what it takes to read the answer once from end to end, adding up all
partitions. Memory is what the call takes on top of the group: ours is the peak that tracemalloc sees, in a round that
is not timed; the JVM's is how much its heap grows after a full collection before the call.
"""

import argparse
import dataclasses
import functools
import gc
import json
import random
import select
import signal
import sys
import tempfile
import time
import tracemalloc
import uuid
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from figures import figure

from kgm.assignors import NAMES, GroupSpec, MemberSpec, TopicSpec, assign
from tests.kafka.jars import classpath
from tests.kafka.java_tools import compiled, java_command
from tests.kafka.process import Child

SOURCE = ROOT / "bench" / "java" / "AssignBench.java"
WARM_UP = 3
# How long one side of a row may spend on warming up and on measuring, in seconds.
PATIENCE = 30


@dataclasses.dataclass(frozen=True)
class Shape:
    """A family of groups. kinds: how subscriptions are distributed among the members."""

    title: str
    members: int
    topics: int
    partitions: int
    steps: tuple[str, ...]
    assignors: tuple[str, ...]
    kinds: str = "equal"

    def subscriptions(self):
        names = [f"topic-{i:03d}" for i in range(self.topics)]
        match self.kinds:
            case "equal":
                return [names]
            case "halves":  # members alternate between even and odd topics; one in ten subscribes to all
                return [names if i % 10 == 0 else names[i % 2 :: 2] for i in range(10)]
            case "one less":  # as in Kafka's own test: all members have all topics, except one member
                return [names[1:], *[names] * (self.members - 1)]
        chance = random.Random("kinds")
        return [sorted(chance.sample(names, self.topics // 2)) for _ in range(20)]


UNEQUAL = ("sticky", "cooperative-sticky", "consumer-uniform")
SHAPES = (
    Shape("2,000 members, 500 topics x 2,000", 2000, 500, 2000, ("fresh", "one leaves", "one joins", "100 bounce"), NAMES),
    Shape("10,000 members x 50, 100 topics", 10_000, 100, 5000, ("fresh", "one leaves"), NAMES),
    Shape("1,000 members, 200 topics x 1,000, one with a topic less", 1000, 200, 1000, ("fresh", "one leaves"), UNEQUAL, "one less"),
    Shape("1,000 members, 200 topics x 1,000, even or odd topics", 1000, 200, 1000, ("fresh", "one leaves"), UNEQUAL[::2], "halves"),
    Shape("1,000 members, 200 topics x 1,000, random halves", 1000, 200, 1000, ("fresh", "one leaves"), UNEQUAL[::2], "random"),
)  # fmt: skip


class TooSlowError(Exception):
    """The JVM did not answer in time; it was killed, and another one was started."""


class Jvm:
    """The driver, running in its JVM."""

    def __init__(self, heap, limit):
        self._temp = tempfile.TemporaryDirectory(prefix="kgm-bench-")
        path = f"{compiled([SOURCE], classpath('kafka'))}:{classpath('kafka')}"
        self._command = java_command("AssignBench", class_path=path, options=["-XX:+UseSerialGC"], heap_mb=heap)
        self.limit = limit
        self._start()

    def _start(self):
        self._child = Child(self._command, log=Path(self._temp.name) / "jvm.log", pipe_stdout=True)

    def ask(self, do, **more):
        self._child.stdin.write(json.dumps({"do": do, **more}) + "\n")
        if not select.select([self._child.stdout], [], [], self.limit)[0]:
            self._child.kill()
            self._start()
            raise TooSlowError
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit(f"the JVM has ended: {self._child.log_tail()}")
        return json.loads(line)

    def close(self):
        self._child.kill()
        self._temp.cleanup()


def new_id(chance):
    return f"consumer-{uuid.UUID(int=chance.getrandbits(128))}"


def changed(step, ids, chance):
    """(member id, position of its subscription) for each member after a step."""
    members = [(member_id, position) for position, member_id in enumerate(ids)]
    if step == "one leaves":
        del members[len(members) // 3]
    elif step == "one joins":
        members.append((new_id(chance), len(members)))
    elif step == "100 bounce":
        for position in chance.sample(range(len(members)), 100):
            members[position] = new_id(chance), position
    return members


def digest(answer):
    """The same checksum as AssignBench computes."""
    crc = 0
    for member, topics in sorted(answer.items()):
        text = "".join([f"{member}\n", *(f"{topic}{list(ps)}\n" for topic, ps in sorted(topics.items()))])
        crc = zlib.crc32(text.encode(), crc)
    return crc


def timed(work):
    """CPU nanoseconds of one call."""
    gc.collect()
    start = time.process_time_ns()
    answer = work()
    spent = time.process_time_ns() - start
    del answer
    return spent


def our_peak(work):
    gc.collect()
    tracemalloc.start()
    answer = work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del answer
    return peak


def walked(answer):
    """(CPU nanoseconds for reading all of it, sum of the partitions)."""
    start = time.process_time_ns()
    total = 0
    for row in answer.values():
        for partitions in row.values():
            total += sum(partitions)
    return time.process_time_ns() - start, total


def measure(jvm, name, group, described, rounds):
    """One row: (figures of both sides, the answer)."""
    work = functools.partial(assign, name, group)
    jvm.ask("group", **described)
    start = time.monotonic()
    try:
        memory = jvm.ask("run", collect=True)
    except TooSlowError:
        answer = work()
        return {
            "ours": min(timed(work) for _ in range(rounds)),
            "walk": walked(answer)[0],
            "peak": our_peak(work),
        }, answer
    ours, theirs = [], []
    if time.monotonic() - start > PATIENCE:
        theirs.append(memory["thread_ns"])  # a single round must do
        ours.append(timed(work))
    else:
        warm = 1
        while warm < WARM_UP and time.monotonic() - start < PATIENCE:
            jvm.ask("run", collect=False)
            warm += 1
        start = time.monotonic()
        while len(ours) < rounds and (not ours or time.monotonic() - start < PATIENCE):
            theirs.append(jvm.ask("run", collect=False)["thread_ns"])
            ours.append(timed(work))
        memory = jvm.ask("run", collect=True)
    peak = our_peak(work)
    answer = work()
    if digest(answer) != jvm.ask("digest")["digest"]:
        raise SystemExit(f"{described['assignor']}: our answer is not the JVM's")
    walks = [(jvm.ask("walk"), walked(answer)) for _ in range(3)]
    assert all(said["total"] == total for said, (_, total) in walks)
    figures = {
        "ours": min(ours), "theirs": min(theirs), "peak": peak, "their_peak": memory["peak"],
        "walk": min(ns for _, (ns, _) in walks), "their_walk": min(said["ns"] for said, _ in walks),
    }  # fmt: skip
    return figures, answer


def rows(jvm, shape, rounds, only):
    """Run a shape, and report its figures."""
    kinds = shape.subscriptions()
    subscriptions = [tuple(kind) for kind in kinds]
    topics = tuple(TopicSpec(name=f"topic-{i:03d}", partitions=shape.partitions) for i in range(shape.topics))
    for name in shape.assignors:
        wanted = [step for step in shape.steps if any(text in f"{shape.title}, {name}, {step}" for text in only)]
        if not wanted:
            continue
        chance = random.Random("ids")
        ids = [new_id(chance) for _ in range(shape.members)]
        before = {}
        jvm.ask("forget")
        for step in shape.steps:
            members = changed(step, ids, chance)
            group = GroupSpec(
                topics=topics,
                members=tuple(
                    MemberSpec(
                        member_id=member_id,
                        topics=subscriptions[position % len(kinds)],
                        owned=before.get(member_id, {}),
                        generation=1 if before.get(member_id) else None,
                    )
                    for member_id, position in members
                ),
            )
            described = {
                "assignor": name,
                "topics": [[topic.name, topic.partitions] for topic in topics],
                "kinds": kinds,
                "members": [[member_id, position % len(kinds)] for member_id, position in members],
                "generation": 1,
            }
            if step not in ("fresh", *wanted):  # the other steps start from it
                continue
            found, before_next = measure(jvm, name, group, described, rounds)
            tell(f"{shape.title}: {name}, {step}", found, jvm.limit)
            if "theirs" not in found:
                break  # it would not get through the next step, either
            if step == "fresh":
                before = before_next
                jvm.ask("keep")
            del before_next, group


def tell(title, found, limit):
    jvm = f"> {limit * 1000:.0f}" if "theirs" not in found else found["theirs"] / 1e6
    figure(title, "CPU ms", found["ours"] / 1e6, {"Kafka": jvm})
    if "theirs" in found:
        figure(f"{title}, read from end to end", "CPU ms", found["walk"] / 1e6, {"Kafka": found["their_walk"] / 1e6})
        figure(f"{title}, memory of the call", "MB", found["peak"] / 2**20, {"Kafka": found["their_peak"] / 2**20})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--heap", type=int, default=4096, metavar="MB")
    parser.add_argument("--only", action="append", metavar="TEXT", help="rows whose text contains this; repeatable")
    parser.add_argument("--limit", type=float, default=180, metavar="SECONDS", help="the JVM may take for one run")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # ends the JVM, too
    jvm = Jvm(arguments.heap, arguments.limit)
    try:
        for shape in SHAPES:
            rows(jvm, shape, arguments.rounds, arguments.only or [""])
    finally:
        jvm.close()


if __name__ == "__main__":
    main()
