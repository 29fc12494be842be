"""The assignors of client libraries: what the libraries have answered, and what they answer when they are asked."""

import json
import random

import pytest

from kgm.assignors import has_assignor
from tests.assignors.libraries.cases import (
    BY_MAP_ORDER,
    PAIRS,
    answers,
    cases_of,
    in_map_order,
    recorded,
    solve,
    without_empty,
)
from tests.assignors.libraries.oracle import VERSIONS, LibraryOracle
from tests.assignors.libraries.record import EACH, MOST_ORDERS
from tests.selection import first_seed

#: How many groups each library is asked about.
ASKED = 500
#: How many orders of Go's maps are looked at where there are too many.
SAMPLED = 30
#: With how many hashes of Python's they are asked at most.
HASH_SEEDS = 12


@pytest.mark.parametrize(
    "library", [pytest.param(name, marks=pytest.mark.shows(f"client {name}")) for name in VERSIONS]
)
def test_answers_are_those_of_the_library(library):
    cases = recorded(library)
    assert {case["version"] for case in cases} == {VERSIONS[library]}
    counts = {name: sum(case["assignor"] == name for case in cases) for _, name in PAIRS if _ == library}
    assert counts == dict.fromkeys(counts, EACH)
    by_map = [case for case in cases if (library, case["assignor"]) in BY_MAP_ORDER]
    assert [case["case"] for case in cases if case not in by_map and solve(case) != case["expected"]] == []
    for case in by_map:
        given, decides = answers(case, MOST_ORDERS)
        assert decides or len(given) == 1, case
        assert [answer for answer in case["expected"] if answer not in given] == [], case


@pytest.mark.long
@pytest.mark.parametrize(("library", "assignor"), BY_MAP_ORDER)
def test_the_library_itself_answers_what_some_order_of_its_maps_gives(library, assignor):
    """Where there are too many orders, as many partitions to each member, of which as many are its own, as in one of
    some orders: but for a few groups in which that too differs from run to run."""
    oracle, other = LibraryOracle(library), []
    try:
        for case in cases_of(library, assignor, first_seed() + 1, ASKED):
            said = without_empty(oracle.ask(case)["assignment"], case)
            found = answers(case, 200)
            if found is not None:
                assert said in found[0], (case, said)
                assert found[1] or len(found[0]) == 1, case
                continue
            some = [in_map_order(case, random.Random(seed).shuffle) for seed in range(SAMPLED)]
            assert len({decides for _, decides in some}) == 1, case
            assert some[0][1] or all(answer == said for answer, _ in some), case
            if shares(said, case) not in [shares(answer, case) for answer, _ in some]:
                other.append(case)
    finally:
        oracle.close()
    assert len(other) <= ASKED / 50, other


def shares(answer, case):
    """How many partitions each member gets, and how many of these it claims."""
    claimed = {member["member_id"]: member.get("owned", {}) for member in case["members"]}
    return {
        member_id: (
            sum(map(len, topics.values())),
            sum(len({*numbers} & {*claimed[member_id].get(topic, ())}) for topic, numbers in topics.items()),
        )
        for member_id, topics in answer.items()
    }


@pytest.mark.long
@pytest.mark.parametrize(("library", "assignor"), [pair for pair in PAIRS if pair not in BY_MAP_ORDER])
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
    assert not has_assignor("kafka-go", "rack-affinity")
    assert not has_assignor("librdkafka", "sticky")
    assert not has_assignor(None, "range")
    assert has_assignor("java", "sticky")
