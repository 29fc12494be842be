"""Every recorded answer of Kafka 4.3.0, to the partition."""

import json

import pytest

from kgm.assignors import NAMES
from tests import ROOT
from tests.assignors.groups import solve

VECTORS = ROOT / "tests" / "vectors"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_kafka(name):
    cases = [json.loads(line) for line in (VECTORS / f"{name}.jsonl").read_text().splitlines()]
    assert len(cases) == 180
    wrong = [case["case"] for case in cases if solve(case) != _without_empty(case["expected"])]
    assert wrong == []


def _without_empty(answer):
    return {member: {topic: ps for topic, ps in topics.items() if ps} for member, topics in answer.items()}
