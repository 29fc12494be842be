"""The same groups through Kafka's own classes in a JVM, round after round; what differs is made small.

Some 200 cases for each assignor, with `--long` more than 1,000 (and as many with the slow versions of `test_oracles`)."""

import json
from itertools import islice

import pytest

from kgm.assignors import NAMES, result
from kgm.assignors.client.sticky_constrained import ConstrainedBuilder
from kgm.java.hash_map import map_order
from tests.assignors.groups import SEQUENCES, every_case, solve
from tests.assignors.kafka import AssignOracle
from tests.assignors.shrink import shrink, size


@pytest.fixture(scope="module")
def oracle():
    oracle = AssignOracle()
    yield oracle
    oracle.close()


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(120 + SEQUENCES)
@pytest.mark.parametrize("name", NAMES)
def test_random_groups_are_assigned_as_kafka_does(oracle, name):
    """Who joins, leaves, restarts, lies about what they own, several things at once, in groups of 1 to 60 members."""
    compared = failed = 0
    for case in every_case(name):
        said, ours = oracle.ask(case), solve(case)
        compared += 1
        if "error" in said:
            # Kafka's leader fails on some claims of former members, see MixedStickyBuilder._balance.
            assert "NullPointerException" in said["error"], (case["case"], said)
            failed += 1
        elif said["assignment"] != ours:
            pytest.fail(_shown(case, oracle))
    assert compared >= 5 * SEQUENCES
    assert failed <= compared / 100


def _shown(case, oracle):
    """A case in which Kafka answers otherwise, as small as it gets, with both answers."""
    small = shrink(case, lambda candidate: oracle.refutes(candidate, solve(candidate)))
    kafka = oracle.ask(small)["assignment"]
    return f"{case['case']}, made small:\n{json.dumps(small)}\nKafka: {kafka}\nours:  {solve(small)}"


@pytest.mark.kafka
@pytest.mark.slow
def test_a_mistake_is_found_and_made_small(oracle, monkeypatch):
    """Suppose that trimming took topic by topic what is too much, instead of partition by partition."""
    monkeypatch.setattr(ConstrainedBuilder, "_cut", _cut_by_topic)
    wrong = next(case for case in every_case("sticky") if size(case) > 100 and oracle.refutes(case, solve(case)))
    small = shrink(wrong, lambda candidate: oracle.refutes(candidate, solve(candidate)))
    # It takes two topics, and a member that owns too much of both.
    assert len(small["topics"]) == 2
    assert size(small) <= 20
    assert "made small" in _shown(wrong, oracle)
    monkeypatch.undo()
    assert not oracle.refutes(small, solve(small))


def _cut_by_topic(self, position, keep):
    mine = sorted(number for number, owner in enumerate(self._owner) if owner == position)
    for number in mine[keep:]:
        self._take(number, position)


@pytest.mark.kafka
@pytest.mark.slow
def test_a_member_without_topics_that_comes_first_gets_some_as_in_kafka(oracle):
    """Kafka takes such a group for one with equal subscriptions; we say what will happen, not what should."""
    ids = ["a", "b", "c"]
    first = ids[map_order(ids)[0]]
    case = {
        "assignor": "sticky",
        "topics": [{"name": "t", "partitions": 3}],
        "members": [{"member_id": i, "topics": [] if i == first else ["t"]} for i in ids],
    }
    answer = oracle.ask(case)
    assert answer["assignment"] == solve(case)
    assert answer["assignment"][first] == {"t": [0]}


@pytest.mark.kafka
@pytest.mark.slow
def test_topics_that_are_not_there(oracle):
    """Client-side assignors leave them out, the coordinator's refuse."""
    members = [{"member_id": "m", "topics": ["t", "gone"]}]
    cases = {name: {"assignor": name, "topics": [{"name": "t", "partitions": 1}], "members": members} for name in NAMES}
    told = {name: oracle.ask(case) for name, case in cases.items()}
    assert {name for name, answer in told.items() if "PartitionAssignorException" in answer.get("error", "")} == {
        "consumer-range", "consumer-uniform",
    }  # fmt: skip
    assert told["range"]["assignment"] == {"m": {"t": [0]}}


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_large_answers_are_kafkas_too(oracle, name, monkeypatch):
    """Answers of many entries are held in columns; here all are."""
    monkeypatch.setattr(result, "_LARGE", 0)
    for case in islice(every_case(name), 100):
        assert not oracle.refutes(case, solve(case)), case["case"]
