#!/usr/bin/env python3
"""What it costs to check whether an assignor explains a group's assignment, compared with describing the group.

usage: python bench/self_check.py [--groups N] [--members N] [--runs N] [--outcomes FILE...]

`kgm describe` does not do this: only a prediction, and the preview of a removal, needs it. --outcomes: files written by
`bench/scenes.py --keep`; for the groups of Java and librdkafka in them, it reports how many are called different, which
none of them is."""

import argparse
import pathlib
import pickle
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from kgm.assignors import GroupSpec, MemberSpec, TopicSpec, assign
from kgm.client.requests import GroupDescription
from kgm.client.snapshots import group_without_offsets, snapshot
from kgm.model.snapshot import TopicSnapshot
from kgm.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription
from kgm.simulation.report.self_check import unexplained

PARTITIONS = 20
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


def described(number, members):
    """A group as a broker describes it, with the assignment that the assignor computes."""
    assignor = ASSIGNORS[number % len(ASSIGNORS)]
    ids = [f"app-{number}-{at}" for at in range(members)]
    spec = GroupSpec(
        members=tuple(MemberSpec(member_id=one, group_instance_id=None, topics=("orders",)) for one in ids),
        topics=(TopicSpec(name="orders", partitions=PARTITIONS),),
    )
    given = assign(assignor, spec, "java")
    metadata = encode_subscription(Subscription(topics=("orders",)))
    rows = [
        DescribedGroupMember(
            member_id=one, client_id="app", client_host="/10.0.0.1", member_metadata=metadata,
            member_assignment=encode_assignment(MemberAssignment(partitions=given[one])),
        )
        for one in ids
    ]  # fmt: skip
    return DescribedGroup(
        group_id=f"g-{number}", group_state="Stable", protocol_type="consumer", protocol_data=assignor, members=rows
    )


def seen(answers):
    topics = {"orders": TopicSnapshot(name="orders", partitions=PARTITIONS)}
    return [
        snapshot(
            group_without_offsets(answer.group_id, GroupDescription("classic", answer)), coordinator=None,
            topics=topics, committed={("orders", 0): 1}, session_timeout_ms=45_000,
        )
        for answer in answers
    ]  # fmt: skip


def cpu_ms(function, runs):
    """(CPU ms, result) of the cheapest run."""
    least = float("inf")
    for _ in range(runs):
        start = time.process_time()
        found = function()
        least = min(least, time.process_time() - start)
    return least * 1_000, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--outcomes", type=pathlib.Path, nargs="*", default=[])
    arguments = parser.parse_args()
    answers = [described(number, arguments.members) for number in range(arguments.groups)]
    describing_ms, groups = cpu_ms(lambda: seen(answers), arguments.runs)
    checking_ms, texts = cpu_ms(lambda: [unexplained(group) for group in groups], arguments.runs)
    print(f"{arguments.groups:,} groups of {arguments.members} members and {PARTITIONS} partitions, CPU ms")
    print("| described, without the network | self-check of all | of one | called different |\n|---|---|---|---|")
    print(
        f"| {describing_ms:.0f} | {checking_ms:.0f} | {checking_ms / arguments.groups:.2f} | {len([*filter(None, texts)])} |"
    )
    real = [group for path in arguments.outcomes for group in real_groups(path)]
    if real:
        alarms = [text for group in real if (text := unexplained(group))]
        print(f"\n{len(real):,} real groups of Java and librdkafka: {len(alarms)} called different")
        print("\n".join(alarms))


def real_groups(path):
    """The groups as they were before their scene."""
    with path.open("rb") as file:
        while True:
            try:
                _, outcome = pickle.load(file)
            except EOFError:
                return
            if {*outcome.scene.libraries} <= {"java", "librdkafka"}:
                yield outcome.before


if __name__ == "__main__":
    main()
