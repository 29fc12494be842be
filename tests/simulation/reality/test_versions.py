"""Random cases for classic groups, on brokers of earlier versions: predictions that are told the version are held
against what a real broker and real clients then did.

`--seed` draws other cases."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kgm.model.broker_version import BrokerVersion
from tests.kafka.versions import broker_of
from tests.selection import first_seed
from tests.simulation.reality.case import Case, Rolling, Stop
from tests.simulation.reality.play import played
from tests.simulation.reality.test_classic import LATE_MS, TERMS
from tests.simulation.reality.verdict import assert_counts, predictions_for, was_on_time

VERSIONS = ("2.4.1", "2.8.2", "3.3.2", "3.6.2", "3.9.1")
COUNT = 4


def random_case(chance: random.Random) -> Case:
    """Members of either library, and one thing that is done to some of them."""
    kind = chance.choice(["rd", "java", "both"])
    assignors = ["range", "roundrobin", "cooperative-sticky", *(["sticky"] if kind == "java" else [])]
    members = chance.randint(2, 5)
    some = tuple(sorted(chance.sample(range(members), chance.randint(1, members))))
    case = Case(
        kind=kind,
        static=chance.random() < 0.6,
        half_dynamic=members > 2 and chance.random() < 0.15,
        assignor=chance.choice(assignors),
        members=members,
        partitions=chance.choice([12, 13, 17]),
    )
    match chance.choice(["bounce", "bounce", "bounce", "late", "in", "out", "remove"]):
        case "bounce":
            rolling = Rolling(max_unavailable=chance.randint(1, 2)) if chance.random() < 0.4 else None
            stop = Stop.CRASH if case.static and chance.random() < 0.3 else Stop.CLEAN
            return replace(case, who=some, rolling=rolling, stop=stop, restart_ms=chance.choice([0, 1_000, 1_500]))
        case "late":
            return replace(case, who=some[:2], restart_ms=LATE_MS)
        case "in":
            return replace(case, scale_in=some[: members - 1])
        case "out":
            return replace(case, scale_out=chance.randint(1, 2))
        case _:
            return replace(case, remove=some[: members - 1])


def random_cases(version: str) -> list[Case]:
    chance = random.Random(f"{version}/{first_seed()}")
    cases: dict[Case, None] = {}
    while len(cases) < COUNT:
        cases[random_case(chance)] = None
    return list(cases)


def differences(futures) -> list[str]:
    """Cases in which a broker did something else than was predicted, with what that was."""
    failures = []
    for case, future in futures.items():
        outcome = future.result()
        try:
            assert_counts(case, outcome, predictions_for(outcome))
        except AssertionError as difference:
            was = "exact" if outcome.prediction.exact else "not exact"
            late = "" if was_on_time(outcome) else ", a process was late"
            failures.append(f"{case} ({was}{late}): {difference}")
    return failures


@pytest.mark.scenes
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(60 * COUNT + 300)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_predicted_for_a_version_is_what_its_broker_does(version: str):
    terms = replace(TERMS, prefix=f"bounce-{version}", kafka_version=BrokerVersion.parse(version))
    with broker_of(version) as kafka, played(kafka, random_cases(version), terms, threads=4) as futures:
        failures = differences(futures)
    assert not failures, "\n\n".join(failures)
