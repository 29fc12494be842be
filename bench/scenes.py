#!/usr/bin/env python3
"""Predictions held against client libraries as they really are: random scenes on a real Kafka 4.3.0.

usage: python bench/scenes.py [--scenes N] [--seed TEXT] [--libraries A,B] [--at-once N] [--keep FILE] [--again FILE]

Each library has so many scenes: restarts of one, of the leader, of two at once, rolling; crashes for less and for more
than the session; members that come, go and are removed; one topic or two; static, dynamic, and both; some with members
of another library. A scene holds if generations, rebalances and moves are within what was predicted from the live group,
and owners too where the prediction is exact. --keep writes the outcomes, and --again predicts those of such a file once
more, with the kgm of today."""

import argparse
import pathlib
import pickle
import random
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from kgm.model.errors import KgmError
from kgm.simulation.bounce import simulate
from tests.kafka.libraries import LIBRARIES, LibraryMembers
from tests.kafka.versions import broker_of
from tests.simulation.reality.scenes import PARTITIONS, NotFormedError, play, some_scene


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=30, help="of each library")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--libraries", default=",".join(LIBRARIES))
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--again", type=pathlib.Path)
    arguments = parser.parse_args()
    outcomes = predicted_again(arguments.again) if arguments.again else played(arguments)
    show(outcomes)


def predicted_again(path):
    with path.open("rb") as file:
        for library, one in read_all(file):
            again = replace(one, prediction=simulate(one.before, one.plan_carried_out))
            tell(again)
            yield library, again


def read_all(file):
    while True:
        try:
            yield pickle.load(file)
        except EOFError:
            return


def played(arguments):
    with broker_of("4.3.0", logs_groups=True) as kafka, LibraryMembers(kafka.bootstrap) as members:
        kafka.create_topics({f"{name}-{count}": count for name in ("orders", "pay") for count in PARTITIONS})
        todo = [
            (name, some_scene(random.Random(f"{arguments.seed}/{name}/{number}"), name))
            for number in range(arguments.scenes)
            for name in arguments.libraries.split(",")
        ]
        with ThreadPoolExecutor(arguments.at_once) as pool:
            running = {
                pool.submit(play, scene, kafka.bootstrap, members, f"scene-{number}"): name
                for number, (name, scene) in enumerate(todo)
            }
            for done in as_completed(running):
                library = running[done]
                try:
                    outcome = done.result()
                except (NotFormedError, KgmError) as error:
                    print(f"not played, {library}: {error}", flush=True)
                    continue
                if outcome.misses:
                    print(broker_says(kafka, outcome.before.group_id), flush=True)
                if arguments.keep:
                    with arguments.keep.open("ab") as file:
                        pickle.dump((library, outcome), file)
                tell(outcome)
                yield library, outcome


def broker_says(kafka, group_id):
    """What the coordinator has logged of a group, the last of it."""
    lines = (kafka.folder / "broker-1.log").read_text(errors="replace").splitlines()
    return "\n".join([line[:300] for line in lines if f"{group_id} " in line][-14:])


def tell(outcome):
    verdict = "held" if not outcome.misses else "EXACT AND WRONG" if outcome.prediction.exact else "outside"
    spans = " ".join(
        f"{name[:4]} {getattr(outcome, name)} of {least}-{most}"
        for name in ("generations", "rebalances", "moved_partitions")
        for least, most in [outcome.span(name)]
    )
    print(f"{verdict} {'E ' if outcome.prediction.exact else ''}{outcome.scene}: {spans}", flush=True)
    for miss in outcome.misses:
        print(f"    {miss}", flush=True)


def show(outcomes):
    rows = {}
    for library, outcome in outcomes:
        rows.setdefault(library, []).append(outcome)
    rows["all"] = [outcome for some in rows.values() for outcome in some]
    print("| library | scenes | held | exact | exact and wrong | median width of moves |\n|---|---|---|---|---|---|")
    for library, some in rows.items():
        held = sum(not one.misses for one in some)
        exact = [one for one in some if one.prediction.exact]
        wrong = sum(bool(one.misses) for one in exact)
        width = statistics.median(one.width for one in some) if some else 0.0
        print(f"| {library} | {len(some)} | {held} | {len(exact)} | {wrong} | {width:.0%} |")


if __name__ == "__main__":
    main()
