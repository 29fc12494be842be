"""Predictions held against groups of other client libraries on a real broker: some scenes of each (`bench/scenes.py`
draws more of them, at random)."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest

from tests.kafka.libraries import LibraryMembers
from tests.selection import sized
from tests.simulation.reality.real_group import in_formed_group
from tests.simulation.reality.scenes import Outcome, Scene, play

pytestmark = [pytest.mark.scenes, pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(600)]

PARTITIONS = 12


def scene(library: str, assignor: str, action: str, *, members: int = 2, static: bool = True) -> Scene:
    return Scene(
        libraries=(library,) * members, static=(static,) * members, assignor=assignor, topics=(("scenes", PARTITIONS),),
        action=action, restart_ms=500, tells_heartbeat=True,
    )  # fmt: skip


QUICK = [
    scene("aiokafka", "roundrobin", "leader"),
    scene("librdkafka", "range", "out"),
]
LONG = [
    scene("kafka-python", "sticky", "in", static=False),
    scene("aiokafka", "range", "remove"),
    scene("kafka-python", "range", "one"),
    scene("sarama", "roundrobin", "remove"),
    scene("sarama", "range", "rolling", static=False),
    scene("franz-go", "cooperative-sticky", "rolling", members=3),
    scene("franz-go", "range", "leader"),
    scene("kafka-go", "range", "one", static=False),
    scene("kafka-go", "roundrobin", "in", members=3, static=False),
    scene("kafkajs", "RoundRobinAssigner", "rolling", static=False),
    scene("java", "cooperative-sticky,range", "in", members=3),
    scene("platformatic", "roundrobin", "one"),
    scene("platformatic", "roundrobin", "quick crash"),
]
SCENES = sized(QUICK, [*QUICK, *LONG])


def play_formed(one: Scene, bootstrap: str, members: LibraryMembers, group_id: str) -> Outcome:
    """Play it a second time, in another group, if a real client hangs: consumers of kafka-python were seen to stay out of
    the group for good, at the start or after a rebalance, in three of some hundred scenes."""
    return in_formed_group(lambda name: play(one, bootstrap, members, name), group_id, attempts=2)


@pytest.fixture(scope="module")
def outcomes(kafka):
    kafka.create_topics({f"scenes-{PARTITIONS}": PARTITIONS})
    with LibraryMembers(kafka.bootstrap) as members, ThreadPoolExecutor(5) as pool:
        futures = {
            one: pool.submit(play_formed, one, kafka.bootstrap, members, f"scenes-{number}")
            for number, one in enumerate(SCENES)
        }
        wait(futures.values())
        yield futures


@pytest.mark.parametrize("one", SCENES, ids=str)
def test_the_scene_is_as_predicted(one: Scene, outcomes: dict[Scene, Future[Outcome]]):
    outcome = outcomes[one].result()
    assert not outcome.misses
    seen = {position: outcome.before.members[position].client_library for position in range(len(one.static))}
    assert all(client is not None and one.libraries[0] in client.candidates for client in seen.values())
