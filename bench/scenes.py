#!/usr/bin/env python3
"""Predictions compared with how client libraries really behave: random scenes on a real Kafka 4.3.0.

usage: python bench/scenes.py [--scenes N] [--seed TEXT] [--libraries A,B] [--versions A=1.2,B=3.4]
                              [--protocol consumer] [--mixed SHARE] [--at-once N] [--keep FILE] [--again FILE]

Each library has --scenes scenes: restarts of one member, of the leader, of two at the same time, rolling; crashes
shorter and longer than the session; members that join, leave and are removed; one topic or two; static, dynamic, and
both; some with members of another library. A scene holds if generations, rebalances and moves are within what was
predicted from the live group, and the owners too if the prediction is exact. --keep saves the outcomes, and --again
predicts those in such a file once more, with the current kgm. At the end it shows how many of the causes that the
history calls certain or likely are impossible."""

import argparse
import pathlib
import pickle
import random
import statistics
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from kgm.clients.table import CLIENTS
from kgm.model.errors import KgmError
from kgm.operations.history.source import open_history
from kgm.simulation.bounce import simulate
from tests.assignors.libraries.oracle import VERSIONS
from tests.kafka.libraries import LIBRARIES, LibraryMembers
from tests.kafka.versions import broker_of
from tests.simulation.reality.real_group import NotFormedError
from tests.simulation.reality.scenes import (
    CONSUMER_LIBRARIES,
    HEARTBEAT_MS,
    PARTITIONS,
    play,
    some_consumer_scene,
    some_scene,
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=30, help="for each library")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--libraries")
    parser.add_argument(
        "--versions",
        help="versions other than those kgm follows, if the programs in tests/kafka/libraries run with them",
    )
    parser.add_argument("--protocol", default="classic", choices=("classic", "consumer"))
    parser.add_argument("--mixed", type=float, default=0.2, help="the share of scenes that have another library, too")
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--again", type=pathlib.Path)
    arguments = parser.parse_args()
    VERSIONS.update(pair.split("=") for pair in (arguments.versions or "").split(",") if pair)
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
    is_consumer = arguments.protocol == "consumer"
    libraries = (
        arguments.libraries.split(",") if arguments.libraries else CONSUMER_LIBRARIES if is_consumer else LIBRARIES
    )
    draw = some_consumer_scene if is_consumer else some_scene
    broker = broker_of("4.3.0", {"group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS)}, logs_groups=True)
    with broker as kafka, LibraryMembers(kafka.bootstrap) as members:
        kafka.create_topics({f"{name}-{count}": count for name in ("orders", "pay") for count in PARTITIONS})
        todo = [
            (name, draw(random.Random(f"{arguments.seed}/{name}/{number}"), name, mixed=arguments.mixed))
            for number in range(arguments.scenes)
            for name in libraries
        ]
        with ThreadPoolExecutor(arguments.at_once) as pool:
            running = {
                pool.submit(play, scene, kafka.bootstrap, members, f"scene-{number}"): name
                for number, (name, scene) in enumerate(todo)
            }
            all_played = []
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
                all_played.append((library, outcome))
                yield library, outcome
            tell_causes(kafka, all_played)


def impossible_causes(outcome):
    """Causes that the rebalances after the start of the scene cannot have; only if the members are all static or all
    dynamic."""
    scene = outcome.scene
    if any(scene.static) and not all(scene.static):
        return set()
    wrong = {"subscription-change", "partition-change", "assignor-change", "conversion"}
    if not all(scene.static):
        return wrong | {"admin-removal"}
    if scene.action != "remove":
        wrong |= {"admin-removal"}
    if scene.action not in ("late", "in") and all(ms < scene.session_ms for ms in outcome.restarts_ms):
        wrong |= {"session-expiry"}
    leaves = any(name not in CLIENTS or CLIENTS[name].leaves_when_static for name in scene.libraries)
    if not leaves or scene.action in ("late", "quick crash", "remove"):
        wrong |= {"leave"}
    return wrong


def tell_causes(kafka, all_played):
    history = open_history(f"segments:{kafka.log_dir()}")
    counts = Counter()
    for library, outcome in all_played:
        wrong = impossible_causes(outcome)
        before = outcome.before
        first = before.group_epoch if before.generation is None else before.generation
        for row in history.rebalances(before.group_id):
            # The scene ends by killing whatever still runs.
            is_of_scene = first < row.to_generation <= first + outcome.generations
            if not is_of_scene or row.confidence not in ("certain", "likely"):
                continue
            said = {row.cause, *row.also} & wrong
            counts[library, bool(said)] += 1
            if said:
                print(f"told wrongly {row.cause} {row.also} {row.confidence} of {outcome.scene}: {row.evidence}")
    print("| library | causes called certain or likely | that cannot be |\n|---|---|---|")
    for library in dict.fromkeys(name for name, _ in all_played):
        print(f"| {library} | {counts[library, True] + counts[library, False]} | {counts[library, True]} |")


def broker_says(kafka, group_id):
    """The last lines that the coordinator logged about a group."""
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
