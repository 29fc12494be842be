"""The assignors of client libraries: what the libraries have answered, and what they answer when they are asked."""

import json

import pytest

from kgm.assignors import has_assignor
from tests.assignors.libraries.cases import PAIRS, cases_of, recorded, solve, without_empty
from tests.assignors.libraries.oracle import VERSIONS, LibraryOracle
from tests.assignors.libraries.record import EACH
from tests.selection import first_seed

#: How many groups each library is asked about.
ASKED = 500
#: With how many hashes of Python's they are asked at most.
HASH_SEEDS = 12


@pytest.mark.parametrize("library", VERSIONS)
def test_answers_are_those_of_the_library(library):
    cases = recorded(library)
    assert {case["version"] for case in cases} == {VERSIONS[library]}
    counts = {name: sum(case["assignor"] == name for case in cases) for _, name in PAIRS if _ == library}
    assert counts == dict.fromkeys(counts, EACH)
    assert [case["case"] for case in cases if solve(case) != case["expected"]] == []


@pytest.mark.long
@pytest.mark.parametrize(("library", "assignor"), PAIRS)
def test_the_library_itself_answers_the_same(library, assignor):
    """But for the few groups in which a sticky assignor of Python's answers otherwise with other hashes."""
    oracles = [LibraryOracle(library)]
    try:
        other = []
        for case in cases_of(library, assignor, first_seed() + 1, ASKED):
            said = oracles[0].ask(case)
            assert "error" not in said, (case, said)
            if solve(case) != without_empty(said["assignment"], case):
                other.append(case)
        assert len(other) <= (ASKED / 100 if "sticky" in assignor else 0), other[0]
        oracles += [LibraryOracle(library, hash_seed=seed) for seed in range(1, HASH_SEEDS) if other]
        for case in other:
            assert len({json.dumps(oracle.ask(case)) for oracle in oracles}) > 1, case
    finally:
        for oracle in oracles:
            oracle.close()


@pytest.mark.long
def test_round_robin_of_kafka_python_fails_where_it_has_to_skip_a_member():
    topics = [{"name": "t", "partitions": 2}, {"name": "u", "partitions": 2}]
    members = [{"member_id": "a", "topics": ["t"]}, {"member_id": "b", "topics": ["u"]}]
    oracle = LibraryOracle("kafka-python")
    said = oracle.ask({"library": "kafka-python", "assignor": "roundrobin", "topics": topics, "members": members})
    oracle.close()
    assert "KeyError" in said["error"]


def test_what_differs_from_run_to_run_is_not_claimed_to_be_known():
    assert not has_assignor("sarama", "sticky")
    assert not has_assignor("kafka-go", "rack-affinity")
    assert not has_assignor("librdkafka", "sticky")
    assert not has_assignor(None, "range")
    assert has_assignor("java", "sticky")
