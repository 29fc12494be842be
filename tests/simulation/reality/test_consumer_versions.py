"""Random cases for consumer groups (KIP-848), on brokers of other versions than 4.3: predictions that are told the
version are held against what a real broker and real clients then did."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kgm.model.broker_version import BrokerVersion
from tests.kafka.versions import broker_of
from tests.selection import first_seed
from tests.simulation.reality.case import Case, Rolling, Stop
from tests.simulation.reality.play import played
from tests.simulation.reality.test_consumer import LATE_MS, TERMS, configure
from tests.simulation.reality.test_versions import COUNT, differences

VERSIONS = ("4.0.1", "4.1.1", "4.2.0", "4.4.0")


def random_case(chance: random.Random) -> Case:
    """Members of either library, and one thing that is done to some of them."""
    members = chance.randint(2, 5)
    some = tuple(sorted(chance.sample(range(members), chance.randint(1, members))))
    case = Case(
        kind=chance.choice(["rd", "java", "both"]),
        static=chance.random() < 0.6,
        assignor=chance.choice(["uniform", "range"]),
        members=members,
        partitions=chance.choice([12, 13, 17]),
        topics=chance.choice([1, 1, 2]),
    )
    match chance.choice(["bounce", "bounce", "bounce", "late", "in", "out", "remove"]):
        case "bounce":
            rolling = Rolling() if chance.random() < 0.4 else None
            return replace(case, who=some, rolling=rolling, restart_ms=chance.choice([500, 1_000]))
        case "late":
            stop = Stop.CRASH if not case.static and chance.random() < 0.3 else Stop.CLEAN
            return replace(case, who=some[:2], stop=stop, restart_ms=LATE_MS)
        case "in":
            return replace(case, scale_in=some[: members - 1])
        case "out":
            return replace(case, scale_out=chance.randint(1, 2))
        case _:
            return replace(case, static=True, remove=some[: members - 1])


def random_cases(version: str) -> list[Case]:
    chance = random.Random(f"consumer {version}/{first_seed()}")
    cases: dict[Case, None] = {}
    while len(cases) < COUNT:
        cases[random_case(chance)] = None
    return list(cases)


@pytest.mark.scenes
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(60 * COUNT + 300)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_predicted_for_a_version_is_what_its_broker_does(version: str):
    terms = replace(TERMS, prefix=f"epochs-{version}", kafka_version=BrokerVersion.parse(version))
    cases = random_cases(version)
    with (
        broker_of(version) as kafka,
        played(kafka, cases, terms, threads=4, configure=configure) as futures,
    ):
        failures = differences(futures)
    assert not failures, "\n\n".join(failures)
